"""AVG(x), MEAN(x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from client.aggregates.base import Answer, ColumnFacts, Estimate, Moment
from client.aggregates.doubles import UNIT_EXACT, count_of, magnitude, of_doubles, summation_loss, total_of


class Avg:
    """sum / n. Of integers and decimals it is the very double DuckDB gives, which casts an exact total to DOUBLE and
    divides once. NULL where no value is left.
    """

    names = ("AVG", "MEAN")
    formula = "c + sum of (x - c) / n"
    leaks = "the mean of a group; of a group of one row, the value"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.SUM})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Answer:  # noqa: ARG002
        count = count_of(moments)
        if not count:
            return Answer(None, 0.0, exact=True)
        total = total_of(moments, facts)
        if facts.decimals is not None and total.exact:
            return Answer(_as_duckdb_casts(total.value, facts.decimals) / count, 0.0, exact=True)
        mean, peak = total.value / count, magnitude(moments, facts)
        loss = (total.bound + summation_loss(count, peak)) / count + UNIT_EXACT * abs(mean)
        value, bound = of_doubles(mean, loss, peak)
        return Answer(value, bound, exact=False)


def _as_duckdb_casts(total: Fraction, decimals: int) -> float:
    """DuckDB 2.0 rounds a DECIMAL to the nearest double, but a HUGEINT word by word."""
    if decimals:
        return float(total)
    high, low = divmod(int(total), 1 << 64)
    if high == -1:  # spares small negative totals the cancellation
        return -float((1 << 64) - 1 - low) - 1
    return float(low) + float(high) * 2.0**64
