"""Counts of people who leave in each time step, asked as ordinary statements.

Where a threshold is in force, an answer leaves out small counts. Then steps are merged with those that follow, alike in
all groups, and counted again under the same threshold, until it leaves nothing out. To choose the steps, counts of any
size are read on this machine; only counts that an answer under the threshold shows go further.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import Number, rational
from cleave.models.certified import given_number
from cleave.models.curves import Leaving
from cleave.models.sums import KeyedGroup, ModelSums
from cleave.table.duck import identifier
from cleave.table.schema import Column
from cleave.table.types import FLOATS, decimals_of, is_integer, is_number
from cleave_shared import limits
from cleave_shared.errors import InputError, QueryRefused, UsageError

MOST_VALUES = 60  # distinct times without a width: a curve by the day identifies people
MOST_STEPS = 200
MOST_GROUPS = 50
MOST_DIGITS = 15  # of a width on each side of the point: step ends stay literals of DuckDB
_DOUBLINGS = 6  # of the rows that a merged step needs, as one person may have many
_NEGATIVE = "-1"
_WIDEST = 1 << 31  # of events: their squares are BIGINTs
_BOUNDS = "store the column as BOOLEAN, or with lower = 0 and upper = 1 in the schema"
_TIMES_WRITTEN = 3  # a key in one statement
_ROOM = 1_000  # characters of a statement besides

Width = int | float | Decimal | Fraction | str
_Counts = Mapping[tuple[Any, int], int]  # rows by group and event, of one step


@dataclass(frozen=True, slots=True)
class Counted:
    """People who leave, by group and in the order of time. `left_out`: rows without a time, event or group. `merged`:
    steps were merged for the threshold.
    """

    groups: Mapping[Any, Sequence[Leaving]]
    left_out: int
    merged: bool
    width: Fraction | None


def counted(sums: ModelSums, time: Column, event: Column, by: Column | None, width: Width | None) -> Counted:
    """Raises InputError for columns or a width that do not fit, QueryRefused where a group is too small."""
    return _Steps(sums, time, event, by, _width(width, time)).counted()


def _width(width: Width | None, time: Column) -> Fraction | None:
    if not is_number(time.type):
        raise InputError(
            f"the times {time.name!r} are {time.type}, not numbers",
            hint="use a number of days, months or years since each person's start",
        )
    if width is None:
        if time.type in FLOATS:
            raise InputError(
                f"the times {time.name!r} are doubles, and need a width of the steps", hint="such as --width 30"
            )
        return None
    try:
        found = given_number(width, MOST_DIGITS)
    except ValueError:
        raise UsageError("the width of the steps is a number above 0", name="--width") from None
    if found is None:
        raise UsageError(f"the width of the steps is between 1e-{MOST_DIGITS} and 1e{MOST_DIGITS}", name="--width")
    if found <= 0:
        raise UsageError("the width of the steps is a number above 0", name="--width")
    digits = decimals_of(time.type) or 0
    if found * 10**digits % 1:
        raise UsageError(
            f"the width of the steps has more decimals than the times {time.name!r} ({time.type})",
            hint="use a width with as many decimals, or a whole number",
            name="--width",
        )
    return found


@dataclass(slots=True)
class _StepRows:
    """Rows by group, start of a step, and event. `left_out`: rows without one of them."""

    rows: dict[tuple[Any, fmpq, int], int]
    left_out: int


class _Steps:
    def __init__(self, sums: ModelSums, time: Column, event: Column, by: Column | None, width: Fraction | None) -> None:
        if event.type != "BOOLEAN" and not is_integer(event.type):
            raise InputError(
                f"the events {event.name!r} are {event.type}, not BOOLEAN or whole numbers 0 and 1",
                hint="add a column that is true where the event happened",
            )
        self._sums, self._time, self._event, self._by, self._width = sums, time, event, by, width
        self._timed = " AND ".join(f"{identifier(each.name)} IS NOT NULL" for each in (time, event) if each.nullable)

    def counted(self) -> Counted:
        sums, step = self._sums, self._step()
        found = self._first(step)
        left_out = found.left_out
        merged = False
        ends = {start: self._end(start) for _, start, _ in found.rows}
        if sums.min_group:  # count events as groups, so that a small count of them is left out
            before = sums.left_out
            found = self._timed_rows(step)
            ends = {start: self._end(start) for _, start, _ in found.rows}
            merged = sums.left_out > before
            if merged:
                found, ends = self._merged(step)
            if not sums.released:
                left_out = self._left_out()
            if self._by:
                found.rows = {key: rows for key, rows in found.rows.items() if key[0] is not None}
        groups = {group for group, _, _ in found.rows}
        if len(groups) > MOST_GROUPS:
            raise QueryRefused(f"there are more than {MOST_GROUPS} groups", hint="use a coarser column")
        leaving: dict[Any, list[Leaving]] = {}
        for group, start in sorted({(group, start) for group, start, _ in found.rows}, key=lambda each: each[1]):
            events, censored = (found.rows.get((group, start, event), 0) for event in (1, 0))
            leaving.setdefault(group, []).append(Leaving(ends[start], events, censored))
        if not leaving:
            raise QueryRefused("no row has a time and an event", hint="look for NULLs in the columns")
        ordered = sorted(leaving, key=lambda group: (type(group).__name__, group))
        return Counted({group: leaving[group] for group in ordered}, left_out, merged, self._width)

    def _first(self, step: str) -> _StepRows:
        """Ask for events in the cheaper of two forms: as groups, or as a sum. A release may have only one of them."""
        try:
            return self._ask(step, is_key=self._sums.is_key(self._event.name))
        except QueryRefused:
            if not self._sums.released:
                raise
        return self._ask(step, is_key=False)

    def _timed_rows(self, step: str, *, unseen: bool = False) -> _StepRows:
        """Ask under the threshold for rows with a time and an event. Those without a group are the group None: a curve
        of all rows less those of the groups would tell of them.
        """
        return self._ask(step, is_key=True, where=self._timed, unseen=unseen, ungrouped=True)

    def _step(self) -> str:
        """SQL of the start of a row's step, or of its time if each time is a step; negative if the time is."""
        time = identifier(self._time.name)
        step = time if self._width is None else f"{time} - {time} % {_literal(self._width)}"
        if self._time.lower is not None and self._time.lower >= 0:
            return step
        return f"CASE WHEN {time} < 0 THEN {_NEGATIVE} ELSE {step} END"

    def _end(self, start: fmpq) -> fmpq:
        return start + rational(self._width) if self._width is not None else start

    def _ask(
        self, step: str, *, is_key: bool, where: str = "", unseen: bool = False, ungrouped: bool = False
    ) -> _StepRows:
        by = [identifier(self._by.name)] if self._by else []
        event = identifier(self._event.name)
        keys = [*by, step, *([event] if is_key else [])]
        figures = [] if is_key else self._figures(event)
        found = _StepRows({}, 0)
        for cell in self._sums.ask(keys, [tuple(range(len(keys)))], figures, where, unseen=unseen):
            if None in cell.keys[len(by) if ungrouped else 0 :]:
                found.left_out += cell.rows
                continue
            group = cell.keys[0] if by else None
            start = _start(cell.keys[len(by)], self._time)
            counts = self._keyed(cell) if is_key else self._summed(cell)
            found.left_out += cell.rows - sum(counts.values())
            found.rows |= {(group, start, number): rows for number, rows in counts.items() if rows}
        self._require_few({start for _, start, _ in found.rows})
        return found

    def _figures(self, event: str) -> list[str]:
        """SQL of the sum of events, of the sum of squares unless bounds limit them to 0 and 1, and of the number of
        rows that have one. Raises InputError if the bounds are too wide to square.
        """
        column = self._event
        figures = [f"SUM({event})"]
        if not self._is_bounded:
            bounds = (column.lower, column.upper)
            if any(each is None or abs(each) > _WIDEST for each in bounds):
                raise InputError(
                    f"the events {column.name!r} may be other than 0 and 1 by their declared bounds", hint=_BOUNDS
                )
            figures.append(f"SUM({event} * {event})")
        return [*figures, *([f"COUNT({event})"] if column.nullable else [])]

    @property
    def _is_bounded(self) -> bool:
        """True if events can only be 0 and 1."""
        event = self._event
        return event.type == "BOOLEAN" or (event.lower is not None and event.lower >= 0 and event.upper in (0, 1))

    def _keyed(self, group: KeyedGroup) -> dict[int, int]:
        """The rows of a group, by its event."""
        event = group.keys[-1]
        if event not in (0, 1):
            raise self._no_event()
        return {int(event): group.rows}

    def _no_event(self) -> InputError:
        return InputError(
            f"the events {self._event.name!r} have values other than 0 and 1",
            hint="1 or true: the event happened; 0 or false: the person left without it",
        )

    def _summed(self, group: KeyedGroup) -> dict[int, int]:
        """The rows of a group without and with the event."""
        if any(total.hidden for total in group.totals):
            hint = "" if self._is_bounded else f"the totals must show that no event is other than 0 and 1: {_BOUNDS}"
            raise QueryRefused(f"the number of events {self._event.name!r} is withheld in some step", hint=hint)
        if not self._is_bounded and _whole(group.totals[0].value) != _whole(group.totals[1].value):
            raise self._no_event()  # of whole numbers, only 0 and 1 are their own squares, and no square is smaller
        events, present = (_whole(total.value) for total in (group.totals[0], group.totals[-1]))
        if not self._event.nullable:
            present = group.rows
        return {0: present - events, 1: events}

    def _require_few(self, starts: Collection[fmpq]) -> None:
        if any(start < 0 for start in starts):
            raise InputError(f"the times {self._time.name!r} have negative values", hint="count from each one's start")
        if self._width is None and len(starts) > MOST_VALUES:
            raise QueryRefused(
                f"the times {self._time.name!r} have more than {MOST_VALUES} values: a curve with so many steps tells "
                "about single people",
                hint="give a width of the steps, such as --width 30",
            )
        if len(starts) > MOST_STEPS:
            raise QueryRefused(f"a curve has at most {MOST_STEPS} steps", hint="give a larger width")

    def _merged(self, step: str) -> tuple[_StepRows, dict[fmpq, fmpq]]:
        """Rows of merged steps, by their numbers, and the end of each."""
        sums = self._sums
        fine: dict[fmpq, dict[tuple[Any, int], int]] = {}
        unseen = self._timed_rows(step, unseen=True)
        for (group, start, event), rows in unseen.rows.items():
            fine.setdefault(start, {})[group, event] = rows
        starts = sorted(fine)
        for power in range(_DOUBLINGS + 1):
            lasts = merge([fine[start] for start in starts], sums.min_group << power)
            if lasts is None:
                break
            ends = [self._end(starts[last]) for last in lasts]
            before = sums.left_out
            found = self._timed_rows(self._case(ends))
            if sums.left_out == before:
                return found, {fmpq(place): end for place, end in enumerate(ends)}
        without = ", or without one, " if self._by and self._by.nullable else " "
        where = f"in a group of {self._by.name!r}{without}" if self._by else ""
        raise QueryRefused(
            f"{where}fewer than {sums.min_group} {sums.people} have the event {self._event.name!r}, or are without it "
            "(rules P2 and P3)",
            hint="use coarser groups, or none" if self._by else "a curve needs more people",
        )

    def _case(self, ends: Sequence[fmpq]) -> str:
        """SQL of the number of a row's merged step."""
        time, sign = identifier(self._time.name), "<=" if self._width is None else "<"
        if len(ends) == 1:
            return f"CASE WHEN {time} < 0 THEN {_NEGATIVE} ELSE 0 END"
        cases = " ".join(
            f"WHEN {time} {sign} {_literal(Fraction(int(end.p), int(end.q)))} THEN {place}"
            for place, end in enumerate(ends[:-1])
        )
        case = f"CASE {cases} ELSE {len(ends) - 1} END"
        if _TIMES_WRITTEN * len(case) > limits.MAX_SQL_CHARS - _ROOM:
            raise QueryRefused(
                f"{len(ends)} merged steps of {self._time.name!r} are too many for one statement",
                hint="give a larger width",
            )
        return case

    def _left_out(self) -> int:
        """The rows that lack a value. Raises QueryRefused if few lack some."""
        nullable = [each for each in (self._time, self._event, self._by) if each is not None and each.nullable]
        tests = [f"({identifier(each.name)} IS NULL)" for each in nullable]
        groups = self._sums.missing(tests, [tuple(range(len(tests)))], [True] * len(tests), ())
        if groups is None:
            raise QueryRefused(
                f"fewer than {self._sums.min_group} {self._sums.people} lack a time, event or group, or some of "
                "these (rule A1)",
                hint=f"use columns without missing values instead of some of {', '.join(c.name for c in nullable)}",
            )
        return sum(each.rows for each in groups if any(each.keys))


def merge(steps: Sequence[_Counts], least: int) -> list[int] | None:
    """The last index of each merged step: every count of rows in it is none, or at least `least`.

    A step is merged with those that follow; what is left at the end goes to the step before. None if even all steps
    together have a smaller count.
    """
    lasts: list[int] = []
    merged: list[dict[tuple[Any, int], int]] = []
    current: dict[tuple[Any, int], int] = {}
    for place, step in enumerate(steps):
        _add(current, step)
        if min(current.values(), default=0) >= least:
            lasts.append(place)
            merged.append(current)
            current = {}
    while current and min(current.values()) < least:
        if not merged:
            return None
        _add(current, merged.pop())
        lasts.pop()
    return [*lasts, len(steps) - 1] if current else lasts


def _add(counts: dict[tuple[Any, int], int], more: _Counts) -> None:
    for key, rows in more.items():
        counts[key] = counts.get(key, 0) + rows


def _start(key: Any, time: Column) -> fmpq:
    if isinstance(key, float) and not math.isfinite(key):
        raise InputError(f"the times {time.name!r} have values that are not finite", hint="look for infinity and NaN")
    return rational(key)


def _literal(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"


def _whole(value: Number | None) -> int:
    """A number of rows; SQL's sum of no rows is NULL. Raises QueryRefused if the bound leaves it open."""
    if value is None:
        return 0
    whole = value.unique_fmpz() if isinstance(value, arb) else value.p
    if whole is None:
        raise QueryRefused("the number of events is not exact", hint="use a boolean or whole column of events")
    return int(whole)
