"""Passphrases from a file descriptor, the environment or a prompt, never from the command line."""

from __future__ import annotations

import ctypes
import getpass
import os
import sys
from collections.abc import Callable

from cleave.ask.options import PASSPHRASE_VARIABLE as VARIABLE
from cleave_shared.errors import KeyFileError

NEW_VARIABLE = "CLEAVE_NEW_PASSPHRASE"
_LONGEST = 4096
_taken: dict[str, bytes] = {}
_getenv = ctypes.CDLL(None).getenv


def current(
    descriptor: int | None, what: str = "passphrase", question: str = "Passphrase: "
) -> bytes | Callable[[], bytes]:
    """The passphrase of an existing key if one was supplied, else a function that asks for it."""
    given = _given(descriptor, _variable(what), what)
    return given if given is not None else lambda: _prompt(question, what)


def chosen(descriptor: int | None, what: str = "passphrase") -> bytes:
    """A new passphrase, asked for twice if none was supplied. `what`: its name in messages. Raises KeyFileError if it
    is empty, or trivial when it is typed.
    """
    given = _given(descriptor, _variable(what), what)
    if given is not None:
        return given
    from cleave.ckks.passphrase import LEAST_CHARACTERS, refuse_trivial  # noqa: PLC0415 - as in `_prompt`
    from cleave.cli.console import say  # noqa: PLC0415

    question = f"New {what.removeprefix('new ')}, at least {LEAST_CHARACTERS} characters: "

    def asked() -> bytes:
        first = _prompt(question, what)
        refuse_trivial(first, what)  # before it is typed again
        return first

    first = asked()
    while _prompt("The same again: ", what) != first:
        say("These differ.")
        first = asked()
    return first


def _variable(what: str) -> str:
    return f"CLEAVE_{what.replace(' ', '_').upper()}"


def _given(descriptor: int | None, variable: str, what: str) -> bytes | None:
    value = _take(variable) if descriptor is None else _read_line(descriptor)
    return None if value is None else _checked(value, what)


def hide() -> None:
    """Remove the passphrases from the environment before anything else.

    Processes started later, such as an AWS credential_process, do not inherit them. /proc/PID/environ, which shows the
    environment at the start, has zeros instead. Two copies remain: one in this process's memory, and the shell's
    variable; --passphrase-fd leaves neither. Forked children delete their copies.
    """
    os.register_at_fork(after_in_child=_taken.clear)
    for variable in (VARIABLE, NEW_VARIABLE):
        value = _take(variable)
        if value is not None:
            _taken[variable] = value


def _take(variable: str) -> bytes | None:
    name = variable.encode()
    if name not in os.environb:
        return _taken.pop(variable, None)
    _getenv.argtypes, _getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    place = _getenv(name)  # at the address that the kernel shows
    value = os.environb.pop(name)
    if place:
        ctypes.memset(place, 0, len(value))
    return value


def _prompt(question: str, what: str = "passphrase") -> bytes:
    from cleave.cli.console import is_terminal  # noqa: PLC0415 - `hide` runs before all imports that can wait

    if not is_terminal(sys.stdin):
        raise KeyFileError(
            f"a {what} is needed and there is no terminal to read it from",
            hint=f"set {_variable(what)}, or name a file descriptor with --{what.replace(' ', '-')}-fd",
        )
    return _checked(getpass.getpass(question).encode(), what)


def _checked(value: bytes, what: str) -> bytes:
    if not value:
        hint = "--token makes a user without one" if what == "password" else "--no-passphrase makes a key without one"
        raise KeyFileError(f"the {what} is empty", hint=hint)
    return value


def _read_line(descriptor: int) -> bytes:
    """The first line from `descriptor`, without its line end."""
    content = b""
    try:
        while b"\n" not in content and len(content) <= _LONGEST:
            part = os.read(descriptor, _LONGEST)
            if not part:
                break
            content += part
    except OSError as error:
        raise KeyFileError(
            f"file descriptor {descriptor} cannot be read ({error.strerror})",
            hint="--passphrase-fd 3 3< FILE opens one in a shell",
        ) from None
    return content.split(b"\n", maxsplit=1)[0].removesuffix(b"\r")
