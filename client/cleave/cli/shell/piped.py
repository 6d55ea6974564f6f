"""The shell with a program before it: what stdin holds is run, line by line, and ends with the first error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from cleave.cli.shell.commands import is_command
from cleave.cli.shell.shell import Left, Shell
from cleave.sql.statements import split_statements
from cleave_shared import limits
from cleave_shared.errors import InputError


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they come; a longer one than any statement may be arrives in pieces."""
    return iter(lambda: stream.readline(4 * limits.MAX_SQL_CHARS), b"")


def run_lines(shell: Shell, lines: Iterable[bytes]) -> None:
    """Raises the error of the first line that fails; InputError for what is no UTF-8 or never ends."""
    open_ = ""
    try:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"standard input, line {number}: is not UTF-8 text") from None
            begins = text.strip()
            if not open_ and is_command(begins):
                shell.command(begins)
                continue
            if not open_ and (not begins or begins.startswith("--")):
                continue
            open_ += text
            if len(open_) > 2 * limits.MAX_SQL_CHARS:
                raise InputError(f"standard input, line {number}: a statement does not end", hint="is a ; missing?")
            if ";" in text:
                statements, open_ = split_statements(open_)
                for each in statements:
                    shell.statement(each)
        statements, rest = split_statements(open_)
        for each in [*statements, rest.strip()]:
            if each:
                shell.statement(each)
    except Left:
        return
