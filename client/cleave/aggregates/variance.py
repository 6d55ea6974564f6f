"""VAR_SAMP(x), VARIANCE(x), VAR_POP(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from cleave.aggregates.balls import ball, exact_double, inexact, not_negative, null, precision, rational
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Square, Sum
from cleave_shared.errors import CheckFailed

_SUM, _SQUARE = Sum(), Square()


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
        return _SUM, _SQUARE

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if count <= self.freedom:
            return null()
        if count == 1:
            return self._exact(Fraction(0))
        total, squares, centre = moments[_SUM], moments[_SQUARE], arguments[0].centre
        if total.exact and squares.exact:
            deviations = squares.value - (total.value - count * centre) ** 2 / count
            if deviations < 0:
                raise CheckFailed("range", "two exact totals cannot be of the same values")
            return self._exact(deviations / (count - self.freedom))
        with precision():
            apart = ball(total) - rational(count * centre)
            return self._inexact(not_negative((ball(squares) - apart**2 / count) / (count - self.freedom)))

    def _exact(self, variance: Fraction) -> Figure:
        return exact_double(variance)

    def _inexact(self, variance: arb) -> Figure:
        return inexact(variance)
