"""Fractions to float64 and back, and what a float64 engine loses on the way.

Bounds are against DuckDB's own float64 arithmetic on the unsplit table, whose rounding depends on the order of rows and
threads (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 2.8 and 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from cleave.aggregates.base import SIGMAS, UNIT, ColumnFacts, Estimate, Moment

UNIT_EXACT = Fraction(UNIT)
TINY = Fraction(2) ** -1074  # the smallest subnormal: what an underflow loses at most
OVERFLOW = Fraction(2) ** 1023
_SQRT_BITS = 160


def nearest(value: Fraction) -> float:
    """The double nearest to `value`, infinite where doubles overflow."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def upper(value: Fraction) -> float:
    """A double that is not below `value` >= 0."""
    rounded = nearest(value)
    return rounded if math.isinf(rounded) or Fraction(rounded) >= value else math.nextafter(rounded, math.inf)


def square_root(value: Fraction) -> Fraction:
    """The square root to 80 bits, rounded down."""
    if value <= 0:
        return Fraction(0)
    shift = (_SQRT_BITS - value.numerator.bit_length() + value.denominator.bit_length()) // 2
    scaled = value * Fraction(4) ** shift
    return math.isqrt(scaled.numerator // scaled.denominator) / Fraction(2) ** shift


def roundings(count: int) -> Fraction:
    """How many units `count` independent roundings add up to: a random walk."""
    return Fraction(min(float(count), SIGMAS * math.sqrt(count)))


def of_doubles(value: Fraction, loss: Fraction, peak: Fraction) -> tuple[float, float]:
    """`value` as a double, and the bound on its distance to an engine's that lost `loss`.

    Infinite where the engine's intermediate results, up to `peak`, could overflow: it depends on the order of rows.
    """
    rounded = nearest(value)
    if max(peak, abs(value)) >= OVERFLOW:
        return rounded, math.inf
    return rounded, upper(loss + UNIT_EXACT * abs(value) + (TINY if value else 0))


def count_of(moments: Mapping[Moment, Estimate]) -> int:
    return int(moments[Moment.COUNT].value)


def total_of(moments: Mapping[Moment, Estimate], facts: ColumnFacts) -> Estimate:
    """sum x from sum (x - c)."""
    shifted = moments[Moment.SUM]
    return Estimate(shifted.value + count_of(moments) * facts.centre, shifted.bound)


def magnitude(moments: Mapping[Moment, Estimate], facts: ColumnFacts) -> Fraction:
    """An upper bound of sum |x| over a group: the least of what the moments and the column's range allow."""
    count, total = count_of(moments), total_of(moments, facts)
    bounds = [count * Fraction(facts.largest)]
    if math.isfinite(facts.lowest):  # |x| <= x + 2 max(0, -lowest)
        bounds.append(total.value + total.bound + 2 * count * Fraction(max(0.0, -facts.lowest)))
    if Moment.SQUARE in moments:  # sum |x| <= sum |x - c| + n |c|, and Cauchy-Schwarz
        squares = moments[Moment.SQUARE]
        spread = square_root(count * (squares.value + squares.bound)) * (1 + UNIT_EXACT)
        bounds.append(spread + count * abs(facts.centre))
    return max(min(bounds), abs(total.value) + total.bound)


def summation_loss(count: int, magnitude: Fraction) -> Fraction:
    """What an engine's running sum of `count` doubles loses, their absolute values adding up to `magnitude`.

    The worst case, n - 1 units: equal values, and those with equal digits after the point, are all rounded the same
    way, so that no random walk can be assumed (50,000 times 1000000.1 came out five times beyond one).
    """
    return UNIT_EXACT * (count - 1) * magnitude
