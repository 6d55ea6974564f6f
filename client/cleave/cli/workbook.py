"""An answer as an Excel workbook."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.errors import InputError
from cleave_shared.extras import extra

if TYPE_CHECKING:
    from cleave.finish.records import Records

_MOST_ROWS = 1 << 20  # of a sheet, the names included


def workbook(held: Records) -> bytes:
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
    """Check whether Excel shows a number with all its digits."""
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return False
    return abs(float(value)) < 1e300 and Decimal(f"{value:.15g}") == Decimal(str(value))
