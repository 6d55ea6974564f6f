"""What a person is told of an answer: the figures on stdout, on stderr what is undecided and what it took."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.cli import console
from cleave.cli.output import Format, write_answer
from cleave.text.printable import printable
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.result import Result


@dataclass(frozen=True, slots=True)
class Shown:
    written: Format
    raw: bool = False
    quiet: bool = False


def answer_content(answer: Result, shown: Shown) -> bytes:
    from cleave.cli.formats import answer_bytes  # noqa: PLC0415 - DuckDB

    return answer_bytes(answer, shown.written, raw=shown.raw)


def print_content(content: bytes, written: Format) -> None:
    """Print an answer. A terminal gets control characters in CSV as escapes; a pipe or a file gets the values."""
    if not content:
        return
    text = content.decode().removesuffix("\n")
    if written is Format.CSV and console.is_terminal(sys.stdout):  # all other formats escape them anyway
        text = "\n".join(map(printable, text.split("\n")))
    console.out(text)


def tell_about(answer: Result, shown: Shown, seconds: float) -> None:
    """Warnings, and how far to trust the answer."""
    from cleave.cli.report import footer  # noqa: PLC0415

    if shown.quiet:
        return
    for warning in answer.result.warnings:
        console.say(f"warning: {printable(warning)}")
    if shown.written is not Format.JSON:  # which holds all of it
        console.say(footer(answer, seconds))


def write_page(
    path: Path,
    answer: Result,
    description: Description | None,
    sql: str,
    table: str,
    seconds: float,
    *,
    force: bool = False,
) -> None:
    """Raises InputError if the file is there, unless `force` is set, or cannot be written."""
    from cleave.report.page import Facts, page  # noqa: PLC0415 - templates

    facts = Facts(sql, table, datetime.now(UTC), seconds)
    write_answer(path, page(answer, facts, description).encode(), force=force)
