"""VAR_SAMP(x), VARIANCE(x), VAR_POP(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from cleave.aggregates.balls import exact_double, inexact, null, precision
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.central import Central
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Square
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True, slots=True)
class Variance:
    """(sum of (x - c)^2 - (sum of (x - c))^2 / n) / (n - freedom), about a centre c, so that an offset like 1e6 cannot
    cancel the digits away (docs/ckks.md section 4). Of integers and decimals both sums, and so the variance, are exact.
    NULL where no value is left, and for the sample variance of one value.
    """

    names: tuple[str, ...]
    freedom: int  # degrees of freedom taken off n: 1 for the sample variance, 0 for the population's

    @property
    def arity(self) -> int:
        return 1

    @property
    def moments(self) -> tuple[Moment, ...]:
        return Sum(), Square()

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if count <= self.freedom:
            return null()
        with precision():
            variance = Central(count, moments, arguments).squares() / self._divisor(count)
            return self._exact(variance) if isinstance(variance, Fraction) else self._inexact(variance)

    def _divisor(self, count: int) -> int:
        return count - self.freedom

    def _exact(self, variance: Fraction) -> Figure:
        return exact_double(variance)

    def _inexact(self, variance: arb) -> Figure:
        return inexact(variance)
