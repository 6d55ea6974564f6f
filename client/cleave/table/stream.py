"""Rows of files or frames under a schema, read in order a batch at a time: no table of them is ever made.

A file is read twice or more: first to look at all of it (`survey`), so that whatever does not fit the schema is told
before anything is done with the rows, then for the rows themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from cleave.table.batches import Batch, batches
from cleave.table.cast import Cast
from cleave.table.casts import (
    Broken,
    Reading,
    broken_by,
    declared,
    figures_of,
    outside,
    place_of,
    read_under,
    row_of,
    too_large,
)
from cleave.table.duck import connect_reading, identifier
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.progress import Progress, shown
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Table, portable
from cleave.table.types import FLOATS
from cleave_shared.errors import InputError

# Of a file's text under way in DuckDB, two threads at work on it. What groups or samples take comes on top.
_MEMORY = "512MB"
_FLUSHED = "16MB"  # freed at once, of which DuckDB gives memory back; by default 512 MB, and it keeps what it had
_THREADS = min(4, max(2, len(os.sched_getaffinity(0))))  # with one, DuckDB holds 131,072 rows of a CSV at once
_STDIN_BYTES = 256 << 20  # standard input is kept in memory
_FIXED_BYTES = 16  # of a value that is not text, at most

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of a column of floats: its least, largest and about its median value. None: it has no value."""

    least: float
    middle: float
    largest: float


@dataclass(frozen=True, slots=True)
class Survey:
    """All rows, looked at once. `bytes`: of their columns that are not local, in memory; `floats` has each encrypted
    column of floats.
    """

    rows: int
    bytes: int
    floats: Mapping[str, Extent | None]


class TooLargeError(InputError):
    """Error of work over rows that does not fit in its memory."""


class Stream:
    """The rows of `sources`, called `name`. A context manager; one thread at a time may use it."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        sources: Sequence[Input | Frame],
        connection: duckdb.DuckDBPyConnection,
        reading: Callable[[Input | Frame], Reading],
    ) -> None:
        self.name = name
        self.schema = schema
        self._sources = sources
        self._connection = connection
        self._reading = reading
        self._marks = [_mark(source) for source in sources]

    def survey(self, progress: Progress | None = None) -> Survey:
        """Look at every row. Raises InputError naming file, line and column of what does not fit the schema, never a
        value.
        """
        stated = declared(self.schema)
        floats = [each for each in self.schema.columns if each.kind is Kind.ENCRYPTED and each.type in FLOATS]
        leaving = [each for each in self.schema.columns if each.kind is not Kind.LOCAL]
        texts = [identifier(each.name) for each in leaving if each.type == "VARCHAR"]
        figures = [
            "count(*)",
            " + ".join(f"coalesce(sum(strlen({name})), 0)" for name in texts) or "0",
            *map(figures_of, stated),
            *("min({0}), approx_quantile({0}, 0.5), max({0})".format(identifier(each.name)) for each in floats),
        ]
        # what nobody asks for DuckDB does not read, and so does not check
        figures += [f"count({identifier(each.name)})" for each in self.schema.columns if each not in stated]
        rows = size = 0
        extents: dict[str, Extent | None] = dict.fromkeys((each.name for each in floats), None)
        for source in self._sources:
            found = self._run(
                source,
                self.schema.columns,
                lambda sql: self._connection.execute(f"SELECT {', '.join(figures)} FROM ({sql})").fetchall()[0],
                progress,
            )
            self._check_declared(source, stated, found[0], found[2 : 2 + 3 * len(stated)])
            rows += found[0]
            size += found[1]
            rest = found[2 + 3 * len(stated) :][: 3 * len(floats)]
            for column, *values in zip(floats, rest[::3], rest[1::3], rest[2::3], strict=True):
                extents[column.name] = _wider(extents[column.name], values)
        return Survey(rows, int(size) + rows * _FIXED_BYTES * len(leaving), extents)

    def gather(self, columns: Sequence[str], sql: str, relation: str) -> None:
        """Make `relation` of what `sql`, over the rows of one source as `rows`, gives for every source.

        In the stream's own connection, `query` asks it. Raises InputError.
        """
        wanted = [self.schema.column(name) for name in columns]
        for number, source in enumerate(self._sources):
            into = f"INSERT INTO {relation}" if number else f"CREATE OR REPLACE TEMP TABLE {relation} AS"
            self._run(
                source,
                wanted,
                lambda rows, into=into: self._connection.execute(f"{into} WITH rows AS ({rows}) {sql}"),  # type: ignore[misc]
            )

    def query(self, sql: str) -> list[Any]:
        """Over relations that `gather` made."""
        return self._connection.execute(sql).fetchall()

    def batches(self, columns: Sequence[Column]) -> Iterator[Batch]:
        """The rows, in order; intervals as their text. Raises InputError, also for a file that changed since the first
        look.
        """
        for source, mark in zip(self._sources, self._marks, strict=True):
            reading = self._reading(source)
            casts = reading.values(self.schema, columns)
            shown = ", ".join(portable(each) for each in columns)
            problem = None
            with reading.rows as rows:
                try:
                    yield from batches(self._connection, f"SELECT {shown} FROM (SELECT {casts} FROM {rows})")
                except duckdb.OutOfMemoryException:
                    problem = "memory"
                except (duckdb.Error, RuntimeError):  # nanoarrow's is a RuntimeError; either may quote a line
                    problem = "content"
            if mark != _mark(source):
                raise changed(source)
            if problem == "memory":
                raise _too_large(source)
            if problem:
                raise reading.explain()

    def place(self, row: int) -> str:
        """Words for row `row` (from 0) of all: its source, and the line or row there. Raises InputError."""
        for source in self._sources[:-1]:
            count = self._run(
                source, [], lambda sql: self._connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]
            )
            if row < count:
                return place_of(source, self.schema, row)
            row -= count
        return place_of(self._sources[-1], self.schema, row)

    def interrupt(self) -> None:
        """End what another thread reads here."""
        with suppress(duckdb.Error):
            self._connection.interrupt()

    def close(self) -> None:
        with suppress(duckdb.Error):
            self._connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(
        self,
        source: Input | Frame,
        columns: Sequence[Column],
        run: Callable[[str], T],
        progress: Progress | None = None,
    ) -> T:
        """`run` SQL of the columns of one source; what DuckDB cannot read is told as InputError."""
        reading = self._reading(source)
        problem, result = None, None
        with shown(progress, self._connection, f"check {source}"), reading.rows as rows:
            try:
                result = run(f"SELECT {reading.values(self.schema, columns) or '1 AS one'} FROM {rows}")
            except duckdb.InterruptException:
                raise
            except duckdb.OutOfMemoryException:
                problem = "memory"
            except duckdb.Error:
                problem = "content"  # DuckDB's message quotes the line: it is neither kept nor chained
        if problem == "memory":
            raise _too_large(source)
        if problem:
            raise reading.explain()
        return result  # type: ignore[return-value] # set where there is no problem

    def _check_declared(
        self, source: Input | Frame, stated: Sequence[Column], rows: int, figures: Sequence[Any]
    ) -> None:
        for column, filled, least, most in zip(stated, figures[::3], figures[1::3], figures[2::3], strict=True):
            if broken := broken_by(column, rows - filled, least, most):
                row = self._run(source, [column], lambda sql: self._row_of(sql, column, broken))  # noqa: B023 - now
                raise outside(source, self.schema, column, broken, row)

    def _row_of(self, sql: str, column: Column, broken: Broken) -> int:
        return row_of(self._connection, f"SELECT {identifier(column.name)} AS field FROM ({sql})", broken)


def open_stream(names: Names, schema: Schema, name: str | None = None) -> Stream:
    """All of the files, one after the other. Raises InputError for one that cannot be opened."""
    inputs = open_inputs(names, _STDIN_BYTES)
    return _stream(name or schema.table or table_name(inputs), schema, inputs)


def stream_frame(frame: Frame, schema: Schema, name: str) -> Stream:
    return _stream(name, schema, [frame])


def _stream(name: str, schema: Schema, sources: Sequence[Input | Frame]) -> Stream:
    connection = connect_reading()
    connection.execute(f"SET memory_limit = '{_MEMORY}'")
    connection.execute(f"SET threads = {_THREADS}")
    connection.execute(f"SET allocator_bulk_deallocation_flush_threshold = '{_FLUSHED}'")
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")  # a file's own word for its values is none
    connection.execute("SET arrow_large_buffer_size = true")  # a batch may hold more than 2 GB of text
    connection.execute("SET arrow_output_version = '1.5'")  # decimals of 4 or 8 bytes where their digits allow
    return Stream(name, schema, sources, connection, lambda source: read_under(connection, source, schema))


def stream_of(table: Table) -> Stream:
    """The rows of a table that is there. It is to be closed before the table is."""
    whole = Input(Path(os.devnull), table.name)
    reading = Reading(
        [Cast(identifier(column.name), "false") for column in table.schema.columns],
        nullcontext(table.relation),
        lambda: InputError(f"{whole}: cannot be read"),
    )
    return Stream(table.name, table.schema, [whole], table.connection.cursor(), lambda _: reading)


def _too_large(source: object) -> TooLargeError:
    told = too_large(source)
    return TooLargeError(told.message, hint=told.hint)


def changed(source: object) -> InputError:
    return InputError(f"{source}: changed while it was read", hint="try again when no one writes to it")


def _mark(source: Input | Frame) -> object:
    """Return a mark that changes when a file is written."""
    if isinstance(source, Frame):
        return None
    try:
        found = source.path.stat()
    except OSError as error:
        raise unreadable(source, error) from None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _wider(extent: Extent | None, values: Sequence[Any]) -> Extent | None:
    if values[0] is None:
        return extent
    least, middle, largest = map(float, values)
    if extent is None:
        return Extent(least, middle, largest)
    return Extent(min(extent.least, least), extent.middle, max(extent.largest, largest))
