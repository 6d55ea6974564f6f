"""Rows of files or frames under a schema: loaded as one table, or read in order a batch at a time.

A file that is read a batch at a time is read twice or more. The first time checks all of it (`survey`): what does not
fit the schema is refused before anything is done with the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from cleave.table.cast import FieldCast
from cleave.table.casts import (
    SourceReading,
    TooLargeError,
    Violation,
    broken_by,
    declared,
    figures_of,
    outside,
    place_of,
    read_under,
    row_of,
)
from cleave.table.duck import connect_reading, identifier
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.progress import Progress, shown
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Engine, Table, no_table, portable
from cleave.table.types import FLOATS
from cleave_shared import limits
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.batches import RowBatch

# Of a file's text under way in DuckDB, two threads at work on it. What groups or samples take comes on top.
_MEMORY = "512MB"
_FLUSHED = "16MB"  # DuckDB returns memory once so much is free; its default of 512 MB keeps more
_THREADS = min(4, max(2, len(os.sched_getaffinity(0))))  # with one, DuckDB holds 131,072 rows of a CSV at once
_STDIN_BYTES = 256 << 20  # standard input is kept in memory
_FIXED_BYTES = 16  # of a value that is not text, at most

_BATCH = 50  # columns examined in one query: DuckDB plans hundreds of aggregates slowly

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of a column of floats: its least, largest and about its median value. None: it has no value."""

    least: float
    middle: float
    largest: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Figures of all rows. `bytes`: of their columns that are not local, in memory; `floats` has each encrypted
    column of floats.
    """

    rows: int
    bytes: int
    floats: Mapping[str, Extent | None]


class Stream:
    """The rows of `sources`, called `name`. A context manager; one thread at a time may use it."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        sources: Sequence[Input | Frame],
        connection: duckdb.DuckDBPyConnection,
        reading: SourceReading | None = None,
    ) -> None:
        """`reading`: of the one source, which already exists; None: as `read_under` reads files and frames."""
        self.name = name
        self.schema = schema
        self._sources = sources
        self.connection = connection
        self._there = reading
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
        # DuckDB does not read, and so does not check, a column that no query names
        figures += [f"count({identifier(each.name)})" for each in self.schema.columns if each not in stated]
        rows = size = 0
        extents: dict[str, Extent | None] = dict.fromkeys((each.name for each in floats), None)
        for source in self._sources:
            figures_row = self._run(
                source,
                self.schema.columns,
                lambda sql: self.connection.execute(f"SELECT {', '.join(figures)} FROM ({sql})").fetchall()[0],
                progress,
            )
            self._require_read(source, figures_row[0])
            self._check_declared(source, stated, figures_row[0], figures_row[2 : 2 + 3 * len(stated)])
            rows += figures_row[0]
            size += figures_row[1]
            rest = figures_row[2 + 3 * len(stated) :][: 3 * len(floats)]
            for column, *values in zip(floats, rest[::3], rest[1::3], rest[2::3], strict=True):
                extents[column.name] = _wider(extents[column.name], values)
        return Survey(rows, int(size) + rows * _FIXED_BYTES * len(leaving), extents)

    def load(self, progress: Progress | None) -> int:
        """Make the relation of a table of all rows. Returns how many. Raises as `survey` does, and for too many."""
        connection, counts = self.connection, list[int]()
        for source in self._sources:
            into = f"INSERT INTO {Table.relation}" if counts else f"CREATE TABLE {Table.relation} AS"
            run = lambda sql, into=into: connection.execute(f"{into} {sql}").fetchall()[0][0]  # noqa: E731
            counts.append(self._run(source, self.schema.columns, run, progress, "read"))
            self._require_read(source, counts[-1])
        rows = sum(counts)
        if rows > limits.MAX_JOB_ROWS:
            raise InputError(f"{self._sources[0]}: has {rows} rows, at most {limits.MAX_JOB_ROWS} are supported")
        stated = declared(self.schema)
        for batch in (stated[start : start + _BATCH] for start in range(0, len(stated), _BATCH)):
            figures = self.query(f"SELECT {', '.join(map(figures_of, batch))} FROM {Table.relation}")[0]
            for column, broken in _broken(batch, rows, figures):
                row = self._row_of(Table.relation, column, broken)
                for source, count in zip(self._sources, counts, strict=True):
                    if row < count:
                        raise outside(source, self.schema, column, broken, row)
                    row -= count
        return rows

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
                lambda rows, into=into: self.connection.execute(f"{into} WITH rows AS ({rows}) {sql}"),  # type: ignore[misc]
            )

    def query(self, sql: str) -> list[Any]:
        """Over relations that `load` or `gather` made."""
        return self.connection.execute(sql).fetchall()

    def batches(self, columns: Sequence[Column]) -> Iterator[RowBatch]:
        """The rows, in order; intervals as their text. Raises InputError, also for a file that changed since the first
        look.
        """
        from cleave.table.batches import batches  # noqa: PLC0415 - what a query over a file does without

        for source, mark in zip(self._sources, self._marks, strict=True):
            reading = self._reading(source)
            casts = reading.values(self.schema, columns)
            shown = ", ".join(portable(each) for each in columns)
            problem = None
            with reading.rows as rows:
                try:
                    yield from batches(self.connection, f"SELECT {shown} FROM (SELECT {casts} FROM {rows})")
                except duckdb.OutOfMemoryException:
                    problem = "memory"
                except (duckdb.Error, RuntimeError):  # nanoarrow's is a RuntimeError; either may quote a line
                    problem = "content"
            if mark != _mark(source):
                raise changed(source)
            if problem == "memory":
                raise TooLargeError(source)
            if problem:
                raise reading.explain()

    def place(self, row: int) -> str:
        """Words for row `row` (from 0) of all: its source, and the line or row there. Raises InputError."""
        for source in self._sources[:-1]:
            count = self._run(
                source, [], lambda sql: self.connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]
            )
            if row < count:
                return place_of(source, self.schema, row)
            row -= count
        return place_of(self._sources[-1], self.schema, row)

    def interrupt(self) -> None:
        """End what another thread reads here."""
        with suppress(duckdb.Error):
            self.connection.interrupt()

    def close(self) -> None:
        with suppress(duckdb.Error):
            self.connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reading(self, source: Input | Frame) -> SourceReading:
        return self._there or read_under(self.connection, source, self.schema)

    def _run(
        self,
        source: Input | Frame,
        columns: Sequence[Column],
        run: Callable[[str], T],
        progress: Progress | None = None,
        what: str = "check",
    ) -> T:
        """`run` SQL of the columns of one source; what DuckDB cannot read is raised as InputError."""
        reading = self._reading(source)
        problem, result = None, None
        with shown(progress, self.connection, f"{what} {source}"), reading.rows as rows:
            try:
                result = run(f"SELECT {reading.values(self.schema, columns) or '1 AS one'} FROM {rows}")
            except duckdb.InterruptException:
                raise
            except duckdb.OutOfMemoryException:
                problem = "memory"
            except duckdb.Error:
                problem = "content"  # DuckDB's message quotes the line: it is neither kept nor chained
        if problem == "memory":
            raise TooLargeError(source)
        if problem:
            raise reading.explain()
        return result  # type: ignore[return-value] # set where there is no problem

    def _require_read(self, source: Input | Frame, rows: int) -> None:
        """Raise InputError for a text file that has more than a header, of which no row was read."""
        if rows or self._there is not None or isinstance(source, Frame) or source.parquet:
            return
        from cleave.table.blame import unread  # noqa: PLC0415 - only for a file without rows

        if (error := unread(source, self.schema.dialect)) is not None:
            raise error

    def _check_declared(
        self, source: Input | Frame, stated: Sequence[Column], rows: int, figures: Sequence[Any]
    ) -> None:
        for column, broken in _broken(stated, rows, figures):
            row = self._run(source, [column], lambda sql: self._row_of(f"({sql})", column, broken))  # noqa: B023 - now
            raise outside(source, self.schema, column, broken, row)

    def _row_of(self, rows: str, column: Column, broken: Violation) -> int:
        return row_of(self.connection, f"SELECT {identifier(column.name)} AS field FROM {rows}", broken)


def _broken(columns: Sequence[Column], rows: int, figures: Sequence[Any]) -> Iterator[tuple[Column, Violation]]:
    """Columns that are not as the schema states, by their `figures_of`."""
    for column, filled, least, most in zip(columns, figures[::3], figures[1::3], figures[2::3], strict=True):
        if broken := broken_by(column, rows - filled, least, most):
            yield column, broken


def open_table(
    source: Names | Frame, schema: Schema, progress: Progress | None = None, name: str | None = None
) -> Table:
    """Load files, one after the other, or a frame as one table.

    Raises InputError naming file, line or row, and column of what does not fit the schema, never a value.
    """
    with ExitStack() as undone:
        if isinstance(source, Frame):
            table = undone.enter_context(no_table(name or source.shown, schema))
            table.rows = Stream(table.name, schema, [source], table.connection).load(progress)
        else:
            stream = undone.enter_context(_opened(source, schema, name))
            rows = stream.load(progress)
            # from here on its DuckDB reads no file
            table = Table(stream.name, schema, stream.connection, rows, Engine(stream.connection))
        undone.pop_all()
    return table


def open_stream(source: Names | Frame, schema: Schema, name: str | None = None) -> Stream:
    """The same as a stream. Raises InputError for a file that cannot be opened."""
    stream = _opened(source, schema, name, _STDIN_BYTES)
    stream.query(
        f"SET memory_limit = '{_MEMORY}'; SET threads = {_THREADS};"
        f"SET allocator_bulk_deallocation_flush_threshold = '{_FLUSHED}';"
        "SET disabled_optimizers = 'statistics_propagation';"  # a file's own word for its values is none
        "SET arrow_large_buffer_size = true;"  # a batch may hold more than 2 GB of text
        "SET arrow_output_version = '1.5'"  # decimals of 4 or 8 bytes where their digits allow
    )
    return stream


def _opened(source: Names | Frame, schema: Schema, name: str | None, most: int | None = None) -> Stream:
    if isinstance(source, Frame):
        return Stream(name or source.shown, schema, [source], connect_reading())
    inputs = open_inputs(source, most)
    return Stream(name or schema.table or table_name(inputs), schema, inputs, connect_reading())


def stream_of(table: Table) -> Stream:
    """Stream the rows of a loaded table. Close the stream before the table."""
    whole = Input(Path(os.devnull), table.name)
    reading = SourceReading(
        [FieldCast(identifier(column.name), "false") for column in table.schema.columns],
        nullcontext(table.relation),
        lambda: InputError(f"{whole}: cannot be read"),
    )
    connection = table.connection.cursor()
    connection.execute(f"USE {table.home}")
    return Stream(table.name, table.schema, [whole], connection, reading)


def changed(source: object) -> InputError:
    return InputError(f"{source}: changed while it was read", hint="try again when no one writes to it")


def _mark(source: Input | Frame) -> object:
    """Return a mark that changes when a file is written."""
    if isinstance(source, Frame):
        return None
    try:
        status = source.path.stat()
    except OSError as error:
        raise unreadable(source, error) from None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _wider(extent: Extent | None, values: Sequence[Any]) -> Extent | None:
    if values[0] is None:
        return extent
    least, middle, largest = map(float, values)
    if extent is None:
        return Extent(least, middle, largest)
    return Extent(min(extent.least, least), extent.middle, max(extent.largest, largest))
