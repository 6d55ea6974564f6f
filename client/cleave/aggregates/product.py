"""PRODUCT(x) and GEOMEAN(x), from a sum of logarithms."""

from __future__ import annotations

from flint import arb, fmpq

from cleave.aggregates.balls import Number, exact_double, nan, number, rounded
from cleave.aggregates.base import Estimate, Figure
from cleave.aggregates.group import Aggregate, Group
from cleave.aggregates.moments import Log, Negative, Zero

_LOG, _NEGATIVE, _ZERO = Log(), Negative(), Zero()
_EXACTLY = 2  # a bound that fails with probability 2^-40, twice as wide, fails with less than 2^-128
_DIGITS = 1000  # of all factors after the point: more are not worth looking for a whole number in


def _product(group: Group) -> Figure | Number:
    """Magnitude from a sum of logarithms, sign from the number of negative values, 0 if any value is 0. A DOUBLE for
    every type, as in DuckDB.

    A product of integers or decimals is a whole number of units; where only one is near enough it is exact.
    """
    if group.moments[_ZERO].value:
        return fmpq(0)
    sign, log = -1 if int(group.moments[_NEGATIVE].value) % 2 else 1, group.moments[_LOG]
    if log.exact and not log.value:  # every factor is 1 or -1
        return fmpq(sign)
    whole = _whole_product(group)
    return sign * (arb(number(log)).exp() if whole is None else whole)


def _whole_product(group: Group) -> fmpq | None:
    """The product of decimals' magnitudes, where only one number of units is near enough to it."""
    log, decimals, count = group.moments[_LOG], group.arguments[0].domain.decimals, group.count
    if decimals is None or decimals * count > _DIGITS:
        return None
    surer = arb(number(Estimate(log.value, _EXACTLY * log.bound))).exp()
    units = (surer * arb(10) ** (decimals * count)).unique_fmpz()
    return None if units is None else fmpq(units, 10 ** (decimals * count))


def _geomean(group: Group) -> Figure | Number:
    """exp(sum of ln x / n), which is what DuckDB's macro computes: NaN where a value is below 0, else 0 where one is 0.

    Where the product of integers or decimals is known exactly (see PRODUCT) its root is correctly rounded.
    """
    if group.moments[_NEGATIVE].value:
        return nan()
    if group.moments[_ZERO].value:
        return fmpq(0)
    log = group.moments[_LOG]
    if log.exact and not log.value:
        return fmpq(1)
    whole = _whole_product(group)
    if whole is None:
        return (arb(number(log)) / group.count).exp()
    root = arb(whole).root(group.count)
    low, high = float(root.lower()), float(root.upper())
    if low != high:
        return root
    exact = fmpq(*low.as_integer_ratio())
    return exact_double(exact) if _is_root(exact, whole, group.count) else rounded(low, root)


def _is_root(value: fmpq, whole: fmpq, count: int) -> bool:
    """Check whether `value` to the power of `count` is `whole`. Sizes are compared first, since powers can be long."""
    parts = ((value.p, whole.p), (value.q, whole.q))
    if any((int(part).bit_length() - 1) * count > int(of).bit_length() for part, of in parts):
        return False
    return bool(value**count == whole)


_MOMENTS = (_LOG, _NEGATIVE, _ZERO)
DECLARED = (
    Aggregate(("PRODUCT",), _MOMENTS, _product),
    Aggregate(("GEOMEAN", "GEOMETRIC_MEAN"), _MOMENTS, _geomean),
)
