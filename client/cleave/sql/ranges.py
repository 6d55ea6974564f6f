"""Ranges of numbers, rounded outwards as DuckDB's types round.

A range is a pair of fractions: the smallest and largest possible value. DuckDB's exact types compute exactly or fail.
Its floating-point operations and casts round correctly, so monotonically: a result is between the rounded ends.
Functions that round more than once are widened by `SLACK`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cleave.table.types import decimals_of, range_of

SLACK = Fraction(8, 2**53)  # relative: eight roundings of a double
_MANTISSA = {"FLOAT": 24, "DOUBLE": 53}  # bits
_EXACT_POWER = {"FLOAT": 10, "DOUBLE": 22}  # the largest power of ten that the type holds exactly
_WORDS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "BOOLEAN")


@dataclass(frozen=True, slots=True)
class Range:
    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError("a range ends before it begins")

    @property
    def magnitude(self) -> Fraction:
        return max(abs(self.lower), abs(self.upper))

    @property
    def least_magnitude(self) -> Fraction:
        return Fraction(0) if self.lower <= 0 <= self.upper else min(abs(self.lower), abs(self.upper))

    def __add__(self, other: Range) -> Range:
        return Range(self.lower + other.lower, self.upper + other.upper)

    def __neg__(self) -> Range:
        return Range(-self.upper, -self.lower)

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        ends = [one * two for one in (self.lower, self.upper) for two in (other.lower, other.upper)]
        return Range(min(ends), max(ends))

    def over(self, divisor: Range) -> Range | None:
        """None if the divisor may be 0."""
        if divisor.least_magnitude == 0:
            return None
        return self * Range(1 / divisor.upper, 1 / divisor.lower)

    def remainder(self, divisor: Range) -> Range:
        """The remainder of a division rounded towards zero. It is no larger than either operand, and has the sign of
        this one.
        """
        most = min(self.magnitude, divisor.magnitude)
        return Range(-most if self.lower < 0 else Fraction(0), most if self.upper > 0 else Fraction(0))

    def __abs__(self) -> Range:
        return Range(self.least_magnitude, self.magnitude)

    def power(self, exponent: int) -> Range:
        if exponent % 2 == 0:
            size = abs(self)
            return Range(size.lower**exponent, size.upper**exponent)
        return Range(self.lower**exponent, self.upper**exponent)

    def whole(self) -> Range:
        """The range widened to integers."""
        return Range(Fraction(math.floor(self.lower)), Fraction(math.ceil(self.upper)))

    def hull(self, other: Range) -> Range:
        return Range(min(self.lower, other.lower), max(self.upper, other.upper))

    def widened(self, slack: Fraction = SLACK) -> Range:
        return Range(self.lower - abs(self.lower) * slack, self.upper + abs(self.upper) * slack)


BOOLEAN = Range(Fraction(0), Fraction(1))


def range_of_type(type_: str) -> Range | None:
    """All values of an exact type; None for other types."""
    decimals = decimals_of(type_)
    if decimals is None:
        return None
    lower, upper = range_of(type_)
    return Range(Fraction(lower, 10**decimals), Fraction(upper, 10**decimals))


def cast(range_: Range, source: str, target: str) -> Range | None:
    """The range of a value in `range_`, of type `source`, after a cast to `target`; None if unknown.

    DuckDB fails for a value that does not fit `target`, so the range is cut to its limits.
    """
    if source == target:
        return range_
    if target in _MANTISSA:
        return _as_double(range_, source, target)
    if target == "BOOLEAN":
        return BOOLEAN
    whole = range_of_type(target)
    if whole is None:
        return None
    unit = 10 ** (decimals_of(target) or 0)
    lower, upper = range_.lower * unit, range_.upper * unit
    if source in _MANTISSA and unit > 1:  # DuckDB multiplies it as a double before rounding
        exact = unit <= 10 ** _EXACT_POWER[source]
        product = round_outwards(Range(lower, upper), source) if exact else None
        if product is None:
            return whole
        lower, upper = product.lower, product.upper
    lower, upper = Fraction(math.floor(lower), unit), Fraction(math.ceil(upper), unit)
    if lower > whole.upper or upper < whole.lower:
        return whole  # every value fails
    return Range(max(lower, whole.lower), min(upper, whole.upper))


def _as_double(range_: Range, source: str, target: str) -> Range | None:
    decimals = decimals_of(source) or 0
    is_short = range_.magnitude * 10**decimals <= 1 << _MANTISSA[target] and decimals <= _EXACT_POWER[target]
    if source not in (*_MANTISSA, *_WORDS) and not is_short:  # computed from parts
        range_ = range_.widened(SLACK * 2 ** (53 - _MANTISSA[target]))
    return round_outwards(range_, target)


def round_outwards(range_: Range, type_: str) -> Range | None:
    """Widen to numbers of a floating-point type; None if they would be infinite."""
    lower, upper = _next(range_.lower, type_, -math.inf), _next(range_.upper, type_, math.inf)
    if lower is None or upper is None:
        return None
    return Range(lower, upper)


def _next(value: Fraction, type_: str, towards: float) -> Fraction | None:
    try:
        near = float(value)
    except OverflowError:
        return None
    if type_ == "FLOAT":
        with np.errstate(over="ignore"):
            single = np.float32(near)
        if not np.isfinite(single):
            return None
        near = float(single)
        if (Fraction(near) > value) if towards < 0 else (Fraction(near) < value):
            near = float(np.nextafter(single, np.float32(towards)))
    elif (Fraction(near) > value) if towards < 0 else (Fraction(near) < value):
        near = math.nextafter(near, towards)
    return Fraction(near) if math.isfinite(near) else None
