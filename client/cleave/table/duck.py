"""DuckDB as the client uses it: how it is opened, and how names and texts are spelled in its SQL."""

from __future__ import annotations

import duckdb


def connect(*, reads_files: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB of this process alone, in memory, that never spills to disk and fetches no extension.

    Unless it `reads_files` it can reach nothing outside and nothing about that can be changed.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,  # no variable of Python is a table
    }
    if reads_files:
        return duckdb.connect(":memory:", config=config)
    connection = duckdb.connect(":memory:", config=config | {"threads": 1})
    # one after the other: given together, DuckDB may shut the way out before it has taken the other settings
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
