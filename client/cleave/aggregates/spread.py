"""Variances, deviations and what is made of them: VAR_..., STDDEV_..., SEM, SKEWNESS, KURTOSIS.

All are computed about a centre, so that an offset like 1e6 cannot cancel the digits away (docs/ckks.md section 4). Of
integers and decimals the sums are exact; a variance is then exact, and a root of one correctly rounded.
"""

from __future__ import annotations

from flint import arb, fmpq

from cleave.aggregates.balls import Number, exact_root, null, root, undecided
from cleave.aggregates.base import Figure
from cleave.aggregates.group import Aggregate, Group, is_zero
from cleave.aggregates.moments import Power, Sum

_TWO = (Sum(), Power(2))


def _skewness(group: Group) -> Figure | Number:
    """sqrt(n (n - 1)) / (n - 2) times m3 / m2^(3/2), where mk = sum of (x - mean)^k / n: the sample skewness G1.

    NULL where all values are equal. Of integers and decimals correctly rounded: its square is an exact fraction. DuckDB
    sums raw powers, and loses digits where the mean is large beside the deviation.
    """
    n, squares = group.count, group.squares()
    if (constant := is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    cubes, factor = group.cubes(), fmpq(n**2 * (n - 1), (n - 2) ** 2)
    if isinstance(squares, fmpq) and isinstance(cubes, fmpq):
        return exact_root(factor * cubes**2 / squares**3, -1 if cubes < 0 else 1)
    return arb(factor).sqrt() * cubes / arb(squares).sqrt() ** 3


def _kurtosis(group: Group, factor: fmpq, excess: fmpq) -> Figure | Number:
    """factor m4 / m2^2 - excess. An exact fraction of integers and decimals. NULL where all values are equal."""
    squares = group.squares()
    if (constant := is_zero(squares)) is not False:
        return undecided() if constant is None else null()
    return factor * group.fourths() / squares**2 - excess


def _sample_kurtosis(group: Group) -> Figure | Number:
    """The sample's G2 = (n - 1) / ((n - 2)(n - 3)) times ((n + 1) m4 / m2^2 - 3 (n - 1))."""
    n, divisor = group.count, (group.count - 2) * (group.count - 3)
    return _kurtosis(group, fmpq(n * (n - 1) * (n + 1), divisor), fmpq(3 * (n - 1) ** 2, divisor))


DECLARED = (
    Aggregate(("VAR_SAMP", "VARIANCE"), _TWO, lambda group: group.squares() / (group.count - 1), least=2),
    Aggregate(("VAR_POP",), _TWO, lambda group: group.squares() / group.count),
    Aggregate(("STDDEV_SAMP", "STDDEV"), _TWO, lambda group: root(group.squares() / (group.count - 1)), least=2),
    Aggregate(("STDDEV_POP",), _TWO, lambda group: root(group.squares() / group.count)),
    # STDDEV_POP / sqrt(n), as DuckDB has it; others divide the sample's deviation
    Aggregate(("SEM",), _TWO, lambda group: root(group.squares() / group.count**2)),
    Aggregate(("SKEWNESS",), (*_TWO, Power(3)), _skewness, least=3),
    Aggregate(("KURTOSIS",), (*_TWO, Power(3), Power(4)), _sample_kurtosis, least=4),
    Aggregate(
        ("KURTOSIS_POP",),
        (*_TWO, Power(3), Power(4)),
        lambda group: _kurtosis(group, fmpq(group.count), fmpq(3)),
        least=2,
    ),
)
