"""Conversion of exact rationals and certified balls to figures.

A ball is Arb's: a midpoint and a radius that covers all rounding errors (Johansson, "Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic", 2017). Arithmetic of rationals is exact; a rational and a ball give a ball.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import flint
from flint import arb, fmpq

from cleave.aggregates.base import Estimate, Figure

Number = fmpq | arb
_BITS = 192  # midpoints are more precise than the noise needs; radii cover their rounding
_ROOT_BITS = 64  # of a correctly rounded root; a double has 53


@contextmanager
def precision() -> Iterator[None]:
    with flint.ctx.workprec(_BITS):
        yield


def rational(value: int | float | Decimal | Fraction | fmpq) -> fmpq:
    return value if isinstance(value, fmpq) else fmpq(*value.as_integer_ratio())


def number(estimate: Estimate) -> Number:
    """A rational if the estimate is exact, else a ball."""
    middle = rational(estimate.value)
    return middle if estimate.exact else arb(arb(middle), arb(rational(estimate.bound)))


def not_negative(value: arb) -> arb:
    """Cut `value` off at 0, because smaller values are impossible. The new radius is rounded to 30 bits."""
    if value.lower() >= 0:
        return value
    half = value.abs_upper() / 2 if value.upper() <= 0 else value.upper() / 2
    return arb(half, half)


def within(value: arb, low: int, high: int) -> arb:
    """Cut `value` off outside `low`..`high`, because such values are impossible."""
    ends = arb(low), arb(high)
    if value.lower() >= low and value.upper() <= high:
        return value
    if value.upper() <= low or value.lower() >= high:  # outside by rounding of its last bits, or not finite
        return ends[0].union(ends[1]) if not value.is_finite() else ends[0] if value.upper() <= low else ends[1]
    return max(value.lower(), ends[0]).union(min(value.upper(), ends[1]))


def nearest(value: Fraction | fmpq) -> float:
    """The nearest double; infinite on overflow; never -0.0."""
    try:
        return int(value.numerator) / int(value.denominator)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def figure_of(value: Number) -> Figure:
    return exact_double(value) if isinstance(value, fmpq) else inexact(value)


def exact_double(value: Fraction | fmpq) -> Figure:
    """`value`, correctly rounded to a double. On overflow the bound is unknown."""
    double = nearest(value)
    finite = math.isfinite(double)
    return Figure(double, 0.0 if finite else math.inf, finite, rational(value))


def rounded(double: float, ball: arb) -> Figure:
    """`double` as the correctly rounded value of `ball`: its error is at most half a unit in the last place."""
    return Figure(double, half_unit(double) if math.isfinite(double) else math.inf, exact=False, ball=ball)


def half_unit(double: float) -> float:
    """Half a unit in the last place; the smallest positive double on underflow."""
    return max(math.ulp(double) / 2, math.ulp(0.0))


def root(value: Number) -> Figure:
    """The square root of `value`, which is 0 or more."""
    if isinstance(value, fmpq):
        return exact_root(value)
    # root of the ends: the root of a ball that touches 0 would reach below 0
    lower = value.lower()
    return inexact((lower.sqrt() if lower > 0 else arb(0)).union(value.upper().sqrt()))


def exact_root(value: Fraction | fmpq, sign: int = 1) -> Figure:
    """sqrt(`value`) * `sign`, for `value` >= 0: exact if the root is rational, else correctly rounded."""
    top, bottom = int(value.numerator), int(value.denominator)
    above, below = math.isqrt(top), math.isqrt(bottom)
    if above**2 == top and below**2 == bottom:
        return exact_double(fmpq(sign * above, below))
    shift = max(0, _ROOT_BITS - (top.bit_length() - bottom.bit_length()) // 2)
    scaled = (top << (2 * shift)) // bottom
    floor = math.isqrt(scaled)
    # if digits were cut off, the last bit is set to 1, so the value is not mistaken for a tie
    cut = floor * floor != scaled or scaled * bottom != top << (2 * shift)
    with precision():
        return rounded(nearest(fmpq(sign * (2 * floor + cut), 2 << shift)), sign * arb(rational(value)).sqrt())


def inexact(value: arb) -> Figure:
    """The double nearest to the midpoint of `value`. Its bound is the largest distance to a point of the ball.

    NaN if that distance is beyond every double; infinite if all of the ball is.
    """
    middle = float(value.mid())
    if value.is_finite() and math.isfinite(middle):
        bound = upper((value - arb(middle)).abs_upper())
        return Figure(middle if math.isfinite(bound) else math.nan, bound, exact=False, ball=value)
    sure = value.is_finite() and value.abs_lower() > arb(sys.float_info.max)
    return Figure(middle if sure else math.nan, math.inf, exact=False, ball=value)


def upper(value: arb) -> float:
    """The smallest double that is at least `value` >= 0."""
    bound = value.upper()
    rounded = float(bound)
    return rounded if arb(rounded) >= bound else math.nextafter(rounded, math.inf)
