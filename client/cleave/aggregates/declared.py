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

from typing import TYPE_CHECKING

from cleave.aggregates.base import Estimate, Figure, Moment, nan, null, undecided
from cleave.aggregates.group import Aggregate, Group, counted, is_zero, whole
from cleave.aggregates.moments import Cross, Log, Negative, Power, Sum, Zero

if TYPE_CHECKING:
    from flint import fmpq

    from cleave.aggregates.balls import Number

_SUM = Sum()


def _sum(group: Group) -> Figure | Number:
    total, domain = group.moments[_SUM], group.arguments[0].domain
    if not domain.is_exact:
        return group.total(_SUM)
    from cleave.aggregates.balls import rational  # noqa: PLC0415 - flint

    return Figure(total.value if domain.decimals else int(total.value), 0.0, exact=True, ball=rational(total.value))


def _type_of_sum(argument: str) -> str:
    if argument.startswith("DECIMAL"):
        return f"DECIMAL(38,{argument.rstrip(')').split(',')[1].strip()})"
    return "DOUBLE" if argument in ("FLOAT", "DOUBLE") else "HUGEINT"


def _true(group: Group) -> int:
    return int(group.moments[_SUM].value)


COUNT = Aggregate(("COUNT",), (), counted, least=0, type="BIGINT")
"""Exact: an encrypted column of flags, or the number of rows where x cannot be NULL."""

SUM = Aggregate(("SUM", "SUM_NO_OVERFLOW"), (_SUM,), _sum, type=_type_of_sum)
"""Integers, booleans and decimals: exact, typed as DuckDB types them."""

FSUM = Aggregate(("FSUM", "KAHAN_SUM", "SUMKAHAN"), (_SUM,), lambda group: group.total(_SUM))
"""DuckDB's sum of doubles with compensation, a DOUBLE whatever the type; of exact types correctly rounded."""

AVG = Aggregate(("AVG", "MEAN", "FAVG"), (_SUM,), Group.mean)
"""sum / n. Of integers and decimals the exact mean, rounded once to a DOUBLE, where DuckDB rounds a total first or
divides long doubles.
"""

COUNT_IF = Aggregate(("COUNT_IF", "COUNTIF"), (_SUM,), lambda group: whole(_true(group)), type="HUGEINT")
"""Number of true conditions; NULL, as in DuckDB, where every one is NULL."""

BOOL_AND = Aggregate(
    ("BOOL_AND",), (_SUM,), lambda group: Figure(_true(group) == group.count, 0.0, exact=True), type="BOOLEAN"
)
BOOL_OR = Aggregate(("BOOL_OR",), (_SUM,), lambda group: Figure(_true(group) > 0, 0.0, exact=True), type="BOOLEAN")

_TWO = (Sum(), Power(2))


def _skewness(group: Group) -> Figure | Number:
    """sqrt(n (n - 1)) / (n - 2) times m3 / m2^(3/2), where mk = sum of (x - mean)^k / n: the sample skewness G1.

    NULL where all values are equal. For integers and decimals it is correctly rounded: its square is an exact fraction.
    DuckDB sums raw powers, and loses digits where the mean is much larger than the deviation.
    """
    n, squares = group.count, group.squares()
    if (constant := is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    from flint import arb, fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import exact_root  # noqa: PLC0415 - flint

    cubes, factor = group.cubes(), fmpq(n**2 * (n - 1), (n - 2) ** 2)
    if isinstance(squares, fmpq) and isinstance(cubes, fmpq):
        return exact_root(factor * cubes**2 / squares**3, -1 if cubes < 0 else 1)
    return arb(factor).sqrt() * cubes / arb(squares).sqrt() ** 3


def _kurtosis(group: Group, factor: fmpq | int, excess: fmpq | int) -> Figure | Number:
    """factor m4 / m2^2 - excess. An exact fraction of integers and decimals. NULL where all values are equal."""
    squares = group.squares()
    if (constant := is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    return factor * group.fourths() / squares**2 - excess


def _sample_kurtosis(group: Group) -> Figure | Number:
    """The sample's G2 = (n - 1) / ((n - 2)(n - 3)) times ((n + 1) m4 / m2^2 - 3 (n - 1))."""
    from flint import fmpq  # noqa: PLC0415 - flint

    n, divisor = group.count, (group.count - 2) * (group.count - 3)
    return _kurtosis(group, fmpq(n * (n - 1) * (n + 1), divisor), fmpq(3 * (n - 1) ** 2, divisor))


def _root(value: Number) -> Figure:
    from cleave.aggregates.balls import root  # noqa: PLC0415 - flint

    return root(value)


_SPREAD = (
    Aggregate(("VAR_SAMP", "VARIANCE"), _TWO, lambda group: group.squares() / (group.count - 1), least=2),
    Aggregate(("VAR_POP",), _TWO, lambda group: group.squares() / group.count),
    Aggregate(("STDDEV_SAMP", "STDDEV"), _TWO, lambda group: _root(group.squares() / (group.count - 1)), least=2),
    Aggregate(("STDDEV_POP",), _TWO, lambda group: _root(group.squares() / group.count)),
    # STDDEV_POP / sqrt(n), as DuckDB has it; others divide the sample's deviation
    Aggregate(("SEM",), _TWO, lambda group: _root(group.squares() / group.count**2)),
    Aggregate(("SKEWNESS",), (*_TWO, Power(3)), _skewness, least=3),
    Aggregate(("KURTOSIS",), (*_TWO, Power(3), Power(4)), _sample_kurtosis, least=4),
    Aggregate(
        ("KURTOSIS_POP",),
        (*_TWO, Power(3), Power(4)),
        lambda group: _kurtosis(group, group.count, 3),
        least=2,
    ),
)

_LOG, _NEGATIVE, _ZERO = Log(), Negative(), Zero()
_EXACTLY = 2  # a bound that fails with probability 2^-40, twice as wide, fails with less than 2^-128
_DIGITS = 1000  # of all factors after the point: more are not worth looking for a whole number in


def _product(group: Group) -> Figure | Number:
    """Magnitude from a sum of logarithms, sign from the number of negative values, 0 if any value is 0. A DOUBLE for
    every type, as in DuckDB.

    A product of integers or decimals is a whole number of units; where only one is near enough it is exact.
    """
    from flint import arb, fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import number  # noqa: PLC0415 - flint

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
    from flint import arb, fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import number  # noqa: PLC0415 - flint

    surer = arb(number(Estimate(log.value, _EXACTLY * log.bound))).exp()
    units = (surer * arb(10) ** (decimals * count)).unique_fmpz()
    return None if units is None else fmpq(units, 10 ** (decimals * count))


def _geomean(group: Group) -> Figure | Number:
    """exp(sum of ln x / n), which is what DuckDB's macro computes: NaN where a value is below 0, else 0 where one is 0.

    Where the product of integers or decimals is known exactly (see PRODUCT) its root is correctly rounded.
    """
    from flint import arb, fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import exact_double, number, rounded  # noqa: PLC0415 - flint

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
_PRODUCTS = (
    Aggregate(("PRODUCT",), _MOMENTS, _product),
    Aggregate(("GEOMEAN", "GEOMETRIC_MEAN"), _MOMENTS, _geomean),
)

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
    from flint import arb, fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import exact_root, within  # noqa: PLC0415 - flint

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
    from flint import fmpq  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import within  # noqa: PLC0415 - flint

    x, y, both = group.squares(_X), group.squares(_Y), group.products()
    if is_zero(x):
        return null()
    if is_zero(x) is None or is_zero(y) is None:
        return undecided()
    if is_zero(y):
        return fmpq(1)
    square = both**2 / (x * y)
    return square if isinstance(square, fmpq) else within(square, 0, 1)


_PAIRS = (
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

DECLARED: tuple[Aggregate, ...] = (
    *(COUNT, SUM, AVG, *_SPREAD, *_PRODUCTS, FSUM, COUNT_IF, BOOL_AND, BOOL_OR, *_PAIRS),
)
AGGREGATES: dict[str, Aggregate] = {name: aggregate for aggregate in DECLARED for name in aggregate.names}
"""By SQL name in upper case."""
