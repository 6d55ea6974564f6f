"""What a figure of an encrypted aggregate is worth: what its exact value may be, and the value that may be shown."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb

from cleave.aggregates.base import UNIT, Figure
from cleave.sql.finish.numbers import Special, exact, not_negative
from cleave.sql.finish.values import NULL, UNKNOWN, Value, known

NONNEGATIVE = frozenset({"COUNT", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"})
"""Aggregates, one name each, that are never below 0, whatever their bound reaches to."""
NEVER_MINUS_ZERO = NONNEGATIVE | {"SUM", "AVG"}


def certified(figure: Figure, names: tuple[str, ...]) -> Value:
    if figure.value is None:
        return NULL
    number = float(figure.value) if isinstance(figure.value, float) else figure.value
    if isinstance(number, float) and not math.isfinite(number):
        if not figure.exact:
            return UNKNOWN
        return known(Special.NAN if math.isnan(number) else Special.UP if number > 0 else Special.DOWN)
    if figure.exact and (not isinstance(number, float) or not number):
        return known(exact(number))
    radius = figure.bound if not figure.exact else abs(float(number)) * UNIT
    if not math.isfinite(radius):
        return UNKNOWN
    ball = arb(exact(number)) + arb(0, radius)
    return known(ball if NONNEGATIVE.isdisjoint(names) else not_negative(ball))


def published(figure: Figure) -> int | float | Fraction | None:
    """The value that may be shown."""
    return figure.value
