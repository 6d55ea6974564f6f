"""Files read under their schema into one in-memory DuckDB table. Nothing is written to disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import duckdb

from cleave.table import typed
from cleave.table.cast import Cast, cast
from cleave.table.duck import connect, identifier
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name
from cleave.table.reading import Progress, shown
from cleave.table.schema import Column, Schema
from cleave.table.source import column_names, duckdb_source
from cleave_shared import limits
from cleave_shared.errors import InputError

_BATCH = 50  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly


class Table:
    """`relation` in `connection` holds the rows in the order of the files, columns named and typed by the schema."""

    relation = "source"

    def __init__(
        self, name: str, schema: Schema, connection: duckdb.DuckDBPyConnection, rows: int, scratch: int
    ) -> None:
        self.name = name
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self.others: dict[str, str] = {}  # of further tables: name -> relation
        self._scratch = scratch

    def add(self, name: str, other: Table) -> None:
        """Keep a copy of `other` beside this table, for questions that name both."""
        names = [column.name for column in other.schema.columns]
        relation = f"other{len(self.others)}"
        self.take(relation, other.parquet(other.relation, names, 0, other.rows))
        self.others[name] = relation

    def take(self, relation: str, content: bytes) -> None:
        """Make `relation` of a Parquet file that is on no disk."""
        os.ftruncate(self._scratch, 0)
        os.pwrite(self._scratch, content, 0)
        self.connection.execute(f"CREATE TABLE {relation} AS FROM read_parquet('{_scratch_path(self._scratch)}')")

    def of_rows(self, relation: str, rows: int) -> Table:
        """Another relation of the same connection as a table. It is closed with this one."""
        found = Table(self.name, self.schema, self.connection, rows, self._scratch)
        found.relation = relation
        return found

    def parquet(self, relation: str, columns: Sequence[str], start: int, stop: int) -> bytes:
        """Rows `start`..`stop` of `columns` as a Parquet file that never was on a disk.

        Counted by LIMIT, not by rowid: a column of the file may be called that.
        """
        names = ", ".join(identifier(name) for name in columns)
        return self._copied(
            f"SELECT {names} FROM {relation} LIMIT {stop - start} OFFSET {start}", "FORMAT parquet, COMPRESSION zstd"
        )

    def csv(self) -> bytes:
        """All of it as CSV: a header, NULL as an empty field and an empty text as two quotes."""
        return self._copied(f"SELECT * FROM {self.relation}", "FORMAT csv, HEADER true")

    def _copied(self, sql: str, how: str) -> bytes:
        self.connection.execute(f"COPY ({sql}) TO '{_scratch_path(self._scratch)}' ({how}, USE_TMP_FILE false)")
        return os.pread(self._scratch, os.fstat(self._scratch).st_size, 0)

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(duckdb.Error):  # something left to end by itself is still at work
            self.connection.close()
        os.close(self._scratch)


def no_table(name: str, schema: Schema, rows: int = 0) -> Table:
    """A table whose relation is still to be made, of `rows` rows."""
    connection = connect(reads_files=True)
    scratch = os.memfd_create("parquet")
    _shut(connection, scratch)
    return Table(name, schema, connection, rows, scratch)


def _shut(connection: duckdb.DuckDBPyConnection, scratch: int) -> None:
    """From here on the memory file is all that DuckDB may read and write."""
    connection.execute(f"SET allowed_paths = ['{_scratch_path(scratch)}']")
    connection.execute("SET enable_external_access = false")


def _scratch_path(scratch: int) -> str:
    return f"/proc/self/fd/{scratch}"


def open_table(names: Names, schema: Schema, progress: Progress | None = None) -> Table:
    """Read all of the files, one after the other, as one table.

    Raises InputError naming file, line and column of what does not fit the schema, never a value.
    """
    inputs = open_inputs(names)
    return _load(inputs, schema, schema.table or table_name(inputs), progress)


def open_frame(frame: Frame, schema: Schema, name: str, progress: Progress | None = None) -> Table:
    """The same of an Arrow table. Raises InputError naming row and column, never a value."""
    return _load([frame], schema, name, progress)


def _load(inputs: Sequence[Input | Frame], schema: Schema, name: str, progress: Progress | None) -> Table:
    connection = connect(reads_files=True)
    scratch = os.memfd_create("parquet")
    try:
        parts: list[Part] = []
        for source in inputs:
            with shown(progress, connection, f"read {source}"):
                _append(connection, source, schema, first=not parts)
            parts.append(Part(source, _rows(connection) - sum(part.rows for part in parts)))
        rows = sum(part.rows for part in parts)
        if rows > limits.MAX_JOB_ROWS:
            raise InputError(f"{inputs[0]}: has {rows} rows, at most {limits.MAX_JOB_ROWS} are supported")
        _check_declared(connection, parts, schema, rows)
        _shut(connection, scratch)
    except BaseException:
        connection.close()
        os.close(scratch)
        raise
    return Table(name, schema, connection, rows, scratch)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one file in the table."""

    source: Input | Frame
    rows: int


def _rows(connection: duckdb.DuckDBPyConnection) -> int:
    (rows,) = connection.execute(f"SELECT count(*) FROM {Table.relation}").fetchall()[0]
    return int(rows)


def _match_columns(header: str, names: Sequence[str], schema: Schema) -> list[int]:
    """Where each column of the schema stands in the file; `header` says where the names do."""
    places = {name.lower(): index for index, name in enumerate(names)}
    known = {column.name.lower() for column in schema.columns}
    if not known.intersection(places):  # then these may be the cells of a first row, which no message may quote
        raise InputError(
            f"{header}: names none of the schema's columns",
            hint="is the line with the names missing? else check delimiter under [csv], and whose schema it is",
        )
    if unknown := [name for name in names if name.lower() not in known]:
        raise InputError(
            f"{header}, column {unknown[0]!r}: is not named in the schema{_and_others(unknown)}",
            hint='add it to the schema, with kind = "local" if it must not leave; `cleave schema` proposes',
        )
    if missing := [column.name for column in schema.columns if column.name.lower() not in places]:
        raise InputError(
            f"{header}, column {missing[0]!r}: is in the schema and not in the file{_and_others(missing)}",
            hint="remove it from the schema, or check delimiter and header under [csv]",
        )
    return [places[column.name.lower()] for column in schema.columns]


def _and_others(names: list[str]) -> str:
    return f" (nor are {len(names) - 1} others)" if len(names) > 1 else ""


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one file is read: a cast for each column of the schema over `rows`, and why it could not be."""

    casts: list[Cast]
    rows: AbstractContextManager[str]
    explain: Callable[[], InputError]


def _reading(connection: duckdb.DuckDBPyConnection, source: Input | Frame, schema: Schema) -> _Reading:
    if isinstance(source, Frame) or source.parquet:
        found = typed.columns(connection, source)
        names = list(found)
        columns = [(names[place], found[names[place]]) for place in _match_columns(str(source), names, schema)]
        casts = [
            typed.cast(*column, each, schema.dialect) for column, each in zip(columns, schema.columns, strict=True)
        ]
        types = [type_ for _, type_ in columns]
        return _Reading(
            casts,
            typed.relation(connection, source),
            lambda: typed.explain(connection, source, schema, casts, types),
        )
    header = column_names(source, schema.dialect)
    places = _match_columns(f"{source}, line {schema.dialect.skip + 1}", header, schema)
    texts = [cast(f"c{place}", each, schema.dialect) for place, each in zip(places, schema.columns, strict=True)]

    def explain() -> InputError:
        from cleave.table import blame  # noqa: PLC0415 - only for a file that cannot be read

        return blame.explain(connection, source, schema, texts)

    return _Reading(texts, duckdb_source(source, schema.dialect, len(header)), explain)


def _append(connection: duckdb.DuckDBPyConnection, source: Input | Frame, schema: Schema, *, first: bool) -> None:
    """The rows of one file, appended to the table."""
    reading = _reading(connection, source, schema)
    values = ", ".join(
        f"{one.value} AS {identifier(column.name)}" for one, column in zip(reading.casts, schema.columns, strict=True)
    )
    into = f"CREATE TABLE {Table.relation} AS" if first else f"INSERT INTO {Table.relation}"
    problem = None
    with reading.rows as rows:
        try:
            connection.execute(f"{into} SELECT {values} FROM {rows}")
        except duckdb.OutOfMemoryException:
            problem = "memory"
        except duckdb.Error:
            problem = "content"  # DuckDB's message quotes the line: it is neither kept nor chained
    if problem == "memory":
        raise InputError(f"{source}: does not fit in memory", hint="close other programs, or split the file")
    if problem:
        raise reading.explain()


def _check_declared(connection: duckdb.DuckDBPyConnection, parts: Sequence[Part], schema: Schema, rows: int) -> None:
    """Refuse what the schema rules out: a value outside stated bounds, a NULL where there may be none."""
    declared = [one for one in schema.columns if not (one.nullable and one.lower is None and one.upper is None)]
    for start in range(0, len(declared), _BATCH):
        batch = declared[start : start + _BATCH]
        figures = ", ".join("count({0}), min({0}), max({0})".format(identifier(one.name)) for one in batch)
        found = connection.execute(f"SELECT {figures} FROM {Table.relation}").fetchall()[0]
        for column, filled, least, most in zip(batch, found[::3], found[1::3], found[2::3], strict=True):
            if broken := _broken(column, rows - filled, least, most):
                raise _outside(connection, parts, schema, column, *broken)


def _broken(column: Column, nulls: int, least: Any, most: Any) -> tuple[str, str] | None:
    """What is wrong with the column and SQL of the row (over `field` and `place`), None where nothing is."""
    if nulls and not column.nullable:
        return "is NULL, which the schema rules out", "min(place) FILTER (WHERE field IS NULL)"
    as_stored = float if isinstance(least, float) else lambda bound: bound
    # `not (a <= b)`: NaN, which DuckDB sorts last, is within no bounds
    if column.lower is not None and least is not None and not as_stored(column.lower) <= least:
        return "the value is below lower, as the schema states it", "arg_min(place, field)"
    if column.upper is not None and most is not None and not most <= as_stored(column.upper):
        return "the value is above upper, as the schema states it", "arg_max(place, field)"
    return None


def _outside(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[Part],
    schema: Schema,
    column: Column,
    problem: str,
    which: str,
) -> InputError:
    from cleave.table.blame import line_of  # noqa: PLC0415 - only for a file that does not fit

    # not rowid: a column of the file may be called that
    numbered = f"SELECT {identifier(column.name)} AS field, row_number() OVER () - 1 AS place FROM {Table.relation}"
    (row,) = connection.execute(f"SELECT {which} FROM ({numbered})").fetchall()[0]
    null = which.startswith("min")
    before = 0
    for part in parts:
        if row < before + part.rows:
            break
        before += part.rows
    source, row = part.source, row - before
    if isinstance(source, Frame) or source.parquet:
        place = f"row {row + 1}"
    else:
        place = f"line {line_of(source, schema.dialect, row)}"
    return InputError(
        f"{source}, {place}, column {column.name!r}: {problem}",
        hint="fill the field, or set nullable = true in the schema"
        if null
        else "correct the value, or widen the bound",
    )
