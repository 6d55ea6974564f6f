"""STDDEV_SAMP(x), STDDEV(x), STDDEV_POP(x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from client.aggregates.base import Answer, ColumnFacts, Estimate, Moment
from client.aggregates.doubles import UNIT_EXACT, count_of, of_doubles, square_root
from client.aggregates.variance import peak, variance


@dataclass(frozen=True, slots=True)
class Stddev:
    """The square root of the variance. Its bound is the larger distance to the root of the variance's ends, which is
    the lower one.
    """

    names: tuple[str, ...]
    freedom: int
    formula: str
    leaks: str = "the spread of a group"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.SUM, Moment.SQUARE})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Answer:  # noqa: ARG002
        count = count_of(moments)
        if count <= self.freedom:
            return Answer(None, 0.0, exact=True)
        if count == 1:
            return Answer(0.0, 0.0, exact=True)
        squared = variance(moments, facts, self.freedom)
        root = square_root(squared.value)
        # sqrt(v + d) - sqrt(v) where v is small, else d / (sqrt(v) + sqrt(v - d))
        if squared.bound >= squared.value:
            distance = max(root, square_root(squared.value + squared.bound) - root)
        else:
            distance = squared.bound / (root + square_root(squared.value - squared.bound))
        loss = distance * (1 + UNIT_EXACT) + 2 * UNIT_EXACT * root
        value, bound = of_doubles(root, loss, peak(squared, count))
        return Answer(value, bound, exact=False)
