"""What statistics of deviations are, by definition: two passes over fractions, deviations from the exact mean.

The declarations in `cleave.aggregates` use sums about a centre instead, so that a slip in their algebra shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import flint
from flint import arb

from cleave.aggregates.base import Figure
from tests.oracle import over_one, rational

REGRESSION = ("AVGX", "AVGY", "COUNT", "INTERCEPT", "R2", "SLOPE", "SXX", "SXY", "SYY")
PAIRS = ("COVAR_SAMP", "COVAR_POP", "CORR", *(f"REGR_{each}" for each in REGRESSION))
SINGLES = ("SKEWNESS", "KURTOSIS", "KURTOSIS_POP", "SEM", "GEOMEAN", "FSUM", "FAVG", "KAHAN_SUM")
Column = Sequence[Fraction | None]
NAN = "NaN"  # of the oracle; None is NULL
DIGITS = 500


def truth(name: str, ys: Column, xs: Column) -> arb | str | None:
    """By definition, to 500 bits. `xs` is left out by aggregates of one argument."""
    with flint.ctx.workprec(DIGITS):
        if name in PAIRS:
            pairs = [(y, x) for y, x in zip(ys, xs, strict=True) if y is not None and x is not None]
            return _of_pairs(name, [y for y, _ in pairs], [x for _, x in pairs])
        return _of_one(name, [y for y in ys if y is not None])


def _mean(values: Sequence[Fraction]) -> Fraction:
    whole, common = over_one(values)
    return Fraction(sum(whole), common * len(values))


def _about(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """Deviations from the mean, over one denominator."""
    whole, common = over_one(values)
    n, total = len(values), sum(whole)
    return [n * each - total for each in whole], n * common


def _of_pairs(name: str, ys: Sequence[Fraction], xs: Sequence[Fraction]) -> arb | str | None:
    n = len(ys)
    if name == "REGR_COUNT":
        return arb(n)
    if n < 1 + (name == "COVAR_SAMP"):
        return None
    (dy, of_y), (dx, of_x) = _about(ys), _about(xs)
    xx, yy = Fraction(sum(d * d for d in dx), of_x**2), Fraction(sum(d * d for d in dy), of_y**2)
    xy = Fraction(sum(a * b for a, b in zip(dx, dy, strict=True)), of_x * of_y)
    mean_y, mean_x = _mean(ys), _mean(xs)
    simple: dict[str, Callable[[], Fraction]] = {
        "COVAR_SAMP": lambda: xy / (n - 1),
        "COVAR_POP": lambda: xy / n,
        "REGR_AVGX": lambda: mean_x,
        "REGR_AVGY": lambda: mean_y,
        "REGR_SXX": lambda: xx,
        "REGR_SYY": lambda: yy,
        "REGR_SXY": lambda: xy,
    }
    if name in simple:
        return rational(simple[name]())
    if name == "CORR":
        return rational(xy) / rational(xx * yy).sqrt() if xx and yy else NAN
    if not xx:
        return NAN if name == "REGR_SLOPE" else None
    if name == "REGR_R2":
        return rational(xy**2 / (xx * yy)) if yy else arb(1)
    return rational(xy / xx if name == "REGR_SLOPE" else mean_y - xy / xx * mean_x)


def _of_one(name: str, values: Sequence[Fraction]) -> arb | str | None:
    n = len(values)
    if not n:
        return None
    if name in ("FSUM", "KAHAN_SUM", "FAVG"):
        return rational(_mean(values) * (1 if name == "FAVG" else n))
    if name == "GEOMEAN":
        if min(values) <= 0:
            return NAN if min(values) < 0 else arb(0)
        with flint.ctx.workprec(DIGITS + 64 * n):
            return (sum((rational(value).log() for value in values), arb(0)) / n).exp()
    apart, of = _about(values)
    m2, m3, m4 = (Fraction(sum(d**power for d in apart), n * of**power) for power in (2, 3, 4))
    if name == "SEM":
        return rational(m2 / n).sqrt()
    least = {"SKEWNESS": 3, "KURTOSIS": 4, "KURTOSIS_POP": 2}[name]
    if n < least or not m2:
        return None
    if name == "SKEWNESS":
        return rational(Fraction(n * (n - 1))).sqrt() / (n - 2) * rational(m3) / rational(m2) ** Fraction(3, 2)
    ratio = m4 / m2**2
    if name == "KURTOSIS_POP":
        return rational(ratio - 3)
    return rational(Fraction(n - 1, (n - 2) * (n - 3)) * ((n + 1) * ratio - 3 * (n - 1)))


def wrong(figure: Figure, right: arb | str | None) -> str | None:
    """Why a figure breaks its promise, None where it keeps it."""
    if right is None or figure.value is None:
        undecided = not figure.exact and math.isinf(figure.bound)
        return None if figure.value is right or undecided else f"{figure} for {right}"
    if isinstance(right, str):
        return None if math.isnan(figure.value) else f"{figure} for {right}"
    if figure.exact:
        return None if figure.value == float(right.mid()) else f"exact {figure.value!r} for {float(right.mid())!r}"
    if math.isinf(figure.bound):
        return None
    with flint.ctx.workprec(DIGITS):
        apart = abs(rational(Fraction(figure.value)) - right)
        if figure.ball is not None and not arb(figure.ball).overlaps(right):
            return f"the ball {figure.ball} does not hold {right}"
    return None if apart.lower() <= arb(figure.bound) else f"{figure.value!r} +- {figure.bound!r}, right is {right}"
