"""How the rows of one file or frame become the schema's, and the values and NULLs that the schema rules out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from cleave.table.cast import FieldCast, cast
from cleave.table.duck import identifier, literal
from cleave.table.inputs import Frame, Input
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.source import column_names, duckdb_source, pattern_of
from cleave.table.types import ZONED, canonical, is_number
from cleave_shared.errors import InputError


def _match_columns(header: str, names: Sequence[str], schema: Schema) -> list[int]:
    """Return each schema column's place in the file. `header` names the line of the names."""
    places = {name.lower(): index for index, name in enumerate(names)}
    declared_names = {column.name.lower() for column in schema.columns}
    # a header without any of them may be the cells of a first row, which no message may quote
    if declared_names.isdisjoint(places):
        raise InputError(
            f"{header}: names none of the schema's columns",
            hint="is the line with the names missing? else check delimiter under [csv], and whose schema it is",
        )
    if unknown := [name for name in names if name.lower() not in declared_names]:
        raise InputError(
            f"{header}, column {unknown[0]!r}: is not named in the schema{_and_others(unknown)}",
            hint=_twice(unknown[0], places)
            or 'add it to the schema, with kind = "local" if it must not leave; `cleave schema` proposes',
        )
    if missing := [column.name for column in schema.columns if column.name.lower() not in places]:
        raise InputError(
            f"{header}, column {missing[0]!r}: is in the schema and not in the file{_and_others(missing)}",
            hint="remove it from the schema, or check delimiter and header under [csv]",
        )
    return [places[column.name.lower()] for column in schema.columns]


def _twice(name: str, places: Mapping[str, int]) -> str:
    """Rename the second of two columns of one name: DuckDB's NAME_1 is in no schema."""
    first, _, number = name.lower().rpartition("_")
    if not (number.isdecimal() and first in places and places[first] < places[name.lower()]):
        return ""
    return f"if the file has two columns {first!r}, rename the second, which is called so; else add it to the schema"


def _and_others(names: list[str]) -> str:
    return f" (nor are {len(names) - 1} others)" if len(names) > 1 else ""


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Reading of one source: a cast for each column of the schema over `rows`, and the error if that fails."""

    casts: list[FieldCast]
    rows: AbstractContextManager[str]
    explain: Callable[[], InputError]

    def values(self, schema: Schema, columns: Sequence[Column] | None = None) -> str:
        """SQL of the columns of `schema`, or of some of them, under their names."""
        wanted = schema.columns if columns is None else columns
        return ", ".join(
            f"{one.value} AS {identifier(column.name)}"
            for one, column in zip(self.casts, schema.columns, strict=True)
            if column in wanted
        )


class TooLargeError(InputError):
    """Error of work over rows that does not fit in its memory."""

    def __init__(self, source: object) -> None:
        super().__init__(f"{source}: does not fit in memory", hint="close other programs, or split the file")


def read_under(connection: duckdb.DuckDBPyConnection, source: Input | Frame, schema: Schema) -> SourceReading:
    if isinstance(source, Frame) or source.parquet:
        types_by_name = columns(connection, source)
        names = list(types_by_name)
        mine = [names[place] for place in _match_columns(str(source), names, schema)]
        types = [types_by_name[name] for name in mine]
        casts = [
            cast_typed(name, type_, each, schema.dialect)
            for name, type_, each in zip(mine, types, schema.columns, strict=True)
        ]
        return SourceReading(
            casts, relation(connection, source), lambda: explain_typed(connection, source, schema, casts, types)
        )
    header = column_names(source, schema.dialect)
    places = _match_columns(f"{source}, line {schema.dialect.skip + 1}", header, schema)
    texts = [cast(f"c{place}", each, schema.dialect) for place, each in zip(places, schema.columns, strict=True)]

    def explain() -> InputError:
        from cleave.table import blame  # noqa: PLC0415 - only for a file that cannot be read

        return blame.explain(connection, source, schema, texts)

    return SourceReading(texts, duckdb_source(source, schema.dialect, len(header)), explain)


@dataclass(frozen=True, slots=True)
class Violation:
    """Fault of a column, and SQL of the row (over `field` and `place`) where it is."""

    problem: str
    which: str
    null: bool = False


def declared(schema: Schema) -> list[Column]:
    """List the columns with a stated bound, or without NULL."""
    return [one for one in schema.columns if not (one.nullable and one.lower is None and one.upper is None)]


def figures_of(column: Column) -> str:
    """SQL of what `broken_by` reads: how many values are not NULL, and the bounds of numbers.

    Only numbers have bounds; DuckDB hands out other types, such as zoned timestamps, by packages that may be missing.
    """
    if not is_number(column.type):
        return f"count({identifier(column.name)}), NULL, NULL"
    return "count({0}), min({0}), max({0})".format(identifier(column.name))


def broken_by(column: Column, nulls: int, least: Any, most: Any) -> Violation | None:
    """Return the fault of the column under the schema, None where there is none."""
    if nulls and not column.nullable:
        return Violation("is NULL, which the schema rules out", "min(place) FILTER (WHERE field IS NULL)", null=True)
    as_stored = float if isinstance(least, float) else lambda bound: bound
    # `not (a <= b)`: NaN, which DuckDB sorts last, is within no bounds
    if column.lower is not None and least is not None and not as_stored(column.lower) <= least:
        return Violation(f"the value is below lower = {column.lower:f}", "arg_min(place, field)")
    if column.upper is not None and most is not None and not most <= as_stored(column.upper):
        return Violation(f"the value is above upper = {column.upper:f}", "arg_max(place, field)")
    return None


def row_of(connection: duckdb.DuckDBPyConnection, fields: str, broken: Violation) -> int:
    """The row (from 0) of `fields`, SQL with the column as `field`, where the fault is."""
    # not rowid: a column of the file may be called that
    numbered = f"SELECT field, row_number() OVER () - 1 AS place FROM ({fields})"
    (row,) = connection.execute(f"SELECT {broken.which} FROM ({numbered})").fetchall()[0]
    return int(row)


def place_of(source: Input | Frame, schema: Schema, row: int) -> str:
    """Words for row `row` (from 0) of `source`."""
    from cleave.table.blame import line_of  # noqa: PLC0415 - only for a file that does not fit

    if isinstance(source, Frame) or source.parquet:
        return f"{source}, row {row + 1}"
    return f"{source}, line {line_of(source, schema.dialect, row)}"


def outside(source: Input | Frame, schema: Schema, column: Column, broken: Violation, row: int) -> InputError:
    """The error for row `row` (from 0) of `source`."""
    return InputError(
        f"{place_of(source, schema, row)}, column {column.name!r}: {broken.problem}",
        hint="fill the field, or set nullable = true in the schema"
        if broken.null
        else "correct the value, or widen the bound: in the schema, or with `cleave alter NAME --widen` for a table "
        "that is stored",
    )


_WIDER = {  # types that no schema has -> the one that holds all their values
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INTEGER",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "UHUGEINT": "DECIMAL(38,0)",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMPTZ_NS": ZONED,
    "TIME_NS": "TIME",
}


_SORTED_OTHERWISE = {"BIGNUM": "DECIMAL(38,0), or to text", "TIME WITH TIME ZONE": "TIME, or to text"}
_VIEW = "the frame"


@contextmanager
def relation(connection: duckdb.DuckDBPyConnection, source: Input | Frame) -> Iterator[str]:
    """SQL of what reads the file or the frame, its columns named as there; good within the block."""
    if isinstance(source, Frame):
        connection.register(_VIEW, source.arrow)
        yield identifier(_VIEW)
        connection.unregister(_VIEW)
        return
    yield f"read_parquet({literal(pattern_of(source))}, hive_partitioning = false)"


def columns(connection: duckdb.DuckDBPyConnection, source: Input | Frame) -> dict[str, str]:
    """Names and DuckDB types. Raises InputError for a file that is damaged."""
    try:
        with relation(connection, source) as rows_of:
            rows = connection.execute(f"DESCRIBE SELECT * FROM {rows_of}").fetchall()
    except duckdb.Error:
        rows = []
    if not rows and isinstance(source, Frame):
        raise _unreadable(connection, source)
    if not rows:
        raise InputError(f"{source}: cannot be read as Parquet", hint="is the file complete?")
    return {str(row[0]): str(row[1]) for row in rows}


def _unreadable(connection: duckdb.DuckDBPyConnection, frame: Frame) -> InputError:
    """The error for a frame with a column of a type that DuckDB does not read."""
    for field in frame.arrow.schema:
        try:
            with relation(connection, Frame(frame.arrow.select([field.name]), frame.shown)) as rows:
                connection.execute(f"DESCRIBE SELECT * FROM {rows}")
        except duckdb.Error:
            return InputError(f"{frame}, column {field.name!r}: {field.type} cannot be read", hint="convert it first")
    return InputError(f"{frame}: cannot be read")


def schema_type(type_: str, source: Input | Frame, name: str) -> str:
    """Return the schema's type for a column of DuckDB type `type_`: VARCHAR, its text, for lists and the like.

    Raises InputError for a type whose values sort otherwise than their text: MAX over the text would be wrong.
    """
    if type_ in _SORTED_OTHERWISE:
        raise InputError(
            f"{source}, column {name!r}: {type_} is not supported", hint=f"cast it to {_SORTED_OTHERWISE[type_]}"
        )
    try:
        return canonical(_WIDER.get(type_, type_))
    except ValueError:
        return "VARCHAR"


def cast_typed(name: str, type_: str, column: Column, dialect: CsvDialect) -> FieldCast:
    """Return the cast of the file's column `name` of DuckDB type `type_` to `column`."""
    field = identifier(name)
    if type_ == "VARCHAR":
        return cast(field, column, dialect)
    if column.type == "VARCHAR":
        return FieldCast(f"CAST({field} AS VARCHAR)", "false")
    finite = column.kind == Kind.ENCRYPTED and column.type in ("FLOAT", "DOUBLE")
    if type_ == column.type and not finite:
        return FieldCast(field, "false")
    read = f"TRY_CAST({field} AS {column.type})"
    same = f"TRY_CAST({read} AS {type_}) IS NOT DISTINCT FROM {field}"
    if finite:
        same = f"{same} AND coalesce(isfinite({read}), true)"
    return FieldCast(f"CASE WHEN {same} THEN {read} ELSE error('unreadable') END", f"NOT ({same})")


def explain_typed(
    connection: duckdb.DuckDBPyConnection,
    source: Input | Frame,
    schema: Schema,
    casts: list[FieldCast],
    types: list[str],
) -> InputError:
    """The first value that does not fit the schema, by row and column."""
    for one, column, type_ in zip(casts, schema.columns, types, strict=True):
        try:
            with relation(connection, source) as rows:
                numbered = f'SELECT *, row_number() OVER () AS "place in the file" FROM {rows}'
                (row,) = connection.execute(
                    f'SELECT min("place in the file") FROM ({numbered}) WHERE {one.unreadable}'
                ).fetchall()[0]
        except duckdb.Error:
            break
        if row is not None:
            return InputError(
                f"{source}, row {row}, column {column.name!r}: is no {column.type} without a change of its value "
                f"({'the frame' if isinstance(source, Frame) else 'the file'} has {type_})",
                hint="correct it, or change the column's type in the schema; NaN and infinity cannot be encrypted",
            )
    if isinstance(source, Frame):
        return InputError(f"{source}: cannot be read", hint="does it fit in memory twice?")
    return InputError(f"{source}: cannot be read as Parquet", hint="is the file complete?")
