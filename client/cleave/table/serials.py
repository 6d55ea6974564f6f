"""Dates and times of Excel: numbers of days, which a cell's number format and the workbook's epoch make dates.

The usual epoch counts 1 January 1900 as day 1, and a 29 February 1900, which never was, as day 60; the other one counts
1 January 1904 as day 0. (ECMA-376, Part 1, 18.17.4)
"""

from __future__ import annotations

import datetime
import re
from functools import cache
from typing import Literal

from openpyxl.styles.numbers import is_date_format, is_timedelta_format

Kind = Literal["number", "date", "moment", "time", "span"]
_DAY = 86_400_000  # milliseconds, to which Excel rounds
_LEAP = 60  # the day that never was
_BEFORE, _AFTER, _1904 = (datetime.datetime(*day) for day in ((1899, 12, 31), (1899, 12, 30), (1904, 1, 1)))  # noqa: DTZ001 - Excel has no zones
_LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')


@cache
def kind_of(number_format: str) -> Kind:
    """Return what a number format shows. `mm` is minutes beside hours or seconds, else a month."""
    if not is_date_format(number_format):
        return "number"
    if is_timedelta_format(number_format):
        return "span"
    letters = _LITERALS.sub("", number_format.split(";", maxsplit=1)[0]).lower()
    has_day = any(each in letters for each in ("y", "d", "mmm")) or not set("hs") & set(letters)
    return "date" if not set("hs") & set(letters) else "moment" if has_day else "time"


def moment(number: float, kind: Kind, *, from_1904: bool) -> datetime.datetime | datetime.time | str:
    """Return the date or time that is day `number`; of a span the text HH:MM:SS.

    Raises ValueError for a day that does not exist: before the epoch's first, 29 February 1900, or after 9999.
    """
    days, left = divmod(round(number * _DAY), _DAY)
    if kind == "span":
        return _span(round(number * _DAY))
    clock = datetime.timedelta(milliseconds=left)
    if days == 0 and (kind == "time" or (kind == "moment" and not from_1904)):
        return (_1904 + clock).time()
    if days < (0 if from_1904 else 1) or (days == _LEAP and not from_1904):
        raise ValueError
    first = _1904 if from_1904 else _BEFORE if days < _LEAP else _AFTER
    try:
        return first + datetime.timedelta(days) + clock
    except OverflowError:
        raise ValueError from None


def _span(milliseconds: int) -> str:
    seconds, rest = divmod(abs(milliseconds), 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' if milliseconds < 0 else ''}{clock}{f'.{rest:03}' if rest else ''}"
