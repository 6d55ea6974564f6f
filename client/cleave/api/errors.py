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
from collections.abc import Iterator

from cleave_shared import errors
from cleave_shared.errors import CleaveError


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


_KINDS: dict[type[CleaveError], type[Error]] = {
    errors.InputError: DataError,
    errors.Undecided: DataError,
    errors.QueryRefused: ProgrammingError,
    errors.KeyFileError: OperationalError,
    errors.ServiceError: OperationalError,
    errors.WireError: OperationalError,
    errors.CheckFailed: IntegrityError,
}


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises a CleaveError of the block as the exception of PEP 249 that it is, too."""
    try:
        yield
    except Error:
        raise
    except CleaveError as error:
        both = _both(type(error))
        raised = both.__new__(both, *error.args)
        raised.__dict__.update(error.__dict__)
        raise raised from None


def _both(kind: type[CleaveError]) -> type[CleaveError]:
    pep = next((_KINDS[each] for each in kind.__mro__ if each in _KINDS), DatabaseError)
    return type(kind.__name__, (kind, pep), {"__module__": kind.__module__})
