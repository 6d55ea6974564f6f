"""COVAR_SAMP(y, x), COVAR_POP(y, x), REGR_SXY(y, x), CORR(y, x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import exact_double, exact_root, inexact, nan, null, number, precision, undecided, within
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.central import Central, is_zero
from cleave.aggregates.cross import Cross
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Square
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Covariance:
    """S_xy / (n - freedom), S_xy = sum of (x - mean)(y - mean'), over the rows where neither is NULL. Exact where both
    are integers or decimals. NULL for fewer than `freedom` + 1 rows.
    """

    names: tuple[str, ...]
    freedom: int | None  # taken off n; None: nothing is divided

    @property
    def arity(self) -> int:
        return 2

    @property
    def moments(self) -> tuple[Moment, ...]:
        return Sum(0), Sum(1), Cross()

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if count <= (self.freedom or 0):
            return null()
        with precision():
            divisor = 1 if self.freedom is None else count - self.freedom
            value = Central(count, moments, arguments).products() / divisor
            return exact_double(value) if isinstance(value, Fraction) else inexact(value)


class Correlation:
    """S_xy / sqrt(S_xx S_yy), within -1..1. NULL where no row is left; NaN, as in DuckDB, where x or y is constant, and
    for one row. Of integers and decimals correctly rounded: the root of an exact fraction.

    Where the bounds of a group's S_xx or S_yy hold 0 it is not known whether there is a number.
    """

    names = ("CORR",)
    arity = 2
    moments: tuple[Moment, ...] = (Sum(0), Sum(1), Square(0), Square(1), Cross())

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        with precision():
            central = Central(count, moments, arguments)
            x, y, both = central.squares(0), central.squares(1), central.products()
            if is_zero(x) or is_zero(y):
                return nan()
            if is_zero(x) is None or is_zero(y) is None:
                return undecided()
            if isinstance(x, Fraction) and isinstance(y, Fraction) and isinstance(both, Fraction):
                return exact_root(both**2 / (x * y), -1 if both < 0 else 1)
            return inexact(within(number(both) / (number(x) * number(y)).sqrt(), -1, 1))
