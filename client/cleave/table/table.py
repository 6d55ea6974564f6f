"""Files read under their schema into one in-memory DuckDB table. Nothing is written to disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from types import TracebackType
from typing import BinaryIO

from cleave.table.casts import read_under, too_large
from cleave.table.declared import Broken, broken_by, declared, figures_of, outside, row_of
from cleave.table.derived import Derived
from cleave.table.duck import connect_reading, identifier
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name
from cleave.table.reading import Progress, shown
from cleave.table.schema import Column, Schema
from cleave_shared import duckdb, limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError

_BATCH = 50  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly


class Table:
    """`relation` in `connection` holds the rows in the order of the files, columns named and typed by the schema."""

    relation = "source"
    catalog = "memory"  # that the relation is in

    def __init__(
        self, name: str, schema: Schema, connection: duckdb.DuckDBPyConnection, rows: int, scratch: int
    ) -> None:
        self.name = name
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self.others: dict[str, str] = {}  # of further tables: name -> relation
        self.derived_of_others: dict[str, tuple[Derived, ...]] = {}
        self._scratch = scratch
        self._streams: dict[str, object] = {}
        self._view = ""

    def add(self, name: str, other: Table) -> None:
        """Keep a copy of `other` beside this table, for questions that name both."""
        relation = f"other{len(self.others)}"
        self.take(relation, other.parquet_of([column.name for column in other.schema.columns]))
        for column in other.schema.columns:
            if column.type == "INTERVAL":
                self.connection.execute(f"ALTER TABLE {relation} ALTER {identifier(column.name)} TYPE INTERVAL")
        self.others[name] = relation
        self.derived_of_others[name] = other.schema.derived

    def take(self, relation: str, content: bytes) -> None:
        """Make `relation` of a Parquet file that is on no disk."""
        self.connection.execute(f"CREATE TABLE {relation} AS FROM {self.source_of(content)}")

    def source_of(self, content: bytes) -> str:
        """SQL that reads a Parquet file which is on no disk. It is valid until another file is taken or made here."""
        os.ftruncate(self._scratch, 0)
        os.pwrite(self._scratch, content, 0)
        return f"read_parquet('{_scratch_path(self._scratch)}')"

    def show(self, streams: Mapping[str, object], view: str) -> None:
        """Make the relation a view (its SQL) over `streams` of Arrow arrays, by name: nothing is copied."""
        self._streams, self._view, self.catalog = dict(streams), view, "temp"
        self.prepare(self.connection)

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let another connection to the same database see the relation."""
        for name, stream in self._streams.items():
            connection.register(name, stream)
        if self._view:
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {self.relation} AS {self._view}")

    def of_rows(self, relation: str, rows: int) -> Table:
        """Another relation of the same connection as a table. It is closed with this one."""
        found = Table(self.name, self.schema, self.connection, rows, self._scratch)
        found.relation = relation
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
            self.prepare(connection)
            yield Table(self.name, self.schema, connection, self.rows, self._scratch)

    def parquet(self, select: str) -> bytes:
        """What `select` gives, in its order, as a Parquet file that never was on a disk.

        Of some rows of a table by their rowid: DuckDB takes ten times as long for LIMIT and OFFSET.
        """
        return self._copied(select, "FORMAT parquet, COMPRESSION zstd")

    def append_csv(self, file: BinaryIO, *, header: bool) -> None:
        """All of it as CSV at the end of `file`: NULL as an empty field and an empty text as two quotes."""
        self._copy(f"SELECT * FROM {self.relation}", f"FORMAT csv, HEADER {str(header).lower()}")
        os.lseek(self._scratch, 0, os.SEEK_SET)
        with open(self._scratch, "rb", closefd=False) as written:
            shutil.copyfileobj(written, file, 1 << 20)

    def _copied(self, sql: str, how: str) -> bytes:
        self._copy(sql, how)
        return os.pread(self._scratch, os.fstat(self._scratch).st_size, 0)

    def _copy(self, sql: str, how: str) -> None:
        self.connection.execute(f"COPY ({sql}) TO '{_scratch_path(self._scratch)}' ({how}, USE_TMP_FILE false)")

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(duckdb.Error):  # something left to end by itself is still at work
            self.connection.close()
        os.close(self._scratch)


def portable(column: Column) -> str:
    """SQL of the column as it goes through Arrow or Parquet: intervals as text, of which neither has all."""
    name = identifier(column.name)
    return f"CAST({name} AS VARCHAR) AS {name}" if column.type == "INTERVAL" else name


def no_table(name: str, schema: Schema, rows: int = 0) -> Table:
    """A table whose relation is still to be made, of `rows` rows."""
    connection = connect_reading()
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
    connection = connect_reading()
    scratch = os.memfd_create("parquet")
    try:
        parts: list[Part] = []
        for source in inputs:
            with shown(progress, connection, f"read {source}"):
                parts.append(Part(source, _append(connection, source, schema, first=not parts)))
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


def _check_declared(connection: duckdb.DuckDBPyConnection, parts: Sequence[Part], schema: Schema, rows: int) -> None:
    """Refuse what the schema rules out: a value outside stated bounds, a NULL where there may be none."""
    columns = declared(schema)
    for start in range(0, len(columns), _BATCH):
        batch = columns[start : start + _BATCH]
        figures = ", ".join(map(figures_of, batch))
        found = connection.execute(f"SELECT {figures} FROM {Table.relation}").fetchall()[0]
        for column, filled, least, most in zip(batch, found[::3], found[1::3], found[2::3], strict=True):
            if broken := broken_by(column, rows - filled, least, most):
                row = row_of(connection, f"SELECT {identifier(column.name)} AS field FROM {Table.relation}", broken)
                raise _outside(parts, schema, column, broken, row)


def _outside(parts: Sequence[Part], schema: Schema, column: Column, broken: Broken, row: int) -> InputError:
    before = 0
    for part in parts:
        if row < before + part.rows:
            break
        before += part.rows
    return outside(part.source, schema, column, broken, row - before)
