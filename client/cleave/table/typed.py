"""A Parquet file or a frame under a schema: its types become the schema's only where no value changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from cleave.table.cast import Cast
from cleave.table.cast import cast as cast_text
from cleave.table.duck import identifier, literal
from cleave.table.inputs import Frame, Input
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.types import ZONED, canonical
from cleave_shared.errors import InputError

_WIDER = {  # types a schema does not know -> the one that holds every value of theirs
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
    escaped = "".join(f"[{char}]" if char in "*?[" else char for char in str(source.path.absolute()))
    yield f"read_parquet({literal(escaped)}, hive_partitioning = false)"


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


def cast(name: str, type_: str, column: Column, dialect: CsvDialect) -> Cast:
    """How `column` is read from the file's column `name` of DuckDB type `type_`."""
    field = identifier(name)
    if type_ == "VARCHAR":
        return cast_text(field, column, dialect)
    if column.type == "VARCHAR":
        return Cast(f"CAST({field} AS VARCHAR)", "false")
    finite = column.kind == Kind.ENCRYPTED and column.type in ("FLOAT", "DOUBLE")
    if type_ == column.type and not finite:
        return Cast(field, "false")
    read = f"TRY_CAST({field} AS {column.type})"
    same = f"TRY_CAST({read} AS {type_}) IS NOT DISTINCT FROM {field}"
    if finite:
        same = f"{same} AND coalesce(isfinite({read}), true)"
    return Cast(f"CASE WHEN {same} THEN {read} ELSE error('unreadable') END", f"NOT ({same})")


def explain(
    connection: duckdb.DuckDBPyConnection,
    source: Input | Frame,
    schema: Schema,
    casts: list[Cast],
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
