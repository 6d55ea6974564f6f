"""Which totals of a cell a release has, so that no sums of all releases together are over fewer than N rows.

A cell has a first value once it has N rows. A later release renews the value where at least N rows were added since and
none removed, or at least N removed and none added. Else the old value stays. A cell that has grown so is not renewed
when it shrinks, because it is not known which of its rows are gone; nor the other way around. A cell that lost all its
rows has no value any more, whatever comes into it later.

So the rows behind all values of a cell fall into parts of at least N rows each: the first or last value, and the rows
that came or went with each renewal. Every linear combination of values of the cell is over whole parts.

The same holds for values of several cells, since no row is in the values of two. While a table has releases, no change
moves a row to another cell (cleave.maintain.changes, cleave.store.put). A row that left the table may come back into
any cell. So once rows have left after the first release, no row that was added since is released: the release is
`closed`, and values are renewed only where rows were removed.

A measure that may be NULL divides each part in two: rows with and without a value. Unless each of them is empty or has
N rows, the measure is not shown in the cell, or the cell not renewed. The same holds where two measures that read one
column both divide a part: `SUM(a)` and `SUM(b)` without `SUM(a + b)` are over the rows that have an `a` and no `b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class MeasureSums:
    """Totals of one measure in one cell: how many values, their sum, and that of their squares."""

    count: int = 0
    sum: int = 0
    square: int = 0


@dataclass(frozen=True, slots=True)
class CellValue:
    """A cell as it is, or as it was when release `number` gave it this value; `cell` is its number in the table.

    `gone`: rows that were ever taken out of it by then. `measures`: None for one that is not shown. `steps`: renewals
    so far, all of which made it larger (`way` 1) or smaller (-1).
    """

    cell: int
    rows: int
    gone: int
    measures: tuple[MeasureSums | None, ...]
    number: int = 0
    steps: int = 0
    way: int = 0


def released(
    now: CellValue, past: CellValue | None, least: int, reads: Sequence[frozenset[str]], *, closed: bool = False
) -> CellValue | None:
    """The value that a release has of a cell of `least` rows; None: none, and nothing of it was released before.

    One of 0 rows: it had a value, and has none from now on. `now` has all its measures; of `past`, the value that was
    released last, the measures are in the same order, and None where they were not shown or not there. `reads`: columns
    by measure. `closed`: rows left the table after its first release.
    """
    if past is None:
        return replace(now, measures=_shown_first(now, least, reads)) if now.rows >= least and not closed else None
    if now.rows == 0 or past.rows == 0:
        return replace(past, rows=0, measures=tuple(None for _ in past.measures))
    removed = now.gone - past.gone
    added = now.rows - past.rows + removed
    if past.cell != now.cell or removed < 0 or added < 0 or (added and (removed or closed)):
        return past
    if not added and not removed:
        return replace(past, measures=_shown_more(now, past, least, reads))
    way = 1 if added else -1
    if max(added, removed) < least or way == -past.way or now.rows < least or not _is_whole(now, past, least, reads):
        return past
    grown = replace(past, steps=past.steps + 1, way=way)
    return replace(
        now, number=now.number, measures=_shown_more(now, grown, least, reads), steps=grown.steps, way=grown.way
    )


def _is_whole(now: CellValue, past: CellValue, least: int, reads: Sequence[frozenset[str]]) -> bool:
    """Check whether a renewal divides the rows that came or went, and those left, into parts that are large enough."""
    change = abs(now.rows - past.rows)
    changed: set[str] = set()  # columns of measures that divide the rows that came or went
    left: set[str] = set()  # and those left
    for new, old, columns in zip(now.measures, past.measures, reads, strict=True):
        if new is None or old is None:
            continue
        values = abs(new.count - old.count)
        if not _joins(values, change, least, columns, changed):
            return False
        if not _joins(new.count, now.rows, least, columns, left):
            return False
        if (new.count - old.count) * (now.rows - past.rows) < 0:  # what was added or removed was something else too
            return False
    return True


def _shown_first(now: CellValue, least: int, reads: Sequence[frozenset[str]]) -> tuple[MeasureSums | None, ...]:
    divided: set[str] = set()
    return tuple(
        each if each is not None and _joins(each.count, now.rows, least, columns, divided) else None
        for each, columns in zip(now.measures, reads, strict=True)
    )


def _shown_more(
    now: CellValue, past: CellValue, least: int, reads: Sequence[frozenset[str]]
) -> tuple[MeasureSums | None, ...]:
    """The measures of `now` that were shown before; of the others those that divide no part."""
    if not past.steps:
        more = _shown_first(now, least, reads)
    else:
        whole = (0, now.rows) if past.way > 0 else ()
        more = tuple(each if each is not None and each.count in whole else None for each in now.measures)
    every = zip(now.measures, past.measures, more, strict=True)
    return tuple(new if old is not None else other for new, old, other in every)


def _joins(values: int, rows: int, least: int, columns: frozenset[str], divided: set[str]) -> bool:
    """Check whether a measure with `values` in `rows` fits, and divides them only if no other of its columns does.

    `divided`: columns of measures that do; its own are added.
    """
    if not _fits(values, rows, least):
        return False
    if values in (0, rows):
        return True
    is_first = columns.isdisjoint(divided)
    divided |= columns
    return is_first


def _fits(values: int, rows: int, least: int) -> bool:
    """Check whether `values` of `rows` rows are none, all, or enough, and so the others."""
    return all(each == 0 or each >= least for each in (values, rows - values))


def chosen(columns: Sequence[frozenset[str]], least: int) -> list[int]:
    """The measures that are released, by number, given the columns that each reads.

    Of every column fewer totals are released than a cell has rows: `least` unknown values do not follow from fewer
    equations. A measure has two totals besides its count.
    """
    equations: dict[str, int] = {}
    numbers = []
    for number, read in enumerate(columns):
        if all(equations.get(name, 0) + 2 < least for name in read):
            numbers.append(number)
            for name in read:
                equations[name] = equations.get(name, 0) + 2
    return numbers
