"""Formulas of aggregates over encrypted columns, from one group's moments, as rationals or balls.

Sums of powers and products about the mean follow from moments about centres:

  T1 = sum (x - c),  T2 = sum (x - c)^2, ..., d = T1 / n:

  sum (x - mean)^2 = T2 - n d^2
  sum (x - mean)^3 = T3 - 3 d T2 + 2 n d^3
  sum (x - mean)^4 = T4 - 4 d T3 + 6 d^2 T2 - 3 n d^4
  sum (x - mean)(y - mean') = sum (x - c)(y - c') - n d d'

This holds for any c. A c near the mean keeps d and the cancelled amounts small (docs/ckks.md section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flint import arb, fmpq

from cleave.aggregates.balls import (
    Number,
    exact_double,
    exact_root,
    figure_of,
    not_negative,
    number,
    precision,
    rational,
    root,
    rounded,
    within,
)
from cleave.aggregates.base import Estimate, Facts, Figure, Moment, nan, null, undecided
from cleave.aggregates.moments import Cross, Log, Negative, Power, Sum, X, Y, Zero
from cleave_shared.errors import CheckFailed

_SUM, _LOG, _NEGATIVE, _ZERO = Sum(), Log(), Negative(), Zero()
_EXACTLY = 2  # a bound that fails with probability 2^-40 fails with less than 2^-128 at twice its width
_DIGITS = 1000  # digits of all factors after the point: with more, no whole number is searched


@dataclass(frozen=True, slots=True)
class Group:
    """One group. In `count` rows no argument is NULL. Methods return a rational if their totals are exact,
    else a ball.
    """

    count: int
    moments: Mapping[Moment, Estimate]
    arguments: Sequence[Facts]

    def total(self, moment: Moment) -> Number:
        return number(self.moments[moment])

    def mean(self, of: int = 0) -> Number:
        return self.total(Sum(of)) / self.count

    def squares(self, of: int = 0) -> Number:
        """S_xx. Raises CheckFailed if two exact totals contradict each other."""
        if self.count == 1:
            return fmpq(0)
        squares = self.total(Power(2, of))
        if isinstance(squares, fmpq) and squares == 0:  # every value equals the centre
            return squares
        offset = self._offset(of)
        return _not_below_zero(squares - self.count * (offset * offset))

    def products(self) -> Number:
        if self.count == 1:
            return fmpq(0)
        return self.total(Cross()) - self.count * (self._offset(0) * self._offset(1))

    def cubes(self) -> Number:
        offset = self._offset(0)
        return self.total(Power(3)) - 3 * offset * self.total(Power(2)) + 2 * self.count * offset**3

    def fourths(self) -> Number:
        offset, squares = self._offset(0), self.total(Power(2))
        left = self.total(Power(4)) - 4 * offset * self.total(Power(3)) + 6 * offset**2 * squares
        return _not_below_zero(left - 3 * self.count * offset**4)

    def _offset(self, of: int) -> Number:
        """d, the distance of the mean from the centre."""
        total = self.moments[Sum(of)]
        return number(Estimate(total.value / self.count - self.arguments[of].centre, total.bound / self.count))


def figure(name: str, group: Group) -> Figure:
    """The figure of an aggregate. `name`: DuckDB's spelling."""
    with precision():
        result = FORMULAS[name](group)
        return result if isinstance(result, Figure) else figure_of(result)


def _counted(group: Group) -> Figure:
    return _whole(group.count)


def _whole(value: int) -> Figure:
    return Figure(value, 0.0, exact=True, ball=fmpq(value))


def _is_zero(value: Number) -> bool | None:
    """True if a value >= 0 is 0; None if its bounds do not decide it."""
    if isinstance(value, fmpq):
        return value == 0
    return False if value.lower() > 0 else None


def _not_below_zero(value: Number) -> Number:
    if not isinstance(value, fmpq):
        return not_negative(value)
    if value < 0:
        raise CheckFailed("range", "two exact totals cannot be of the same values")
    return value


def _sum(group: Group) -> Figure | Number:
    total, domain = group.moments[_SUM], group.arguments[0].domain
    if not domain.is_exact:
        return group.total(_SUM)
    return Figure(total.value if domain.decimals else int(total.value), 0.0, exact=True, ball=rational(total.value))


def _true(group: Group) -> int:
    return int(group.moments[_SUM].value)


def _skewness(group: Group) -> Figure | Number:
    """The sample skewness G1 = sqrt(n (n - 1)) / (n - 2) times m3 / m2^(3/2), with mk = sum of (x - mean)^k / n.

    NULL if all values are equal. For integers and decimals it is correctly rounded, because its square is an exact
    fraction. (DuckDB sums raw powers, and loses digits if the mean is much larger than the deviation.)
    """
    n, squares = group.count, group.squares()
    if (constant := _is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    cubes, factor = group.cubes(), fmpq(n**2 * (n - 1), (n - 2) ** 2)
    if isinstance(squares, fmpq) and isinstance(cubes, fmpq):
        return exact_root(factor * cubes**2 / squares**3, -1 if cubes < 0 else 1)
    return arb(factor).sqrt() * cubes / arb(squares).sqrt() ** 3


def _kurtosis(group: Group, factor: fmpq, excess: fmpq) -> Figure | Number:
    """factor m4 / m2^2 - excess. For integers and decimals it is an exact fraction. NULL if all values are equal."""
    squares = group.squares()
    if (constant := _is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    return factor * group.fourths() / squares**2 - excess


def _sample_kurtosis(group: Group) -> Figure | Number:
    """The sample kurtosis G2 = (n - 1) / ((n - 2)(n - 3)) times ((n + 1) m4 / m2^2 - 3 (n - 1))."""
    n, divisor = group.count, (group.count - 2) * (group.count - 3)
    return _kurtosis(group, fmpq(n * (n - 1) * (n + 1), divisor), fmpq(3 * (n - 1) ** 2, divisor))


def _product(group: Group) -> Figure | Number:
    """PRODUCT: the magnitude from a sum of logarithms, the sign from the number of negative values; 0 if a value is 0.
    As in DuckDB it is a DOUBLE for every type.

    A product of integers or decimals is a whole number of units. If only one such number is within the bounds, the
    product is exact.
    """
    if group.moments[_ZERO].value:
        return fmpq(0)
    sign, log = -1 if int(group.moments[_NEGATIVE].value) % 2 else 1, group.moments[_LOG]
    if log.exact and not log.value:  # every factor is 1 or -1
        return fmpq(sign)
    whole = _whole_product(group)
    return sign * (arb(number(log)).exp() if whole is None else whole)


def _whole_product(group: Group) -> fmpq | None:
    """The magnitude of a product of decimals, if the bounds contain only one whole number of units; else None."""
    log, decimals, count = group.moments[_LOG], group.arguments[0].domain.decimals, group.count
    if decimals is None or decimals * count > _DIGITS:
        return None
    surer = arb(number(Estimate(log.value, _EXACTLY * log.bound))).exp()
    units = (surer * arb(10) ** (decimals * count)).unique_fmpz()
    return None if units is None else fmpq(units, 10 ** (decimals * count))


def _geomean(group: Group) -> Figure | Number:
    """GEOMEAN: exp(sum of ln x / n), as DuckDB's macro computes it. NaN if a value is negative, else 0 if a value is 0.

    If the product of integers or decimals is known exactly (see PRODUCT), its root is correctly rounded.
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
    """True if `value` to the power of `count` is `whole`. Sizes are compared first, because powers can be long."""
    parts = ((value.p, whole.p), (value.q, whole.q))
    if any((int(part).bit_length() - 1) * count > int(of).bit_length() for part, of in parts):
        return False
    return bool(value**count == whole)


def _correlation(group: Group) -> Figure | Number:
    """S_xy / sqrt(S_xx S_yy), cut off at -1 and 1."""
    x, y, both = group.squares(X), group.squares(Y), group.products()
    if _is_zero(x) or _is_zero(y):
        return nan()
    if _is_zero(x) is None or _is_zero(y) is None:
        return undecided()
    if isinstance(x, fmpq) and isinstance(y, fmpq) and isinstance(both, fmpq):
        return exact_root(both**2 / (x * y), -1 if both < 0 else 1)
    return within(both / arb(x * y).sqrt(), -1, 1)


def _slope(group: Group) -> Figure | Number:
    """S_xy / S_xx."""
    squares = group.squares(X)
    if (constant := _is_zero(squares)) is not False:
        return undecided() if constant is None else nan()
    return group.products() / squares


def _intercept(group: Group) -> Figure | Number:
    """(mean of y) - slope * (mean of x)."""
    slope = _slope(group)
    if isinstance(slope, Figure):
        return null() if slope.exact else slope
    return group.mean(Y) - slope * group.mean(X)


def _determination(group: Group) -> Figure | Number:
    """R^2 = S_xy^2 / (S_xx S_yy), cut off at 0 and 1."""
    x, y, both = group.squares(X), group.squares(Y), group.products()
    if _is_zero(x):
        return null()
    if _is_zero(x) is None or _is_zero(y) is None:
        return undecided()
    if _is_zero(y):
        return fmpq(1)
    square = both**2 / (x * y)
    return square if isinstance(square, fmpq) else within(square, 0, 1)


FORMULAS: Final[dict[str, Callable[[Group], Figure | Number]]] = {
    "COUNT": _counted,
    "SUM": _sum,
    "FSUM": lambda group: group.total(_SUM),
    "AVG": Group.mean,
    "COUNT_IF": lambda group: _whole(_true(group)),
    "BOOL_AND": lambda group: Figure(_true(group) == group.count, 0.0, exact=True),
    "BOOL_OR": lambda group: Figure(_true(group) > 0, 0.0, exact=True),
    "VAR_SAMP": lambda group: group.squares() / (group.count - 1),
    "VAR_POP": lambda group: group.squares() / group.count,
    "STDDEV_SAMP": lambda group: root(group.squares() / (group.count - 1)),
    "STDDEV_POP": lambda group: root(group.squares() / group.count),
    # as in DuckDB: STDDEV_POP / sqrt(n); other systems use the sample's deviation
    "SEM": lambda group: root(group.squares() / group.count**2),
    "SKEWNESS": _skewness,
    "KURTOSIS": _sample_kurtosis,
    "KURTOSIS_POP": lambda group: _kurtosis(group, fmpq(group.count), fmpq(3)),
    "PRODUCT": _product,
    "GEOMEAN": _geomean,
    "COVAR_SAMP": lambda group: group.products() / (group.count - 1),
    "COVAR_POP": lambda group: group.products() / group.count,
    "CORR": _correlation,
    "REGR_COUNT": _counted,
    "REGR_AVGY": lambda group: group.mean(Y),
    "REGR_AVGX": lambda group: group.mean(X),
    "REGR_SYY": lambda group: group.squares(Y),
    "REGR_SXX": lambda group: group.squares(X),
    "REGR_SXY": Group.products,
    "REGR_SLOPE": _slope,
    "REGR_INTERCEPT": _intercept,
    "REGR_R2": _determination,
}
"""By DuckDB's spelling of the aggregate."""
