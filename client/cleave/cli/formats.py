"""An answer as a table, CSV, JSON, NDJSON, Markdown or Parquet.

The formats for programs hold what `cleave.finish.records` makes of it, bounds and marks included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleave.cli import report
from cleave.cli.output import Format
from cleave.finish.records import Records, copied, csv_of, records
from cleave.text.printable import printable

if TYPE_CHECKING:
    from cleave.ask.result import Result

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


def _ndjson(held: Records) -> str:
    return "".join(f"{report.dump(dict(zip(held.names, row, strict=True)))}\n" for row in held.rows)


def _markdown(answer: Result) -> str:
    headings, rows = report.cells(answer.result)

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_MARKUP.sub(_escaped, printable(cell)) for cell in cells)} |"

    rule = ["---:" if heading.justify == "right" else "---" for heading in headings]
    trust = ["", printable(answer.result.trust)] if answer.result.trust else []
    return "\n".join([line([heading.name for heading in headings]), line(rule), *map(line, rows), *trust])


def _escaped(found: re.Match[str]) -> str:
    return _ENTITIES.get(found[0], f"\\{found[0]}")
