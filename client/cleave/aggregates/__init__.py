"""The aggregates that encrypted columns can answer, declared by kind: sums, spread, product, pairs."""

from __future__ import annotations

from cleave.aggregates import pairs, product, spread, sums
from cleave.aggregates.group import Aggregate

DECLARED: tuple[Aggregate, ...] = (
    *(sums.COUNT, sums.SUM, sums.AVG, *spread.DECLARED, *product.DECLARED),
    *(sums.FSUM, sums.COUNT_IF, sums.BOOL_AND, sums.BOOL_OR, *pairs.DECLARED),
)

AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
