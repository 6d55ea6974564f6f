"""Every error that Cleave raises on purpose.

  CleaveError
  |- InputError        bad CSV, schema or stored file                   exit 3
  |  |- UsageError     an option is out of range or does not fit        exit 2
  |  '- NotComputable  an expression fails over the rows
  |- QueryRefused      a question that cannot be answered               exit 4
  |  '- SumOverflows   a sum does not fit its type
  |- KeyFileError      key file, passphrase, key id                     exit 5
  |- ServiceError      a service or the connection to it failed         exit 6
  |  |- ProcessDied    a forked process died or was late
  |  '- Exhausted      too few threads, processes, open files or memory (cleave_shared.exhaustion)
  |- CheckFailed       an answer failed a check                         exit 7
  |- WireError         a malformed, mismatched or oversize envelope     exit 6, HTTP 4xx
  |- Undecided         the error bounds leave a decision open           exit 8, with --strict

A class has a code, and a raise may give a finer one. Programs read codes, never messages: exit codes (here), SQLSTATEs
(cleave.gateway.states), HTTP statuses (cleave_services.bodies), classes of PEP 249 (cleave.api.errors) and carets
(cleave.ask.pointing) come from tables by code.

Messages are safe to log: they never contain a cell value, a key or a passphrase. They say what was received and what
was expected, and name file, column and row if there is one. So they can name a path, a bucket or a host of the machine
that asks: another party's user gets `public` only.

Also: imports of optional packages, with the command that installs them.

with extra("aws", "S3, Lambda and signed requests"):
    from boto3.session import Session
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

Code = Literal[
    "failed",
    "usage",
    "input",
    "another_release",
    "not_computable",
    "conversion",
    "out_of_range",
    "refused",
    "syntax",
    "no_table",
    "no_column",
    "no_function",
    "no_type",
    "ambiguous",
    "no_match",
    "ungrouped",
    "misplaced",
    "no_place",
    "constant",
    "parameter",
    "message",
    "limit",
    "not_select",
    "forbidden",
    "overflow",
    "key",
    "service",
    "process_died",
    "exhausted",
    "timeout",
    "stopped",
    "store",
    "not_stored",
    "conflict",
    "changed",
    "wire",
    "damaged",
    "media_type",
    "too_large",
    "event",
    "settings",
    "check",
    "undecided",
]
"""What happened, as a word that later releases keep. docs/output.md says what each means."""

_EXITS: Final[dict[int, tuple[Code, ...]]] = {
    1: ("failed",),
    2: ("usage",),
    3: ("input", "another_release", "not_computable", "conversion", "out_of_range"),
    4: (
        *("refused", "syntax", "no_table", "no_column", "no_function", "no_type", "ambiguous", "no_match", "ungrouped"),
        *("misplaced", "no_place", "constant", "parameter", "message", "limit", "not_select", "forbidden", "overflow"),
    ),
    5: ("key",),
    6: (
        *("service", "process_died", "exhausted", "timeout", "stopped", "store", "not_stored", "conflict", "changed"),
        *("wire", "damaged", "media_type", "too_large", "event", "settings"),
    ),
    7: ("check",),
    8: ("undecided",),
}
EXIT_CODES: Final[dict[Code, int]] = {code: number for number, codes in _EXITS.items() for code in codes}
"""The exit code of the command line, by code."""

DISTRUST = "do not use this answer: run the query again; if it happens again, do not use this service"
DAMAGED = "restore the store from a backup or an older version; `cleave verify` lists what else is damaged"
_HINTS = {"stored": DAMAGED}  # name of a check -> hint; other checks test a service


class CleaveWarning(UserWarning):
    """Something the user should know besides a result. Its text is safe to show: no value, no key."""


class CleaveError(Exception):
    """Base of all errors raised on purpose.

    `code`: what happened; programs read it instead of the message. `name`: the column, table, function, option or file
    that the message is about. `at`: index in the statement of the first character that it is about. `hint`: what the
    user can do. `excerpt`: the wrong line of a query, with a caret. It may contain literals, so it is only shown to the
    user and is not in the message. `location`: path or address of what the message is about; the message then begins
    with it. `is_public`: whether message and hint of this class are about the statement alone, so that they name no
    location but `location`.
    """

    code: Code = "failed"
    excerpt = ""
    is_public = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        location: str = "",
        code: Code | None = None,
        name: str | None = None,
        at: int | None = None,
    ) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.message = str(self)
        self.hint = hint
        self.location = location
        self.name = name
        self.at = at
        self._words = message
        if code is not None:
            self.code = code

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.code]

    @property
    def public(self) -> str | None:
        """The message without its location, for whoever sent the statement; None if it is for the owner only."""
        return self._words if self.is_public else None


class InputError(CleaveError):
    code: Code = "input"


class UsageError(InputError):
    code: Code = "usage"


class NotComputable(InputError):  # noqa: N818 - named for what happened
    """An expression of a statement fails in some row or group, such as a sum that overflows."""

    code: Code = "not_computable"
    is_public = True


class QueryRefused(CleaveError):  # noqa: N818 - a refusal is an answer, not a fault
    """Raised in planning, before anything is encrypted or sent."""

    code: Code = "refused"
    is_public = True


class SumOverflows(QueryRefused):
    """A sum does not fit the type that DuckDB gives it."""

    code: Code = "overflow"


class KeyFileError(CleaveError):
    code: Code = "key"


class ServiceError(CleaveError):
    """`status`: the HTTP status, if there was an answer."""

    code: Code = "service"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        code: Code | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code, name=name)
        self.status = status


class ProcessDied(ServiceError):  # noqa: N818 - named for what happened
    """`signal`: the signal that ended the process, if any. `late`: its time had run out."""

    code: Code = "process_died"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int = 500,
        signal: int | None = None,
        late: bool = False,
        code: Code | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, status=status, code=code, name=name)
        self.signal = signal
        self.late = late


class Exhausted(ServiceError):  # noqa: N818 - named for what happened
    """This machine has too few threads, processes, open files or bytes of memory."""

    code: Code = "exhausted"
    is_public = True


class CheckFailed(CleaveError):  # noqa: N818 - named for what happened
    """A check (docs/ckks.md section 7) failed: no number is shown.

    `check`: the check's name in `--json` and the documentation.
    """

    code: Code = "check"

    def __init__(
        self, check: str, message: str, *, hint: str | None = None, code: Code | None = None, name: str | None = None
    ) -> None:
        super().__init__(message, hint=hint or _HINTS.get(check, DISTRUST), code=code, name=name)
        self.check = check


class WireError(CleaveError):
    code: Code = "wire"


class Undecided(CleaveError):  # noqa: N818 - named for what happened
    code: Code = "undecided"


def stack_level() -> int:
    """The stack level of a warning: that of the first frame outside the client, counted from who warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cleave."):
        frame, level = frame.f_back, level + 1
    return level


@contextmanager
def extra(name: str, feature: str) -> Iterator[None]:
    """Turn an ImportError into an InputError if the extra `name` of pyproject.toml is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        from cleave_shared.installed import install_command  # noqa: PLC0415 - only here

        missing = (error.name or "").partition(".")[0]
        hint = install_command(name, missing)
        raise InputError(f"{feature} need the package {missing}, which is not installed", hint=hint) from None
