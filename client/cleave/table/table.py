"""Tables in an in-memory DuckDB. Nothing is written to disk."""

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
from cleave.table.duck import connect_reading, create_of_texts, identifier, set_progress
from cleave.table.progress import watched
from cleave.table.schema import Column, Schema
from cleave_shared.errors import InputError, NotComputable, QueryRefused

FLUSHED = "16MB"  # DuckDB returns memory to the system once this much is free; its default is 512 MB
LEAST_MEMORY = 32_000_000  # bytes: DuckDB does not start with less
_CHANGED = (
    "arrow_large_buffer_size",
    "arrow_output_version",
    "allocator_bulk_deallocation_flush_threshold",
)
_DATABASES = "SELECT count(*) FROM duckdb_databases() WHERE NOT internal"
# File descriptors that hold Parquet for an engine. An engine may read these and two others only
_FIRST_HELD, _MOST_HELD = 512, 64
_SECONDS = 0.02  # between two checks of the size of a growing file
_MOST_IDLE = 3  # pooled engines (one change uses 3): opening and closing one takes 17 ms
_idle: dict[int, list[Engine]] = {}  # by process id: a forked process opens its own
_ranges: set[int] = set()  # of those descriptors, in use by engines; 0 is the first range
_dividing = threading.RLock()  # reentrant: the garbage collector may close an engine while another opens


class ArrowRows:
    """Rows that DuckDB reads as Arrow. This base class is for rows in memory: they never fail, and scans cost
    nothing.
    """

    failure: BaseException | None = None
    named = 0  # how often a statement or a view names it

    def hold(self, most: int | None) -> int | None:  # noqa: ARG002 - rows are already in memory
        """Load the rows for repeated scans. Returns their size in bytes, or None if that is over `most`."""
        return 0

    def close(self) -> None:
        """End running scans."""


class MemoryFile:
    """A Parquet file in memory. An engine can read it only as a HeldFile."""

    def __init__(self, number: int) -> None:
        """`number`: an open file descriptor. This object closes it."""
        self.number = number
        self.bytes = os.fstat(number).st_size
        self.close = weakref.finalize(self, os.close, number)


class HeldFile:
    """A Parquet file in memory that one engine may read until it is closed. No one else can change it."""

    def __init__(self, engine: Engine, content: MemoryFile | None = None) -> None:
        """`content`: the file; None makes a new, empty one.

        Raises OSError (EMFILE) if the engine holds too many files, or the process has too many open.
        """
        number = os.memfd_create("parquet") if content is None else content.number
        try:
            self._number = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, engine.held.start)
        except OSError:  # EINVAL: the process's limit is lower
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
class StreamView:
    """SQL over `streams`, which have names. `ordered`: SQL that reads the same rows in order.

    `none`: SQL without rows that DuckDB estimates at the stream's real size. Otherwise DuckDB expects one row, and
    orders joins badly.
    """

    streams: Mapping[str, ArrowRows]
    sql: str
    ordered: str
    none: str = ""


class Engine:
    """An in-memory DuckDB for one table after another. The only files it can read or write are its memory files."""

    memory: int | None = None  # bytes for DuckDB, up to half of them for rows that are loaded for it

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        self.connection = connection or connect_reading()
        self.taken, self.written = _empty_file(), _empty_file()
        with _dividing:
            place = next(each for each in itertools.count() if each not in _ranges)
            _ranges.add(place)
        self.held = range(_FIRST_HELD + place * _MOST_HELD, _FIRST_HELD + (place + 1) * _MOST_HELD)
        self.close = weakref.finalize(self, _close, self.connection, place, self.taken, self.written)
        self.close.atexit = False
        self.taking = threading.Lock()  # one Parquet file is read at a time
        self._numbers = itertools.count()
        self._ordering = threading.Lock()
        self._limit: int | None = None  # bytes; None: DuckDB's default
        self._in_order = 0  # nesting depth of `in_order`
        paths = [_path(each) for each in (self.taken, self.written, *self.held)]
        self.connection.execute("SET allowed_paths = $paths", {"paths": paths})
        self.connection.execute("SET enable_external_file_cache = false")  # a descriptor is reused for other files
        self.connection.execute("SET enable_external_access = false")

    def limit(self, memory: int) -> None:
        """Limit DuckDB to `memory` bytes, including what it uses now."""
        if memory != self._limit:  # otherwise DuckDB would return free memory to the system, in up to 10 ms
            self.connection.execute(f"SET memory_limit = '{memory} bytes'")
            self._limit = memory

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Let DuckDB use one thread within the block, so that it reads rows in order."""
        with self._ordering:
            self._in_order += 1
            if self._in_order == 1:
                self.connection.execute("SET threads = 1; SET async_threads = 0")
        try:
            yield
        finally:
            with self._ordering:
                self._in_order -= 1
                if not self._in_order:  # an interrupted question may end after the next began
                    with suppress(duckdb.Error):  # an internal error may have shut down the whole instance
                        self.connection.execute("RESET threads; RESET async_threads")

    @classmethod
    def idle(cls, memory: int | None = None) -> Engine:
        """Return an idle engine, or a new one. `memory`: maximum bytes; None: DuckDB's default.

        Raises InputError if `memory` is too small.
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
        """Return the engine to the pool, without its tables' data, if all of them are closed; else close it."""
        others = _idle.setdefault(os.getpid(), [])
        with suppress(duckdb.Error):  # an internal error may have shut down the whole instance
            ((databases,),) = self.connection.execute(_DATABASES).fetchall()
            is_sealed = fcntl.fcntl(self.written, fcntl.F_GET_SEALS) != 0  # a write was stopped before it was taken
            if databases == 1 and len(others) < _MOST_IDLE and not is_sealed:
                for setting in _CHANGED:
                    self.connection.execute(f"RESET {setting}")
                for each in (self.taken, self.written):
                    os.ftruncate(each, 0)
                others.append(self)
                return
        self.close()

    def table(self, name: str, schema: Schema, rows: int = 0, *, alone: bool = False) -> Table:
        """A table in a database of its own. Its relation does not exist yet. `alone`: the engine ends with the
        table.
        """
        home = identifier(f"rows {next(self._numbers)}")
        if self.memory is not None:
            self.limit(self.memory)
        connection = self.connection.cursor()
        connection.execute(f"ATTACH ':memory:' AS {home}; USE {home}")
        set_progress(connection, is_on=False)
        return Table(name, schema, connection, rows, self, home, alone=alone)

    def take_written(self) -> MemoryFile:
        """Return the last written file. The next one is written elsewhere.

        Raises OSError (EMFILE) if its descriptor would be in the range that engines can read.
        """
        file = MemoryFile(fcntl.fcntl(self.written, fcntl.F_DUPFD_CLOEXEC, 0))
        empty = _empty_file()
        os.dup2(empty, self.written, inheritable=False)
        os.close(empty)
        if file.number >= _FIRST_HELD:
            file.close()
            raise _too_many_files()
        return file

    def refusal(self) -> NotComputable | QueryRefused:
        """The error for a question that exceeds the memory limit."""
        if self.memory is None:
            return NotComputable("the answer does not fit in memory", hint="select fewer rows, or aggregates")
        return QueryRefused(
            f"it needs more memory than the {self.memory / 1e9:.3g} GB it may take, and nothing is put on a disk",
            hint="raise --memory (memory= in Python), or select fewer rows, fewer columns or aggregates",
        )


def _close(connection: duckdb.DuckDBPyConnection, place: int, *files: int) -> None:
    with suppress(duckdb.Error):  # an interrupted statement still runs
        connection.close()
    with _dividing:
        _ranges.discard(place)
    for each in files:
        os.close(each)


class Table:
    """`relation` in `connection` has the rows in the order of the files, with the schema's names and types."""

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
        """`home`: the database of all relations except views. It is detached at the end unless it is "memory".

        `alone`: the engine has no other table.
        """
        self.name = name
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self.engine = engine
        self.home = home
        self._alone = alone
        self.others: dict[str, str] = {}  # further tables: name -> relation
        self.derived_of_others: dict[str, tuple[Derived, ...]] = {}
        self._streams: dict[str, ArrowRows] = {}  # by name, including those of joined tables
        self._views: dict[str, StreamView] = {}  # by relation, including those of joined tables
        self._closing = ExitStack()  # shared with joined tables

    def add(self, name: str, other: Table) -> None:
        """Copy `other` into this table's database, for questions over both. Raises QueryRefused."""
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
        """Add a further table from columns of (name, type, values as DuckDB's text)."""
        relation = f"other{len(self.others)}"
        create_of_texts(self.connection, relation, columns)
        self.others[name] = relation
        self.derived_of_others[name] = ()

    def take(self, relation: str, content: bytes) -> None:
        """Create `relation` from a Parquet file in memory."""
        self.connection.execute(f"CREATE TABLE {relation} AS FROM {self.source_of(content)}")

    def source_of(self, content: bytes) -> str:
        """SQL that reads a Parquet file in memory. It is valid until the next file."""
        os.pwrite(self.engine.taken, content, 0)  # over the last file: new memory would first be zeroed
        os.ftruncate(self.engine.taken, len(content))
        return f"read_parquet('{_path(self.engine.taken)}')"

    def expose(self, view: StreamView) -> None:
        """Make the relation a view over streams. Rows come in order unless `prepare` says otherwise."""
        self._streams |= view.streams
        self._views[self.relation] = view
        self._prepare(self.connection, self.relation, ordered=True)

    def at_end(self, work: Callable[[], object]) -> None:
        """Call `work` when the table closes."""
        self._closing.callback(work)

    def select(self, file: MemoryFile) -> None:
        """Make the relation a view of the schema's columns in `file`, which stores intervals as text.

        Raises OSError (EMFILE) like HeldFile.
        """
        held = HeldFile(self.engine, file)
        self.at_end(held.close)
        typed = [(identifier(each.name), each.type) for each in self.schema.columns]
        columns = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in typed)
        self.connection.execute(f"CREATE VIEW {self.relation} AS SELECT {columns} FROM {read_parquet([held])}")

    def fill(self, streams: Mapping[str, ArrowRows], select: str) -> None:
        """Create the relation from `select`, which names the streams. Raises QueryRefused."""
        with self._registered(streams):
            self.connection.execute(f"CREATE TABLE {self.relation} AS {select}")

    def write(self, streams: Mapping[str, ArrowRows], select: str, most: int) -> MemoryFile:
        """Return a memory file with the rows of `select`, which names the streams, in its order.

        Raises QueryRefused if it exceeds `most` bytes or DuckDB's memory, OSError (EMFILE), and
        duckdb.InterruptException if other code interrupts it.
        """
        is_larger = False

        def look() -> None:
            nonlocal is_larger
            if os.fstat(self.engine.written).st_size > most:
                is_larger = True
                # its next write fails; DuckDB 2.0.0 may wait for ever for writes under way if it is interrupted
                fcntl.fcntl(self.engine.written, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)

        with self._registered(streams), watched(look, lambda: _SECONDS):
            try:
                # DuckDB reads uncompressed pages faster
                self._copy(select, "FORMAT parquet, COMPRESSION uncompressed")
            except duckdb.Error:
                if not is_larger:
                    raise
        file = self.engine.take_written()
        if is_larger or file.bytes > most:
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
        """True if a scan reads and decrypts rows when it runs."""
        return bool(self._views)

    def hold_repeated(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Load the rows that DuckDB would read more than once for `sql`, up to half of the memory.

        Raises QueryRefused, and duckdb.Error for SQL that cannot be planned.
        """
        streams = [stream for view in self._views.values() for stream in view.streams.values()]
        before = [each.named for each in streams]
        (plan,) = (str(text) for _, text in connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall())
        named = [each.named - earlier for each, earlier in zip(streams, before, strict=True)]
        scanned = plan.count('"name": "PYTHON_ARROW_SCAN"')
        # one scan for each of several uses or recursion steps
        every = scanned > sum(named) or '"name": "REC_CTE"' in plan
        repeated = [each for each, times in zip(streams, named, strict=True) if times > 1 or every]
        memory = self.engine.memory
        half = left = None if memory is None else memory // 2
        for relation in repeated:
            size = relation.hold(left)
            if size is None:
                raise self.engine.refusal()
            left = None if left is None else left - size
        if repeated and half is not None:
            self.engine.limit(half)

    def prepare(self, connection: duckdb.DuckDBPyConnection, *, ordered: bool = True) -> None:
        """Create the views in another connection to the same database. `ordered` False: rows come in any order."""
        for relation in self._views:
            self._prepare(connection, relation, ordered=ordered)

    def _prepare(self, connection: duckdb.DuckDBPyConnection, relation: str, *, ordered: bool) -> None:
        view = self._views[relation]
        for name, stream in view.streams.items():
            connection.register(name, stream)
        sql = view.ordered if ordered else view.sql
        if view.none and self.others and not ordered:
            # in this order: DuckDB takes its estimate of distinct values from the first
            sql = f"{view.none} UNION ALL {sql}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {relation} AS {sql}")

    def qualified(self, relation: str) -> str:
        """Return the relation's name, qualified with its catalog."""
        return f"{'temp' if relation in self._views else self.home}.main.{identifier(relation)}"

    def join(self, name: str, schema: Schema) -> Table:
        """Add a further table in this database, for questions over both. Its relation does not exist yet. It is closed
        with this table.
        """
        table = Table(name, schema, self.connection, 0, self.engine, self.home)
        table.relation = self.others[name] = f"other{len(self.others)}"
        table._streams, table._views, table._closing = self._streams, self._views, self._closing
        self.derived_of_others[name] = schema.derived
        return table

    def parquet_of(self, names: Sequence[str]) -> bytes:
        """Return these columns as a Parquet file, see `parquet`.

        Intervals become text: Parquet's have no sign and no microseconds.
        """
        selected = ", ".join(portable(self.schema.column(name)) for name in names)
        return self.parquet(f"SELECT {selected} FROM {self.relation}")

    @contextmanager
    def beside(self) -> Iterator[Table]:
        """The same rows over another connection, for another thread. Only one of them may write files at a time."""
        with closing(self.connection.cursor()) as connection:
            connection.execute(f"USE {self.home}")
            self.prepare(connection)
            yield Table(self.name, self.schema, connection, self.rows, self.engine)

    def parquet(self, select: str) -> bytes:
        """Return the rows of `select`, in order, as a Parquet file made in memory.

        Select a part of a table by rowid: LIMIT with OFFSET takes DuckDB ten times as long.
        """
        self._copy(select, "FORMAT parquet, COMPRESSION zstd")
        return os.pread(self.engine.written, os.fstat(self.engine.written).st_size, 0)

    def append_csv(self, file: BinaryIO, *, header: bool) -> None:
        """Append all rows to `file` as CSV: NULL is an empty field, an empty text is ""."""
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
        with suppress(duckdb.Error):  # an interrupted statement still runs
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
        if failures:  # whatever error DuckDB raised for it
            raise failures[0] from None


def read_parquet(files: Sequence[HeldFile]) -> str:
    """SQL that reads files with the same columns one after the other. It is valid while they are open."""
    paths = ", ".join(f"'{each.path}'" for each in files)
    return f"read_parquet([{paths}], hive_partitioning = false)"


def no_rows(columns: Sequence[Column], expected: int) -> str:
    """SELECT without rows. DuckDB estimates it at `expected` rows."""
    nulls = ", ".join(f"CASE WHEN rows < 0 THEN NULL::{each.type} END AS {identifier(each.name)}" for each in columns)
    one = "(SELECT range FROM range(5) WHERE range < 0)"  # DuckDB estimates a fifth of five rows; it finds none
    return f"SELECT {nulls} FROM range({expected}) AS numbers(rows) CROSS JOIN {one} AS one"


def portable(column: Column) -> str:
    """SQL of the column for Arrow or Parquet. Intervals become text, because neither format holds all of them."""
    name = identifier(column.name)
    return f"CAST({name} AS VARCHAR) AS {name}" if column.type == "INTERVAL" else name


def no_table(name: str, schema: Schema, rows: int = 0, memory: int | None = None) -> Table:
    """A table of `rows` rows whose relation does not exist yet. `memory`: maximum bytes of its engine."""
    return Engine.idle(memory).table(name, schema, rows, alone=True)


def _empty_file() -> int:
    return os.memfd_create("parquet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _path(file: int) -> str:
    return f"/proc/self/fd/{file}"
