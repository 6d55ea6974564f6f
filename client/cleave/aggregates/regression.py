"""REGR_...(y, x): the least-squares line y = slope x + intercept, over the rows where neither is NULL.

    S_xx = sum of (x - mean)^2, S_yy and S_xy alike

What DuckDB does where there is no line is kept: constant x gives a slope of NaN, an intercept and an R^2 of NULL;
constant y an R^2 of 1. Whether x is constant may be left open by the bounds of doubles: then nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from cleave.aggregates.balls import (
    exact_double,
    inexact,
    nan,
    null,
    number,
    precision,
    rational,
    undecided,
    within,
)
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.central import Central, is_zero
from cleave.aggregates.cross import Cross
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Square
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.aggregates.central import Number

_Y, _X = 0, 1  # the order of the arguments


class RegrCount:
    """How many rows have neither argument NULL."""

    names = ("REGR_COUNT",)
    arity = 2
    moments: tuple[Moment, ...] = ()

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "UINTEGER"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:  # noqa: ARG002
        return Figure(count, 0.0, exact=True, ball=rational(Fraction(count)))


@dataclass(frozen=True, slots=True)
class RegrMean:
    """The mean of one argument; NULL where no row is left."""

    names: tuple[str, ...]
    of: int

    @property
    def arity(self) -> int:
        return 2

    @property
    def moments(self) -> tuple[Moment, ...]:
        return (Sum(self.of),)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        with precision():
            return _figure(Central(count, moments, arguments).mean(self.of))


@dataclass(frozen=True, slots=True)
class RegrSquares:
    """S_xx or S_yy; NULL where no row is left."""

    names: tuple[str, ...]
    of: int

    @property
    def arity(self) -> int:
        return 2

    @property
    def moments(self) -> tuple[Moment, ...]:
        return Sum(self.of), Square(self.of)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        with precision():
            return _figure(Central(count, moments, arguments).squares(self.of))


class RegrSlope:
    """S_xy / S_xx."""

    names: tuple[str, ...] = ("REGR_SLOPE",)
    arity = 2
    moments: tuple[Moment, ...] = (Sum(_Y), Sum(_X), Square(_X), Cross())

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        with precision():
            central = Central(count, moments, arguments)
            squares = central.squares(_X)
            if is_zero(squares) is None:
                return undecided()
            return self._constant() if is_zero(squares) else self._line(central, _over(central.products(), squares))

    def _constant(self) -> Figure:
        return nan()

    def _line(self, central: Central, slope: Number) -> Figure:  # noqa: ARG002 - the intercept needs it
        return _figure(slope)


class RegrIntercept(RegrSlope):
    """mean of y - slope (mean of x)."""

    names = ("REGR_INTERCEPT",)

    def _constant(self) -> Figure:
        return null()

    def _line(self, central: Central, slope: Number) -> Figure:
        x, y = central.mean(_X), central.mean(_Y)
        if isinstance(slope, Fraction) and isinstance(x, Fraction) and isinstance(y, Fraction):
            return exact_double(y - slope * x)
        return inexact(number(y) - number(slope) * number(x))


class RegrR2:
    """S_xy^2 / (S_xx S_yy), within 0..1."""

    names = ("REGR_R2",)
    arity = 2
    moments: tuple[Moment, ...] = (Sum(_Y), Sum(_X), Square(_Y), Square(_X), Cross())

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        with precision():
            central = Central(count, moments, arguments)
            x, y, both = central.squares(_X), central.squares(_Y), central.products()
            if is_zero(x):
                return null()
            if is_zero(x) is None or is_zero(y) is None:
                return undecided()
            if is_zero(y):
                return exact_double(Fraction(1))
            if isinstance(x, Fraction) and isinstance(y, Fraction) and isinstance(both, Fraction):
                return exact_double(both**2 / (x * y))
            return inexact(within(number(both) ** 2 / (number(x) * number(y)), 0, 1))


def _over(one: Number, other: Number) -> Number:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one / other
    return number(one) / number(other)


def _figure(value: Number) -> Figure:
    return exact_double(value) if isinstance(value, Fraction) else inexact(value)
