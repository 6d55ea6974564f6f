"""Checks with DuckDB's parser that a text is exactly one SQL expression over the table.

Two parses must agree: the text alone and the text in parentheses. `1) UNION (SELECT 2`, `a; DROP ...`, `a, b`, `a FROM
t` or an open comment pass at most one of them. So a text that passes both can safely be inserted as `(text\n)`. The
parse tree may only contain listed elements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cleave_services.plain.database import TABLE, Database
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS, called

# Classes of DuckDB's parsed expressions. Not listed: SUBQUERY, STAR, WINDOW, PARAMETER, POSITIONAL_REFERENCE, DEFAULT.
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
# Functions without parentheses that reveal facts about the server; the current time is allowed.
_SESSION = frozenset({"current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"})
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_HIDING = re.compile(r"\$|--|/\*|\be''", re.IGNORECASE)  # dollar quotes, comments, strings with escapes
_BRACKET = re.compile(r"[()\[\]{}]")
_HINT = "each of where, keys and aggregates is one DuckDB expression over the table's columns"


def require(database: Database, scalars: Mapping[str, str], aggregates: Mapping[str, str]) -> None:
    """Raises WireError, naming the place, unless each of `scalars` has one value per row (WHERE allows no aggregate or
    unnest), and each of `aggregates` one per group (HAVING allows no bare column or unnest).

    Both are expressions by their place in the request. They are tried together, which is much faster. If that fails,
    they are tried one by one to name the wrong one.
    """
    with suppress(WireError):
        _check(database, scalars, aggregates)
        return
    for place, sql in scalars.items():
        _check(database, {place: sql}, {})
    for place, sql in aggregates.items():
        _check(database, {}, {place: sql})


def _check(database: Database, scalars: Mapping[str, str], aggregates: Mapping[str, str]) -> None:
    expressions = {**scalars, **aggregates}
    if not expressions:
        return
    for place, sql in expressions.items():
        if _depth(sql) > limits.MAX_SQL_DEPTH:
            raise _too_deep(place)
    together = ", ".join(expressions)
    texts = [text for sql in expressions.values() for text in (f"SELECT {sql}", f"SELECT ({sql}\n)")]
    trees = database.run("SELECT list_transform(?::VARCHAR[], lambda x: json_serialize_sql(x))", together, [texts])
    lists = [_select_list(tree, together) for tree in trees.fetchall()[0][0]]
    for place, bare, wrapped in zip(expressions, lists[::2], lists[1::2], strict=True):
        _require_expression(database, bare, wrapped, place)
    clauses = [
        f" {clause} {' AND '.join(f'({sql}{chr(10)}) IS NULL' for sql in some.values())}"
        for clause, some in (("WHERE", scalars), ("HAVING", aggregates))
        if some
    ]
    database.run(f"EXPLAIN SELECT count(*) FROM {TABLE}{''.join(clauses)}", together)


def _depth(sql: str) -> int:
    """An upper bound for levels of brackets in `sql`. DuckDB's parser needs time and memory of the square of it."""
    bare = _QUOTED.sub("''", sql)
    close = 0 if _HIDING.search(bare) else -1  # text that may hide quotes may also hide closing brackets
    depth = deepest = 0
    for bracket in _BRACKET.findall(bare):
        depth = max(0, depth + (1 if bracket in "([{" else close))
        deepest = max(deepest, depth)
    return deepest


def _require_expression(database: Database, bare: list[Any] | None, wrapped: list[Any] | None, place: str) -> None:
    if bare is None or len(bare) != 1 or bare != wrapped:
        raise WireError(f"{place}: not one SQL expression", hint=_HINT)
    for node, lambdas in _nodes(bare):
        if lambdas > limits.MAX_LAMBDA_DEPTH:
            raise _too_deep(place)
        if node["class"] not in _ALLOWED or "subquery" in node:
            kind = str(node["class"]).lower().replace("_", " ")
            raise WireError(f"{place}: {kind} is not allowed in an expression", hint=_HINT)
        if node["class"] == "FUNCTION" and not ALLOWED_FUNCTIONS.issuperset(called(node)):
            raise WireError(f"{place}: calls a function that is not allowed", hint=_HINT)
        if node["class"] == "COLUMN_REF" and len(node["column_names"]) > limits.MAX_SQL_DEPTH:
            raise _too_deep(place)
        if node["class"] == "COLUMN_REF" and _is_no_column(node["column_names"], database.columns):
            raise WireError(f"{place}: names a row, its number or the session instead of a column", hint=_HINT)


def _is_no_column(names: list[str], columns: Collection[str]) -> bool:
    """True for a name that DuckDB reads as a row, its number or the session, because no column has it."""
    last = names[-1].lower()
    return last not in columns and (last == "rowid" or (len(names) == 1 and last in {TABLE, *_SESSION}))


def _select_list(text: str, place: str) -> list[Any] | None:
    """The selected expressions, without positions in the text; None unless it is one bare SELECT."""
    try:
        tree = json.loads(text, object_hook=_without_location)
    except RecursionError:
        raise _too_deep(place) from None
    statements = tree.get("statements", [])
    return statements[0]["node"].get("select_list") if len(statements) == 1 else None


def _without_location(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if not key.startswith("query_location")}


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Every parsed expression in `tree`, and the number of lambdas around it, itself included."""
    waiting = [(tree, 0)]
    while waiting:
        item, lambdas = waiting.pop()
        if isinstance(item, dict):
            if "class" in item:
                lambdas += item["class"] == "LAMBDA"
                yield item, lambdas
            waiting.extend((value, lambdas) for value in item.values())
        elif isinstance(item, list):
            waiting.extend((value, lambdas) for value in item)


def _too_deep(place: str) -> WireError:
    return WireError(f"{place}: nested too deeply", hint="use fewer levels of brackets and operators")
