"""Frames, and files of formats that state the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

import duckdb

from cleave.table import faults
from cleave.table.cast import FieldCast, cast
from cleave.table.duck import identifier, literal
from cleave.table.file_formats import pattern_of
from cleave.table.inputs import Frame, Input, mark_of
from cleave.table.reading import SourceReading, places_of
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.types import ZONED, canonical
from cleave_shared.errors import InputError

_WIDER = {  # types that a schema cannot have -> the type that holds all their values
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
    """SQL that reads the file or the frame, with its own column names; valid within the block."""
    if isinstance(source, Input):
        assert source.format.scan is not None  # noqa: S101 - else it states no types
        with source.format.scan(connection, source.path) as rows:
            yield rows
        return
    connection.register(_VIEW, source.arrow)
    yield identifier(_VIEW)
    connection.unregister(_VIEW)


def columns_of(connection: duckdb.DuckDBPyConnection, source: Input | Frame) -> dict[str, str]:
    """DuckDB type by column name. Raises InputError for a damaged file."""
    try:
        with relation(connection, source) as rows_of:
            rows = connection.execute(f"DESCRIBE SELECT * FROM {rows_of}").fetchall()
    except duckdb.Error:
        rows = []
    if not rows and isinstance(source, Frame):
        raise _unreadable(connection, source)
    if not rows and isinstance(source, Input):
        raise faults.unreadable_typed(source, source.format.name)
    return {str(row[0]): str(row[1]) for row in rows}


def _unreadable(connection: duckdb.DuckDBPyConnection, frame: Frame) -> InputError:
    """The error for the frame's first column of a type that DuckDB cannot read."""
    for field in frame.arrow.schema:
        try:
            with relation(connection, Frame(frame.arrow.select([field.name]), frame.shown)) as rows:
                connection.execute(f"DESCRIBE SELECT * FROM {rows}")
        except duckdb.Error:
            return InputError(f"{frame}, column {field.name!r}: {field.type} cannot be read", hint="convert it first")
    return InputError(f"{frame}: cannot be read")


def schema_type(type_: str, source: Input | Frame, name: str) -> str:
    """The schema's type for DuckDB's `type_`. Lists and other nested types become VARCHAR, their text.

    Raises InputError for a type that sorts differently from its text: MAX over the text would be wrong.
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
    """The cast of the file's column `name`, of DuckDB type `type_`, to `column`."""
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


class TypedReading(SourceReading):
    """Reading of a file that states types, or of a frame."""

    source: Input | Frame

    def __init__(self, connection: duckdb.DuckDBPyConnection, source: Input | Frame, schema: Schema) -> None:
        super().__init__(source, schema)
        self._connection = connection

    @cached_property
    def _types(self) -> list[tuple[str, str]]:
        """For each of the schema's columns: (name, DuckDB type) in the source."""
        stated = list(columns_of(self._connection, self.source).items())
        return [stated[place] for place in places_of(str(self.source), [name for name, _ in stated], self.schema)]

    @cached_property
    def casts(self) -> list[FieldCast]:
        return [
            cast_typed(name, type_, each, self.schema.dialect)
            for (name, type_), each in zip(self._types, self.schema.columns, strict=True)
        ]

    def rows(self) -> AbstractContextManager[str]:
        return relation(self._connection, self.source)

    def mark(self) -> object:
        return None if isinstance(self.source, Frame) else mark_of(self.source)

    def miscounted(self, rows: int) -> InputError | None:
        """Compare the rows that were read with the number that the file's footer states."""
        if isinstance(self.source, Frame) or not self.source.format.footer:
            return None
        sql = self.source.format.footer.format(literal(pattern_of(self.source.path)))
        try:
            (stated,) = self._connection.execute(sql).fetchall()[0]
        except duckdb.Error:
            return faults.unreadable_typed(self.source, self.source.format.name)
        return None if stated == rows else faults.damaged_rows(self.source, rows, stated)

    def place(self, row: int) -> str:
        return f"{self.source}, row {row + 1}"

    def fault(self) -> InputError:
        for one, column, (_, type_) in zip(self.casts, self.schema.columns, self._types, strict=True):
            try:
                with self.rows() as rows:
                    numbered = f'SELECT *, row_number() OVER () - 1 AS "place in the file" FROM {rows}'
                    (row,) = self._connection.execute(
                        f'SELECT min("place in the file") FROM ({numbered}) WHERE {one.unreadable}'
                    ).fetchall()[0]
            except duckdb.Error:
                break
            if row is not None:
                stated = f"{'the frame' if isinstance(self.source, Frame) else 'the file'} has {type_}"
                return faults.not_the_type(self.place(row), column, stated)
        if isinstance(self.source, Frame):
            return InputError(f"{self.source}: cannot be read", hint="does it fit in memory twice?")
        return faults.unreadable_typed(self.source, self.source.format.name)
