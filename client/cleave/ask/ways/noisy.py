"""A noisy release, which an owner has sealed to an analyst: figures of groups of its cells, with 95% intervals.

The total of a group is the sum of its cells' numbers, and its noise that of all of them. An interval is of the noise,
around the total of the rows that the release kept. Intervals of

    COUNT, SUM        the deviation of the noise times ln(20) / sqrt(2), which one draw stays within in 95% of cases
    AVG               Fieller's: all ratios that a sum and a count within their noise may have; within the clamp
    VARIANCE, STDDEV  the delta method: the noise of count, sum and sum of squares, each times its derivative

A mean or variance whose interval is outside what the clamp allows has all that the clamp allows.

Source: Fieller, "Some problems in interval estimation" (J. Royal Statistical Society B 16, 1954).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from cleave.aggregates.base import Figure, undecided
from cleave.aggregates.group import Aggregate, EncryptedAggregate
from cleave.ask.question import GroupSums
from cleave.ask.way import WayContext
from cleave.ask.ways.opened_release import OpenedRelease, ReleaseWay
from cleave.disclosure.noise import factor, half_width, variance
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.release import ReleaseHead
from cleave.sql.bounds import Types
from cleave.sql.nodes import Node
from cleave.sql.plan import Argument, FigureSource, QueryPlan
from cleave.sql.rejoin import Members
from cleave.store.cells import Cells
from cleave.store.lanes import Integers
from cleave.store.manifest import Measure
from cleave.sums.cellwise import Selection
from cleave.sums.combination import Combination, TotalOf
from cleave.sums.needs import CutSums, KeptTotals
from cleave.sums.pairs import AggregateOperand
from cleave.table.privacy import epsilon_text
from cleave.text.quantities import counted

_NAMES: Final = frozenset(
    {"COUNT", "COUNT_IF", "SUM", "FSUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"}
)
ROWS: Final[TotalOf] = (-1, "rows")
_NO_CELL: Final = (
    "incomplete: the conditions select no cell of the release, and rows with values that it does not declare "
    "count nowhere: there may be such rows"
)


class NoisySums(KeptTotals):
    """Sums that a noisy release has."""

    counts: FigureSource = "noisy"
    way_on = ""

    def __init__(self, measures: Sequence[Measure], by: Sequence[str], parts: Collection[TotalOf]) -> None:
        super().__init__(measures, by, "a noisy release has numbers alone, no rows")
        self._parts = parts
        if not any(part == "square" for _, part in parts):
            self.answers, self.more = "counts, sums, means", "; variances need a release with --squares"

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        name = aggregate.names[0]
        if name not in _NAMES:
            return f"a noisy release answers COUNT, SUM, AVG, VARIANCE and STDDEV, not {name}"
        lacking = super().aggregate(aggregate, arguments, types)
        if lacking:
            return lacking
        operand = self.operands[tuple(each.sql for _, each in arguments)]
        if not isinstance(operand, Combination) or operand.squares:
            return "a noisy release answers sums of columns, not of their products"
        needed = operand.needs(aggregate, self._measures)
        if any(which not in self._parts and which[1] == "square" for which in needed if not isinstance(which, str)):
            return f"the release has no sums of squares, which {name} needs"
        return ""


class OpenedNoisy(OpenedRelease):
    """One noisy release, opened."""

    no_threshold = "a noisy release shows all groups, and says of none how large it is"

    def __init__(self, head: ReleaseHead, totals: NoisyTotals) -> None:
        super().__init__(head, totals, Cells(list(totals.keys()), [1] * totals.cells))
        self.totals = totals
        self.places: dict[TotalOf, int] = {
            ROWS if each.measure is None else (each.measure, each.part): place
            for place, each in enumerate(totals.statistics)
        }

    @property
    def sums(self) -> NoisySums:
        return NoisySums(self.totals.measures, self.by, self.places)

    def way(self, sums: KeptTotals, cut: QueryPlan) -> NoisyWay:
        return NoisyWay(sums.sums_for(cut))

    def shown(self, cut: QueryPlan) -> QueryPlan:
        outputs = tuple(replace(each, source="noisy") if each.source == "encrypted" else each for each in cut.outputs)
        return replace(cut, outputs=outputs)

    @cached_property
    def numbers(self) -> dict[TotalOf, Integers]:
        """By statistic, the number of each cell (cells,)."""
        return {which: np.array(self.totals.numbers[place], object) for which, place in self.places.items()}

    def deviation(self, which: TotalOf) -> float:
        """Standard deviation of the noise of one cell, in the units of its number."""
        return math.sqrt(variance(self.totals.statistics[self.places[which]].scale))

    @property
    def note(self) -> str:
        """A footnote to its answers."""
        totals = self.totals
        return (
            f"release {self.head.number}: noisy, drawn {totals.at}, epsilon {epsilon_text(totals.epsilon)}, up to "
            f"{counted(totals.most_rows, 'row')} of each person; \N{PLUS-MINUS SIGN} is a 95% interval of the noise, "
            "around the total of the rows kept"
        )


@dataclass(frozen=True)
class NoisyWay(ReleaseWay[OpenedNoisy]):
    name = "noisy release"

    def answer(self, context: WayContext[OpenedNoisy]) -> GroupSums:
        release, needs = context.place, self.needs
        selection = Selection(release.cells.rows, release.table, needs)
        figures = [
            _Figures(release, needs, each, needs.operands[place], selection)
            for each, place in zip(needs.cut.encrypted, needs.places, strict=True)
        ]

        def of_groups(members: Sequence[Members], _: Sequence[int]) -> list[list[Figure]]:
            return [[each.figure(of) for each in figures] for of in members]

        return GroupSums(
            needs.cut,
            selection.keys,
            selection.counts,
            figures=of_groups,
            warnings=[_NO_CELL] if not len(selection.cells) or not all(each.has_cells for each in figures) else [],
            note=release.note,
        )


@dataclass(frozen=True, slots=True)
class Noised:
    """A number with noise, and the standard deviation of that noise."""

    value: Fraction
    deviation: float

    def times(self, factor_: Fraction) -> Noised:
        return Noised(self.value * factor_, self.deviation * abs(float(factor_)))


class _Figures:
    """The figures of one aggregate, of whichever groups taken together."""

    def __init__(
        self,
        release: OpenedNoisy,
        needs: CutSums,
        encrypted: EncryptedAggregate,
        operand: AggregateOperand,
        selection: Selection,
    ) -> None:
        assert isinstance(operand, Combination)  # noqa: S101 - of one argument, as all that a release answers
        combination = operand
        self._name = encrypted.aggregate.names[0]
        self._type = encrypted.type
        self._combination = combination
        self._measures = needs.measures
        counting = combination.counted(needs.measures)
        self._counting: TotalOf = ROWS if counting is None else (counting, "count")
        wanted = [self._counting, *((number, "sum") for number, _ in combination.terms)]
        if self._name.startswith(("VAR_", "STDDEV_")):
            wanted += [(number, "square") for number, _ in combination.terms]
        self._cells = selection.total(np.ones(len(release.cells), np.int64), combination.filter)
        self._totals = {which: selection.total(release.numbers[which], combination.filter) for which in wanted}
        self._deviations = {which: release.deviation(which) for which in wanted}

    @property
    def has_cells(self) -> bool:
        """False if the conditions select no cell of any group."""
        return any(self._cells)

    def figure(self, members: Members) -> Figure:
        cells = sum(self._cells[group] for group in members)
        if not cells:
            return _of_no_cell(self._name)
        totals = {
            which: Noised(Fraction(sum(of[group] for group in members)), self._deviations[which] * math.sqrt(cells))
            for which, of in self._totals.items()
        }
        count = totals[self._counting]
        if self._name == "COUNT":
            return _whole(count.value, half_width(count.deviation))
        if self._name in ("SUM", "FSUM", "COUNT_IF"):
            return self._sum(totals, count)
        if self._name == "AVG":
            return mean_of(self._terms(totals), count, self._combination.constant, *self._ends())
        (number, scale), *_ = self._combination.terms or ((0, Fraction(0)),)
        unit = scale / Fraction(10) ** self._decimals(number)
        return spread_of(self._name, totals[number, "square"], totals[number, "sum"], count, unit, *self._ends())

    def _decimals(self, number: int) -> int:
        return self._measures[number].decimals or 0

    def _terms(self, totals: Mapping[TotalOf, Noised]) -> Noised:
        """The sum without its constant."""
        terms = [
            totals[number, "sum"].times(scale / Fraction(10) ** self._decimals(number))
            for number, scale in self._combination.terms
        ]
        return Noised(sum((each.value for each in terms), Fraction(0)), math.hypot(*(each.deviation for each in terms)))

    def _ends(self) -> tuple[Fraction, Fraction]:
        """The least and the largest value of the argument without its constant, by the clamps."""
        low = high = Fraction(0)
        for number, scale in self._combination.terms:
            measure = self._measures[number]
            ends = [
                scale * Fraction(int(end or 0), 10 ** self._decimals(number)) for end in (measure.lower, measure.upper)
            ]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _sum(self, totals: Mapping[TotalOf, Noised], count: Noised) -> Figure:
        terms, constant = self._terms(totals), self._combination.constant
        value, deviation = (
            terms.value + constant * count.value,
            math.hypot(terms.deviation, abs(float(constant)) * count.deviation),
        )
        steps = [abs(float(scale)) / 10 ** self._decimals(number) for number, scale in self._combination.terms]
        half = half_width(deviation, max([*steps, abs(float(constant))]))
        return _whole(value, half) if value.denominator == 1 and self._type != "DOUBLE" else _figure(value, half)


def _of_no_cell(name: str) -> Figure:
    """SQL's figure of no row. How many rows count nowhere is unknown, so nothing bounds it."""
    return Figure(0 if name.startswith("COUNT") else None, math.inf, exact=False)


def _whole(value: Fraction, half: float) -> Figure:
    return Figure(int(value), half, exact=False)


def _figure(value: Fraction, half: float) -> Figure:
    return Figure(value, half, exact=False)


def _between(value: float, low: float, high: float) -> Figure:
    """A double within `low`..`high`."""
    value = min(max(value, low), high)
    return Figure(value, math.nextafter(max(high - value, value - low), math.inf), exact=False)


def mean_of(total: Noised, count: Noised, constant: Fraction, low: Fraction, high: Fraction) -> Figure:
    """Fieller's interval of total / count: the t for which total - t count is within its noise."""
    z, number = factor(), float(count.value)
    if number - z * count.deviation < 1:  # there may be no value
        return undecided()
    s, ratio = float(total.value), float(total.value / count.value)
    a = number**2 - (z * count.deviation) ** 2
    b = s * number
    c = s**2 - (z * total.deviation) ** 2
    reach = math.sqrt(max(0.0, b * b - a * c)) / a
    least, most = max(float(low), b / a - reach), min(float(high), b / a + reach)
    if least > most:  # the noise is outside its interval: the clamp alone is known
        least, most = float(low), float(high)
    return _between(ratio + float(constant), least + float(constant), most + float(constant))


def spread_of(
    name: str, squares: Noised, total: Noised, count: Noised, unit: Fraction, low: Fraction, high: Fraction
) -> Figure:
    """The delta method's interval of a variance, or the roots of its ends. `unit`: of a value."""
    z, number, is_sample = factor(), count.value, name.endswith("SAMP")
    if float(number) - z * count.deviation <= 1:  # there may be no second value
        return undecided()
    mean = total.value / number
    divisor = number - 1 if is_sample else number
    value = (squares.value - total.value * mean) / divisor
    by_count = (mean**2 - value) / divisor
    deviation = math.hypot(
        squares.deviation / float(divisor),
        total.deviation * 2 * abs(float(mean / divisor)),
        count.deviation * abs(float(by_count)),
    )
    scale = float(unit) ** 2
    most = float((high - low) ** 2 / 4) * float(number / divisor)  # half of the values at either end
    middle, reach = float(value) * scale, z * deviation * scale
    least, largest = max(0.0, middle - reach), min(most, middle + reach)
    if least > largest:  # as for a mean
        least, largest = 0.0, most
    if name.startswith("STD"):
        return _between(math.sqrt(min(max(middle, 0.0), most)), math.sqrt(least), math.sqrt(largest))
    return _between(middle, least, largest)


__all__ = ["Noised", "NoisySums", "NoisyWay", "OpenedNoisy", "mean_of", "spread_of"]
