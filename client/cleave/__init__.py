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
    from cleave.api.ask import Plan, UndecidedWarning, plan, query, schema
    from cleave.api.connection import Connection, Cursor, connect
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
    from cleave.api.protect import protect
    from cleave.api.result import Result
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
    from cleave.maintain.facts import Changed, Contribution, Pulled, ReleaseFacts, StoredTable, TableFacts
    from cleave.maintain.operations import (
        alter,
        append,
        collect,
        compact,
        contribute,
        delete,
        derive,
        drop,
        log,
        ls,
        pull,
        put,
        release,
        revoke,
        rotate,
        show,
        update,
        verify,
    )
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
    "Changed",
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
    "ReleaseFacts",
    "Result",
    "Schema",
    "ServiceError",
    "StoredTable",
    "TableFacts",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Undecided",
    "UndecidedWarning",
    "alter",
    "apilevel",
    "append",
    "collect",
    "compact",
    "connect",
    "contribute",
    "create_key",
    "delete",
    "derive",
    "drop",
    "load_schema",
    "log",
    "ls",
    "open_key",
    "paramstyle",
    "plan",
    "protect",
    "pull",
    "put",
    "query",
    "release",
    "revoke",
    "rotate",
    "schema",
    "show",
    "threadsafety",
    "update",
    "verify",
]

_HOMES = {
    "cleave.api.ask": "Plan UndecidedWarning plan query schema",
    "cleave.api.connection": "Connection Cursor connect",
    "cleave.api.errors": "DataError DatabaseError Error IntegrityError InterfaceError "
    "InternalError NotSupportedError OperationalError ProgrammingError Warning",
    "cleave.api.protect": "protect",
    "cleave.api.result": "Result",
    "cleave.api.type_objects": "BINARY DATETIME NUMBER ROWID STRING Binary "
    "Date DateFromTicks Time TimeFromTicks Timestamp TimestampFromTicks",
    "cleave.ckks.key_file": "create_key open_key",
    "cleave.ckks.simple": "Question",
    "cleave.maintain.facts": "Changed Contribution Pulled ReleaseFacts StoredTable TableFacts",
    "cleave.maintain.operations": "alter append collect compact contribute delete derive drop log ls pull put release "
    "revoke rotate show update verify",
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
