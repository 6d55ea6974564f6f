"""Values that the schema excludes: a value outside stated bounds, a NULL where there may be none."""

from __future__ import annotations

from typing import Any

from cleave.table.duck import identifier
from cleave.table.inputs import Frame, Input
from cleave.table.schema import Column, Schema
from cleave.table.types import is_number
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError


@dataclass(frozen=True, slots=True)
class Broken:
    """Fault of a column, and SQL of the row (over `field` and `place`) where it is."""

    problem: str
    which: str
    null: bool = False


def declared(schema: Schema) -> list[Column]:
    """The columns of which something is stated."""
    return [one for one in schema.columns if not (one.nullable and one.lower is None and one.upper is None)]


def figures_of(column: Column) -> str:
    """SQL of what `broken_by` reads: how many values are not NULL, and the bounds of numbers.

    Only numbers have bounds; DuckDB hands out other types, such as zoned timestamps, by packages that may be missing.
    """
    if not is_number(column.type):
        return f"count({identifier(column.name)}), NULL, NULL"
    return "count({0}), min({0}), max({0})".format(identifier(column.name))


def broken_by(column: Column, nulls: int, least: Any, most: Any) -> Broken | None:
    """Return the fault of the column under the schema, None where there is none."""
    if nulls and not column.nullable:
        return Broken("is NULL, which the schema rules out", "min(place) FILTER (WHERE field IS NULL)", null=True)
    as_stored = float if isinstance(least, float) else lambda bound: bound
    # `not (a <= b)`: NaN, which DuckDB sorts last, is within no bounds
    if column.lower is not None and least is not None and not as_stored(column.lower) <= least:
        return Broken(f"the value is below lower = {column.lower:f}", "arg_min(place, field)")
    if column.upper is not None and most is not None and not most <= as_stored(column.upper):
        return Broken(f"the value is above upper = {column.upper:f}", "arg_max(place, field)")
    return None


def row_of(connection: duckdb.DuckDBPyConnection, fields: str, broken: Broken) -> int:
    """The row (from 0) of `fields`, SQL with the column as `field`, where the fault is."""
    # not rowid: a column of the file may be called that
    numbered = f"SELECT field, row_number() OVER () - 1 AS place FROM ({fields})"
    (row,) = connection.execute(f"SELECT {broken.which} FROM ({numbered})").fetchall()[0]
    return int(row)


def outside(source: Input | Frame, schema: Schema, column: Column, broken: Broken, row: int) -> InputError:
    """The error for row `row` (from 0) of `source`."""
    from cleave.table.blame import line_of  # noqa: PLC0415 - only for a file that does not fit

    if isinstance(source, Frame) or source.parquet:
        place = f"row {row + 1}"
    else:
        place = f"line {line_of(source, schema.dialect, row)}"
    return InputError(
        f"{source}, {place}, column {column.name!r}: {broken.problem}",
        hint="fill the field, or set nullable = true in the schema"
        if broken.null
        else "correct the value, or widen the bound in the schema; a stored table is then put again with --replace",
    )
