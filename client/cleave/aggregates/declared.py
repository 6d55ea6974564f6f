"""The aggregates that encrypted columns can answer: sums, spread, products, and pairs of arguments (y, x).

A condition is evaluated row by row and encrypted as 0 or 1; how many are true is then an exact total. Spread is
computed about a centre, so that an offset like 1e6 cannot cancel the digits away (docs/ckks.md section 4). For integers
and decimals every result is an exact fraction, or the correctly rounded root of one.

Pairs count the rows where neither is NULL. S_xx = sum of (x - mean)^2, S_yy and S_xy alike; the least-squares line is
y = slope x + intercept. Where there is no line DuckDB is followed: constant x gives a slope of NaN, an intercept and an
R^2 of NULL; constant y an R^2 of 1; CORR is NaN where either is constant, and for one row. Whether an argument is
constant may be left open by the bounds of doubles: then the result is unknown.
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
