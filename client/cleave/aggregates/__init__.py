"""One declaration a file of every aggregate that encrypted columns can answer."""

from __future__ import annotations

from cleave.aggregates.avg import Avg
from cleave.aggregates.base import Aggregate
from cleave.aggregates.count import Count
from cleave.aggregates.product import Product
from cleave.aggregates.stddev import Stddev
from cleave.aggregates.sum import Sum
from cleave.aggregates.variance import Variance

DECLARED: tuple[Aggregate, ...] = (
    Count(),
    Sum(),
    Avg(),
    Variance(("VAR_SAMP", "VARIANCE"), 1),
    Variance(("VAR_POP",), 0),
    Stddev(("STDDEV_SAMP", "STDDEV"), 1),
    Stddev(("STDDEV_POP",), 0),
    Product(),
)

AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
