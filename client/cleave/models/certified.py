"""Numbers of models, each with its certified bound."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from flint import fmpq

from cleave.aggregates.balls import Number, figure_of, rational
from cleave.text import figures
from cleave_shared.errors import UsageError

_LEVEL_DIGITS = 15  # on each side of the point
_DIGITS = 6  # that a summary shows at most
_NAN = float("nan")


def given_number(value: object, digits: int) -> Fraction | None:
    """Return the number that `value` writes, exactly; None if it has over `digits` digits on a side of the point.

    A Fraction writes out all digits, those of 1e999999999 too, so they are counted before. Raises ValueError if `value`
    is no finite number.
    """
    text = str(value)
    try:
        if "/" not in text and abs(Decimal(text).adjusted()) > digits:
            return None
        number = Fraction(text)
    except ArithmeticError:
        raise ValueError("no finite number") from None
    return None if abs(number) > 10**digits else number


def given_level(level: object) -> fmpq:
    """Return a level of confidence as it is written: 0.95 is 19/20, not the double next to it. Raises UsageError."""
    try:
        found = given_number(level, _LEVEL_DIGITS)
    except ValueError:
        found = None
    if found is None or not 0 < found < 1:
        raise UsageError("the level of confidence intervals is between 0 and 1, such as 0.95", name="--level")
    return rational(found)


class Certified(NamedTuple):
    """A number and its bound: the exact value of the statistic is at most `bound` away.

    The value has no digits beyond its bound. A bound of 0 means that the value is the exact fraction, correctly rounded
    to a double. Both are NaN if the statistic does not exist.
    """

    value: float
    bound: float

    @property
    def exists(self) -> bool:
        return not math.isnan(self.value)

    @property
    def short(self) -> str:
        """The number with at most six digits, and none beyond its bound."""
        value, bound = self
        if math.isnan(value):
            return ""
        if not math.isfinite(value) or not math.isfinite(bound):
            return "unknown"
        if bound >= abs(value) > 0:
            return figures.encrypted(value, bound, exact=False)
        digits = _DIGITS
        if bound and value:
            digits = min(digits, max(1, math.floor(math.log10(abs(value))) - math.floor(math.log10(bound))))
        return f"{value:.{digits}g}"

    @property
    def pair(self) -> list[float | None]:
        """The value and the bound for JSON, which has neither NaN nor infinity."""
        return [each if math.isfinite(each) else None for each in self]


NONE = Certified(_NAN, _NAN)


def certified(value: Number | None) -> Certified:
    if value is None:
        return NONE
    figure = figure_of(value)
    shown, bound = figures.published(figure.value, figure.bound, figure.exact)
    return Certified(float(shown), float(math.inf if bound is None else bound))
