"""The client's own DuckDB, for questions about a query and for its last step."""

from __future__ import annotations

import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that can reach no file, network or extension."""
    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "enable_external_access": False,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "python_enable_replacements": False,
            "lock_configuration": True,
        },
    )
