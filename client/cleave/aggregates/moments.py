"""Moments: sums over one or two arguments, and the sums from which a product of values follows.

Powers and products are taken about a centre c. Exact values are raised as integers, about the middle of their domain. A
real column is first scaled by a power of two to at most 1, so nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cleave.aggregates import columns
from cleave.aggregates.base import Decoding, Moment
from cleave.aggregates.columns import ColumnType, Domain, Doubles, Exact, Flags, Real, Words
from cleave.aggregates.operand import Operand

UNIT = Fraction(1, 2**53)  # unit roundoff of a double: relative error of one rounding
# Relative error of numpy's logarithm: 2 units in the last place. Its vectorised kernels state less than 1. A test
# checks this on the processor where it runs.
LOGARITHM = 4 * UNIT
_FARTHEST_LOG = 746.0  # -ln of the smallest double, 2^-1074, is 744.5
# Bound on what powers of a column scaled to [0, 1) lose below the normal range; 2^-1074 would suffice.
_UNDERFLOW = Fraction(1, 2**1000)
Y, X = 0, 1  # order of the arguments of pairs


@dataclass(frozen=True, slots=True)
class Sum(Moment):
    """Sum of x. Doubles are encrypted as x - c, exact values as x - lower."""

    of: int = 0
    name: str = "sum"

    def column(self, arguments: Sequence[Domain]) -> ColumnType:
        (domain,) = arguments
        if domain.is_exact:
            return Exact(domain.width)
        spans_zero = domain.nullable or domain.low <= 0 <= domain.high
        return Real(
            reach=math.nextafter(domain.high - domain.low, math.inf),
            least=0.0 if spans_zero else min(abs(domain.low), abs(domain.high)),
        )

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        (x,) = arguments
        if x.domain.is_exact:
            return x.above, Decoding(Fraction(1, x.domain.unit), Fraction(x.domain.lower, x.domain.unit))
        return x.distance, Decoding(shift=x.centre, each=Fraction(x.lost), void=x.spread == 0)


@dataclass(frozen=True, slots=True)
class Power(Moment):
    """Sum of (x - c)^degree, for degree 2, 3 or 4. Exact cubes are counted from the smallest possible cube."""

    degree: int
    of: int = 0

    @property
    def name(self) -> str:
        return {2: "square", 3: "cube", 4: "fourth power"}[self.degree]

    def column(self, arguments: Sequence[Domain]) -> ColumnType:
        (domain,) = arguments
        return Exact((1 + self.degree % 2) * _reach(domain) ** self.degree) if domain.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        (x,) = arguments
        return self._of_integers(x) if x.domain.is_exact else self._of_doubles(x)

    def _of_integers(self, x: Operand) -> tuple[Words, Decoding]:
        farthest, (sizes, below) = _reach(x.domain), _distances(x)
        squares, unit = columns.multiply(sizes, sizes, farthest, farthest), Fraction(1, x.domain.unit**self.degree)
        if self.degree == 2:
            return squares, Decoding(unit)
        if self.degree == 4:
            return columns.multiply(squares, squares, farthest**2, farthest**2), Decoding(unit)
        cubes = columns.multiply(squares, sizes, farthest**2, farthest)
        return x.zeroed(columns.above(cubes, below, farthest**3)), Decoding(unit, shift=-(farthest**3) * unit)

    def _of_doubles(self, x: Operand) -> tuple[Doubles, Decoding]:
        exponent = math.frexp(x.spread)[1]
        scaled = np.ldexp(x.distance, -exponent)
        unit = Fraction(2**self.degree) ** exponent if x.spread else Fraction(0)
        squares, void = np.square(scaled), x.spread == 0
        if self.degree == 3:
            lost = Fraction(x.lost) / Fraction(2) ** exponent if x.lost else Fraction(0)
            # two roundings of at most 1 unit, and three times the error `lost` of a difference; signs differ, so no
            # error is relative to the total
            each = 3 * UNIT + 4 * lost + _UNDERFLOW
            return squares * scaled, Decoding(unit, each=unit * each, void=void)
        # relative errors: one rounding for a square; three for a fourth power, since the square's counts twice; a
        # difference with an error of 1 unit counts `degree` times
        share = (2 if x.lost else 1) * self.degree * UNIT
        column = squares if self.degree == 2 else np.square(squares)
        return column, Decoding(unit, each=unit * _UNDERFLOW, share=share, void=void)


@dataclass(frozen=True, slots=True)
class Cross(Moment):
    """Sum of (x - c)(y - c'). Two exact arguments give integers, counted from the smallest possible product. An exact
    argument beside a real one is read as doubles.
    """

    name: str = "cross"

    @property
    def reads(self) -> tuple[int, ...]:
        return 0, 1

    def column(self, arguments: Sequence[Domain]) -> ColumnType:
        x, y = arguments
        return Exact(2 * _reach(x) * _reach(y)) if x.is_exact and y.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        x, y = arguments
        if x.domain.is_exact and y.domain.is_exact:
            (sizes, below), (others, others_below) = _distances(x), _distances(y)
            limit = _reach(x.domain) * _reach(y.domain)
            products = columns.multiply(sizes, others, _reach(x.domain), _reach(y.domain))
            unit = Fraction(1, x.domain.unit * y.domain.unit)
            return x.zeroed(columns.above(products, below ^ others_below, limit)), Decoding(unit, shift=-limit * unit)
        (one, lost, scale), (other, other_lost, other_scale) = _doubles(x), _doubles(y)
        unit = scale * other_scale
        # each factor is at most 1 and has its own error; the product is rounded once
        each = UNIT + lost + other_lost + lost * other_lost + _UNDERFLOW
        return one * other, Decoding(unit, each=unit * each, void=not unit)


@dataclass(frozen=True, slots=True)
class Log(Moment):
    """Sum of ln|x| over all x except 0."""

    of: int = 0
    name: str = "log"

    def column(self, arguments: Sequence[Domain]) -> ColumnType:  # noqa: ARG002 - the same for every domain
        return Real(reach=_FARTHEST_LOG)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        (x,) = arguments
        if x.domain.is_exact:
            apart, _ = _from_zero(x)
            sizes = columns.doubles(apart) / float(x.domain.unit)
            rounded = (len(apart) + 3) * UNIT  # roundings of the size to a double, of the unit, and of the division
        else:
            sizes, rounded = np.abs(x.values), Fraction(0)
        logs = np.zeros(len(sizes))
        np.log(sizes, out=logs, where=(sizes > 0) if x.present is None else (sizes > 0) & x.present)
        largest = float(np.abs(logs).max(initial=0.0))
        # |ln(1 + r)| <= 2r; the exact logarithm may exceed the rounded one by its error
        each = LOGARITHM * 2 * Fraction(largest) + 2 * rounded
        return logs, Decoding(each=each, void=largest == 0)


@dataclass(frozen=True, slots=True)
class Negative(Moment):
    """Number of negative x."""

    of: int = 0
    name: str = "negative"

    def column(self, arguments: Sequence[Domain]) -> ColumnType | None:
        (domain,) = arguments
        return None if domain.is_exact and domain.lower >= 0 else Exact(1)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        (x,) = arguments
        return x.counted(_from_zero(x)[1] if x.domain.is_exact else x.values < 0), Decoding()


@dataclass(frozen=True, slots=True)
class Zero(Moment):
    """Number of x equal to 0."""

    of: int = 0
    name: str = "zero"

    def column(self, arguments: Sequence[Domain]) -> ColumnType | None:
        (domain,) = arguments
        return None if domain.is_exact and not domain.lower <= 0 <= domain.upper else Exact(1)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        (x,) = arguments
        return x.counted(~_from_zero(x)[0].any(axis=0) if x.domain.is_exact else np.logical_not(x.values)), Decoding()


def _reach(domain: Domain) -> int:
    """The largest distance of a value from the middle of an exact `domain`."""
    return domain.upper - domain.middle


def _distances(x: Operand) -> tuple[Words, Flags]:
    """(|x - c|, flag where x < c) of exact values; c is the middle of their domain. Excluded rows have (0, False)."""
    sizes, below = columns.distance(x.above, x.domain.middle - x.domain.lower)
    if x.present is not None:
        sizes[:, ~x.present] = 0
        below &= x.present
    return sizes, below


def _from_zero(x: Operand) -> tuple[Words, Flags]:
    """(|x| in units of the last decimal, flag where x < 0)."""
    lower = x.domain.lower
    if lower <= 0:
        return columns.distance(x.above, -lower)
    return columns.subtract(x.above, -lower)[0], np.zeros(x.above.shape[1], np.bool_)


def _doubles(x: Operand) -> tuple[Doubles, Fraction, Fraction]:
    """Returns (x - c) / scale, at most 1 in magnitude; its largest error; and the scale, 0 if x is always c."""
    if x.domain.is_exact:
        sizes, below = _distances(x)
        distance = columns.doubles(sizes)
        np.negative(distance, out=distance, where=below)
        spread = float(np.abs(distance).max(initial=0.0))
        rounded = (len(sizes) + 1) * UNIT if _reach(x.domain) > 1 << 53 else Fraction(0)
        unit, lost = Fraction(1, x.domain.unit), rounded * Fraction(spread)
    else:
        distance, spread, unit, lost = x.distance, x.spread, Fraction(1), Fraction(x.lost)
    if not spread:
        return distance, Fraction(0), Fraction(0)
    exponent = math.frexp(spread)[1]
    return np.ldexp(distance, -exponent), lost / Fraction(2) ** exponent, unit * Fraction(2) ** exponent
