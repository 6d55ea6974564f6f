"""Dates, times and intervals: between DuckDB's texts, PostgreSQL's texts, and PostgreSQL's numbers.

Numbers are days or microseconds since 2000. Years are not bounded as in Python's datetime.
"""

from __future__ import annotations

import datetime
import re
import struct
from typing import Final

_EPOCH: Final = datetime.date(2000, 1, 1).toordinal()
DAY: Final = 86_400_000_000  # microseconds
_DAYS: Final = {"infinity": (1 << 31) - 1, "-infinity": -(1 << 31)}
_ALWAYS: Final = {"infinity": (1 << 63) - 1, "-infinity": -(1 << 63)}
_CYCLE: Final = 146_097  # days in 400 years
_DATE: Final = re.compile(r"(?P<year>\d+)-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?(?: (?P<clock>[\d:.]+).*)?")
_GIVEN: Final = re.compile(  # PostgreSQL's text in its style ISO, also with a zone where the type has none
    r"\s*+(?P<day>\d{4,}+-\d\d?-\d\d?)(?:[ T]\s*+(?P<clock>\d\d?(?::\d\d){1,2}(?:\.\d++)?))?"
    r"\s*+(?P<zone>[Zz]|UTC|GMT|[+-]\d\d?(?::?\d\d){0,2})?\s*+(?P<bc>BC)?\s*+",
    re.ASCII,
)
_SPAN: Final = re.compile(
    r"(?:(-?\d+) years?\s*)?(?:(-?\d+) months?\s*)?(?:(-?\d+) days?\s*)?(?:(-?)(\d+:\d\d:\d\d(?:\.\d+)?))?"
)


def date_text(text: str) -> str:
    """PostgreSQL's text of DuckDB's text of a date or timestamp."""
    return f"{text.replace(' (BC)', '')} BC" if "(BC)" in text else text


def date_number(text: str) -> int:
    """Days since 2000 of DuckDB's text of a date."""
    return _DAYS[text] if text in _DAYS else moment_number(text) // DAY


def moment_number(text: str) -> int:
    """Microseconds since 2000 of DuckDB's text of a timestamp. Days are counted in years that begin in March."""
    if text in _ALWAYS:
        return _ALWAYS[text]
    read = _DATE.fullmatch(text)
    if read is None:
        raise ValueError
    month, day = int(read["month"]), int(read["day"])
    year = (1 - int(read["year"]) if read["bc"] else int(read["year"])) - (month < 3)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month - 3) % 12) + 2) // 5 + day - 730_426
    return days * DAY + (clock_number(read["clock"]) if read["clock"] else 0)


def date_of(days: int) -> str:
    """DuckDB's text of a date in days since 2000."""
    for text, number in _DAYS.items():
        if days == number:
            return text
    cycles, rest = divmod(_EPOCH + days - 1, _CYCLE)
    date = datetime.date.fromordinal(rest + 1)
    year = date.year + 400 * cycles
    shown = f"{year if year > 0 else 1 - year:04}-{date.month:02}-{date.day:02}"
    return shown if year > 0 else f"{shown} (BC)"


def moment_of(micro: int, *, zoned: bool = False) -> str:
    """DuckDB's text of a timestamp in microseconds since 2000; if `zoned`, with the zone UTC."""
    for text, number in _ALWAYS.items():
        if micro == number:
            return text
    days, rest = divmod(micro, DAY)
    return f"{date_of(days)} {clock_of(rest)}{'+00' if zoned else ''}"


def read_date(text: str) -> str:
    """DuckDB's text of a date from PostgreSQL's: the day is read, and a time and a zone are dropped."""
    read = _GIVEN.fullmatch(text)
    return text if read is None else read["day"] + (" (BC)" if read["bc"] else "")


def read_moment(text: str, *, zoned: bool = False) -> str:
    """DuckDB's text of a timestamp from PostgreSQL's. Without `zoned`, a zone is dropped."""
    read = _GIVEN.fullmatch(text)
    if read is None:
        return text
    zone = read["zone"] or "" if zoned else ""
    return f"{read['day']}{' (BC)' if read['bc'] else ''} {read['clock'] or '00:00:00'}{zone}"


def is_only_postgresql(text: str) -> bool:
    """True for the text of a time with a zone or an era, which DuckDB reads otherwise or not at all."""
    read = _GIVEN.fullmatch(text)
    return read is not None and bool(read["zone"] or read["bc"])


def clock_number(text: str) -> int:
    """Microseconds of a time of day."""
    hours, minutes, seconds = text.split(":")[:3]
    whole, _, rest = seconds.partition(".")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(whole) * 1_000_000 + int(f"{rest:0<6}"[:6])


def clock_of(micro: int) -> str:
    """A time of day. Raises ValueError beyond 24:00."""
    if not 0 <= micro <= DAY:
        raise ValueError
    seconds, rest = divmod(micro, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def zoned_clock_binary(text: str) -> bytes:
    """A time with a zone: microseconds, and seconds west of Greenwich."""
    clock, sign, zone = re.match(r"([\d:.]+)([+-])(.*)", text).groups()  # type: ignore[union-attr]
    seconds = clock_number(f"{zone}:0:0") // 1_000_000
    return struct.pack("!qi", clock_number(clock), -seconds if sign == "+" else seconds)


def zoned_clock_of(content: bytes) -> str:
    """DuckDB's text of a time with a zone."""
    micro, west = struct.unpack("!qi", content)
    return f"{clock_of(micro)}{'-' if west > 0 else '+'}{clock_of(abs(west) * 1_000_000)[:8]}"


def read_span(text: str) -> str:
    """DuckDB's text of an interval from PostgreSQL's, which has + after a negative part."""
    return re.sub(r"\+(?=\d)", "", text)


def span_text(text: str) -> str:
    """PostgreSQL's text of an interval: a part after a negative one has a sign."""
    *parts, sign, clock = _SPAN.match(text).groups()  # type: ignore[union-attr]
    shown, is_negative = [], False
    for part, unit in zip(parts, ("year", "mon", "day"), strict=True):
        if number := int(part or 0):
            shown.append(f"{'+' if is_negative and number > 0 else ''}{number} {unit}{'' if number == 1 else 's'}")
            is_negative = number < 0
    if not shown or clock_number(clock or "0:0:0"):
        shown.append(f"{sign or ('+' if is_negative else '')}{clock or '00:00:00'}")
    return " ".join(shown)


def span_binary(text: str) -> bytes:
    """An interval: microseconds, days, months."""
    years, months, days, sign, clock = _SPAN.match(text).groups()  # type: ignore[union-attr]
    micro = clock_number(clock or "0:0:0") * (-1 if sign else 1)
    return struct.pack("!qii", micro, int(days or 0), 12 * int(years or 0) + int(months or 0))


def span_of(content: bytes) -> str:
    """DuckDB's text of an interval."""
    micro, days, months = struct.unpack("!qii", content)
    return f"{months} months {days} days {micro} microseconds"
