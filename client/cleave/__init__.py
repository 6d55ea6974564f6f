"""Questions over a table whose sensitive columns the cloud never sees in the clear.

>>> import cleave
>>> answer = cleave.query("patients.csv", "SELECT ward, AVG(age) AS age FROM patients GROUP BY ward ORDER BY ward")
>>> answer.rows[0], answer.bounds[0], answer.sources
(('Cardiology', 60.76767676767677), (None, 0.0), ('key', 'encrypted'))

`cleave.connect` is DB-API 2.0 (PEP 249) for many questions over one table; docs/python.md has all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.api.ask import UndecidedWarning, plan, query
    from cleave.api.connection import Connection, Cursor, connect
    from cleave.api.contributing import Contribution, collect, contribute
    from cleave.api.errors import (
        DatabaseError,
        DataError,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
    )
    from cleave.api.errors import Warning as Warning  # noqa: A004 - PEP 249 names it so; `import *` leaves it out
    from cleave.api.plan import Plan
    from cleave.api.protect import protect
    from cleave.api.result import Result
    from cleave.api.stored import Pulled, StoredTable, append, pull, put
    from cleave.api.type_objects import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from cleave.ckks.key_file import create_key, open_key
    from cleave.ckks.simple import Question
    from cleave.table.schema import Column, Schema, load_schema
    from cleave_shared.errors import (
        CheckFailed,
        CleaveError,
        CleaveWarning,
        InputError,
        KeyFileError,
        QueryRefused,
        ServiceError,
        Undecided,
    )


# DB-API 2.0 (PEP 249)
apilevel = "2.0"
threadsafety = 1  # threads may share the module, not a connection
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "CheckFailed",
    "CleaveError",
    "CleaveWarning",
    "Column",
    "Connection",
    "Contribution",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "InputError",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "KeyFileError",
    "NotSupportedError",
    "OperationalError",
    "Plan",
    "ProgrammingError",
    "Pulled",
    "QueryRefused",
    "Question",
    "Result",
    "Schema",
    "ServiceError",
    "StoredTable",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Undecided",
    "UndecidedWarning",
    "apilevel",
    "append",
    "collect",
    "connect",
    "contribute",
    "create_key",
    "load_schema",
    "open_key",
    "paramstyle",
    "plan",
    "protect",
    "pull",
    "put",
    "query",
    "threadsafety",
]

_HOMES = {
    "cleave.api.ask": "UndecidedWarning plan query",
    "cleave.api.connection": "Connection Cursor connect",
    "cleave.api.contributing": "Contribution collect contribute",
    "cleave.api.errors": "DataError DatabaseError Error IntegrityError InterfaceError "
    "InternalError NotSupportedError OperationalError ProgrammingError Warning",
    "cleave.api.plan": "Plan",
    "cleave.api.protect": "protect",
    "cleave.api.result": "Result",
    "cleave.api.stored": "Pulled StoredTable append pull put",
    "cleave.api.type_objects": "BINARY DATETIME NUMBER ROWID STRING Binary "
    "Date DateFromTicks Time TimeFromTicks Timestamp TimestampFromTicks",
    "cleave.ckks.key_file": "create_key open_key",
    "cleave.ckks.simple": "Question",
    "cleave.table.schema": "Column Schema load_schema",
    "cleave_shared.errors": "CheckFailed CleaveError CleaveWarning InputError KeyFileError QueryRefused "
    "ServiceError Undecided",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # else a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Public names are loaded when first used: the command line needs few of them, and each costs start-up time."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'cleave' has no attribute {name!r}")
        return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
