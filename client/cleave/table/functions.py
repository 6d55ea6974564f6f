"""The functions that a question may call in DuckDB on this machine. Each depends on its arguments or the clock only.

The list excludes what cleave_shared.plain_functions excludes: no question can read another table, a setting, a file or
another statement. Functions of later DuckDB releases are refused until they are added here. tests/unit compares this
list with DuckDB's.
"""

from __future__ import annotations

from typing import Final

from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

_WINDOWS: Final = """
cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank rank_dense row_number
"""
_CLOCK: Final = "current_time current_timestamp localtime localtimestamp"
_ROWS: Final = "generate_subscripts regexp_split_to_table unnest"
_MORE: Final = """
alias can_cast_implicitly cast_to_type combine_aggr constant_or_null create_sort_key icu_sort_key
is_histogram_other_bin pg_size_pretty pg_typeof remap_struct variant_group_array variant_group_object
"""
FUNCTIONS: Final = ALLOWED_FUNCTIONS.union(*(each.split() for each in (_WINDOWS, _CLOCK, _ROWS, _MORE)))
