"""Facts about DuckDB's functions that planning needs, by name. A test compares them with DuckDB's catalog."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATE_NAMES = _names(
    """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last
    arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bitstring_agg bool_and
    bool_or combine_aggr corr count count_if count_star countif covar_pop covar_samp decimal_average entropy favg first
    fsum group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last list listagg lttb mad max max_by
    mean median min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop
    stddev_samp string_agg sum sum_no_overflow sumkahan var_pop var_samp variance variant_group_object
    geomean geometric_mean weighted_avg wavg json_group_array json_group_object json_group_structure
    variant_group_array
    """
)
"""Aggregates, and macros over them."""

WEIGHTED_MEANS = frozenset({"weighted_avg", "wavg"})
"""Macros over two sums."""

ROW_MAKING = _names(
    "generate_series generate_subscripts json_each json_tree range regexp_split_to_table repeat repeat_row unnest"
)
"""Functions of their arguments alone, which FROM may name like tables."""

SET_RETURNING = frozenset({"unnest", "generate_subscripts", "regexp_split_to_table"})

FOLLOWS_ROW_ORDER = _names(
    """
    array_agg first group_concat json_group_array json_group_object last list listagg lttb string_agg
    variant_group_array variant_group_object
    """
)
"""Aggregates whose answer depends on the order of rows, which are shuffled; ORDER BY inside the call settles it."""

ARBITRARY = _names(
    """
    any_value arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin
    max_by min_by mode
    """
)
"""Aggregates that take one of several values, whichever comes first: another order of rows may give another."""

APPROXIMATE = frozenset({"approx_quantile", "approx_top_k"})
"""DuckDB's own approximations: another order of rows may give another."""

ESTIMATES = APPROXIMATE | {"approx_count_distinct"}
"""Aggregates that DuckDB approximates, in any order of rows."""

SAME_IN_ANY_ORDER = _names("first last max median min quantile quantile_cont quantile_disc")
"""Aggregates over doubles that DuckDB answers with the same double whatever the order of rows."""

INTERPOLATES = _names("mad median quantile_cont")
"""Aggregates that compute a value between two of the group's, in doubles, of decimals and times too."""

FOLLOWS_DOUBLES = _names(
    """
    any_value arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin
    array_agg first histogram histogram_exact last list listagg max max_by min min_by mode quantile quantile_disc
    @ abs array_extract array_slice ceil ceiling floor greatest least list_append list_concat list_distinct list_element
    list_extract list_reverse list_slice list_sort list_value map row sign struct_extract struct_pack
    """
)
"""Functions that answer doubles without rounding: they take some of their arguments' values, or compute exactly."""

COMPARES_VALUES = _names(
    """
    approx_quantile approx_top_k arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax
    argmin mad max max_by median min min_by mode quantile quantile_cont quantile_disc
    """
)
"""Aggregates that compare values, which cannot be done under encryption."""

COUNTS_EQUAL_VALUES = _names("approx_count_distinct entropy histogram histogram_exact")
"""Aggregates that need to know which values are equal, which encryption hides."""

OF_ALL_ROWS = _names(
    """
    approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star countif covar_pop
    covar_samp decimal_average entropy favg fsum geomean geometric_mean kahan_sum kurtosis kurtosis_pop mean product
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev
    stddev_pop stddev_samp sum sum_no_overflow sumkahan var_pop var_samp variance wavg weighted_avg
    """
)
"""Aggregates that no single row of a group sets; all others show values of single rows (rule A2)."""

BY_TEXT = "an aggregate is named by something else than a text literal"
BY_TEXT_HINT = "write list_aggregate(x, 'sum')"
"""The refusal of `list_aggregate` and its synonyms where the statement does not state which function they call."""

NO_ROWID = "rowid is no column: rows are shuffled before they are sent, and stored without a number"
NO_ROWID_HINT = "give the table a column that numbers its rows"
