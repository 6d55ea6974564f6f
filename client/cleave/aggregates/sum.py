"""SUM(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import ball, exact_double, inexact, null, precision, rational
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Sum as SumOf

_SUM = SumOf()


class Sum:
    """Integers, booleans and decimals: exact, typed as DuckDB types them. NULL where no value is left."""

    names = ("SUM", "SUM_NO_OVERFLOW")
    arity = 1
    moments: tuple[Moment, ...] = (_SUM,)

    def result_type(self, *argument_types: str) -> str:
        (argument,) = argument_types
        if argument.startswith("DECIMAL"):
            return f"DECIMAL(38,{argument.rstrip(')').split(',')[1].strip()})"
        return "DOUBLE" if argument in ("FLOAT", "DOUBLE") else "HUGEINT"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        total, domain = moments[_SUM], arguments[0].domain
        with precision():
            if domain.is_exact:
                value: int | Fraction = total.value if domain.decimals else int(total.value)
                return Figure(value, 0.0, exact=True, ball=rational(total.value))
            return exact_double(total.value) if total.exact else inexact(ball(total))
