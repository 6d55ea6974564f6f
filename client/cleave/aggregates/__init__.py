"""One declaration a file of every aggregate that encrypted columns can answer."""

from __future__ import annotations

from cleave.aggregates.avg import Avg
from cleave.aggregates.base import Aggregate
from cleave.aggregates.count import Count
from cleave.aggregates.covariance import Correlation, Covariance
from cleave.aggregates.doubles import DoubleSum
from cleave.aggregates.geomean import Geomean
from cleave.aggregates.product import Product
from cleave.aggregates.regression import RegrCount, RegrIntercept, RegrMean, RegrR2, RegrSlope, RegrSquares
from cleave.aggregates.sem import Sem
from cleave.aggregates.shape import Kurtosis, Skewness
from cleave.aggregates.stddev import Stddev
from cleave.aggregates.sum import Sum
from cleave.aggregates.truth import BoolAll, CountIf
from cleave.aggregates.variance import Variance

DECLARED: tuple[Aggregate, ...] = (
    Count(),
    Sum(),
    Avg(),
    Variance(("VAR_SAMP", "VARIANCE"), 1),
    Variance(("VAR_POP",), 0),
    Stddev(("STDDEV_SAMP", "STDDEV"), 1),
    Stddev(("STDDEV_POP",), 0),
    Sem(),
    Skewness(),
    Kurtosis(("KURTOSIS",), sample=True),
    Kurtosis(("KURTOSIS_POP",), sample=False),
    Product(),
    Geomean(),
    DoubleSum(),
    CountIf(),
    BoolAll(("BOOL_AND",), every=True),
    BoolAll(("BOOL_OR",), every=False),
    Covariance(("COVAR_SAMP",), 1),
    Covariance(("COVAR_POP",), 0),
    Correlation(),
    RegrCount(),
    RegrMean(("REGR_AVGY",), 0),
    RegrMean(("REGR_AVGX",), 1),
    RegrSquares(("REGR_SYY",), 0),
    RegrSquares(("REGR_SXX",), 1),
    Covariance(("REGR_SXY",), None),
    RegrSlope(),
    RegrIntercept(),
    RegrR2(),
)

AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
