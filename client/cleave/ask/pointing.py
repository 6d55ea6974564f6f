"""Show where in a statement an error is, by its code and the name in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import duckdb

from cleave.table.blaming import WrongConstant
from cleave.table.duck import identifier, parts_of, tree_of
from cleave.text.nearest import did_you_mean
from cleave.text.printable import printable
from cleave_shared.errors import Code, QueryRefused

if TYPE_CHECKING:
    from cleave.sql.read import Statement

_WIDTH = 100  # characters of a line that are shown
_COLUMNS: frozenset[Code] = frozenset({"no_column", "no_table", "ambiguous", "ungrouped"})
_FUNCTIONS: frozenset[Code] = frozenset({"no_function", "no_match"})


def point(error: QueryRefused, statement: Statement, names: Iterable[str]) -> None:
    """Add to a refusal where in the statement it is, an excerpt of the statement and, for a name, a hint.

    `names`: the columns that a question may name.
    """
    text, names = statement.text, list(names)
    node = None if error.name is None and not isinstance(error, WrongConstant) else _node(error, statement)
    if error.at is None and node is not None:
        error.at = _start(text.encode(), node, error.code)
    if error.at is not None:
        error.excerpt = _excerpt(text, error.at)
    if error.code in ("no_column", "no_table") and error.name is not None:
        error.hint = _hint(error, text, node, names)


def _start(content: bytes, node: Mapping[str, Any], code: Code) -> int:
    """The index of a node's first character. A column is the last name of its path."""
    start, size = node["query_location"], node["query_location_length"]
    if code == "no_column" and len(node.get("column_names", ())) > 1:
        start += duckdb.tokenize(content[start : start + size].decode(errors="replace"))[-1][0]
    return len(content[:start].decode(errors="replace"))


def _node(error: QueryRefused, statement: Statement) -> dict[str, Any] | None:
    """The first node of the statement that an error is about. Of equal constants, none."""
    nodes = [each for each in parts_of(statement.tree) if isinstance(each.get("query_location"), int)]
    nodes = [each for each in nodes if each["query_location"] <= len(statement.text.encode())]
    if isinstance(error, WrongConstant):
        literals = [each["literal"] for each in parts_of(tree_of(f"SELECT {error.constant}")) if each.get("literal")]
        same = [each for each in nodes if each.get("literal") in literals]
        return same[0] if len(same) == 1 else None
    name = (error.name or "").lower()
    found = (each for each in nodes if name in map(str.lower, _names(each, error.code)))
    return min(found, key=lambda each: ("class" in each, each["query_location"]), default=None)  # in FROM, or elsewhere


def _names(node: Mapping[str, Any], code: Code) -> Iterator[str]:
    """By which names an error of this code can mean a node."""
    if code in _COLUMNS and node.get("class") == "COLUMN_REF":
        path = list(map(str, node["column_names"]))
        if code == "no_table":
            yield from (path[0], ".".join(path)) if len(path) > 1 else ()
        elif code != "ambiguous" or len(path) == 1:
            yield path[-1]
    if code in ("no_table", "ambiguous") and node.get("type") == "BASE_TABLE":
        path = list(map(str, node["qualified_name"]["path"]))
        yield from (path[-1], ".".join(path))
    if code in _FUNCTIONS and node.get("class") in ("FUNCTION", "WINDOW"):
        yield str(node["function_name"])
    if code == "no_type" and node.get("class") == "TYPE":
        yield str(node.get("type_name") or "")


def _hint(error: QueryRefused, text: str, node: Mapping[str, Any] | None, names: list[str]) -> str | None:
    """How to write a name. A column whose name has a dot needs quotes, and a text needs other ones."""
    path = list(map(str, node["column_names"])) if node and node.get("class") == "COLUMN_REF" else []
    dotted = ".".join(path).lower()
    for name in names:
        if len(path) > 1 and name.lower() == dotted:
            return f"did you mean {identifier(name)}? A name with a dot needs double quotes"
    if error.code == "no_table":
        return error.hint
    hint = error.hint or did_you_mean(error.name or "", names) or None
    is_quoted = len(path) == 1 and error.at is not None and text[error.at : error.at + 1] == '"'
    if is_quoted:
        return f"text goes in single quotes; {hint}" if hint else "text goes in single quotes"
    return hint


def _excerpt(sql: str, start: int) -> str:
    """Return the line at position `start`, with a caret below it."""
    before, after = sql[:start].rpartition("\n")[2], sql[start:].partition("\n")[0]
    shown = printable(before)[-_WIDTH // 2 :]
    return f"{shown}{printable(after)[: _WIDTH - len(shown)]}\n{' ' * len(shown)}^"
