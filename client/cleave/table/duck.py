"""DuckDB in the client: its settings, its parser, and quoting of names and texts."""

from __future__ import annotations

import atexit
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
    "python_enable_replacements": False,  # Python variables are not tables
    "errors_as_json": True,  # see cleave_shared.duckdb_errors
}
# As in the plain service: this machine's time zone must not change answers. GLOBAL: for every cursor
_UTC = "SET GLOBAL TimeZone = 'UTC'"
_instances: dict[int, duckdb.DuckDBPyConnection] = {}  # by process id: a forked process opens its own
_parsers: dict[int, duckdb.DuckDBPyConnection] = {}  # by process id, used by `_parsed` only
_numbers = itertools.count()
# DuckDB's library prints pages of "leaked" to stderr if a connection outlives Python
atexit.register(_instances.clear)
atexit.register(_parsers.clear)
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def quarter_of_memory() -> int:
    """A quarter of this machine's memory, or of its control group's limit, in bytes."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no control group, or no limit ("max")
        most = min(most, int(_GROUP_LIMIT.read_text()))
    return most // 4


def connect_ahead() -> None:
    """Open the DuckDB of the parser and of `private`, and load DuckDB's grammar; 30 ms.

    Meant for a second thread while another plans: DuckDB does not hold Python's GIL.
    """
    tree_of("SELECT 1")
    _instance()


def connect_reading() -> duckdb.DuckDBPyConnection:
    """A new DuckDB in memory. It can read files, but never spills to disk and loads no extension."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute(_UTC)
    set_progress(connection, is_on=False)
    return connection


def set_progress(connection: duckdb.DuckDBPyConnection, *, is_on: bool) -> bool:
    """Let DuckDB count its progress, or stop it from drawing a bar on stdout after 2 s.

    Returns False if DuckDB refuses both, and does neither: in a notebook's kernel without ipywidgets.
    """
    try:
        connection.execute(f"SET enable_progress_bar = {is_on}")
        if is_on:
            connection.execute("SET enable_progress_bar_print = false")
    except duckdb.InvalidInputException:
        return False
    return True


@contextlib.contextmanager
def private() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty in-memory database for the block, in a DuckDB that this process shares between such databases.

    It cannot access anything outside or spill to disk, and no statement can change that.
    """
    name = identifier(f"database {next(_numbers)}")
    try:
        connection = _attached(name)
    except duckdb.Error:  # an internal error may have shut down the whole instance
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
    # if two threads open one, the first is used
    return instances.setdefault(process, closed_in()) if instance is None else instance


def closed_in(**more: str) -> duckdb.DuckDBPyConnection:
    """A new DuckDB in memory without access to anything outside. `more`: further settings."""
    connection = duckdb.connect(":memory:", config=_CONFIG | {"threads": 1, "async_threads": 0, **more})
    # separately: in one statement DuckDB may disable access before it applies the other settings
    connection.execute(_UTC)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def create_of_texts(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str, Sequence[str | None]]]
) -> None:
    """Create `relation` from columns of (name, type, values as DuckDB's text).

    Raises duckdb.Error, which may quote values, for a value that does not fit its type.
    """
    selected = ", ".join(f"CAST(unnest(?::VARCHAR[]) AS {type_}) AS {identifier(name)}" for name, type_, _ in columns)
    connection.execute(f"CREATE TABLE {relation} AS SELECT {selected}", [list(values) for _, _, values in columns])


def tree_of(sql: str) -> dict[str, Any]:
    """DuckDB's parse tree of a SELECT; `{"error": true, ...}` for any other text."""
    tree: dict[str, Any] = json.loads(_parsed("SELECT system.main.json_serialize_sql($1::VARCHAR)", sql))
    return tree


def text_of(tree: Mapping[str, Any]) -> str:
    """DuckDB's SQL text of a parse tree. Raises duckdb.Error for an invalid tree."""
    return _parsed("SELECT system.main.json_deserialize_sql($1::JSON)", json.dumps(tree))


def _parsed(statement: str, value: str) -> str:
    """Run one of the two statements above with `value` bound.

    The parser has a DuckDB of its own that runs nothing else, so no statement can change how others are parsed.
    """
    try:
        ((text,),) = _instance(_parsers).cursor().execute(statement, [value]).fetchall()
    # the instance shut itself down
    except (duckdb.InternalException, duckdb.FatalException, duckdb.ConnectionException):
        _parsers.pop(os.getpid(), None)
        raise
    return str(text)


def parts_of(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a parse tree, the root first."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def is_unicode(text: str) -> bool:
    """True if UTF-8 can encode `text`: an unpaired surrogate cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
