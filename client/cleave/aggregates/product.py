"""PRODUCT(x)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import TINY, UNIT_EXACT, count_of, nearest, roundings, upper

_LN2 = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D, 1 << 192)
_LARGEST = Fraction(709)  # e^709 < the largest double
_FAR = Fraction(100_000)  # e to that power, or its inverse, is beyond any double


class Product:
    """Magnitude from a sum of logarithms, sign from the number of negative values, 0 if any value is 0. A DOUBLE for
    every type, as in DuckDB, whose running product may overflow half-way although the result would not: where the range
    of the values allows that, there is no bound (infinite). NULL where no value is left.
    """

    names = ("PRODUCT",)
    formula = "(-1)^negatives exp(sum of ln|x|), 0 if any x is 0"
    leaks = "the product of a group, whether it holds a zero, and its sign; of a group of one row, the value"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.LOG, Moment.NEGATIVE, Moment.ZERO})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:  # noqa: ARG002
        count = count_of(moments)
        if not count:
            return Figure(None, 0.0, exact=True)
        log = moments[Moment.LOG]
        factors = count - int(moments[Moment.ZERO].value)
        peak = _highest_partial(log, factors, facts)
        if factors < count:
            return Figure(0.0, 0.0, exact=True) if peak < _LARGEST else Figure(0.0, math.inf, exact=False)
        magnitude = exponential(log.value)
        sign = -1.0 if int(moments[Moment.NEGATIVE].value) % 2 else 1.0
        value = sign * nearest(magnitude)
        if math.isinf(value) or peak >= _LARGEST or log.bound > 1:
            return Figure(value, math.inf, exact=False)
        # DuckDB multiplies n times, having rounded each factor to a double; e^b - 1 <= b + b^2 for b <= 1
        relative = log.bound + log.bound**2 + UNIT_EXACT * (2 * roundings(2 * count) + 4)
        underflows = TINY * count * (exponential(peak) + 1)
        return Figure(value, upper(magnitude * relative + underflows), exact=False)


def exponential(power: Fraction) -> Fraction:
    """e^power to within 4 units, also where doubles overflow or underflow; clamped far beyond that."""
    power = max(-_FAR, min(power, _FAR))
    twos = round(power / _LN2)
    return Fraction(math.exp(float(power - twos * _LN2))) * Fraction(2) ** twos


def _highest_partial(log: Estimate, factors: int, facts: ColumnFacts) -> Fraction:
    """An upper bound of ln|product| over any of the group's factors, in any order."""
    bounds = [factors * Fraction(max(0.0, _ln(facts.largest)))]
    if facts.smallest > 0:  # what lies above 1 is the total and what lies below 1
        bounds.append(log.value + log.bound + factors * Fraction(max(0.0, -_ln(facts.smallest))))
    return max(min(bounds), log.value + log.bound, Fraction(0)) * (1 + 4 * UNIT_EXACT)


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
