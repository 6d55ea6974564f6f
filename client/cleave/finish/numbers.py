"""Numbers after decryption: exact rationals, and balls that certainly contain the true value.

Balls are Arb's (python-flint): a midpoint and a radius that covers all rounding errors (Johansson, Arb: efficient
arbitrary-precision midpoint-radius interval arithmetic, 2017). Rationals stay exact until a root or a ball is involved.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from enum import Enum
from fractions import Fraction

from flint import arb, fmpq

from cleave.aggregates.balls import Number, nearest, rational

_MOST_BITS = 4096  # above this a rational becomes a ball, and a magnitude beyond 2^this is not computed
_LARGEST = fmpq(2) ** 5000
_SMALLEST = 1 / _LARGEST
_MOST_QUOTIENTS = 4  # possible quotients of a remainder that are listed one by one
ZERO, ONE = fmpq(0), fmpq(1)


class Special(Enum):
    NULL = "NULL"
    NAN = "NaN"
    UP = "Infinity"
    DOWN = "-Infinity"
    FAILED = "an error"  # DuckDB raises one
    UNKNOWN = "unknown"  # any value of the type, or NULL


def fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def ball(value: Number) -> arb:
    return value if isinstance(value, arb) else arb(value)


def tidy(value: Number) -> Number | Special:
    """`value`; a rational with too many digits becomes a ball, an infinite ball becomes unknown."""
    if isinstance(value, fmpq):
        return arb(value) if value.height_bits() > _MOST_BITS else value
    return value if value.is_finite() else Special.UNKNOWN


def ends(value: Number) -> tuple[fmpq, fmpq]:
    """An interval that contains the value. An end above all doubles becomes 2^5000, one below all becomes 2^-5000."""
    if isinstance(value, fmpq):
        return value, value
    return _outer(value.lower(), up=False), _outer(value.upper(), up=True)


def _outer(end: arb, *, up: bool) -> fmpq:
    size = abs(end)
    if size > _LARGEST:
        return _LARGEST if end > 0 else -_LARGEST
    if size < _SMALLEST:
        inwards = (end > 0) == up
        return ZERO if not inwards or end == 0 else (_SMALLEST if up else -_SMALLEST)
    return end.fmpq()


def hull(*values: Number) -> Number:
    """The smallest ball around all values."""
    first, *others = values
    if all(isinstance(other, fmpq) and other == first for other in others):
        return first
    joined = ball(first)
    for other in others:
        joined = joined.union(ball(other))
    return joined


def not_negative(value: arb) -> arb:
    """Cut `value` off at 0, exactly."""
    if value.lower() >= 0 or not value.is_finite():
        return value
    return value.nonnegative_part() if value.upper() > 0 else arb(0)


def between(low: fmpq, high: fmpq) -> Number:
    return low if low == high else arb(low).union(arb(high))


def nearest_single(value: float) -> float:
    """The nearest FLOAT, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def held(value: fmpq) -> Number:
    """The values that a DOUBLE for `value` may have: `value` itself, or the nearest double."""
    double = nearest(value)
    return value if math.isinf(double) else between(*sorted((value, rational(double))))


def as_double(value: Number) -> Number:
    """Widen `value` before a decision over a DOUBLE, so that it also contains the rounded double."""
    low, high = ends(value)
    return hull(held(low), held(high), value)


# step functions


def stepped(value: Number, step: Callable[[fmpq], int], unit: fmpq = ONE) -> tuple[Number, ...]:
    """Possible results of a rising step function with steps at multiples of `unit`.

    Several numbers if `value` crosses a step that is wider than its own uncertainty. Otherwise one ball contains all
    results.
    """
    low, high = (step(end / unit) for end in ends(value))
    if low == high:
        return (unit * low,)
    if 2 * ball(value).rad() < arb(unit):
        return tuple(unit * place for place in range(low, high + 1))
    return (between(unit * low, unit * high),)


def down(value: fmpq) -> int:
    return int(value.floor())


def up(value: fmpq) -> int:
    return int(value.ceil())


def inwards(value: fmpq) -> int:
    return int(value.floor() if value >= 0 else value.ceil())


def half_away(value: fmpq) -> int:
    size = int((abs(value) + fmpq(1, 2)).floor())
    return size if value >= 0 else -size


def half_even(value: fmpq) -> int:
    return round(fraction(value))


def sign(value: fmpq) -> int:
    return int(value > 0) - int(value < 0)


def remainder(a: Number, b: Number) -> tuple[tuple[Number, ...], bool]:
    """Return the possible values of a - b trunc(a / b), and whether trunc(a / b) has several. `b` is not 0."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return (a - b * inwards(a / b),), False
    low, high = (inwards(end) for end in ends(ball(a) / ball(b)))
    if low == high:
        return (a - b * low,), False
    most = ball(b).abs_upper()
    if high - low < _MOST_QUOTIENTS:
        return tuple(_clipped(ball(a) - ball(b) * place, most) for place in range(low, high + 1)), True
    return (arb(0, most),), True


def _clipped(value: arb, most: arb) -> arb:
    try:
        return value.intersection(arb(0, most))
    except ValueError:  # this quotient does not occur
        return value


# smooth functions with an edge


def root(value: Number) -> tuple[Number | Special, ...]:
    low, high = ends(value)
    if high < 0:
        return (Special.NAN,)
    if low >= 0:
        exact_root = _rational_root(value)
        return (ball(value).sqrt() if exact_root is None else exact_root,)
    return Special.NAN, not_negative(ball(value)).sqrt()


def _rational_root(value: Number) -> fmpq | None:
    if not isinstance(value, fmpq):
        return None
    over, under = math.isqrt(int(value.p)), math.isqrt(int(value.q))
    return fmpq(over, under) if over * over == value.p and under * under == value.q else None


def cube_root(value: Number) -> Number:
    low, high = ends(value)
    if low >= 0:
        return ball(value).root(3)
    if high <= 0:
        return -((-ball(value)).root(3))
    return (arb(high).root(3)).union(-(arb(-low).root(3)))


def logarithm(value: Number, base: int | None = None) -> tuple[Number | Special, ...]:
    low, high = ends(value)
    if low > 0:
        if value == 1:
            return (ZERO,)
        return (ball(value).log() if base is None else ball(value).log() / arb(base).log(),)
    if high < 0:
        return (Special.NAN,)
    return (Special.DOWN,) if low == high == 0 else (Special.UNKNOWN,)


def power(a: Number, b: Number) -> tuple[Number | Special, ...]:
    if isinstance(b, fmpq) and b == 0:
        return (ONE,)
    low, high = ends(a)
    if isinstance(b, fmpq) and b.q == 1:
        return _whole_power(a, int(b.p), across=low <= 0 <= high)
    least, _ = ends(b)
    if low > 0:
        return ((ball(a).log() * ball(b)).exp(),)
    if isinstance(b, arb) or least <= 0:
        return (Special.UNKNOWN,)
    if high < 0:
        return (Special.NAN,)
    if high == 0:
        return (ZERO,) if low == 0 else (Special.UNKNOWN,)
    positive = arb(0).union((arb(high).log() * ball(b)).exp())
    return (positive,) if low == 0 else (Special.NAN, positive)


def _signed_power(a: fmpq, b: int) -> arb:
    return arb(0) if a == 0 else arb(a) ** b


def _whole_power(a: Number, b: int, *, across: bool) -> tuple[Number | Special, ...]:
    if b < 0 and across:
        # 0^-2 is infinite; for an odd power the sign of the zero decides, which is unknown
        return (Special.UP,) if isinstance(a, fmpq) and b % 2 == 0 else (Special.UNKNOWN,)
    if isinstance(a, fmpq) and abs(b) * a.height_bits() < _MOST_BITS:
        return (a**b,)
    if not across:
        return (ball(a) ** b,)
    low, high = (_signed_power(end, b) for end in ends(a))
    return (not_negative(ball(hull(low, high, ZERO))) if b % 2 == 0 else hull(low, high),)


def above(value: fmpq) -> float:
    """The smallest double that is at least `value` >= 0."""
    double = nearest(value)
    return double if math.isinf(double) or rational(double) >= value else math.nextafter(double, math.inf)
