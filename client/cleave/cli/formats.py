"""An answer as a table, CSV, JSON, NDJSON, Markdown, Parquet or an Excel workbook.

The formats for programs hold what `cleave.finish.records` makes of it, bounds and marks included.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cleave.cli import report
from cleave.cli.output import Format
from cleave.finish.records import Records, copied, csv_of, records
from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.errors import InputError
from cleave_shared.extras import extra

if TYPE_CHECKING:
    from cleave.ask.result import Result

_MOST_ROWS = 1 << 20  # of a sheet, the names included
# Of Markdown what ends a cell, or makes HTML, a link, an image or code of a value.
_MARKUP = re.compile(r"[\\|&<>`\[\]]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def answer_bytes(answer: Result, chosen: Format, *, raw: bool = False) -> bytes:
    """The answer, every text ended by a line feed."""
    match chosen:
        case Format.TABLE:
            return f"{report.answer_text(answer)}\n".encode()
        case Format.JSON:
            return f"{report.answer_json(answer, raw=raw)}\n".encode()
        case Format.MARKDOWN:
            return f"{_markdown(answer)}\n".encode()
        case Format.NDJSON:
            return _ndjson(records(answer.result, raw=raw)).encode()
        case Format.CSV:
            return csv_of(answer.result, raw=raw)
        case Format.PARQUET:
            return copied(records(answer.result, raw=raw), "FORMAT parquet, COMPRESSION zstd", "parquet")
        case Format.XLSX:
            return _workbook(records(answer.result, raw=raw))


def _ndjson(held: Records) -> str:
    return "".join(f"{report.dump(dict(zip(held.names, row, strict=True)))}\n" for row in held.rows)


def _workbook(held: Records) -> bytes:
    """One sheet. Excel's numbers have 15 digits: what has more is written as text, and no text is a formula."""
    with extra("excel", "Excel files"):
        from openpyxl import Workbook  # noqa: PLC0415 - 0.2 s
        from openpyxl.cell import WriteOnlyCell  # noqa: PLC0415

    if len(held.rows) >= _MOST_ROWS:
        raise InputError(f"an Excel sheet has {_MOST_ROWS:,} rows at most", hint="write .parquet or .csv instead")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("answer")

    def cell(value: Any) -> Any:
        if value is None or isinstance(value, bool) or _is_held(value):
            return value
        text = WriteOnlyCell(sheet, printable(figures.plain(value)))
        text.data_type = "s"
        return text

    for row in (held.names, *held.rows):
        sheet.append([cell(value) for value in row])
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def _is_held(value: Any) -> bool:
    """Whether Excel shows a number with all its digits."""
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return False
    return abs(float(value)) < 1e300 and Decimal(f"{value:.15g}") == Decimal(str(value))


def _markdown(answer: Result) -> str:
    headings, rows = report.cells(answer.result)

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_MARKUP.sub(_escaped, printable(cell)) for cell in cells)} |"

    rule = ["---:" if heading.justify == "right" else "---" for heading in headings]
    trust = ["", printable(answer.result.trust)] if answer.result.trust else []
    return "\n".join([line([heading.name for heading in headings]), line(rule), *map(line, rows), *trust])


def _escaped(found: re.Match[str]) -> str:
    return _ENTITIES.get(found[0], f"\\{found[0]}")
