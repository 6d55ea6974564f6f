"""The aggregates that encrypted columns can answer: sums, spread, products, and pairs of arguments (y, x).

A condition becomes an encrypted 0 or 1 per row, so the number of true rows is an exact total. Spread is computed about
a centre, so an offset such as 1e6 does not cancel digits (docs/ckks.md section 4). For integers and decimals each
result is an exact fraction, or the correctly rounded root of one.

Pairs count rows where neither argument is NULL. S_xx = sum of (x - mean)^2; S_yy and S_xy are similar. The
least-squares line is y = slope x + intercept. Without a line the results are DuckDB's: a constant x gives a slope of
NaN, and NULL as intercept and R^2; a constant y gives R^2 = 1; CORR is NaN for one row and for a constant argument. If
bounds of doubles do not decide whether an argument is constant, the result is unknown.
"""

from __future__ import annotations

from cleave.aggregates.base import Moment
from cleave.aggregates.group import Aggregate
from cleave.aggregates.moments import Cross, Log, Negative, Power, Sum, X, Y, Zero

_SUM = Sum()


def _type_of_sum(argument: str) -> str:
    if argument.startswith("DECIMAL"):
        return f"DECIMAL(38,{argument.rstrip(')').split(',')[1].strip()})"
    return "DOUBLE" if argument in ("FLOAT", "DOUBLE") else "HUGEINT"


COUNT = Aggregate(("COUNT",), (), least=0, type="BIGINT")
"""Exact: an encrypted column of flags, or the number of rows where x cannot be NULL."""

SUM = Aggregate(("SUM", "SUM_NO_OVERFLOW"), (_SUM,), type=_type_of_sum)
"""Integers, booleans and decimals: exact, typed as DuckDB types them."""

FSUM = Aggregate(("FSUM", "KAHAN_SUM", "SUMKAHAN"), (_SUM,))
"""DuckDB's sum of doubles with compensation, a DOUBLE whatever the type; of exact types correctly rounded."""

AVG = Aggregate(("AVG", "MEAN", "FAVG"), (_SUM,))
"""sum / n. Of integers and decimals the exact mean, rounded once to a DOUBLE, where DuckDB rounds a total first or
divides long doubles.
"""

COUNT_IF = Aggregate(("COUNT_IF", "COUNTIF"), (_SUM,), type="HUGEINT")
"""Number of true conditions; NULL, as in DuckDB, where every one is NULL."""

BOOL_AND = Aggregate(("BOOL_AND",), (_SUM,), type="BOOLEAN")
BOOL_OR = Aggregate(("BOOL_OR",), (_SUM,), type="BOOLEAN")

_TWO = (Sum(), Power(2))
_SPREAD = (
    Aggregate(("VAR_SAMP", "VARIANCE"), _TWO, least=2),
    Aggregate(("VAR_POP",), _TWO),
    Aggregate(("STDDEV_SAMP", "STDDEV"), _TWO, least=2),
    Aggregate(("STDDEV_POP",), _TWO),
    Aggregate(("SEM",), _TWO),
    Aggregate(("SKEWNESS",), (*_TWO, Power(3)), least=3),
    Aggregate(("KURTOSIS",), (*_TWO, Power(3), Power(4)), least=4),
    Aggregate(("KURTOSIS_POP",), (*_TWO, Power(3), Power(4)), least=2),
)

_FACTORS = (Log(), Negative(), Zero())
_PRODUCTS = (
    Aggregate(("PRODUCT",), _FACTORS),
    Aggregate(("GEOMEAN", "GEOMETRIC_MEAN"), _FACTORS),
)

_CROSS: tuple[Moment, ...] = (Sum(Y), Sum(X), Cross())
_LINE: tuple[Moment, ...] = (Sum(Y), Sum(X), Power(2, X), Cross())
_ALL: tuple[Moment, ...] = (Sum(Y), Sum(X), Power(2, Y), Power(2, X), Cross())
_PAIRS = (
    Aggregate(("COVAR_SAMP",), _CROSS, least=2, arity=2),
    Aggregate(("COVAR_POP",), _CROSS, arity=2),
    Aggregate(("CORR",), _ALL, arity=2),
    Aggregate(("REGR_COUNT",), (), least=0, arity=2, type="UINTEGER"),
    Aggregate(("REGR_AVGY",), (Sum(Y),), arity=2),
    Aggregate(("REGR_AVGX",), (Sum(X),), arity=2),
    Aggregate(("REGR_SYY",), (Sum(Y), Power(2, Y)), arity=2),
    Aggregate(("REGR_SXX",), (Sum(X), Power(2, X)), arity=2),
    Aggregate(("REGR_SXY",), _CROSS, arity=2),
    Aggregate(("REGR_SLOPE",), _LINE, arity=2),
    Aggregate(("REGR_INTERCEPT",), _LINE, arity=2),
    Aggregate(("REGR_R2",), _ALL, arity=2),
)

DECLARED: tuple[Aggregate, ...] = (
    *(COUNT, SUM, AVG, *_SPREAD, *_PRODUCTS, FSUM, COUNT_IF, BOOL_AND, BOOL_OR, *_PAIRS),
)
AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
