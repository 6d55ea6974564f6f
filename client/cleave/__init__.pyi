# Public names, for type checkers. Made by `make stub` from client/cleave/names.py.
from cleave.api.ask import Plan, UndecidedWarning, plan, protect, query, schema
from cleave.api.connection import Connection, Cursor, connect
from cleave.api.errors import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    DatabaseError,
    DataError,
    Date,
    DateFromTicks,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from cleave.api.errors import Warning as Warning  # noqa: A004 - PEP 249 names it so; `import *` leaves it out
from cleave.api.models import fit, pca, survival
from cleave.api.result import Result
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.simple import Question
from cleave.maintain.alter import alter
from cleave.maintain.changes import delete, update
from cleave.maintain.contributors import add_contributor, clear_contributions, collect, contribute, remove_contributor
from cleave.maintain.derive import add_scan, derive, drop_scan
from cleave.maintain.drop import accept, drop
from cleave.maintain.facts import Changed, Contribution, Pulled, StoredTable, TableFacts
from cleave.maintain.pull import pull, verify
from cleave.maintain.put import append, compact, put
from cleave.maintain.readers import ReaderFacts, add_reader, revoke_reader
from cleave.maintain.releases import release, revoke
from cleave.maintain.rotate import rotate
from cleave.maintain.show import show
from cleave.maintain.tables import log, ls
from cleave.models.linear import LinearModel
from cleave.releases.exact import ExactReleaseFacts
from cleave.releases.kind import ReleaseFacts
from cleave.releases.noisy import NoisyReleaseFacts
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

apilevel: str
threadsafety: int
paramstyle: str

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
    "ExactReleaseFacts",
    "InputError",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "KeyFileError",
    "LinearModel",
    "NoisyReleaseFacts",
    "NotSupportedError",
    "OperationalError",
    "Plan",
    "ProgrammingError",
    "Pulled",
    "QueryRefused",
    "Question",
    "ReaderFacts",
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
    "accept",
    "add_contributor",
    "add_reader",
    "add_scan",
    "alter",
    "apilevel",
    "append",
    "clear_contributions",
    "collect",
    "compact",
    "connect",
    "contribute",
    "create_key",
    "delete",
    "derive",
    "drop",
    "drop_scan",
    "fit",
    "load_schema",
    "log",
    "ls",
    "open_key",
    "paramstyle",
    "pca",
    "plan",
    "protect",
    "pull",
    "put",
    "query",
    "release",
    "remove_contributor",
    "revoke",
    "revoke_reader",
    "rotate",
    "schema",
    "show",
    "survival",
    "threadsafety",
    "update",
    "verify",
]
