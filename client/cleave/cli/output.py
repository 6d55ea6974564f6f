"""Where an answer goes and in which format: to stdout, or whole into a new file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cleave.files import write_atomically
from cleave_shared.errors import InputError
from cleave_shared.extras import extra


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    MARKDOWN = "markdown"
    PARQUET = "parquet"  # these two into a file only
    XLSX = "xlsx"


_ENDINGS = {
    ".txt": Format.TABLE,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".md": Format.MARKDOWN,
    ".parquet": Format.PARQUET,
    ".xlsx": Format.XLSX,
}
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="How to write the answer; else as -o's ending says, else a table."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="A new file to write to, whole or not at all: .parquet and the others."
    ),
]

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Also write one HTML page: answer, charts, what each party saw."),
]


Force = Annotated[bool, typer.Option("--force", help="Replace output files that are there already.")]


def chosen_format(given: Format | None, output: Path | None, *, as_json: bool, report: Path | None = None) -> Format:
    """Raises typer.BadParameter for options that contradict each other, InputError for a file that is there."""
    if as_json and given not in (None, Format.JSON):
        raise typer.BadParameter("--json and --format exclude each other")
    if output is not None and report is not None and output.resolve() == report.resolve():
        raise typer.BadParameter("-o and --report name the same file")
    for path in (output, report):
        if path is not None and path.exists():
            raise InputError(f"{path}: is there already", hint="name another file, or move this one away first")
    if report is not None:
        import cleave.report.page  # noqa: F401, PLC0415 - raises now, not after the answer, where an extra is missing
    if as_json:
        return Format.JSON
    if given is None and output is not None and output.suffix.lower() not in _ENDINGS:
        raise typer.BadParameter(f"-o: the ending says no format, known are {', '.join(_ENDINGS)}; or use --format")
    chosen = given or (_ENDINGS[output.suffix.lower()] if output is not None else Format.TABLE)
    if chosen in (Format.PARQUET, Format.XLSX) and output is None:
        raise typer.BadParameter(f"{chosen} is no text: name a file with -o")
    if chosen is Format.XLSX:
        with extra("excel", "Excel files"):
            import openpyxl  # noqa: F401, PLC0415 - as above
    return chosen


def write_answer(output: Path, content: bytes) -> None:
    """Raises InputError if the file is there or cannot be written; nothing is left half-written."""
    write_atomically(output, content, error=InputError)
