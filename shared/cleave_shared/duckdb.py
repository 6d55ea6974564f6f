"""DuckDB's engine without the Python package around it, which takes as long to import as the engine itself.

What the package adds is relations built step by step, expressions and scans of Arrow objects. A module that uses any of
these (`connection.sql`, a registered Arrow stream) imports `duckdb` itself; what stands here is the very same in both.

    from cleave_shared import duckdb
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "BinderException",
    "CatalogException",
    "DuckDBPyConnection",
    "Error",
    "FatalException",
    "IOException",
    "InternalException",
    "InterruptException",
    "OutOfMemoryException",
    "ParserException",
    "connect",
    "token_type",
    "tokenize",
]

if TYPE_CHECKING:
    import duckdb as _engine
else:
    try:
        import _duckdb as _engine
    except ImportError:  # a release that has it elsewhere
        import duckdb as _engine

BinderException = _engine.BinderException
CatalogException = _engine.CatalogException
DuckDBPyConnection = _engine.DuckDBPyConnection
Error = _engine.Error
FatalException = _engine.FatalException
IOException = _engine.IOException
InternalException = _engine.InternalException
InterruptException = _engine.InterruptException
OutOfMemoryException = _engine.OutOfMemoryException
ParserException = _engine.ParserException
connect = _engine.connect
token_type = _engine.token_type
tokenize = _engine.tokenize
