"""SUM(x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import count_of, magnitude, of_doubles, summation_loss, total_of, upper


class Sum:
    """Integers, booleans and decimals: exact, typed as DuckDB types them. Floats: DuckDB's own running sum is rounded
    at every step, so the bound covers that besides the noise. NULL where no value is left.
    """

    names = ("SUM",)
    formula = "sum of (x - c), plus n c"
    leaks = "the total of a group; of a group of one row, the value"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.SUM})

    def result_type(self, argument_type: str) -> str:
        if argument_type.startswith("DECIMAL"):
            return f"DECIMAL(38,{argument_type.rstrip(')').split(',')[1].strip()})"
        return "DOUBLE" if argument_type in ("FLOAT", "DOUBLE") else "HUGEINT"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:  # noqa: ARG002
        count = count_of(moments)
        if not count:
            return Figure(None, 0.0, exact=True)
        total = total_of(moments, facts)
        if facts.decimals is None:
            peak = magnitude(moments, facts)
            value, bound = of_doubles(total.value, total.bound + summation_loss(count, peak), peak)
            return Figure(value, bound, exact=False)
        steps = total.value * 10**facts.decimals
        off_grid = abs(steps - round(steps)) / 10**facts.decimals
        on_grid: int | Fraction = Fraction(round(steps), 10**facts.decimals) if facts.decimals else round(steps)
        return Figure(on_grid, upper(total.bound + off_grid), exact=total.exact and not off_grid)
