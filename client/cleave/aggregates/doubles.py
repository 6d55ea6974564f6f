"""FSUM(x), KAHAN_SUM(x), SUMKAHAN(x): DuckDB's sum of doubles with compensation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cleave.aggregates.balls import ball, exact_double, inexact, null, precision
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Sum

_SUM = Sum()


class DoubleSum:
    """The sum as a DOUBLE whatever the type; of integers and decimals correctly rounded. NULL where nothing is left."""

    names = ("FSUM", "KAHAN_SUM", "SUMKAHAN")
    arity = 1
    moments: tuple[Moment, ...] = (_SUM,)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:  # noqa: ARG002
        if not count:
            return null()
        total = moments[_SUM]
        with precision():
            return exact_double(total.value) if total.exact else inexact(ball(total))
