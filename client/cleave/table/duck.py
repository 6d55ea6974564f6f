"""DuckDB as the client uses it: how it is opened, and how names and texts are spelled in its SQL."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # no variable of Python is a table
}
# As in the plain service: the zone of this machine changes no answer. GLOBAL: of every cursor too.
_UTC = "SET GLOBAL TimeZone = 'UTC'"
_instances: dict[int, duckdb.DuckDBPyConnection] = {}  # by process: one that is forked opens its own
_parsers: dict[int, duckdb.DuckDBPyConnection] = {}  # likewise, for `_parsed` alone
_numbers = itertools.count()
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def quarter_of_memory() -> int:
    """Bytes: a quarter of what this machine has, or of what the group of processes may take."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no control groups, or no limit: "max"
        most = min(most, int(_GROUP_LIMIT.read_text()))
    return most // 4


def connect_ahead() -> None:
    """Open what parsing and every `private` of this process need, and have DuckDB make its grammar, in 30 ms.

    For a thread beside the one that plans: DuckDB needs no Python while it does so.
    """
    tree_of("SELECT 1")
    _instance()


def connect_reading() -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, that never spills to disk and fetches no extension, but reads files."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute(_UTC)
    connection.execute("SET enable_progress_bar = false")  # DuckDB draws it on stdout after two seconds
    return connection


@contextlib.contextmanager
def private() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that is empty and gone after the block, in the DuckDB that this process keeps for these.

    It can reach nothing outside, never spills to disk, and nothing about that can be changed.
    """
    name = identifier(f"database {next(_numbers)}")
    try:
        connection = _attached(name)
    except duckdb.Error:  # an error within DuckDB may have shut the whole of it
        _instances.pop(os.getpid(), None)
        connection = _attached(name)
    with contextlib.closing(connection):
        try:
            yield connection
        finally:
            with contextlib.suppress(duckdb.Error):  # as above
                connection.execute("USE memory")
                connection.execute(f"DETACH {name}")


def _attached(name: str) -> duckdb.DuckDBPyConnection:
    connection = _instance().cursor()
    connection.execute(f"ATTACH ':memory:' AS {name}")
    connection.execute(f"USE {name}")
    return connection


def _instance(instances: dict[int, duckdb.DuckDBPyConnection] = _instances) -> duckdb.DuckDBPyConnection:
    process = os.getpid()
    instance = instances.get(process)
    # where two threads open one, the first stays
    return instances.setdefault(process, closed_in()) if instance is None else instance


def closed_in(**more: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, that can reach nothing outside. `more`: further settings."""
    connection = duckdb.connect(":memory:", config=_CONFIG | {"threads": 1, "async_threads": 0, **more})
    # one after the other: given together, DuckDB may shut the way out before it has taken the other settings
    connection.execute(_UTC)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def create_of_texts(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str, Sequence[str | None]]]
) -> None:
    """Make `relation` of columns (name, type, values), whose values are DuckDB's text of them.

    Raises duckdb.Error, which may quote values, for one that is not of its type.
    """
    selected = ", ".join(f"CAST(unnest(?::VARCHAR[]) AS {type_}) AS {identifier(name)}" for name, type_, _ in columns)
    connection.execute(f"CREATE TABLE {relation} AS SELECT {selected}", [list(values) for _, _, values in columns])


def tree_of(sql: str) -> dict[str, Any]:
    """DuckDB's own tree of statements; `{"error": true, ...}` for what is no SELECT or no SQL."""
    tree: dict[str, Any] = json.loads(_parsed("SELECT system.main.json_serialize_sql($1::VARCHAR)", sql))
    return tree


def text_of(tree: Mapping[str, Any]) -> str:
    """DuckDB's text of such a tree. Raises duckdb.Error for what is none."""
    return _parsed("SELECT system.main.json_deserialize_sql($1::JSON)", json.dumps(tree))


def _parsed(statement: str, value: str) -> str:
    """Run one of the two statements above, which bind their value.

    They have a DuckDB of their own, in which nothing else is ever run: no statement can change how others are parsed.
    """
    try:
        ((text,),) = _instance(_parsers).cursor().execute(statement, [value]).fetchall()
    except (duckdb.InternalException, duckdb.FatalException, duckdb.ConnectionException):  # it has shut itself
        _parsers.pop(os.getpid(), None)
        raise
    return str(text)


def parts_of(tree: Any) -> Iterator[dict[str, Any]]:
    """Walk the nodes of DuckDB's tree, `tree` included."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def is_unicode(text: str) -> bool:
    """Check whether each character of `text` is one that UTF-8 has: half of a surrogate pair is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
