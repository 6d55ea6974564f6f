"""Output of an answer: its formats, its file, and on stderr how exact it is.

Formats for programs contain the records of cleave.finish.result, with bounds and marks.
"""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cleave.cli import console
from cleave.cli.options import flag
from cleave.files import FORCE, PRIVATE, require_target, write_atomically
from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.errors import InputError, UsageError, extra

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.question import Answer
    from cleave.finish.result import Records
    from cleave.report.page import PageFacts


# Characters that end a Markdown cell, or turn a value into HTML, a link, an image or code.
_MARKUP = re.compile(r"[\\|&<>`\[\]]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    MARKDOWN = "markdown"
    PARQUET = "parquet"  # only written to files
    XLSX = "xlsx"


PRINTED = [str(each) for each in Format if each not in (Format.PARQUET, Format.XLSX)]
ENDINGS = {
    ".txt": Format.TABLE,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".md": Format.MARKDOWN,
    ".parquet": Format.PARQUET,
    ".xlsx": Format.XLSX,
}
FormatOption = Annotated[Format | None, flag("--format FORMAT", "table, csv, json, ndjson, markdown, parquet or xlsx.")]
OutputOption = Annotated[Path | None, flag("-o, --output FILE", "Write to a new file; its ending sets the format.")]
Force = Annotated[bool, flag("--force", "Replace output files that exist.")]
ReportOption = Annotated[Path | None, flag("--report FILE", "Also write an HTML page: answer, charts, who saw what.")]


def chosen_format(
    given: Format | None, output: Path | None, *, as_json: bool, report: Path | None = None, force: bool = False
) -> Format:
    """Raises typer.BadParameter for contradicting options, InputError for a file that exists or has no folder."""
    if as_json and given not in (None, Format.JSON):
        raise typer.BadParameter("--json and --format exclude each other")
    if output is not None and report is not None and os.path.realpath(output) == os.path.realpath(report):
        raise typer.BadParameter("-o and --report name the same file")
    if report is not None:
        require_page(report)
    for path in (output, report):
        if path is not None:
            require_target(path, hint=FORCE, overwrite=force)
    if report is not None:
        import cleave.report.page  # noqa: F401, PLC0415 - a missing extra is reported now, not after the answer
    if as_json:
        return Format.JSON
    if given is None and output is not None and output.suffix.lower() not in ENDINGS:
        raise typer.BadParameter(f"-o: the ending names no format; formats are {', '.join(ENDINGS)}; or use --format")
    chosen = given or (ENDINGS[output.suffix.lower()] if output is not None else Format.TABLE)
    if chosen in (Format.PARQUET, Format.XLSX) and output is None:
        raise typer.BadParameter(f"{chosen} is no text: name a file with -o")
    if chosen is Format.XLSX:
        with extra("excel", "Excel files"):
            import openpyxl  # noqa: F401, PLC0415 - as above
    return chosen


def require_page(path: Path) -> None:
    """Raises UsageError if the name of a page has the ending of another format."""
    if path.suffix.lower() not in (".html", ".htm"):
        said = f"{path}: is no name of an HTML page, which is written there"
        raise UsageError(said, hint="let it end in .html", name="--report")


def print_content(content: bytes, written: Format) -> None:
    """Print an answer. On a terminal, control characters in CSV become escapes; a pipe or file gets them unchanged."""
    if not content:
        return
    text = content.decode().removesuffix("\n")
    if written is Format.CSV and console.is_terminal(sys.stdout):  # other formats always escape them
        text = "\n".join(map(printable, text.split("\n")))
    console.out(text)


def print_answer(answer: Answer, chosen: Format, how: str | None) -> None:
    """Print an answer. On a terminal the table is cut to its size, and `how` says how to see all. `how` None: print
    all.
    """
    if chosen is not Format.TABLE or how is None or not console.is_terminal(sys.stdout):
        print_content(answer_bytes(answer, chosen), chosen)
        return
    from cleave.shown.answer import MOST_ROWS, terminal_text  # noqa: PLC0415 - as below

    console.out(terminal_text(answer, console.width(), MOST_ROWS, how))


def write_page(
    path: Path, answer: Answer, description: Description | None, facts: PageFacts, *, force: bool = False
) -> None:
    """Raises InputError if the file exists (unless `force`) or cannot be written."""
    from cleave.report.page import page  # noqa: PLC0415 - templates

    write_atomically(path, page(answer, facts, description).encode(), error=InputError, overwrite=force)


def say_trust(answer: Answer, written: Format, seconds: float, say: Callable[[str], None]) -> None:
    """Report warnings, and how far to trust the answer."""
    from cleave.shown.answer import footer  # noqa: PLC0415 - numpy and all that computes

    for warning in answer.result.warnings:
        say(f"warning: {warning}")
    if written is not Format.JSON:  # JSON contains all of it
        for line in footer(answer, seconds).split("\n"):
            say(line)


def answer_bytes(answer: Answer, chosen: Format) -> bytes:
    """The answer as bytes. Text formats end with a line feed."""
    from cleave.finish.result import copied, csv_of, records  # noqa: PLC0415 - DuckDB
    from cleave.shown.answer import answer_json, answer_text, dump  # noqa: PLC0415 - as above

    match chosen:
        case Format.TABLE:
            return f"{answer_text(answer)}\n".encode()
        case Format.JSON:
            return f"{answer_json(answer)}\n".encode()
        case Format.MARKDOWN:
            return f"{_markdown(answer)}\n".encode()
        case Format.NDJSON:
            held = records(answer.result)
            lines = (dump(dict(zip(held.names, row, strict=True))) for row in held.rows)
            return "".join(f"{line}\n" for line in lines).encode()
        case Format.CSV:
            return csv_of(answer.result)
        case Format.PARQUET:
            return copied(records(answer.result), "FORMAT parquet, COMPRESSION zstd", "parquet")
        case Format.XLSX:
            return workbook(records(answer.result))


def _markdown(answer: Answer) -> str:
    from cleave.shown.answer import cells  # noqa: PLC0415 - as above

    headings, rows = cells(answer.result)

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_MARKUP.sub(_escaped, printable(cell)) for cell in cells)} |"

    rule = ["---:" if heading.justify == "right" else "---" for heading in headings]
    trust = ["", printable(answer.result.trust)] if answer.result.trust else []
    return "\n".join([line([heading.name for heading in headings]), line(rule), *map(line, rows), *trust])


def _escaped(match: re.Match[str]) -> str:
    return _ENTITIES.get(match[0], f"\\{match[0]}")


_MOST_ROWS = 1 << 20  # of a sheet, including the row of names
_MOST_CHARS = 32_767  # of a cell, in UTF-16
# Characters that XML cannot contain, carriage returns (XML readers change them to line feeds), and texts like escapes
_ESCAPED = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|_(?=x[0-9A-Fa-f]{4}_)")


def workbook(held: Records) -> bytes:
    """Write one sheet, in memory only. Numbers with more than Excel's 15 digits are written as text, and no text
    becomes a formula.
    """
    with extra("excel", "Excel files"):
        from openpyxl import Workbook  # noqa: PLC0415 - 0.2 s
        from openpyxl.cell import WriteOnlyCell  # noqa: PLC0415
        from openpyxl.worksheet._writer import WorksheetWriter  # noqa: PLC0415

    if len(held.rows) >= _MOST_ROWS:
        raise InputError(f"an Excel sheet has {_MOST_ROWS:,} rows at most", hint="write .parquet or .csv instead")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("answer")

    def cell(value: Any) -> Any:
        if value is None or isinstance(value, bool) or _is_held(value):
            return value
        escaped = _ESCAPED.sub(lambda match: f"_x{ord(match[0]):04X}_", figures.plain(value))  # Excel's escapes
        if len(escaped.encode("utf-16-le")) // 2 > _MOST_CHARS:
            raise InputError(f"an Excel cell has {_MOST_CHARS:,} characters at most", hint="write .parquet or .csv")
        text = WriteOnlyCell(sheet, escaped)
        text.data_type = "s"
        return text

    written = io.BytesIO()
    with os.fdopen(os.memfd_create("sheet"), "wb") as memory:
        os.fchmod(memory.fileno(), PRIVATE)  # the mode goes into the book
        # in place of openpyxl's own, whose temporary file a killed process leaves behind
        sheet._writer = writer = WorksheetWriter(sheet, f"/proc/self/fd/{memory.fileno()}")
        writer.cleanup = lambda: None  # it would remove the file
        writer.write_top()
        with closing(sheet):
            for row in (held.names, *held.rows):
                sheet.append([cell(value) for value in row])
        book.save(written)
    return written.getvalue()


def _is_held(value: Any) -> bool:
    """True if Excel shows the number with all its digits."""
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return False
    return abs(float(value)) < 1e300 and Decimal(f"{value:.15g}") == Decimal(str(value))
