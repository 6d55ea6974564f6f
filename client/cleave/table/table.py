"""Tables in DuckDB, in memory: nothing is written to disk."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

import duckdb

from cleave.table.derived import Derived
from cleave.table.duck import connect_reading, create_of_texts, identifier
from cleave.table.progress import watched
from cleave.table.schema import Column, Schema
from cleave_shared.errors import InputError, QueryRefused

FLUSHED = "16MB"  # DuckDB returns memory once so much is free; its default of 512 MB keeps more
LEAST_MEMORY = 32_000_000  # bytes: DuckDB does not start with less
_CHANGED = (
    "arrow_large_buffer_size",
    "arrow_output_version",
    "allocator_bulk_deallocation_flush_threshold",
)
_DATABASES = "SELECT count(*) FROM duckdb_databases() WHERE NOT internal"
_FIRST_HELD, _MOST_HELD = 512, 64  # numbers of files that hold Parquet for an engine: it may read no others but two
_SECONDS = 0.02  # between two looks at the size of a file that is written
_MOST_IDLE = 3  # engines, as many as one change uses at once: opening and closing one takes 17 ms
_idle: dict[int, list[Engine]] = {}  # by process: one that is forked opens its own
_ranges: set[int] = set()  # of those numbers, in use by engines: 0 is the first
_dividing = threading.RLock()  # the collector may close an engine while another begins


class ArrowRows:
    """Rows that DuckDB reads as Arrow. Of those that are there already nothing fails, and any scan is free."""

    failure: BaseException | None = None
    named = 0  # how often a statement, or a view, named it

    def hold(self, most: int | None) -> int | None:  # noqa: ARG002 - they are held
        """Have them ready for several scans. Return their bytes, None where these are over `most`."""
        return 0

    def close(self) -> None:
        """End scans that are under way."""


class MemoryFile:
    """A Parquet file in memory that no engine may read, unless it is held for one."""

    def __init__(self, number: int) -> None:
        """`number`: an open file, which this one closes."""
        self.number = number
        self.bytes = os.fstat(number).st_size
        self.close = weakref.finalize(self, os.close, number)


class HeldFile:
    """A Parquet file in memory that one engine may read until it is closed. Nobody else can change it."""

    def __init__(self, engine: Engine, content: MemoryFile | None = None) -> None:
        """`content`: the file; None: a new, empty one.

        Raises OSError (EMFILE) where too many are held, or the process may not have so many files.
        """
        number = os.memfd_create("parquet") if content is None else content.number
        try:
            self._number = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, engine.held.start)
        except OSError:  # EINVAL, if the limit is below
            raise _too_many_files() from None
        finally:
            if content is None:
                os.close(number)
        self._close = weakref.finalize(self, os.close, self._number)
        if self._number not in engine.held[:_MOST_HELD]:
            self.close()
            raise _too_many_files()
        self.path = _path(self._number)

    def write(self, content: bytes) -> None:
        with open(self._number, "wb", closefd=False) as file:
            file.write(content)

    def close(self) -> None:
        self._close()


def _too_many_files() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@dataclass(frozen=True, slots=True)
class View:
    """SQL over `streams`, by name. `ordered`: the same rows, read in their order.

    `none`: SQL of no rows, of which DuckDB expects as many as a stream has. Of a stream itself it expects one row, and
    would order joins by that.
    """

    streams: Mapping[str, ArrowRows]
    sql: str
    ordered: str
    none: str = ""


class Engine:
    """A DuckDB of its own in memory, for one table after another, that reads and writes no file but some in memory."""

    memory: int | None = None  # bytes that DuckDB may take, up to half of them for rows that are held for it

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        self.connection = connection or connect_reading()
        self.taken, self.written = (os.memfd_create("parquet") for _ in range(2))
        with _dividing:
            place = next(each for each in itertools.count() if each not in _ranges)
            _ranges.add(place)
        self.held = range(_FIRST_HELD + place * _MOST_HELD, _FIRST_HELD + (place + 1) * _MOST_HELD)
        self.close = weakref.finalize(self, _close, self.connection, place, self.taken, self.written)
        self.close.atexit = False
        self.taking = threading.Lock()  # one Parquet file at a time
        self._numbers = itertools.count()
        self._ordering = threading.Lock()
        self._limit: int | None = None  # bytes; None: DuckDB's own limit
        self._in_order = 0  # blocks of `in_order` under way
        paths = [_path(each) for each in (self.taken, self.written, *self.held)]
        self.connection.execute("SET allowed_paths = $paths", {"paths": paths})
        self.connection.execute("SET enable_external_file_cache = false")  # a number is of one file after another
        self.connection.execute("SET enable_external_access = false")

    def limit(self, memory: int) -> None:
        """Let DuckDB take at most `memory` bytes, what it has included."""
        if memory != self._limit:  # else DuckDB would return memory that it has free, in up to 10 ms
            self.connection.execute(f"SET memory_limit = '{memory} bytes'")
            self._limit = memory

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Have one thread do all work of DuckDB within the block: it reads rows in their order."""
        with self._ordering:
            self._in_order += 1
            if self._in_order == 1:
                self.connection.execute("SET threads = 1; SET async_threads = 0")
        try:
            yield
        finally:
            with self._ordering:
                self._in_order -= 1
                if not self._in_order:  # a question that was left to end by itself may end after the next began
                    with suppress(duckdb.Error):  # an error within DuckDB may have shut the whole of it
                        self.connection.execute("RESET threads; RESET async_threads")

    @classmethod
    def idle(cls, memory: int | None = None) -> Engine:
        """Return an idle engine, or a new one. `memory`: bytes that it may take; None: as DuckDB decides.

        Raises InputError for too little.
        """
        if memory is not None and memory < LEAST_MEMORY:
            raise InputError(f"a query cannot be answered in less than {LEAST_MEMORY // 10**6} MB of memory")
        try:
            engine = _idle.get(os.getpid(), []).pop()
        except IndexError:
            engine = cls()
        engine.memory = memory
        if memory is not None:
            engine.limit(memory)
        else:
            if engine._limit is not None:
                engine.connection.execute("RESET memory_limit")
                engine._limit = None
            engine.connection.execute(f"SET allocator_bulk_deallocation_flush_threshold = '{FLUSHED}'")
        return engine

    def end(self) -> None:
        """Keep it for the next that needs one, without anything of its tables, where all are closed; else close it."""
        others = _idle.setdefault(os.getpid(), [])
        with suppress(duckdb.Error):  # an error within DuckDB may have shut the whole of it
            ((databases,),) = self.connection.execute(_DATABASES).fetchall()
            if databases == 1 and len(others) < _MOST_IDLE:
                for setting in _CHANGED:
                    self.connection.execute(f"RESET {setting}")
                for each in (self.taken, self.written):
                    os.ftruncate(each, 0)
                others.append(self)
                return
        self.close()

    def table(self, name: str, schema: Schema, rows: int = 0, *, alone: bool = False) -> Table:
        """A table whose relation is still to be made, in a database of its own. `alone`: the engine ends with it."""
        home = identifier(f"rows {next(self._numbers)}")
        if self.memory is not None:
            self.limit(self.memory)
        connection = self.connection.cursor()
        connection.execute(f"ATTACH ':memory:' AS {home}; USE {home}; SET enable_progress_bar = false")
        return Table(name, schema, connection, rows, self, home, alone=alone)

    def take_written(self) -> MemoryFile:
        """Return the file that was written last, and write the next one elsewhere.

        Raises OSError (EMFILE) where its number would be one that engines may read.
        """
        file = MemoryFile(fcntl.fcntl(self.written, fcntl.F_DUPFD_CLOEXEC, 0))
        empty = os.memfd_create("parquet")
        os.dup2(empty, self.written, inheritable=False)
        os.close(empty)
        if file.number >= _FIRST_HELD:
            file.close()
            raise _too_many_files()
        return file

    def refusal(self) -> InputError | QueryRefused:
        """The error for a question that needs more memory than it may take."""
        if self.memory is None:
            return InputError("the answer does not fit in memory", hint="select fewer rows, or aggregates")
        return QueryRefused(
            f"it needs more memory than the {self.memory / 1e9:.3g} GB it may take, and nothing is put on a disk",
            hint="raise --memory (memory= in Python), or select fewer rows, fewer columns or aggregates",
        )


def _close(connection: duckdb.DuckDBPyConnection, place: int, *files: int) -> None:
    with suppress(duckdb.Error):  # something left to end by itself is still at work
        connection.close()
    with _dividing:
        _ranges.discard(place)
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
        *,
        alone: bool = False,
    ) -> None:
        """`home`: the database with all relations but views; where it is not `memory`, it is detached.

        `alone`: the engine has no other table.
        """
        self.name = name
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self.engine = engine
        self.home = home
        self._alone = alone
        self.others: dict[str, str] = {}  # of further tables: name -> relation
        self.derived_of_others: dict[str, tuple[Derived, ...]] = {}
        self._streams: dict[str, ArrowRows] = {}  # by name, of joined tables too
        self._views: dict[str, View] = {}  # by relation, likewise
        self._closing = ExitStack()  # likewise

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
        os.pwrite(self.engine.taken, content, 0)  # over the last one, whose memory it takes: new memory is zeroed first
        os.ftruncate(self.engine.taken, len(content))
        return f"read_parquet('{_path(self.engine.taken)}')"

    def expose(self, view: View) -> None:
        """Make the relation a view, which reads streams when it is read: in order unless `prepare` says otherwise."""
        self._streams |= view.streams
        self._views[self.relation] = view
        self._prepare(self.connection, self.relation, ordered=True)

    def at_end(self, work: Callable[[], object]) -> None:
        """Call `work` when the table is closed."""
        self._closing.callback(work)

    def select(self, file: MemoryFile) -> None:
        """Make the relation a view of the schema's columns of a file, which holds intervals as their text.

        Raises OSError (EMFILE) as holding it does.
        """
        held = HeldFile(self.engine, file)
        self.at_end(held.close)
        typed = [(identifier(each.name), each.type) for each in self.schema.columns]
        columns = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in typed)
        self.connection.execute(f"CREATE VIEW {self.relation} AS SELECT {columns} FROM {read_parquet([held])}")

    def fill(self, streams: Mapping[str, ArrowRows], select: str) -> None:
        """Make the relation of what `select` reads of streams, by name. Raises QueryRefused."""
        with self._registered(streams):
            self.connection.execute(f"CREATE TABLE {self.relation} AS {select}")

    def write(self, streams: Mapping[str, ArrowRows], select: str, most: int) -> MemoryFile:
        """Return a file of what `select` reads of streams, by name, in its order, of at most `most` bytes.

        Raises QueryRefused where it has more, or DuckDB needs more memory; OSError (EMFILE); duckdb.InterruptException
        where someone else interrupts it.
        """
        is_larger = False

        def look() -> None:
            nonlocal is_larger
            if os.fstat(self.engine.written).st_size > most:
                is_larger = True
                self.connection.interrupt()

        with self._registered(streams), watched(look, lambda: _SECONDS):
            try:
                # plain pages: DuckDB reads them in less time than compressed ones
                self._copy(select, "FORMAT parquet, COMPRESSION uncompressed")
            except duckdb.InterruptException:
                if not is_larger:
                    raise
                raise self.engine.refusal() from None
        file = self.engine.take_written()
        if file.bytes > most:
            file.close()
            raise self.engine.refusal()
        return file

    @contextmanager
    def _registered(self, streams: Mapping[str, ArrowRows]) -> Iterator[None]:
        self._streams |= streams
        for name, stream in streams.items():
            self.connection.register(name, stream)
        try:
            yield
        except duckdb.OutOfMemoryException:
            raise self.engine.refusal() from None
        finally:
            for name in streams:
                self.connection.unregister(name)

    @property
    def streamed(self) -> bool:
        """Check whether a scan reads and opens rows."""
        return bool(self._views)

    def hold_repeated(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Open now the rows that `sql` would have DuckDB read more than once, in up to half of the memory.

        Raises QueryRefused; duckdb.Error for SQL that cannot be planned.
        """
        streams = [stream for view in self._views.values() for stream in view.streams.values()]
        before = [each.named for each in streams]
        (plan,) = (str(text) for _, text in connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall())
        named = [each.named - earlier for each, earlier in zip(streams, before, strict=True)]
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

    def prepare(self, connection: duckdb.DuckDBPyConnection, *, ordered: bool = True) -> None:
        """Let another connection to the same database see the relations. `ordered` False: rows come in any order."""
        for relation in self._views:
            self._prepare(connection, relation, ordered=ordered)

    def _prepare(self, connection: duckdb.DuckDBPyConnection, relation: str, *, ordered: bool) -> None:
        view = self._views[relation]
        for name, stream in view.streams.items():
            connection.register(name, stream)
        sql = view.ordered if ordered else view.sql
        if view.none and self.others and not ordered:
            sql = f"{view.none} UNION ALL {sql}"  # in this order: DuckDB takes the numbers of values from the first
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {relation} AS {sql}")

    def qualified(self, relation: str) -> str:
        """Return a relation's name with that of its catalog."""
        return f"{'temp' if relation in self._views else self.home}.main.{identifier(relation)}"

    def join(self, name: str, schema: Schema) -> Table:
        """A further table, for questions that name both, whose relation is still to be made in this database. It is
        closed with this one.
        """
        table = Table(name, schema, self.connection, 0, self.engine, self.home)
        table.relation = self.others[name] = f"other{len(self.others)}"
        table._streams, table._views, table._closing = self._streams, self._views, self._closing
        self.derived_of_others[name] = schema.derived
        return table

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
        self._copy(select, "FORMAT parquet, COMPRESSION zstd")
        return os.pread(self.engine.written, os.fstat(self.engine.written).st_size, 0)

    def append_csv(self, file: BinaryIO, *, header: bool) -> None:
        """Append all rows as CSV to `file`: NULL as an empty field and an empty text as two quotes."""
        self._copy(f"SELECT * FROM {self.relation}", f"FORMAT csv, HEADER {str(header).lower()}")
        os.lseek(self.engine.written, 0, os.SEEK_SET)
        with open(self.engine.written, "rb", closefd=False) as written:
            shutil.copyfileobj(written, file, 1 << 20)

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
        self._closing.close()
        if self._alone:
            self._alone = False
            self.engine.end()
        failures = [each.failure for each in self._streams.values() if each.failure is not None]
        if failures:  # whatever DuckDB made of it
            raise failures[0] from None


def read_parquet(files: Sequence[HeldFile]) -> str:
    """SQL that reads files of the same columns, one after the other, until they are closed."""
    paths = ", ".join(f"'{each.path}'" for each in files)
    return f"read_parquet([{paths}], hive_partitioning = false)"


def no_rows(columns: Sequence[Column], expected: int) -> str:
    """SELECT of no rows of `columns`, of which DuckDB expects that many."""
    nulls = ", ".join(f"CASE WHEN rows < 0 THEN NULL::{each.type} END AS {identifier(each.name)}" for each in columns)
    one = "(SELECT range FROM range(5) WHERE range < 0)"  # DuckDB expects a fifth of five, and finds none first
    return f"SELECT {nulls} FROM range({expected}) AS numbers(rows) CROSS JOIN {one} AS one"


def portable(column: Column) -> str:
    """SQL of the column for Arrow or Parquet: intervals as text, since neither holds them all."""
    name = identifier(column.name)
    return f"CAST({name} AS VARCHAR) AS {name}" if column.type == "INTERVAL" else name


def no_table(name: str, schema: Schema, rows: int = 0, memory: int | None = None) -> Table:
    """A table whose relation is still to be made, of `rows` rows. `memory`: bytes that its engine may take."""
    return Engine.idle(memory).table(name, schema, rows, alone=True)


def _path(file: int) -> str:
    return f"/proc/self/fd/{file}"
