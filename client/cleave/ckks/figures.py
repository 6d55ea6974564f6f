"""Each aggregate's figures for all groups, computed one column at a time and when first read.

`Columns.figures` computes one group with fractions and balls, for any aggregate; that takes about 100 us per group.
Here sums, means and counts of all groups are computed together, as integers over a common denominator. Balls are made
only if totals have bounds. Both give the same bits (tests/unit/test_figure_columns.py). Other aggregates use
`Columns.figures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb, fmpq

from cleave.aggregates.balls import exact_double, inexact, precision, rational
from cleave.aggregates.base import Estimate, ExactColumn, Figure, grid, null
from cleave.ckks.columns import Columns, LinearColumn
from cleave.ckks.job import GroupTotals, Job


@dataclass(frozen=True, slots=True)
class _Sums:
    """A group's sum is `numerators` / `denominator`, within its radius. Without radii the sums are exact."""

    numerators: list[int]
    denominator: int
    radii: list[arb] | None


class Figures:
    """Figures of groups. Each combines `members`, which are groups of the job, and has a number of rows in `sizes`.
    Without a job nothing was encrypted.

    Raises CheckFailed if the job has not been answered completely.
    """

    def __init__(
        self, columns: Columns, job: Job | None, members: Sequence[Sequence[int]], sizes: Sequence[int]
    ) -> None:
        self._columns = columns
        self._job = job
        self._members = members
        self._sizes = sizes
        single = all(len(each) == 1 for each in members)
        self._totals = job.totals if job and single else None  # combined groups are left to `Columns`
        self._groups = [each[0] for each in members] if single else []
        self._rows = [sizes[group] for group in self._groups]
        self._figures: dict[int, list[Figure]] = {}
        self._summed: dict[int, _Sums | None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def column(self, number: int) -> Sequence[Figure]:
        """One figure per group of aggregate `number`."""
        if number not in self._figures:
            with precision():
                column = self._linear_column(number)
            self._figures[number] = [row[number] for row in self._others] if column is None else column
        return self._figures[number]

    def exact(self, number: int) -> ExactColumn | None:
        """Exact values of aggregate `number`, one per group; None if it is not certain that all are exact."""
        linear = self._columns.linear(number)
        if linear is None or self._totals is None:
            return None
        counts = self._counts(linear, self._totals)
        if linear.kind == "count":
            return ExactColumn(list(counts), 0)
        sums = self._sums(number, linear, self._totals)
        if sums is None or sums.radii is not None:
            return None
        pairs = zip(sums.numerators, counts, strict=True)
        if linear.kind == "mean":
            try:  # dividing two integers rounds correctly
                return ExactColumn([each / (sums.denominator * n) if n else None for each, n in pairs], None)
            except OverflowError:
                return None
        times, rest = divmod(10**linear.decimals, sums.denominator)
        return None if rest else ExactColumn([each * times if n else None for each, n in pairs], linear.decimals)

    @cached_property
    def _others(self) -> list[list[Figure]]:
        nothing, job = [Estimate(Fraction(0))] * len(self._columns.types), self._job
        moments = {
            place: self._columns.read(job.totals.estimates(place) if job else nothing, self._sizes[place])
            for place in dict.fromkeys(place for each in self._members for place in each)
        }
        return self._columns.finished(self._columns.added([moments[place] for place in each]) for each in self._members)

    def _linear_column(self, number: int) -> list[Figure] | None:
        linear = self._columns.linear(number)
        if linear is None or self._totals is None:
            return None
        counts = self._counts(linear, self._totals)
        if linear.kind == "count":
            return [Figure(count, 0.0, exact=True, ball=fmpq(count)) for count in counts]
        sums = self._sums(number, linear, self._totals)
        if sums is None:
            return None
        mean, below = linear.kind == "mean", sums.denominator
        if sums.radii is not None:
            return [
                (inexact(arb(fmpq(above, below), radius) / count if mean else arb(fmpq(above, below), radius)))
                if count
                else null()
                for above, radius, count in zip(sums.numerators, sums.radii, counts, strict=True)
            ]
        make: Callable[[Fraction, int], Figure] = _mean if mean else _decimal if linear.decimals else _integer
        return [
            make(Fraction(above, below), count) if count else null()
            for above, count in zip(sums.numerators, counts, strict=True)
        ]

    def _counts(self, linear: LinearColumn, totals: GroupTotals) -> Sequence[int]:
        return self._rows if linear.flags is None else self._chosen(totals.whole(linear.flags).totals)

    def _chosen(self, every: Sequence[int]) -> list[int]:
        return [every[group] for group in self._groups]

    def _sums(self, number: int, linear: LinearColumn, totals: GroupTotals) -> _Sums | None:
        if number not in self._summed:
            self._summed[number] = self._sums_of(linear, totals)
        return self._summed[number]

    def _sums_of(self, linear: LinearColumn, every: GroupTotals) -> _Sums | None:
        """Sums of all groups, decoded and bounded; None if nothing bounds them."""
        whole, decoding = every.whole(linear.column), linear.decoding
        totals, counts = self._chosen(whole.totals), self._counts(linear, every)
        if whole.bound is None:
            if decoding.each:
                return None
            below = math.lcm(decoding.unit.denominator, decoding.shift.denominator)
            each, shift = int(decoding.unit * below), int(decoding.shift * below)
            return _Sums([each * total + shift * n for total, n in zip(totals, counts, strict=True)], below, None)
        terms = self._chosen(every.terms)
        snaps = {each: _Snap.for_bound(whole.bound(each), whole.exponent) for each in dict.fromkeys(terms)}
        steps = {each: snap.unit * decoding.unit for each, snap in snaps.items()}
        below = math.lcm(decoding.shift.denominator, *(step.denominator for step in steps.values()))
        times, shift = {each: int(step * below) for each, step in steps.items()}, int(decoding.shift * below)
        kinds = list(zip(terms, counts if decoding.each else [0] * len(terms), strict=True))
        radii = {
            (each, n): arb(rational(decoding.unit * snaps[each].bound + n * decoding.each))
            for each, n in dict.fromkeys(kinds)
        }
        return _Sums(
            [
                snaps[each].nearest(total) * times[each] + shift * n
                for total, each, n in zip(totals, terms, counts, strict=True)
            ],
            below,
            [radii[kind] for kind in kinds],
        )


@dataclass(frozen=True, slots=True)
class _Snap:
    """A rounded total's unit and bound, both as multiples of the total's own unit."""

    unit: Fraction
    bound: Fraction
    bits: int  # the unit is 2^bits of the total's own unit

    @classmethod
    def for_bound(cls, bound: Fraction, exponent: int) -> _Snap:
        unit = grid(bound)
        return cls(unit, bound + unit / 2, unit.numerator.bit_length() - unit.denominator.bit_length() + exponent)

    def nearest(self, total: int) -> int:
        """`total` in units of the snap, rounded half to even."""
        if self.bits <= 0:
            return total << -self.bits
        whole, rest, half = total >> self.bits, total & ((1 << self.bits) - 1), 1 << (self.bits - 1)
        return whole + (rest > half or (rest == half and whole & 1))


def _integer(value: Fraction, _count: int) -> Figure:
    return Figure(int(value), 0.0, exact=True, ball=rational(value))


def _decimal(value: Fraction, _count: int) -> Figure:
    return Figure(value, 0.0, exact=True, ball=rational(value))


def _mean(value: Fraction, count: int) -> Figure:
    return exact_double(value / count)
