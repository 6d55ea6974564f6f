"""A new in-memory DuckDB for one request: it loads one table, then cannot access anything else.

DuckDB's messages quote SQL and cell values, so errors contain only the place and the error's class.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from itertools import accumulate

import duckdb

from cleave_shared import children, fork_server, limits
from cleave_shared.duckdb_errors import failed, span_of
from cleave_shared.errors import WireError
from cleave_shared.messages import Bytes

TABLE = "rows"
_unused: list[duckdb.DuckDBPyConnection] = []
_left: list[duckdb.DuckDBPyConnection] = []
_is_last = False


class Database:
    """A context manager: load a table, then `run`. The forking process limits time and memory (see
    cleave_services.plain.contained).

    `columns`: the table's column names in lower case. `prefix`: a start of names that no column has.
    """

    def __init__(self) -> None:
        self.prefix = f"cleave_{secrets.token_hex(8)}_"
        self.place = f"{self.prefix}place"
        self.placed = f"{self.prefix}placed"
        self.columns: frozenset[str] = frozenset()
        self._open = ExitStack()

    def __enter__(self) -> Database:
        self._connection = _unused.pop() if _unused else _opened()
        if threads() > 1:
            self._connection.execute(f"SET threads = {threads()}")  # it starts them
        if _is_last:
            children.start_no_more()
        return self

    def __exit__(self, *_: object) -> None:
        if _is_last:
            _left.append(self._connection)
        else:
            self._connection.close()
        self._open.close()

    def load_objects(self, blobs: Sequence[Bytes], rows: Sequence[int], columns: Sequence[str] | None) -> None:
        """Load `columns` (default: all) of Parquet files as the table, file after file, each in its order.

        Raises WireError unless each file has its stated rows.
        """
        selected = "*" if columns is None else _listed(columns)
        with ExitStack() as stack:
            paths = self._files(stack, blobs, rows)
            sql = f"CREATE TABLE {TABLE} AS SELECT {selected} FROM read_parquet(?, hive_partitioning = false)"
            self.run(sql, "objects or columns", [paths])
        self._lock()

    def view_objects(self, blobs: Sequence[Bytes], rows: Sequence[int], columns: Sequence[str]) -> bool:
        """Create the same table as a view, and a view "placed" with each row's position, without reading.

        A view keeps Parquet's dictionaries, which makes grouping three times as fast. Returns False, without a view, if
        a file has a column named like DuckDB's row number. Raises as `load_objects` does; errors in the content are
        raised when it is read.
        """
        paths = self._files(self._open, blobs, rows)
        named = "SELECT count(*) FROM parquet_schema(?) WHERE lower(name) = 'file_row_number'"
        if self.fetch(named, "objects", [paths])[0][0]:
            return False
        selected = _listed(columns)
        parts = " UNION ALL ".join(
            f"SELECT {selected}, file_row_number + {start} AS {self.place} "
            f"FROM read_parquet('{path}', hive_partitioning = false, file_row_number = true)"
            for path, start in zip(paths, accumulate(rows, initial=0), strict=False)
        )
        self.run(f"CREATE VIEW {self.placed} AS {parts}", "objects or columns")
        self.run(f"CREATE VIEW {TABLE} AS SELECT * EXCLUDE ({self.place}) FROM {self.placed}", "objects or columns")
        self._lock(paths)
        return True

    def _files(self, stack: ExitStack, blobs: Sequence[Bytes], rows: Sequence[int]) -> list[str]:
        """Paths to Parquet files, valid as long as `stack`. Raises WireError unless each has its stated rows."""
        paths = [stack.enter_context(_as_file(blob)) for blob in blobs]
        counted = "SELECT sum(num_rows) FROM parquet_file_metadata(?)"
        for number, (path, count) in enumerate(zip(paths, rows, strict=True)):
            (stored,) = self.fetch(counted, f"object {number}", [path])[0]
            if (stored or 0) != count:
                raise WireError(f"object {number}: {stored or 0} rows, the envelope says {count}")
        return paths

    def load_nothing(self, rows: int) -> None:
        """A table of `rows` rows without usable columns, for counting."""
        self.run(f'CREATE TABLE {TABLE} AS SELECT true AS "{self.prefix}" FROM range(?)', "rows", [rows])
        self._lock()

    def load_columns(self, columns: Sequence[tuple[str, str, str]]) -> None:
        """Load columns of equal length, as (name, DuckDB type, JSON list of values).

        A list of Python values would take DuckDB five times the memory. A HUGEINT is text in its list, because DuckDB
        reads JSON numbers over 64 bits as doubles.
        """
        listed = {kind: json.dumps(["VARCHAR" if kind == "HUGEINT" else kind]) for _, kind, _ in columns}
        select = ", ".join(
            f"CAST(unnest(from_json_strict(?, '{listed[kind]}')) AS {kind}) AS \"{name}\"" for name, kind, _ in columns
        )
        self.run(f"CREATE TABLE {TABLE} AS SELECT {select}", "data", [values for _, _, values in columns])
        self._lock()

    def run(self, sql: str, place: str, parameters: Sequence[object] = ()) -> duckdb.DuckDBPyConnection:
        """Execute one statement. `place` names the part of the request in errors.

        Raises WireError: 413 for too little memory, else 422, also for DuckDB's internal errors.
        """
        try:
            return self._connection.execute(sql, parameters)
        except duckdb.Error as error:
            raise _translated(error, place, sql, self.columns) from None

    def fetch(self, sql: str, place: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        try:
            return self.run(sql, place, parameters).fetchall()
        except duckdb.Error as error:
            raise _translated(error, place, sql, self.columns) from None

    def _lock(self, paths: Sequence[str] = ()) -> None:
        """Forbid all file access except to `paths`."""
        if paths:
            self._connection.execute("SET allowed_paths = $paths", {"paths": list(paths)})
        self._connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        described = self._connection.execute(f"DESCRIBE {TABLE}").fetchall()
        if len(described) > limits.MAX_PLAIN_COLUMNS:
            raise WireError(f"table: {len(described)} columns, at most {limits.MAX_PLAIN_COLUMNS}", code="too_large")
        self.columns = frozenset(row[0].lower() for row in described)


def open_to_fork() -> None:
    """Open an empty DuckDB (20 ms), of which every forked process has a copy.

    None is kept if DuckDB started a thread for it, because a fork would not have that thread.
    """
    connection = _opened()
    connection.execute("SELECT json_serialize_sql('SELECT 1')")  # the first parse takes 2 ms: DuckDB builds its grammar
    if fork_server.threads() == 1:
        _unused.append(connection)
    else:
        connection.close()


def be_the_last() -> None:
    """The next Database is this process's last: it uses all threads, and is not closed, which would take 5 ms."""
    global _is_last  # noqa: PLW0603 - a fact about the process
    _is_last = True


def _opened() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,  # more are started when there is a table
            "async_threads": 0,
            "memory_limit": _memory(),
            "temp_directory": "",
            "home_directory": "/nonexistent",  # Lambda's is read-only; nothing is ever written
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "errors_as_json": True,  # see cleave_shared.duckdb_errors
        },
    )
    # DuckDB 2.0.0 sorts a column of text with only '-nan' in three bytes, as '-na\0'
    connection.execute("SET TimeZone = 'UTC'; SET disabled_optimizers = 'compressed_materialization'")
    return connection


def lambda_megabytes() -> int | None:
    """Memory of this Lambda function in MB; None elsewhere."""
    size = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
    return int(size) if size else None


def threads() -> int:
    memory = lambda_megabytes()
    return max(1, memory // limits.LAMBDA_MB_PER_CPU) if memory else os.cpu_count() or 1


def _memory() -> str:
    """DuckDB's memory limit. The other 40% of a Lambda function are for Python, the request, and DuckDB's other
    allocations.
    """
    memory = lambda_megabytes()
    return f"{memory * 6 // 10}MB" if memory else limits.PLAIN_MEMORY


def _listed(columns: Sequence[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)


@contextmanager
def _as_file(blob: Bytes) -> Iterator[str]:
    """A path to `blob` in a memory file."""
    with os.fdopen(os.memfd_create("table"), "wb") as file:
        file.write(blob)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _translated(error: duckdb.Error, place: str, sql: str = "", columns: Set[str] = frozenset()) -> WireError:
    fault = failed(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return WireError(
            "needs more memory than the service has", hint="send fewer rows or columns per request", code="too_large"
        )
    if isinstance(error, duckdb.InternalException | duckdb.FatalException):
        # happens with damaged Parquet files; this process answers nothing else
        return WireError(f"{place}: {fault.why}", hint="the table may be damaged: send it again")
    span = span_of(error) if fault.code == "conversion" else None
    names = [each for each in _words_in(sql, *span) if each.lower() in columns] if span else []
    why = f"a value of {' and '.join(map(repr, names))} does not fit its type" if names else fault.why
    return WireError(f"{place}: {why}", hint=fault.hint)


def _words_in(sql: str, start: int, size: int) -> list[str]:
    """Names, among others, in a part of a statement."""
    content = sql.encode()[start : start + size]
    starts = [each for each, _ in duckdb.tokenize(content.decode(errors="replace"))]
    tokens = [content[start:end] for start, end in zip(starts, [*starts[1:], len(content)], strict=True)]
    return list(dict.fromkeys(each.decode(errors="replace").strip().strip('"') for each in tokens))
