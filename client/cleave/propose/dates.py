"""Which columns of text are dates or times, and by which format: one that explains every field, and no other does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from cleave.table.cast import formatted, is_null_token
from cleave.table.dates import pattern
from cleave.table.duck import identifier
from cleave.table.table import Table

_SEPARATED = [order.replace(" ", mark) for mark in "./-" for order in ("%d %m %Y", "%m %d %Y", "%d %m %y", "%m %d %y")]
_NAMED = ["%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y"]
_DATES = [*_SEPARATED, "%Y.%m.%d", "%Y/%m/%d", *_NAMED]
_TIMES = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"]
# with points the day comes first everywhere
_FORMATS = [date + time for date in _DATES for time in _TIMES if not date.startswith("%m.")]
_LIKE = re.compile(  # cheap to ask of every text column
    r"\s*(?:\d{1,4}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2}\.?[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, \d{4})"
    r"(?: [\d:]+(?: ?[AaPp][Mm])?)?\s*"
)
_ROW = '"place in the file"'  # not rowid: a column of the file may be called that
_MOSTLY = 0.9


class Draft(Protocol):
    """Draft of a column; `type`, `format` and `note` are set here."""

    name: str
    sample: tuple[str, ...]
    type: str
    format: str | None
    note: str


def name_dates(text: Table, drafts: Sequence[Draft], null_tokens: Iterable[str]) -> None:
    """Day before month or not is told by the columns that only one way explains; else they stay text, with a note."""
    solid = f"{{0}} IS NOT NULL AND NOT {is_null_token('{0}', tuple(null_tokens))}"
    undecided: list[tuple[Draft, list[str]]] = []
    chosen: set[str] = set()
    for draft in drafts:
        if sum(_LIKE.fullmatch(one) is not None for one in draft.sample) < _MOSTLY * len(draft.sample):
            continue
        likely = [one for one in _FORMATS if _fits(draft.sample, one) >= _MOSTLY * len(draft.sample)]
        reading = {one: _first_other(text, draft, one, solid) for one in likely}
        formats = [one for one, row in reading.items() if row is None]
        if len(formats) == 1:
            _settle(draft, formats[0])
            chosen.add(formats[0])
        elif formats:
            undecided.append((draft, formats))
        elif reading:
            date_format, row = max(reading.items(), key=lambda item: item[1] or 0)
            draft.note = f"most are dates written {date_format}, others are not, the first in data row {row}"
    for draft, formats in undecided:
        known = [one for one in formats if one in chosen]
        if len(known) == 1:
            _settle(draft, known[0])
        else:
            choice = " or ".join(f'"{one}"' for one in formats)
            draft.note = f"dates, but day and month cannot be told apart: set type DATE and format = {choice}"


def _fits(sample: Sequence[str], date_format: str) -> int:
    written = re.compile(pattern(date_format), re.ASCII)
    return sum(written.fullmatch(one) is not None for one in sample)


def _first_other(text: Table, draft: Draft, date_format: str, solid: str) -> int | None:
    """The first row that the format does not explain, None where it explains all."""
    name = identifier(draft.name)
    value = formatted(name, date_format, _type(date_format))
    numbered = f"SELECT *, row_number() OVER () AS {_ROW} FROM {text.relation}"
    (row,) = text.connection.execute(
        f"SELECT min({_ROW}) FROM ({numbered}) WHERE {solid.format(name)} AND {value} IS NULL"
    ).fetchall()[0]
    return None if row is None else int(row)


def _settle(draft: Draft, date_format: str) -> None:
    draft.type, draft.format = _type(date_format), date_format
    if "%y" in date_format:
        draft.note = "check the century: years of two digits are 1969 to 2068"


def _type(date_format: str) -> str:
    return "TIMESTAMP" if "%M" in date_format else "DATE"
