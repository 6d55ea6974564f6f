"""PostgreSQL's SQLSTATE for each code of an error."""

from __future__ import annotations

from typing import Final

from cleave_shared.errors import Code

STATES: Final[dict[Code, str]] = {
    "syntax": "42601",
    "no_table": "42P01",
    "no_column": "42703",
    "no_function": "42883",
    "no_match": "42883",
    "no_type": "42704",
    "ambiguous": "42702",
    "ungrouped": "42803",
    "misplaced": "42803",
    "no_place": "42P10",
    "constant": "22P02",
    "conversion": "22P02",
    "out_of_range": "22003",
    "not_computable": "22000",
    "parameter": "42P02",
    "message": "08P01",
    "limit": "54000",
    "not_select": "25006",
    "forbidden": "42501",
    "refused": "0A000",
    "overflow": "0A000",
    "exhausted": "53200",
}
NOT_PUBLIC: Final = "58000"
"""Of all other codes: the client gets none of their messages."""
