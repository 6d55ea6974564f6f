"""Sums of powers and products about the mean, from moments about centres: fractions of exact totals, balls of others.

    T1 = sum (x - c),  T2 = sum (x - c)^2, ..., d = T1 / n:

    sum (x - mean)^2 = T2 - n d^2
    sum (x - mean)^3 = T3 - 3 d T2 + 2 n d^3
    sum (x - mean)^4 = T4 - 4 d T3 + 6 d^2 T2 - 3 n d^4
    sum (x - mean)(y - mean') = sum (x - c)(y - c') - n d d'

These hold for any c; one near the mean keeps d, and what cancels, small (docs/ckks.md section 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from cleave.aggregates.balls import ball, not_negative, number
from cleave.aggregates.base import Estimate, Facts, Moment
from cleave.aggregates.cross import Cross
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Cube, Fourth, Square
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from flint import arb

    Number = Fraction | arb

_CROSS = Cross()


@dataclass(frozen=True, slots=True)
class Central:
    """Of `count` > 0 rows. Methods give a Fraction where the totals they read are exact; call them with precision()."""

    count: int
    moments: Mapping[Moment, Estimate]
    arguments: Sequence[Facts]

    def mean(self, of: int = 0) -> Number:
        return _number(self.moments[Sum(of)]) / self.count

    def apart(self, of: int = 0) -> Number:
        """d: how far the mean is from the centre."""
        total = self.moments[Sum(of)]
        return _number(Estimate(total.value / self.count - self.arguments[of].centre, total.bound / self.count))

    def squares(self, of: int = 0) -> Number:
        """Raises CheckFailed where two exact totals cannot be of the same values."""
        if self.count == 1:
            return Fraction(0)
        squares = _number(self.moments[Square(of)])
        if squares == 0 and isinstance(squares, Fraction):  # every value is the centre
            return squares
        apart = self.apart(of)
        left = _minus(squares, self.count * _times(apart, apart))
        if isinstance(left, Fraction) and left < 0:
            raise CheckFailed("range", "two exact totals cannot be of the same values")
        return left if isinstance(left, Fraction) else not_negative(left)

    def products(self) -> Number:
        if self.count == 1:
            return Fraction(0)
        return _minus(_number(self.moments[_CROSS]), self.count * _times(self.apart(0), self.apart(1)))

    def cubes(self) -> Number:
        apart, squares, cubes = self.apart(), self.moments[Square()], self.moments[Cube()]
        if isinstance(apart, Fraction) and squares.exact and cubes.exact:
            return cubes.value - 3 * apart * squares.value + 2 * self.count * apart**3
        d = number(apart)
        return ball(cubes) - 3 * d * ball(squares) + 2 * self.count * d**3

    def fourths(self) -> Number:
        apart = self.apart()
        squares, cubes, fourths = self.moments[Square()], self.moments[Cube()], self.moments[Fourth()]
        if isinstance(apart, Fraction) and squares.exact and cubes.exact and fourths.exact:
            left = fourths.value - 4 * apart * cubes.value + 6 * apart**2 * squares.value - 3 * self.count * apart**4
            if left < 0:
                raise CheckFailed("range", "two exact totals cannot be of the same values")
            return left
        d = number(apart)
        return not_negative(ball(fourths) - 4 * d * ball(cubes) + 6 * d**2 * ball(squares) - 3 * self.count * d**4)


def is_zero(value: Number) -> bool | None:
    """Of a value that is not below 0; None: it may be."""
    if isinstance(value, Fraction):
        return not value
    return False if value.lower() > 0 else None


def _number(estimate: Estimate) -> Number:
    return estimate.value if estimate.exact else ball(estimate)


def _times(one: Number, other: Number) -> Number:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one * other
    return number(one) * number(other)


def _minus(one: Number, other: Number) -> Number:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one - other
    return number(one) - number(other)
