"""Constraints of a column besides its type: NOT NULL and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave.table.types import is_number


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that a column breaks. `which` is SQL that finds the row, over `field` and `place`."""

    column: Column
    problem: str
    which: str
    null: bool = False

    def row_in(self, connection: duckdb.DuckDBPyConnection, rows: str) -> int:
        """Return the first faulty row (from 0) of `rows`, which is SQL of a relation that contains the column."""
        fields = f"SELECT {identifier(self.column.name)} AS field FROM {rows}"
        # not rowid: a file's column may have that name
        numbered = f"SELECT field, row_number() OVER () - 1 AS place FROM ({fields})"
        (row,) = connection.execute(f"SELECT {self.which} FROM ({numbered})").fetchall()[0]
        return int(row)


def constrained(schema: Schema) -> list[Column]:
    """List the columns with a stated bound, or without NULL."""
    return [one for one in schema.columns if not (one.nullable and one.lower is None and one.upper is None)]


def figures_of(column: Column) -> str:
    """SQL of the arguments of `broken_by`: the number of non-NULL values, and minimum and maximum of numbers.

    Only numbers have bounds. For other types, such as zoned timestamps, DuckDB's Python client may need a missing
    package.
    """
    if not is_number(column.type):
        return f"count({identifier(column.name)}), NULL, NULL"
    return "count({0}), min({0}), max({0})".format(identifier(column.name))


def broken_by(column: Column, nulls: int, least: Any, most: Any) -> Violation | None:
    """Return the constraint that the values break, or None."""
    if nulls and not column.nullable:
        first = "min(place) FILTER (WHERE field IS NULL)"
        return Violation(column, "is NULL, which the schema rules out", first, null=True)
    as_stored = float if isinstance(least, float) else lambda bound: bound
    # `not (a <= b)` and not `a > b`: NaN must break any bound, and DuckDB sorts it last
    if column.lower is not None and least is not None and not as_stored(column.lower) <= least:
        return Violation(column, f"the value is below lower = {column.lower:f}", "arg_min(place, field)")
    if column.upper is not None and most is not None and not most <= as_stored(column.upper):
        return Violation(column, f"the value is above upper = {column.upper:f}", "arg_max(place, field)")
    return None


def violations(columns: Sequence[Column], rows: int, figures: Sequence[Any]) -> Iterator[Violation]:
    """Violations of `columns`, from the number of rows and the results of `figures_of`."""
    for column, filled, least, most in zip(columns, figures[::3], figures[1::3], figures[2::3], strict=True):
        if broken := broken_by(column, rows - filled, least, most):
            yield broken
