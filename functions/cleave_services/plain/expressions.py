"""Whether a text is one SQL expression over the table and nothing else, as DuckDB's own parser sees it.

Two parses must agree: the bare text and the text in parentheses. `1) UNION (SELECT 2`, `a; DROP ...`, `a, b`,
`a FROM t` or an open comment survive at most one of them, so a text that passes is safe to put into `(text\n)`.
What the tree may hold is then a list of what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from cleave_services.plain.database import TABLE, Database
from cleave_shared.errors import WireError
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

# Classes of DuckDB's parsed expressions; absent: SUBQUERY, STAR, WINDOW, PARAMETER, POSITIONAL_REFERENCE, DEFAULT.
_ALLOWED = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "TYPE",
    }
)
# Functions without parentheses that tell of the server; those of the current time are let in.
_SESSION = frozenset({"current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"})
_HINT = "each of where, keys and aggregates is one DuckDB expression over the table's columns"


def require_scalar(database: Database, sql: str, place: str) -> None:
    """Raises WireError unless `sql` has one value per row (no aggregate, no unnest: WHERE allows neither)."""
    _require_expression(database, sql, place)
    database.run(f"EXPLAIN SELECT 1 FROM {TABLE} WHERE ({sql}\n) IS NULL", place)


def require_aggregate(database: Database, sql: str, place: str) -> None:
    """Raises WireError unless `sql` has one value per group (HAVING allows neither a bare column nor unnest)."""
    _require_expression(database, sql, place)
    database.run(f"EXPLAIN SELECT count(*) FROM {TABLE} HAVING ({sql}\n) IS NULL", place)


def _require_expression(database: Database, sql: str, place: str) -> None:
    bare, wrapped = (_select_list(database, text, place) for text in (f"SELECT {sql}", f"SELECT ({sql}\n)"))
    if bare is None or len(bare) != 1 or bare != wrapped:
        raise WireError(f"{place}: not one SQL expression", hint=_HINT)
    for node in _nodes(bare):
        if node["class"] not in _ALLOWED or "subquery" in node:
            kind = str(node["class"]).lower().replace("_", " ")
            raise WireError(f"{place}: {kind} is not allowed in an expression", hint=_HINT)
        if node["class"] == "FUNCTION" and node["function_name"].lower() not in ALLOWED_FUNCTIONS:
            raise WireError(f"{place}: calls a function that is not allowed", hint=_HINT)
        if node["class"] == "COLUMN_REF" and _is_no_column(node["column_names"], database.columns):
            raise WireError(f"{place}: names a row, its number or the session instead of a column", hint=_HINT)


def _is_no_column(names: list[str], columns: Collection[str]) -> bool:
    """Some names mean something to DuckDB even where no column is called so: a row, its number, the session."""
    last = names[-1].lower()
    return last not in columns and (last == "rowid" or (len(names) == 1 and last in {TABLE, *_SESSION}))


def _select_list(database: Database, statement: str, place: str) -> list[Any] | None:
    """The selected expressions, without their places in the text; None where it is not one bare SELECT."""
    row = database.run("SELECT json_serialize_sql(?::VARCHAR)", place, [statement]).fetchone()
    try:
        tree = json.loads(row[0], object_hook=_without_location) if row else {}
    except RecursionError:
        raise WireError(f"{place}: nested too deeply", hint="use fewer levels of brackets and operators") from None
    statements = tree.get("statements", [])
    return statements[0]["node"].get("select_list") if len(statements) == 1 else None


def _without_location(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if not key.startswith("query_location")}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every parsed expression in `tree`."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "class" in item:
                yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
