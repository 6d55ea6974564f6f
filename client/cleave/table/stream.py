"""Rows of files or frames under a schema: loaded as one table, or read in order, batch by batch.

A file read in batches is read twice or more. The first pass (`survey`) checks all of it: a value that does not fit the
schema is refused before any row is used.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from cleave.table import faults
from cleave.table.cast import FieldCast
from cleave.table.constraints import constrained, figures_of, violations
from cleave.table.csv_reading import CsvReading
from cleave.table.duck import connect_reading, identifier
from cleave.table.inputs import Frame, Names, open_inputs, table_name
from cleave.table.progress import Progress, shown
from cleave.table.reading import SourceReading
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import FLUSHED, Engine, Table, no_table, portable
from cleave.table.typed_reading import TypedReading
from cleave.table.types import FLOATS, bytes_of_value
from cleave_shared import limits
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.batches import RowBatch

# DuckDB's memory for a file's text while two threads read it. Grouping and sampling need more.
_MEMORY = "512MB"
_THREADS = min(4, max(2, len(os.sched_getaffinity(0))))  # with one thread DuckDB buffers 131,072 rows of a CSV
_STDIN_BYTES = 256 << 20  # standard input is kept in memory

_BATCH = 50  # columns per query: DuckDB is slow to plan hundreds of aggregates

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extent:
    """Minimum, approximate median and maximum of a column of floats. A column without values has none."""

    least: float
    middle: float
    largest: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Figures over all rows. `bytes`: size in memory of all columns that are not local. `text_bytes`: the part of
    texts.

    `floats`: the extent of each encrypted column of floats.
    """

    rows: int
    bytes: int
    floats: Mapping[str, Extent | None]
    text_bytes: int = 0


class Stream:
    """The rows of one or more sources, named `name`. A context manager; use it in one thread at a time."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        connection: duckdb.DuckDBPyConnection,
        readings: Sequence[SourceReading],
    ) -> None:
        self.name = name
        self.schema = schema
        self.connection = connection
        self._readings = readings

    def survey(self, progress: Progress | None = None) -> Survey:
        """Read and check every row. Raises InputError naming file, line and column of a value that does not fit, but
        not the value.
        """
        stated = constrained(self.schema)
        floats = [each for each in self.schema.columns if each.kind is Kind.ENCRYPTED and each.type in FLOATS]
        leaving = [each for each in self.schema.columns if each.kind is not Kind.LOCAL]
        texts = [identifier(each.name) for each in leaving if each.type == "VARCHAR"]
        figures = [
            "count(*)",
            " + ".join(f"coalesce(sum(strlen({name})), 0)" for name in texts) or "0",
            *map(figures_of, stated),
            *("min({0}), approx_quantile({0}, 0.5), max({0})".format(identifier(each.name)) for each in floats),
        ]
        # DuckDB does not read, so does not check, a column that no query names
        looked_at = {each.name for each in stated}
        figures += [f"count({identifier(each.name)})" for each in self.schema.columns if each.name not in looked_at]
        rows = size = 0
        extents: dict[str, Extent | None] = dict.fromkeys((each.name for each in floats), None)
        for reading in self._readings:
            figures_row = self._run(
                reading,
                self.schema.columns,
                lambda sql: self.connection.execute(f"SELECT {', '.join(figures)} FROM ({sql})").fetchall()[0],
                progress,
            )
            _check_count(reading, figures_row[0])
            for broken in violations(stated, figures_row[0], figures_row[2 : 2 + 3 * len(stated)]):
                find = lambda sql, broken=broken: broken.row_in(self.connection, f"({sql})")  # noqa: E731
                row = self._run(reading, [broken.column], find)
                raise faults.ruled_out(reading.place(row), broken, self.schema.stored)
            rows += figures_row[0]
            size += figures_row[1]
            rest = figures_row[2 + 3 * len(stated) :][: 3 * len(floats)]
            for column, *values in zip(floats, rest[::3], rest[1::3], rest[2::3], strict=True):
                extents[column.name] = _wider(extents[column.name], values)
        fixed = sum(bytes_of_value(each.type) for each in leaving)
        return Survey(rows, int(size) + rows * fixed, extents, int(size))

    def load(self, progress: Progress | None) -> int:
        """Create the table's relation from all rows, and return their number. Raises as `survey` does, and for too many
        rows.
        """
        connection, counts = self.connection, list[int]()
        for reading in self._readings:
            into = f"INSERT INTO {Table.relation}" if counts else f"CREATE TABLE {Table.relation} AS"
            run = lambda sql, into=into: connection.execute(f"{into} {sql}").fetchall()[0][0]  # noqa: E731
            counts.append(self._run(reading, self.schema.columns, run, progress, "read"))
            _check_count(reading, counts[-1])
        rows = sum(counts)
        if rows > limits.MAX_JOB_ROWS:
            first = self._readings[0].source
            raise InputError(f"{first}: has {rows} rows, at most {limits.MAX_JOB_ROWS} are supported")
        stated = constrained(self.schema)
        for batch in (stated[start : start + _BATCH] for start in range(0, len(stated), _BATCH)):
            figures = self.query(f"SELECT {', '.join(map(figures_of, batch))} FROM {Table.relation}")[0]
            for broken in violations(batch, rows, figures):
                row = broken.row_in(connection, Table.relation)
                for reading, count in zip(self._readings, counts, strict=True):
                    if row < count:
                        raise faults.ruled_out(reading.place(row), broken, self.schema.stored)
                    row -= count
        return rows

    def gather(self, columns: Sequence[str], sql: str, relation: str) -> None:
        """Create `relation` from `sql`, which reads each source's rows as "rows".

        The relation is in the stream's own connection; `query` reads it. Raises InputError.
        """
        wanted = [self.schema.column(name) for name in columns]
        for number, reading in enumerate(self._readings):
            into = f"INSERT INTO {relation}" if number else f"CREATE OR REPLACE TEMP TABLE {relation} AS"
            self._run(
                reading,
                wanted,
                lambda rows, into=into: self.connection.execute(f"{into} WITH rows AS ({rows}) {sql}"),  # type: ignore[misc]
            )

    def query(self, sql: str) -> list[Any]:
        """Run SQL over relations of `load` or `gather`."""
        return self.connection.execute(sql).fetchall()

    def batches(self, columns: Sequence[Column]) -> Iterator[RowBatch]:
        """The rows in order, with intervals as text. Raises InputError, also if the file changed since the
        first pass.
        """
        from cleave.table.batches import batches  # noqa: PLC0415 - a query over a file does not need it

        selected = ", ".join(portable(each) for each in columns)
        for reading in self._readings:
            problem = None
            with reading.select(columns) as sql:
                try:
                    yield from batches(self.connection, f"SELECT {selected} FROM ({sql})")
                except (duckdb.Error, RuntimeError) as error:  # nanoarrow raises RuntimeError; both may quote a line
                    problem = type(error)
            if reading.is_changed:
                raise faults.changed(reading.source)
            if problem is not None:
                raise _fault(reading, problem)

    def place(self, row: int) -> str:
        """The position in words of row `row` (from 0 over all sources): its source and its line or row. Raises
        InputError.
        """
        for reading in self._readings[:-1]:
            count = self._run(
                reading, [], lambda sql: self.connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]
            )
            if row < count:
                return reading.place(row)
            row -= count
        return self._readings[-1].place(row)

    def interrupt(self) -> None:
        """Interrupt a read in another thread."""
        with suppress(duckdb.Error):
            self.connection.interrupt()

    def close(self) -> None:
        with suppress(duckdb.Error):
            self.connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(
        self,
        reading: SourceReading,
        columns: Sequence[Column],
        run: Callable[[str], T],
        progress: Progress | None = None,
        what: str = "check",
    ) -> T:
        """Call `run` with SQL of the columns of one source. DuckDB's errors become InputError."""
        with shown(progress, self.connection, f"{what} {reading.source}"), reading.select(columns) as sql:
            try:
                return run(sql)
            except duckdb.InterruptException:
                raise
            except duckdb.Error as error:  # its message quotes the line, so it is not chained
                problem = type(error)
        raise _fault(reading, problem)


def _check_count(reading: SourceReading, rows: int) -> None:
    """Raises InputError if a second count does not find `rows` rows."""
    try:
        error = reading.miscounted(rows)
    except (EOFError, OSError, UnicodeError, csv.Error, zlib.error):
        error = reading.fault()
    if error is not None:
        raise faults.changed(reading.source) if reading.is_changed else error


def _fault(reading: SourceReading, problem: type[Exception]) -> InputError:
    if issubclass(problem, duckdb.OutOfMemoryException):
        return faults.TooLargeError(reading.source)
    return faults.changed(reading.source) if reading.is_changed else reading.fault()


def open_table(
    source: Names | Frame, schema: Schema, progress: Progress | None = None, name: str | None = None
) -> Table:
    """Load files, one after the other, or a frame as one table.

    Raises InputError naming file, line or row, and column of a value that does not fit, but not the value.
    """
    with ExitStack() as undone:
        if isinstance(source, Frame):
            table = undone.enter_context(no_table(name or source.shown, schema))
            readings = [TypedReading(table.connection, source, schema)]
            table.rows = Stream(table.name, schema, table.connection, readings).load(progress)
        else:
            stream = undone.enter_context(_opened(source, schema, name))
            rows = stream.load(progress)
            # this DuckDB reads no more files
            table = Table(stream.name, schema, stream.connection, rows, Engine(stream.connection))
        undone.pop_all()
    return table


def open_stream(source: Names | Frame, schema: Schema, name: str | None = None) -> Stream:
    """Open files or a frame as a stream. Raises InputError for a file that cannot be opened."""
    stream = _opened(source, schema, name, _STDIN_BYTES)
    stream.query(
        f"SET memory_limit = '{_MEMORY}'; SET threads = {_THREADS};"
        f"SET allocator_bulk_deallocation_flush_threshold = '{FLUSHED}';"
        "SET disabled_optimizers = 'statistics_propagation';"  # a file's statistics are not trusted
        "SET arrow_large_buffer_size = true;"  # a batch may hold more than 2 GB of text
        "SET arrow_output_version = '1.5'"  # decimals in 4 or 8 bytes if their digits fit
    )
    return stream


def _opened(source: Names | Frame, schema: Schema, name: str | None, most: int | None = None) -> Stream:
    if isinstance(source, Frame):
        connection = connect_reading()
        return Stream(name or source.shown, schema, connection, [TypedReading(connection, source, schema)])
    inputs = open_inputs(source, schema.dialect, most)
    connection = connect_reading()
    readings = [(TypedReading if each.format.states_types else CsvReading)(connection, each, schema) for each in inputs]
    return Stream(name or schema.table or table_name(inputs), schema, connection, readings)


def stream_of(table: Table) -> Stream:
    """Stream the rows of a loaded table. Close the stream before the table."""
    connection = table.connection.cursor()
    connection.execute(f"USE {table.home}")
    return Stream(table.name, table.schema, connection, [_TableReading(table)])


class _TableReading(SourceReading):
    """Reading of a loaded table, which already has the schema's types."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.name, table.schema)
        self._relation = table.relation

    @property
    def casts(self) -> list[FieldCast]:
        return [FieldCast(identifier(column.name), "false") for column in self.schema.columns]

    def rows(self) -> AbstractContextManager[str]:
        return nullcontext(self._relation)

    def place(self, row: int) -> str:
        return f"{self.source}, row {row + 1}"

    def fault(self) -> InputError:
        return InputError(f"{self.source}: cannot be read")


def _wider(extent: Extent | None, values: Sequence[Any]) -> Extent | None:
    if values[0] is None:
        return extent
    least, middle, largest = map(float, values)
    if extent is None:
        return Extent(least, middle, largest)
    return Extent(min(extent.least, least), extent.middle, max(extent.largest, largest))
