"""Files read under their schema into one in-memory DuckDB table. Nothing is written to disk."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO, Protocol

import duckdb

from cleave.table.casts import broken_by, declared, figures_of, outside, read_under, row_of, too_large
from cleave.table.derived import Derived
from cleave.table.duck import connect_reading, create_of_texts, identifier
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name
from cleave.table.progress import Progress, shown
from cleave.table.schema import Column, Schema
from cleave_shared import limits
from cleave_shared.errors import InputError, QueryRefused

LEAST_MEMORY = 32_000_000  # bytes: DuckDB does not start with less
_BATCH = 50  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly


class Stream(Protocol):
    """Rows that DuckDB reads as Arrow: made meanwhile (cleave.store.columns.Batches), or there already (Batch)."""

    @property
    def failure(self) -> BaseException | None: ...

    @property
    def named(self) -> int:
        """How often a statement, or a view, named it."""
        ...

    def hold(self, most: int | None) -> int | None: ...

    def close(self) -> None: ...


class Engine:
    """A DuckDB of its own in memory, for one table after another, that reads and writes no file but two in memory.

    `memory`: bytes that DuckDB may take, up to half of them for rows that are held for it; None: as DuckDB decides.
    Raises InputError for too little.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None, memory: int | None = None) -> None:
        if memory is not None and memory < LEAST_MEMORY:
            raise InputError(f"a query cannot be answered in less than {LEAST_MEMORY // 10**6} MB of memory")
        self.connection = connection or connect_reading()
        self.memory = memory
        self.taken, self.written = (os.memfd_create("parquet") for _ in range(2))
        self.close = weakref.finalize(self, _close, self.connection, self.taken, self.written)
        self.close.atexit = False
        self.taking = threading.Lock()  # one Parquet file at a time
        self._numbers = itertools.count()
        paths = ", ".join(f"'{_path(each)}'" for each in (self.taken, self.written))
        self.connection.execute(f"SET allowed_paths = [{paths}]")
        self.connection.execute("SET enable_external_access = false")
        if memory is not None:
            self.limit(memory)

    def limit(self, memory: int) -> None:
        """Let DuckDB take at most `memory` bytes, what it has included."""
        self.connection.execute(f"SET memory_limit = '{memory} bytes'")

    def table(self, name: str, schema: Schema, rows: int = 0) -> Table:
        """A table whose relation is still to be made, in a database of its own."""
        home = identifier(f"rows {next(self._numbers)}")
        if self.memory is not None:
            self.limit(self.memory)
        connection = self.connection.cursor()
        connection.execute(f"ATTACH ':memory:' AS {home}; USE {home}; SET enable_progress_bar = false")
        return Table(name, schema, connection, rows, self, home)

    def refusal(self) -> InputError | QueryRefused:
        """The error for a question that needs more memory than it may take."""
        if self.memory is None:
            return InputError("the answer does not fit in memory", hint="ask for fewer rows, or for aggregates")
        return QueryRefused(
            f"it needs more memory than the {self.memory / 1e9:.3g} GB it may take, and nothing is put on a disk",
            hint="raise --memory (memory= in Python), or ask for fewer rows, fewer columns or aggregates",
        )


def _close(connection: duckdb.DuckDBPyConnection, *files: int) -> None:
    with suppress(duckdb.Error):  # something left to end by itself is still at work
        connection.close()
    for each in files:
        os.close(each)


class Table:
    """`relation` in `connection` holds the rows in the order of the files, columns named and typed by the schema."""

    relation = "source"

    def __init__(
        self,
        name: str,
        schema: Schema,
        connection: duckdb.DuckDBPyConnection,
        rows: int,
        engine: Engine,
        home: str = "memory",
    ) -> None:
        """`home`: the database with all relations but views; where it is not `memory`, it is detached."""
        self.name = name
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self.engine = engine
        self.home = home
        self.others: dict[str, str] = {}  # of further tables: name -> relation
        self.derived_of_others: dict[str, tuple[Derived, ...]] = {}
        self._streams: dict[str, Stream] = {}  # by name, of joined tables too
        self._views: dict[str, tuple[str, str]] = {}  # relation -> name of a stream, and SQL over it

    def add(self, name: str, other: Table) -> None:
        """Keep a copy of `other` beside this table, for questions that name both. Raises QueryRefused."""
        relation = f"other{len(self.others)}"
        try:
            self.take(relation, other.parquet_of([column.name for column in other.schema.columns]))
        except duckdb.OutOfMemoryException:
            raise self.engine.refusal() from None
        for column in other.schema.columns:
            if column.type == "INTERVAL":
                self.connection.execute(f"ALTER TABLE {relation} ALTER {identifier(column.name)} TYPE INTERVAL")
        self.others[name] = relation
        self.derived_of_others[name] = other.schema.derived

    def add_texts(self, name: str, columns: Sequence[tuple[str, str, Sequence[str | None]]]) -> None:
        """Make a further table of columns (name, type, values), whose values are DuckDB's text of them."""
        relation = f"other{len(self.others)}"
        create_of_texts(self.connection, relation, columns)
        self.others[name] = relation
        self.derived_of_others[name] = ()

    def take(self, relation: str, content: bytes) -> None:
        """Make `relation` of a Parquet file that is on no disk."""
        self.connection.execute(f"CREATE TABLE {relation} AS FROM {self.source_of(content)}")

    def source_of(self, content: bytes) -> str:
        """SQL that reads a Parquet file which is on no disk. It is valid until another file is taken."""
        os.ftruncate(self.engine.taken, 0)
        os.pwrite(self.engine.taken, content, 0)
        return f"read_parquet('{_path(self.engine.taken)}')"

    def show(self, name: str, stream: Stream, view: str) -> None:
        """Make the relation a view (its SQL) over a stream, called `name`: it is read when the relation is."""
        self._streams[name] = stream
        self._views[self.relation] = name, view
        self._prepare(self.connection, self.relation)

    def fill(self, name: str, stream: Stream, select: str) -> None:
        """Make the relation of what `select` reads of a stream, called `name`. Raises QueryRefused."""
        self._streams[name] = stream
        self.connection.register(name, stream)
        try:
            self.connection.execute(f"CREATE TABLE {self.relation} AS {select}")
        except duckdb.OutOfMemoryException:
            raise self.engine.refusal() from None
        finally:
            self.connection.unregister(name)

    @property
    def streamed(self) -> bool:
        """Check whether a scan reads and opens rows."""
        return bool(self._views)

    def hold_repeated(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Open now the rows that `sql` would have DuckDB read more than once, in up to half of the memory.

        Raises QueryRefused; duckdb.Error for SQL that cannot be planned.
        """
        streams = [self._streams[name] for name, _ in self._views.values()]
        before = [each.named for each in streams]
        (plan,) = (str(text) for _, text in connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall())
        named = [each.named - known for each, known in zip(streams, before, strict=True)]
        scanned = plan.count('"name": "PYTHON_ARROW_SCAN"')
        every = scanned > sum(named) or '"name": "REC_CTE"' in plan  # a scan for each of several uses or steps
        repeated = [each for each, times in zip(streams, named, strict=True) if times > 1 or every]
        memory = self.engine.memory
        half = left = None if memory is None else memory // 2
        for each in repeated:
            size = each.hold(left)
            if size is None:
                raise self.engine.refusal()
            left = None if left is None else left - size
        if repeated and half is not None:
            self.engine.limit(half)

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let another connection to the same database see the relations."""
        for relation in self._views:
            self._prepare(connection, relation)

    def _prepare(self, connection: duckdb.DuckDBPyConnection, relation: str) -> None:
        name, view = self._views[relation]
        connection.register(name, self._streams[name])
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {relation} AS {view}")

    def qualified(self, relation: str) -> str:
        """Its name with that of the catalog it is in."""
        return f"{'temp' if relation in self._views else self.home}.main.{identifier(relation)}"

    def join(self, name: str, schema: Schema) -> Table:
        """A further table, for questions that name both, whose relation is still to be made in this database. It is
        closed with this one.
        """
        found = Table(name, schema, self.connection, 0, self.engine, self.home)
        found.relation = self.others[name] = f"other{len(self.others)}"
        found._streams, found._views = self._streams, self._views
        self.derived_of_others[name] = schema.derived
        return found

    def parquet_of(self, names: Sequence[str]) -> bytes:
        """Return columns of it as `parquet` does.

        Intervals go as their text: Parquet has no sign and no microseconds.
        """
        selected = ", ".join(portable(self.schema.column(name)) for name in names)
        return self.parquet(f"SELECT {selected} FROM {self.relation}")

    @contextmanager
    def beside(self) -> Iterator[Table]:
        """The same rows by another connection, for another thread. One at a time may make files."""
        with closing(self.connection.cursor()) as connection:
            connection.execute(f"USE {self.home}")
            self.prepare(connection)
            yield Table(self.name, self.schema, connection, self.rows, self.engine)

    def parquet(self, select: str) -> bytes:
        """Return the rows of `select`, in its order, as a Parquet file that never was on a disk.

        Of some rows of a table by their rowid: DuckDB takes ten times as long for LIMIT and OFFSET.
        """
        return self._copied(select, "FORMAT parquet, COMPRESSION zstd")

    def append_csv(self, file: BinaryIO, *, header: bool) -> None:
        """All of it as CSV at the end of `file`: NULL as an empty field and an empty text as two quotes."""
        self._copy(f"SELECT * FROM {self.relation}", f"FORMAT csv, HEADER {str(header).lower()}")
        os.lseek(self.engine.written, 0, os.SEEK_SET)
        with open(self.engine.written, "rb", closefd=False) as written:
            shutil.copyfileobj(written, file, 1 << 20)

    def _copied(self, sql: str, how: str) -> bytes:
        self._copy(sql, how)
        return os.pread(self.engine.written, os.fstat(self.engine.written).st_size, 0)

    def _copy(self, sql: str, how: str) -> None:
        self.connection.execute(f"COPY ({sql}) TO '{_path(self.engine.written)}' ({how}, USE_TMP_FILE false)")

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._streams.values():
            each.close()
        with suppress(duckdb.Error):  # something left to end by itself is still at work
            if self.home == "memory":
                self.engine.close()
            else:
                self.connection.execute(f"USE memory; DETACH {self.home}")
                self.connection.close()
        failures = [each.failure for each in self._streams.values() if each.failure is not None]
        if failures:  # whatever DuckDB made of it
            raise failures[0] from None


def portable(column: Column) -> str:
    """SQL of the column as it goes through Arrow or Parquet: intervals as text, of which neither has all."""
    name = identifier(column.name)
    return f"CAST({name} AS VARCHAR) AS {name}" if column.type == "INTERVAL" else name


def no_table(name: str, schema: Schema, rows: int = 0) -> Table:
    """A table whose relation is still to be made, of `rows` rows."""
    engine = Engine()
    return Table(name, schema, engine.connection, rows, engine)


def _path(file: int) -> str:
    return f"/proc/self/fd/{file}"


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
    connection = connect_reading()
    try:
        parts: list[tuple[Input | Frame, int]] = []
        for source in inputs:
            with shown(progress, connection, f"read {source}"):
                parts.append((source, _append(connection, source, schema, first=not parts)))
        rows = sum(count for _, count in parts)
        if rows > limits.MAX_JOB_ROWS:
            raise InputError(f"{inputs[0]}: has {rows} rows, at most {limits.MAX_JOB_ROWS} are supported")
        _check_declared(connection, parts, schema, rows)
        engine = Engine(connection)
    except BaseException:
        connection.close()
        raise
    return Table(name, schema, connection, rows, engine)


def _append(connection: duckdb.DuckDBPyConnection, source: Input | Frame, schema: Schema, *, first: bool) -> int:
    """The rows of one file, appended to the table. Returns their number."""
    reading = read_under(connection, source, schema)
    into = f"CREATE TABLE {Table.relation} AS" if first else f"INSERT INTO {Table.relation}"
    problem = None
    with reading.rows as rows:
        try:
            (appended,) = connection.execute(f"{into} SELECT {reading.values(schema)} FROM {rows}").fetchall()[0]
        except duckdb.OutOfMemoryException:
            problem = "memory"
        except duckdb.Error:
            problem = "content"  # DuckDB's message quotes the line: it is neither kept nor chained
    if problem == "memory":
        raise too_large(source)
    if problem:
        raise reading.explain()
    return int(appended)


def _check_declared(
    connection: duckdb.DuckDBPyConnection, parts: Sequence[tuple[Input | Frame, int]], schema: Schema, rows: int
) -> None:
    """Refuse what the schema rules out: a value outside stated bounds, a NULL where there may be none.

    `parts`: each source and how many rows it has.
    """
    columns = declared(schema)
    for start in range(0, len(columns), _BATCH):
        batch = columns[start : start + _BATCH]
        figures = ", ".join(map(figures_of, batch))
        found = connection.execute(f"SELECT {figures} FROM {Table.relation}").fetchall()[0]
        for column, filled, least, most in zip(batch, found[::3], found[1::3], found[2::3], strict=True):
            if broken := broken_by(column, rows - filled, least, most):
                row = row_of(connection, f"SELECT {identifier(column.name)} AS field FROM {Table.relation}", broken)
                for source, count in parts:
                    if row < count:
                        raise outside(source, schema, column, broken, row)
                    row -= count
