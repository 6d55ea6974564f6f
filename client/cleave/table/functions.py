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
_KEYWORDS: Final = "current_time current_timestamp localtime localtimestamp"
_ROWS: Final = "generate_subscripts regexp_split_to_table unnest"
_MORE: Final = """
alias can_cast_implicitly cast_to_type combine_aggr constant_or_null create_sort_key icu_sort_key
is_histogram_other_bin pg_size_pretty pg_typeof remap_struct variant_group_array variant_group_object
"""
FUNCTIONS: Final = ALLOWED_FUNCTIONS.union(*(each.split() for each in (_WINDOWS, _KEYWORDS, _ROWS, _MORE)))

_UNSTEADY: Final = """
current_catalog current_connection_id current_database current_date current_localtime current_query current_query_id
current_role current_schema current_schemas current_setting current_time current_timestamp current_transaction_id
current_user currval error gen_random_uuid get_current_time get_current_timestamp getenv getvariable in_search_path
localtime localtimestamp nextval now pg_sleep random reservoir_quantile session_user setseed setval sleep_ms stats
today transaction_timestamp txid_current user uuid uuidv4 uuidv7 vector_type write_log
"""
UNSTEADY: Final = frozenset(_UNSTEADY.split())
"""Not a function of the table alone: two services, or two requests, could differ."""

_NOW: Final = "current_localtime get_current_time get_current_timestamp now transaction_timestamp"
TODAY: Final = {
    "current_date": "current_date",
    "today": "current_date",
    "localtimestamp": "localtimestamp",
    "current_localtimestamp": "localtimestamp",
}
"""Those that the client replaces by a date or time, once for the whole query, before anything is sent."""

CLOCK: Final = frozenset(TODAY).union(_KEYWORDS.split(), _NOW.split())
"""Those that are constant within one statement, and so within a query that this machine answers as a whole."""
