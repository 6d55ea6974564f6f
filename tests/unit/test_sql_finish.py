"""Arithmetic, order and certainty of the last step."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from cleave.aggregates.balls import exact_double
from cleave.aggregates.base import Figure
from cleave.finish import ResultTable, finish
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import Groups
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(g="plain VARCHAR", d="plain DOUBLE", n="plain BIGINT", x="encrypted DOUBLE", i="encrypted BIGINT")


def finished(
    table: Schema, sql: str, answers: list[list[Figure]], plain: list[tuple[str | None, ...]] | None = None
) -> ResultTable:
    plan = plan_query(sql, table, "t")
    size = len(answers)
    groups = Groups(
        key_types=plan.key_types,
        keys=[(chr(97 + i),) if plan.keys else () for i in range(size)],
        counts=[10 + i for i in range(size)],
        plain=plain or [()] * size,
        plain_types=tuple(each.type for each in plan.plain),
    )
    return finish(plan, groups, answers)


def inexact(value: float, bound: float) -> Figure:
    return Figure(value, bound, exact=False)


def exact(value: float | Fraction | None) -> Figure:
    return Figure(value, 0.0, exact=True)


def test_an_aggregate_by_itself_keeps_its_bound(table: Schema) -> None:
    result = finished(table, "SELECT sum(x), avg(i) FROM t", [[inexact(2.5, 0.25), exact(3.5)]])
    assert result.rows == [[2.5, 3.5]]
    assert result.bounds == [[0.25, 0.0]]
    assert result.exact == [[False, True]]


def test_a_bound_follows_through_arithmetic(table: Schema) -> None:
    sql = "SELECT 2 * sum(x), sum(x) / sum(i), sum(x) - avg(x), sqrt(sum(x)), sum(x) > 2 FROM t"
    result = finished(table, sql, [[inexact(4.0, 0.5), exact(2), inexact(1.0, 0.25)]])
    low, high = math.sqrt(3.5), math.sqrt(4.5)
    assert result.rows[0][:3] == [8.0, 2.0, 3.0]
    assert result.rows[0][3] == pytest.approx((low + high) / 2)
    for bound, least in zip(result.bounds[0], (1.0, 0.25, 0.75, (high - low) / 2), strict=False):
        assert bound is not None
        assert least <= bound <= least * (1 + 1e-6)
    assert result.rows[0][4] is True
    assert result.exact == [[False, False, False, False, True]]


def test_arithmetic_over_exact_answers_is_exact(table: Schema) -> None:
    result = finished(
        table,
        "SELECT sum(i) * 2, sum(i) / count(*), avg(i) + max(n) FROM t",
        [[exact(7), exact_double(Fraction(7, 10))]],
        [("5",)],
    )
    assert result.rows == [[14, 0.7, 5.7]]
    assert result.exact == [[True, True, True]]
    assert result.bounds == [[0.0, 0.0, 0.0]]


def test_doubles_of_plain_columns_have_no_bound(table: Schema) -> None:
    sql = "SELECT sum(d), var_pop(d) + sum(i), max(d), sum(n), var_pop(d) + sum(x) FROM t"
    result = finished(table, sql, [[exact(7), inexact(1.0, 0.5)]], [("0.5", "0.25", "0.75", "8")])
    assert result.rows == [[0.5, 7.25, 0.75, 8, 1.25]]
    assert result.exact == [[None, False, True, True, False]]
    assert result.bounds == [[None, None, 0.0, 0.0, None]]


def test_plain_sums_of_doubles_beside_encrypted_figures_are_certified(table: Schema) -> None:
    """The witnesses asked for are sum(abs(d)) and count(d); for the mean of integers sum(n) and count(n)."""
    figures, plain = [[exact(7)]], [("0.3", "-0.1", "0.5", "3", "100.7", "7")]
    sql = "SELECT sum(d) + sum(i), avg(d) * sum(i), avg(n) + sum(i) FROM t"
    plan = plan_query(sql, table, "t")
    assert [each.sql for each in plan.plain][3:] == ['sum(abs("d"))', 'count("d")', 'sum("n")', 'count("n")']
    values = {"p0": "0.3", "p1": "-0.1", "p2": "14.25", "p3": "0.5", "p4": "3", "p5": "57", "p6": "4"}
    plain = [tuple(values[f"p{i}"] for i in range(7))]
    result = finished(table, sql, figures, plain)
    assert result.rows[0] == pytest.approx([7.3, -0.7, 21.25])
    assert result.exact == [[False, False, True]]
    for bound, least in zip(result.bounds[0][:2], (2 * 2**-53 * 0.5, 7 * 2 * 2**-53 * 0.5), strict=True):
        assert bound is not None
        assert least <= bound < 20 * least


def test_an_infinite_bound_is_none(table: Schema) -> None:
    result = finished(table, "SELECT product(x), product(x) + 1 FROM t", [[inexact(math.inf, math.inf)]])
    assert result.bounds == [[None, None]]
    assert result.exact == [[False, False]]
    assert result.rows == [[math.inf, math.inf]]


def test_a_bound_over_a_pole_is_none(table: Schema) -> None:
    result = finished(table, "SELECT 1 / sum(x), 1 / NULLIF(round(sum(x)), 0) FROM t", [[inexact(0.7, 0.5)]])
    assert result.bounds[0][1] is None
    assert result.undecided == [[False, True]]
    narrow = finished(table, "SELECT 1 / sum(x) FROM t", [[inexact(0.7, 0.1)]])
    assert narrow.rows[0][0] == pytest.approx((1 / 0.6 + 1 / 0.8) / 2)
    assert narrow.bounds[0][0] == pytest.approx((1 / 0.6 - 1 / 0.8) / 2)


def test_an_inexact_integer_stays_an_integer(table: Schema) -> None:
    result = finished(table, "SELECT sum(i) + 1 FROM t", [[Figure(100, 0.75, exact=False)]])
    assert result.rows == [[101]]
    assert result.bounds[0][0] == pytest.approx(0.75)


def test_nothing_left_is_null_everywhere(table: Schema) -> None:
    result = finished(table, "SELECT sum(x), avg(x) + 1 FROM t", [[exact(None), exact(None)]])
    assert result.rows == [[None, None]]
    assert result.exact == [[True, True]]


def test_order_ties_go_by_key_and_rows_without_order_too(table: Schema) -> None:
    answers = [[exact(value)] for value in (1, 2, 1, None)]
    rows = finished(table, "SELECT g, sum(i) FROM t GROUP BY g", answers).rows
    assert [row[0] for row in rows] == ["a", "b", "c", "d"]
    rows = finished(table, "SELECT g, sum(i) s FROM t GROUP BY g ORDER BY s DESC NULLS FIRST LIMIT 3", answers).rows
    assert [row[0] for row in rows] == ["d", "b", "a"]
    rows = finished(table, "SELECT g FROM t GROUP BY g HAVING sum(i) = 1 OFFSET 1", answers).rows
    assert rows == [["c"]]


def test_bounds_stay_with_their_rows(table: Schema) -> None:
    answers = [[inexact(float(i), i / 8)] for i in range(1, 5)]
    result = finished(
        table, "SELECT g, sum(x) + 0 FROM t GROUP BY g HAVING sum(x) <> 2.5 ORDER BY sum(x) DESC", answers
    )
    assert [row[0] for row in result.rows] == ["d", "c", "b", "a"]
    assert [bounds[1] for bounds in result.bounds] == pytest.approx([0.5, 0.375, 0.25, 0.125])


def test_decimals_come_through_exactly() -> None:
    table = schema(b="encrypted DECIMAL(18,2)")
    total = Fraction(-123456789012345678901234567890, 100)
    result = finished(table, "SELECT sum(b), sum(b) + 0.01 FROM t", [[exact(total)]])
    assert result.rows == [[Decimal("-1234567890123456789012345678.90"), Decimal("-1234567890123456789012345678.89")]]
    assert result.types == ["DECIMAL(38,2)", "DECIMAL(38,2)"]


def test_failing_arithmetic_is_refused_without_values(table: Schema) -> None:
    with pytest.raises(QueryRefused) as caught:
        finished(table, "SELECT CAST(g AS INTEGER), sum(i) FROM t GROUP BY g", [[exact(1)]])
    assert "'a'" not in caught.value.message
    assert "TRY_CAST" in str(caught.value.hint)


NOISE = inexact(0.0, 1e-9)


def alone(table: Schema, sql: str, *figures: Figure) -> tuple[object, float | None, bool | None, bool]:
    result = finished(table, sql, [list(figures)])
    return result.rows[0][0], result.bounds[0][0], result.exact[0][0], result.undecided[0][0]


def test_division_by_a_constants_deviation(table: Schema) -> None:
    """Any number with a bound would be wrong: the truth is infinite."""
    assert alone(table, "SELECT avg(x) / stddev(x) FROM t", inexact(-5.0, 1e-9), NOISE)[1:] == (None, False, False)
    sure = alone(table, "SELECT avg(x) / stddev(x) FROM t", inexact(-5.0, 1e-9), exact(0.0))
    assert sure == (-math.inf, 0.0, True, False)


def test_a_ratio_below_the_noise_is_unknown(table: Schema) -> None:
    sql = "SELECT var_samp(x) / variance(x + 1) FROM t"
    assert alone(table, sql, inexact(1e-12, 1e-9), inexact(1e-13, 1e-9))[1:] == (None, False, False)


def test_case_within_the_noise_is_undecided(table: Schema) -> None:
    sql = "SELECT CASE WHEN var_pop(x) = 0 THEN 1 ELSE 0 END FROM t"
    value, bound, exact_, undecided = alone(table, sql, NOISE)
    assert (value, bound, exact_, undecided) == (1, 1.0, False, True)
    assert alone(table, sql, exact(0.0)) == (1, 0.0, True, False)
    assert alone(table, sql, inexact(1.0, 1e-9)) == (0, 0.0, True, False)
    assert alone(table, "SELECT CASE WHEN sum(x) > 0 THEN 'a' ELSE 'b' END FROM t", NOISE)[1:] == (None, False, True)
    assert alone(table, "SELECT CASE WHEN sum(x) > 0 THEN 'a' ELSE 'a' END FROM t", NOISE) == ("a", 0.0, True, False)


def test_a_kink_is_no_end(table: Schema) -> None:
    for sql, low, high in (
        ("SELECT sqrt(abs(stddev(x))) FROM t", 0.0, math.sqrt(1e-9)),
        ("SELECT abs(sum(x)) FROM t", 0.0, 1e-9),
        ("SELECT exp(-abs(stddev(x)) * 1e9) FROM t", math.exp(-1), 1.0),
        ("SELECT sum(x) ^ 2 FROM t", 0.0, 1e-18),
        ("SELECT greatest(sum(x), 0) FROM t", 0.0, 1e-9),
    ):
        value, bound, _, undecided = alone(table, sql, NOISE)
        assert isinstance(value, float)
        assert bound is not None
        assert value - bound <= low
        assert value + bound >= high
        assert not undecided


def test_a_remainder_jumps(table: Schema) -> None:
    value, bound, _, undecided = alone(table, "SELECT avg(x) % 7 FROM t", inexact(14.0, 1e-9))
    assert undecided
    assert isinstance(value, float)
    assert bound is not None
    assert bound >= 6.99
    assert alone(table, "SELECT avg(x) % 7 FROM t", inexact(15.0, 1e-9))[3] is False


@pytest.mark.parametrize("sql", ["COALESCE(product(x), 0)", "GREATEST(product(x), 1)", "product(x) * 0", "-product(x)"])
def test_unknown_stays_unknown(table: Schema, sql: str) -> None:
    assert alone(table, f"SELECT {sql} FROM t", inexact(math.inf, math.inf))[1:] == (None, False, False)


def test_a_zero_whose_sign_is_not_known_has_no_inverse(table: Schema) -> None:
    assert alone(table, "SELECT 1 / product(x) FROM t", exact(0.0))[1:3] == (None, False)
    assert alone(table, "SELECT 1 / sum(i) FROM t", exact(0)) == (math.inf, 0.0, True, False)
    assert alone(table, "SELECT -1 / var_pop(x) FROM t", exact(0.0)) == (-math.inf, 0.0, True, False)
    assert alone(table, "SELECT 1 / -var_pop(x) FROM t", exact(0.0))[1:3] == (None, False)


def test_rounding_is_undecided_across_a_half_only(table: Schema) -> None:
    for sql, figure, shown in (
        ("round(sum(x), 1)", inexact(0.25, 1e-3), None),
        ("round(sum(x), 1)", inexact(0.26, 1e-3), 0.3),
        ("sum(x)::INTEGER", inexact(2.5, 1e-3), None),
        ("sum(x)::INTEGER", inexact(2.4, 1e-3), 2),
        ("floor(sum(x))", inexact(2.0, 1e-3), None),
        ("sign(sum(x))", NOISE, None),
        ("sum(x)::DECIMAL(9,2)", inexact(1.234, 1e-4), Decimal("1.23")),
    ):
        value, bound, is_exact, undecided = alone(table, f"SELECT {sql} FROM t", figure)
        assert undecided == (shown is None), sql
        assert is_exact == (shown is not None), sql
        assert shown is None or (value, bound) == (shown, 0.0), sql
    # steps finer than the noise decide nothing
    assert alone(table, "SELECT round(sum(x), 9) FROM t", inexact(0.25, 1e-3))[3] is False


def test_having_within_the_noise_loses_no_row(table: Schema) -> None:
    answers = [[exact(1), NOISE], [exact(2), exact(0.0)], [exact(3), inexact(1.0, 0.1)]]
    sql = "SELECT g, sum(i) FROM t GROUP BY g HAVING var_pop(x) = 0 AND sum(i) > 0"
    result = finished(table, sql, answers)
    assert [row[0] for row in result.rows] == ["a", "b"]
    assert result.doubts == [("HAVING",), ()]
    assert [warning.split(":")[0] for warning in result.warnings] == ["HAVING"]
    assert not result.is_decided


def test_the_cut_of_limit_is_marked_where_bounds_overlap(table: Schema) -> None:
    def marks(sql: str, *figures: Figure) -> tuple[list[str], list[tuple[str, ...]]]:
        result = finished(table, f"SELECT g FROM t GROUP BY g ORDER BY {sql}", [[figure] for figure in figures])
        return [row[0] for row in result.rows], result.doubts

    far = (inexact(1.0, 0.1), inexact(2.0, 0.1), inexact(3.0, 0.1))
    assert marks("sum(x) LIMIT 2", *far) == (["a", "b"], [(), ()])
    close = (inexact(1.0, 0.1), inexact(2.0, 0.6), inexact(3.0, 0.6))
    assert marks("sum(x) LIMIT 2", *close) == (["a", "b"], [(), ("LIMIT",)])
    assert marks("sum(x) DESC LIMIT 2", *close) == (["c", "b"], [("ORDER BY",), ("ORDER BY",)])
    assert marks("sum(x) DESC LIMIT 1", *close) == (["c"], [("LIMIT",)])
    assert marks("sum(x) OFFSET 2", *close) == (["c"], [("LIMIT",)])
    assert marks("sum(x)", *close) == (["a", "b", "c"], [(), ("ORDER BY",), ("ORDER BY",)])
    assert marks("sum(x) LIMIT 1", inexact(math.nan, math.inf), *far)[1] == [("LIMIT",)]
    # equal ones are told apart by key, and by what else is ordered by
    assert marks("sum(i) LIMIT 1", exact(1), exact(1)) == (["a"], [()])
    assert marks("sum(i) NULLS FIRST LIMIT 1", exact(1), exact(None)) == (["b"], [()])


def test_an_exact_answer_is_the_nearest_to_the_exact_value(table: Schema) -> None:
    """DuckDB's own double would be 3240.7308000000003."""
    table = schema(b="encrypted DECIMAL(18,2)")
    result = finished(table, "SELECT sum(b) / count(b) FROM t", [[exact(Fraction(16203654, 100)), exact(50)]])
    assert (result.rows, result.exact) == ([[3240.7308]], [[True]])


def test_a_branch_that_is_not_taken_is_not_evaluated(table: Schema) -> None:
    answers = [[exact(0)], [exact(3)]]
    sql = "SELECT g, CASE WHEN sum(i) = 0 THEN -1 ELSE 6 // sum(i) END FROM t GROUP BY g"
    assert finished(table, sql, answers).rows == [["a", -1], ["b", 2]]
    with pytest.raises(QueryRefused, match="failed"):
        finished(table, "SELECT g, 6 // sum(i) FROM t GROUP BY g", answers)


def test_text_of_an_inexact_figure_is_undecided(table: Schema) -> None:
    # and holds no digit beyond the bound
    assert alone(table, "SELECT sum(x)::VARCHAR FROM t", inexact(2.512345, 0.1)) == ("2.5", None, False, True)
    assert alone(table, "SELECT sum(i)::VARCHAR || '!' FROM t", exact(2)) == ("2!", 0.0, True, False)
