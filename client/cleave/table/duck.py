"""DuckDB as the client uses it: how it is opened, and how names and texts are spelled in its SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from cleave_shared import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # no variable of Python is a table
}
_ahead: list[duckdb.DuckDBPyConnection] = []


def connect_ahead() -> None:
    """Open what the next `connect` without files takes, in a thread that has nothing else to do: it takes 10 ms."""
    if not _ahead:
        _ahead.append(_closed_in())


def connect(*, reads_files: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB of this process alone, in memory, that never spills to disk and fetches no extension.

    Unless it `reads_files` it can reach nothing outside and nothing about that can be changed.
    """
    if reads_files:
        connection = duckdb.connect(":memory:", config=_CONFIG)
        connection.execute("SET enable_progress_bar = false")  # DuckDB draws it on stdout after two seconds
        return connection
    with contextlib.suppress(IndexError):
        return _ahead.pop()
    return _closed_in()


def _closed_in() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=_CONFIG | {"threads": 1})
    # one after the other: given together, DuckDB may shut the way out before it has taken the other settings
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


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
