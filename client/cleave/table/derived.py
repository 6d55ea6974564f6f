"""Derived columns of a schema: expressions over its columns, used in questions like columns.

[derived.net]
sql = "price * (1 - discount)"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from cleave.table.duck import identifier, parts_of, private
from cleave.table.functions import CLOCK, FUNCTIONS, UNSTEADY
from cleave.table.trees import read_expression
from cleave.text.nearest import did_you_mean
from cleave_shared.duckdb_errors import planned
from cleave_shared.plain_functions import AGGREGATES_BY_NAME, ALLOWED_FUNCTIONS, called

if TYPE_CHECKING:
    from tomlkit.items import Table as TomlTable

_KEYS = ("sql", "reason")


class _TypedColumn(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


Find = Callable[[str], _TypedColumn | None]


@dataclass(frozen=True, slots=True)
class Derived:
    """An expression over `columns`, whose names are spelled as in the schema.

    `text`: as typed. `sql`: DuckDB's own text of the checked tree; this is what runs.
    """

    name: str
    text: str
    sql: str
    type: str
    columns: tuple[str, ...]
    reason: str = ""

    @property
    def generated(self) -> str:
        """SQL of the column in DuckDB's CREATE TABLE."""
        return f"{identifier(self.name)} AS ({self.sql}) VIRTUAL"


class UnknownColumn(ValueError):  # noqa: N818 - named for what happened
    """An expression cannot be read and contains `name`, which is not a column. `is_quoted`: it is in double quotes."""

    def __init__(self, message: str, name: str, *, is_quoted: bool) -> None:
        super().__init__(message)
        self.name = name
        self.is_quoted = is_quoted

    def hint(self, names: Iterable[str]) -> str:
        """How to write the name: the nearest of `names`, or as a text; "" if neither fits."""
        near = did_you_mean(self.name, names)
        return "; ".join(filter(None, ("text goes in single quotes" if self.is_quoted else "", near)))


def checked(name: str, typed: str, find: Find, reason: str = "", *, constant: bool = False) -> Derived:
    """Check `typed` and return it as a derived column. `find` returns the schema's column of a name, or None.

    `constant`: also accept an expression without columns. Raises ValueError if DuckDB would not accept the expression
    as a generated column of one row.
    """
    if find(name) is not None:
        raise ValueError("there is a column of that name")
    if (read := read_expression(typed)) is None:
        raise ValueError("is not one expression, such as price * (1 - discount)")
    tree, sql = read
    with private() as connection:
        names = {name for node in parts_of(tree) if node.get("function_name") for name in called(node)}
        if names & AGGREGATES_BY_NAME and not ALLOWED_FUNCTIONS.issuperset(names):
            raise ValueError("calls an aggregate that is no function of one row, or whose name is no text literal")
        if unsteady := sorted(names & (UNSTEADY | CLOCK)) or ["age"] * _asks_the_clock(tree):
            raise ValueError(f"{unsteady[0]}() depends on more than the row")
        if other := sorted(names - FUNCTIONS):
            raise ValueError(f"there is no function {other[0].upper()}")
        words = [str(node["column_names"][-1]) for node in parts_of(tree) if node.get("class") == "COLUMN_REF"]
        used = {each.name: each.type for each in map(find, words) if each is not None}
        unknown = [word for word in words if find(word) is None]
        if not used and not constant:
            message = "names no column of the schema"
            raise _unknown(message, unknown[0], typed) if unknown else ValueError(message)
        # DuckDB has no table with generated columns only
        described = [f"{identifier(each)} {type_}" for each, type_ in used.items()] or ['" " BOOLEAN']
        try:
            connection.execute(f"CREATE TABLE t ({', '.join(described)}, {identifier(name)} AS ({sql}) VIRTUAL)")
            rows = connection.execute(f"DESCRIBE SELECT {identifier(name)} FROM t").fetchall()
        except duckdb.Error as error:
            message = f"is no expression over a row: {planned(error).why}"
            raise (_unknown(message, unknown[0], typed) if unknown else ValueError(message)) from None
    return Derived(name, typed, sql, str(rows[0][1]), tuple(used), reason)


def _unknown(message: str, name: str, typed: str) -> UnknownColumn:
    return UnknownColumn(message, name, is_quoted=identifier(name) in typed)


def parse_derived(tables: Mapping[str, Any], find: Find) -> tuple[Derived, ...]:
    """Raises ValueError naming the key of the first mistake."""
    derived: dict[str, Derived] = {}
    for name, entry in tables.items():
        place = f"[derived.{name}]"
        table = inner(entry, place)
        only_keys(table, _KEYS, place)
        if not name.strip() or name.lower() in derived:
            raise ValueError(f"{place}: is no name, or differs from another in upper and lower case only")
        reason = text(table, "reason", place) if "reason" in table else ""
        sql = text(table, "sql", place)
        try:
            derived[name.lower()] = checked(name, sql, find, reason)
        except ValueError as error:
            raise ValueError(f"{place} sql: {error}") from None
    return tuple(derived.values())


def _asks_the_clock(tree: Any) -> bool:
    """True if `age` has one argument: then DuckDB counts from today."""
    calls = [node for node in parts_of(tree) if node.get("function_name")]
    return any("age" in called(call) and len(call["arguments"]) == 1 for call in calls)


def dump_derived(derived: Sequence[Derived]) -> TomlTable:
    import tomlkit  # noqa: PLC0415 - 25 ms that a query does not need

    tables = tomlkit.table(is_super_table=True)
    for column in derived:
        table = tomlkit.table()
        table.add("sql", column.text)
        if column.reason:
            table.add("reason", column.reason)
        tables.add(column.name, table)
    return tables


def only_keys(table: Mapping[str, Any], keys: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{place}: does not know the key {key!r}, only {', '.join(keys)}")


def inner(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: must be a table")
    return value


def text(table: Mapping[str, Any], key: str, place: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{place} {key}: is missing" if value is None else f"{place} {key}: must be text in quotes")
    return value
