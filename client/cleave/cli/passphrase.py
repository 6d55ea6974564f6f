"""Where a passphrase comes from: a file descriptor, the environment or a prompt, never the command line."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable

from cleave.cli.console import is_terminal, say
from cleave_shared.errors import KeyFileError

VARIABLE = "CLEAVE_PASSPHRASE"
NEW_VARIABLE = "CLEAVE_NEW_PASSPHRASE"
_LONGEST = 4096


def current(descriptor: int | None) -> bytes | Callable[[], bytes]:
    """The passphrase of a key there is, where it was supplied, else how to ask for it if the key is wrapped."""
    given = _given(descriptor, VARIABLE)
    return given if given is not None else lambda: _prompt("Passphrase: ")


def chosen(descriptor: int | None, variable: str = VARIABLE) -> bytes:
    """A passphrase for a new wrapping, asked for twice at a prompt. Raises KeyFileError if it is empty."""
    given = _given(descriptor, variable)
    if given is not None:
        return given
    first = _prompt("New passphrase: ")
    while _prompt("The same again: ") != first:
        say("These differ.")
        first = _prompt("New passphrase: ")
    return first


def _given(descriptor: int | None, variable: str) -> bytes | None:
    if descriptor is not None:
        return _checked(_read_line(descriptor))
    # taken out, for what is started later (a credential_process of AWS) has no business with it
    value = os.environb.pop(variable.encode(), None)
    return None if value is None else _checked(value)


def _prompt(question: str) -> bytes:
    if not is_terminal(sys.stdin):
        raise KeyFileError(
            "a passphrase is needed and there is no terminal to ask on",
            hint=f"set {VARIABLE}, or name a file descriptor with --passphrase-fd",
        )
    return _checked(getpass.getpass(question).encode())


def _checked(passphrase: bytes) -> bytes:
    if not passphrase:
        raise KeyFileError("the passphrase is empty", hint="a key without one is made with --no-passphrase")
    return passphrase


def _read_line(descriptor: int) -> bytes:
    """The first line of what `descriptor` holds, without its end."""
    content = b""
    try:
        while b"\n" not in content and len(content) <= _LONGEST:
            part = os.read(descriptor, _LONGEST)
            if not part:
                break
            content += part
    except OSError as error:
        raise KeyFileError(f"file descriptor {descriptor} cannot be read ({error.strerror})") from None
    return content.split(b"\n", maxsplit=1)[0].removesuffix(b"\r")
