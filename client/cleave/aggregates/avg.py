"""AVG(x), MEAN(x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import (
    UNIT_EXACT,
    count_of,
    magnitude,
    nearest,
    of_doubles,
    summation_loss,
    total_of,
    upper,
)

# What three roundings of a long double change at most; it has 64 bits on x86, more elsewhere.
_LONG_DOUBLE = Fraction(3, 2**64)


class Avg:
    """sum / n, NULL where no value is left.

    Of integers and decimals DuckDB divides an exact total, in one of two ways: where it stands alone or beside a SUM,
    cast to DOUBLE first; within GROUP BY or FILTER as a long double. Where both give the same double, so do we.
    """

    names = ("AVG", "MEAN")
    formula = "c + sum of (x - c) / n"
    leaks = "the mean of a group; of a group of one row, the value"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.SUM})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:  # noqa: ARG002
        count = count_of(moments)
        if not count:
            return Figure(None, 0.0, exact=True)
        total = total_of(moments, facts)
        if facts.decimals is not None and total.exact:
            return _of_exact(total.value, facts.decimals, count)
        mean, peak = total.value / count, magnitude(moments, facts)
        loss = (total.bound + summation_loss(count, peak)) / count + UNIT_EXACT * abs(mean)
        value, bound = of_doubles(mean, loss, peak)
        return Figure(value, bound, exact=False)


def _of_exact(total: Fraction, decimals: int, count: int) -> Figure:
    mean = total / count
    value = nearest(mean)
    ways = {nearest(mean * (1 - _LONG_DOUBLE)), nearest(mean * (1 + _LONG_DOUBLE))}
    ways.add(_as_duckdb_casts(total, decimals) / count)
    bound = upper(max(abs(Fraction(way) - Fraction(value)) for way in ways))
    return Figure(value, bound, exact=not bound)


def _as_duckdb_casts(total: Fraction, decimals: int) -> float:
    """DuckDB 2.0 rounds a DECIMAL to the nearest double, but a HUGEINT word by word."""
    if decimals:
        return float(total)
    high, low = divmod(int(total), 1 << 64)
    if high == -1:  # spares small negative totals the cancellation
        return -float((1 << 64) - 1 - low) - 1
    return float(low) + float(high) * 2.0**64
