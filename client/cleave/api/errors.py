"""The exceptions of PEP 249, each raised together with Cleave's own.

    Exception
    |- Warning
    '- Error
       |- InterfaceError           a cursor or connection used wrongly
       '- DatabaseError
          |- DataError             InputError, Undecided
          |- OperationalError      KeyFileError, ServiceError, WireError
          |- IntegrityError        CheckFailed: an answer that must not be believed
          |- InternalError
          |- ProgrammingError      QueryRefused, parameters that do not fit
          '- NotSupportedError

What a connection raises is both: `except cleave.OperationalError` catches it, and so does `except cleave.ServiceError`.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator

from cleave_shared.errors import EXIT_CODES, CleaveError, Code
from cleave_shared.exhaustion import exhausted


class Warning(Exception):  # noqa: A001, N818 - PEP 249 names it so
    pass


class Error(Exception):
    pass


class InterfaceError(Error):
    pass


class DatabaseError(Error):
    pass


class DataError(DatabaseError):
    pass


class OperationalError(DatabaseError):
    pass


class IntegrityError(DatabaseError):
    pass


class InternalError(DatabaseError):
    pass


class ProgrammingError(DatabaseError):
    pass


class NotSupportedError(DatabaseError):
    pass


_KINDS: dict[int, type[Error]] = {  # by exit code, which follows from an error's code
    **dict.fromkeys((2, 3, 8), DataError),
    4: ProgrammingError,
    **dict.fromkeys((5, 6), OperationalError),
    7: IntegrityError,
}


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise a CleaveError of the block as the matching PEP 249 exception too.

    The same holds for an error that reports too little memory or disk space on this machine.
    """
    try:
        yield
    except Error:
        raise
    except (CleaveError, MemoryError, OSError, RuntimeError) as failure:
        error = exhausted(failure) or failure
        if not isinstance(error, CleaveError):
            raise
        both = _both(type(error), error.code)
        raised = both.__new__(both, *error.args)
        raised.__dict__.update(error.__dict__)
        raise raised from None


def _both(kind: type[CleaveError], code: Code) -> type[CleaveError]:
    pep = _KINDS.get(EXIT_CODES[code], DatabaseError)
    return type(kind.__name__, (kind, pep), {"__module__": kind.__module__})


for _each in (Warning, Error, InterfaceError, DatabaseError, *DatabaseError.__subclasses__()):
    _each.__module__ = "cleave"  # as a traceback prints them


Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes
DateFromTicks, TimestampFromTicks = datetime.date.fromtimestamp, datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - PEP 249 names it so
    return datetime.datetime.fromtimestamp(ticks).time()  # noqa: DTZ006 - local time, as PEP 249 has it


class TypeObject:
    """Equal to every type code that starts with one of `names`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._names == other._names
        return isinstance(other, str) and other.split("(")[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
STRING = TypeObject("VARCHAR")
BINARY = TypeObject("BLOB")
NUMBER = TypeObject(*_INTEGERS, *(f"U{name}" for name in _INTEGERS), "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL")
ROWID = TypeObject()
