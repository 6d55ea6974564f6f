"""Aggregates of two arguments (y, x), over the rows where neither is NULL: covariances, CORR, REGR_...

    S_xx = sum of (x - mean)^2, S_yy and S_xy alike; the least-squares line is y = slope x + intercept

What DuckDB does where there is no line is kept: constant x gives a slope of NaN, an intercept and an R^2 of NULL;
constant y an R^2 of 1; CORR is NaN where either is constant, and for one row. Whether an argument is constant may be
left open by the bounds of doubles: then nothing is known. Of integers and decimals all is an exact fraction, or the
correctly rounded root of one.
"""

from __future__ import annotations

from flint import arb, fmpq

from cleave.aggregates.balls import Number, exact_root, nan, null, undecided, within
from cleave.aggregates.base import Figure, Moment
from cleave.aggregates.group import Aggregate, Group, counted, is_zero
from cleave.aggregates.moments import Cross, Power, Sum

_Y, _X = 0, 1  # the order of the arguments
_CROSS: tuple[Moment, ...] = (Sum(_Y), Sum(_X), Cross())
_LINE: tuple[Moment, ...] = (Sum(_Y), Sum(_X), Power(2, _X), Cross())
_ALL: tuple[Moment, ...] = (Sum(_Y), Sum(_X), Power(2, _Y), Power(2, _X), Cross())


def _correlation(group: Group) -> Figure | Number:
    """S_xy / sqrt(S_xx S_yy), within -1..1."""
    x, y, both = group.squares(_X), group.squares(_Y), group.products()
    if is_zero(x) or is_zero(y):
        return nan()
    if is_zero(x) is None or is_zero(y) is None:
        return undecided()
    if isinstance(x, fmpq) and isinstance(y, fmpq) and isinstance(both, fmpq):
        return exact_root(both**2 / (x * y), -1 if both < 0 else 1)
    return within(both / arb(x * y).sqrt(), -1, 1)


def _slope(group: Group) -> Figure | Number:
    """S_xy / S_xx."""
    squares = group.squares(_X)
    if (constant := is_zero(squares)) is not False:
        return undecided() if constant is None else nan()
    return group.products() / squares


def _intercept(group: Group) -> Figure | Number:
    """mean of y - slope (mean of x)."""
    slope = _slope(group)
    if isinstance(slope, Figure):
        return null() if slope.exact else slope
    return group.mean(_Y) - slope * group.mean(_X)


def _determination(group: Group) -> Figure | Number:
    """R^2 = S_xy^2 / (S_xx S_yy), within 0..1."""
    x, y, both = group.squares(_X), group.squares(_Y), group.products()
    if is_zero(x):
        return null()
    if is_zero(x) is None or is_zero(y) is None:
        return undecided()
    if is_zero(y):
        return fmpq(1)
    found = both**2 / (x * y)
    return found if isinstance(found, fmpq) else within(found, 0, 1)


DECLARED = (
    Aggregate(("COVAR_SAMP",), _CROSS, lambda group: group.products() / (group.count - 1), least=2, arity=2),
    Aggregate(("COVAR_POP",), _CROSS, lambda group: group.products() / group.count, arity=2),
    Aggregate(("CORR",), _ALL, _correlation, arity=2),
    Aggregate(("REGR_COUNT",), (), counted, least=0, arity=2, type="UINTEGER"),
    Aggregate(("REGR_AVGY",), (Sum(_Y),), lambda group: group.mean(_Y), arity=2),
    Aggregate(("REGR_AVGX",), (Sum(_X),), lambda group: group.mean(_X), arity=2),
    Aggregate(("REGR_SYY",), (Sum(_Y), Power(2, _Y)), lambda group: group.squares(_Y), arity=2),
    Aggregate(("REGR_SXX",), (Sum(_X), Power(2, _X)), lambda group: group.squares(_X), arity=2),
    Aggregate(("REGR_SXY",), _CROSS, Group.products, arity=2),
    Aggregate(("REGR_SLOPE",), _LINE, _slope, arity=2),
    Aggregate(("REGR_INTERCEPT",), _LINE, _intercept, arity=2),
    Aggregate(("REGR_R2",), _ALL, _determination, arity=2),
)
