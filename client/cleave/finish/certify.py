"""Range of the exact value of an encrypted figure, and the value that may be shown."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import rational
from cleave.aggregates.base import UNIT, Figure
from cleave.finish.numbers import Special, not_negative
from cleave.finish.values import NULL, UNKNOWN, Value, known

NONNEGATIVE = frozenset(
    {"COUNT", "COUNT_IF", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "SEM", "GEOMEAN"}
    | {"REGR_COUNT", "REGR_SXX", "REGR_SYY", "REGR_R2"}
)
"""Aggregates, one name each, that are never below 0, whatever their bound reaches to."""
NEVER_MINUS_ZERO = NONNEGATIVE | {"SUM", "FSUM", "AVG"}
_PRECISE = Context(prec=2_000, Emax=9_999, Emin=-9_999)  # digits of the largest double over the smallest bound
_TINY = Fraction(2) ** -1074  # what a mean below the normal doubles loses


def certified(figure: Figure, names: tuple[str, ...]) -> Value:
    if figure.value is None:
        return NULL
    number = figure.value
    if isinstance(number, bool):
        return known(number)
    if isinstance(number, float) and not math.isfinite(number):
        if not figure.exact:
            return UNKNOWN
        return known(Special.NAN if math.isnan(number) else Special.UP if number > 0 else Special.DOWN)
    if figure.exact and (not isinstance(number, float) or not number):
        return known(rational(number))
    ball = figure.ball
    if isinstance(ball, fmpq):
        return known(ball)
    if ball is None:
        radius = figure.bound if not figure.exact else abs(float(number)) * UNIT
        if not math.isfinite(radius):
            return UNKNOWN
        ball = arb(rational(number)) + arb(0, radius)
    if not ball.is_finite():
        return UNKNOWN
    if ball.is_exact():
        return known(ball.fmpq())
    return known(ball if NONNEGATIVE.isdisjoint(names) else not_negative(ball))


def certified_plain(value: Any, total: Any, count: int | None) -> Value:
    """A plain SUM or AVG whose witnesses (cleave.sql.plain) are `total` and `count`.

    A sum of n doubles in any order is off by at most gamma = (n - 1) u / (1 - (n - 1) u) times the sum of their
    absolute values (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 4.2 and 4.4); so is the
    sum of the absolute values itself. A mean is rounded once more. A `total` that is no double is the exact sum of an
    AVG.
    """
    if value is None or not count:
        return NULL if value is None else UNKNOWN
    if not isinstance(total, float):
        return known(rational(Fraction(total) / count)) if total is not None else UNKNOWN
    if not math.isfinite(value) or not math.isfinite(total):
        return UNKNOWN
    roundings = count * Fraction(UNIT)  # one more than there are
    if roundings >= Fraction(1, 4):
        return UNKNOWN
    gamma = roundings / (1 - roundings)  # below 1/3
    radius = gamma * Fraction(total) / (1 - gamma) + 4 * Fraction(UNIT) * abs(Fraction(value)) + _TINY
    return known(arb(rational(value), arb(rational(radius))))


def published(figure: Figure) -> int | float | Fraction | bool | None:
    """The value without digits beyond its bound: what DuckDB makes text and guesses of."""
    value, bound = figure.value, figure.bound
    if figure.exact or not isinstance(value, float) or not bound or not math.isfinite(value) or math.isinf(bound):
        return value
    place = Decimal(1).scaleb(Decimal(bound).adjusted(), _PRECISE)
    return float(Decimal(value).quantize(place, context=_PRECISE))
