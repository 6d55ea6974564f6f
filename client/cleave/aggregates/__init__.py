"""One declaration a file of every aggregate that encrypted columns can answer."""

from __future__ import annotations

from cleave.aggregates.avg import Avg
from cleave.aggregates.base import Aggregate
from cleave.aggregates.count import Count
from cleave.aggregates.product import Product
from cleave.aggregates.stddev import Stddev
from cleave.aggregates.sum import Sum
from cleave.aggregates.variance import Variance

_VARIANCE = "(sum of (x - c)^2 - (sum of (x - c))^2 / n) / "

DECLARED: tuple[Aggregate, ...] = (
    Count(),
    Sum(),
    Avg(),
    Variance(("VAR_SAMP", "VARIANCE"), 1, _VARIANCE + "(n - 1)"),
    Variance(("VAR_POP",), 0, _VARIANCE + "n"),
    Stddev(("STDDEV_SAMP", "STDDEV"), 1, "square root of VAR_SAMP"),
    Stddev(("STDDEV_POP",), 0, "square root of VAR_POP"),
    Product(),
)

AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
