"""Questions over a table whose sensitive columns the cloud never sees in the clear.

>>> import cleave
>>> answer = cleave.query("patients.csv", "SELECT ward, AVG(age) AS age FROM patients GROUP BY ward ORDER BY ward")
>>> answer.rows[0], answer.bounds[0], answer.sources
(('Cardiology', 60.76767676767677), (None, 0.0), ('key', 'encrypted'))

`cleave.connect` is DB-API 2.0 (PEP 249) for many questions over one table; docs/python.md has all of it.
"""

from __future__ import annotations

from importlib import import_module

from cleave.names import HOMES as _HOMES
from cleave_shared import errors as _errors

# DB-API 2.0 (PEP 249)
apilevel = "2.0"
threadsafety = 1  # threads may share the module, not a connection
paramstyle = "qmark"

__all__ = ["apilevel", "paramstyle", "threadsafety"]
__all__ += [name for name in _HOMES if name != "Warning"]  # a built-in


for _name, _home in _HOMES.items():
    if _home == _errors.__name__:
        getattr(_errors, _name).__module__ = "cleave"  # as a traceback prints them


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cleave' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
