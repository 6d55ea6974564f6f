"""Questions over a table whose sensitive columns the cloud never sees in the clear.

>>> import cleave
>>> answer = cleave.query("patients.csv", "SELECT ward, AVG(age) AS age FROM patients GROUP BY ward ORDER BY ward")
>>> answer.rows[0], answer.bounds[0], answer.sources
(('Cardiology', 60.76767676767677), (None, 0.0), ('key', 'encrypted'))

`cleave.connect` is DB-API 2.0 (PEP 249) for many questions over one table; docs/python.md has all of it.
"""

from __future__ import annotations

from importlib import import_module

from cleave_shared import errors as _errors

# DB-API 2.0 (PEP 249)
apilevel = "2.0"
threadsafety = 1  # threads may share the module, not a connection
paramstyle = "qmark"

# Public names by their module, which is imported when one is first used: the command line needs few of them, and each
# costs start-up time. `__init__.pyi` has them for type checkers.
_HOMES = {
    "cleave.api.ask": "Plan UndecidedWarning plan protect query schema",
    "cleave.api.connection": "Connection Cursor connect",
    "cleave.api.errors": "BINARY Binary DATETIME DataError DatabaseError Date DateFromTicks Error IntegrityError "
    "InterfaceError InternalError NUMBER NotSupportedError OperationalError ProgrammingError ROWID STRING Time "
    "TimeFromTicks Timestamp TimestampFromTicks Warning",
    "cleave.api.models": "fit pca survival",
    "cleave.api.result": "Result",
    "cleave.ckks.key_file": "create_key open_key",
    "cleave.ckks.simple": "Question",
    "cleave.maintain.facts": "Changed Contribution Pulled StoredTable TableFacts",
    "cleave.maintain.operations": "accept alter append compact delete derive drop log ls pull put rotate show update "
    "verify",
    "cleave.maintain.sharing": "collect contribute release revoke",
    "cleave.models.linear": "LinearModel",
    "cleave.releases.noising": "NoisyReleaseFacts",
    "cleave.releases.releases": "ReleaseFacts",
    "cleave.table.schema": "Column Schema load_schema",
    "cleave_shared.errors": "CheckFailed CleaveError CleaveWarning InputError KeyFileError QueryRefused "
    "ServiceError Undecided",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = ["apilevel", "paramstyle", "threadsafety"]
__all__ += [name for name in _HOME_OF if name != "Warning"]  # a built-in


for _each in _HOMES["cleave_shared.errors"].split():
    getattr(_errors, _each).__module__ = "cleave"  # as a traceback prints them


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'cleave' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
