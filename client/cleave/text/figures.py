"""Figures as text or numbers, with their bounds, and without digits beyond the bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

# More digits than the largest double over the smallest bound has, so nothing is rounded silently.
_CONTEXT = Context(prec=2_000, Emax=9_999, Emin=-9_999)
# Outside 10^-6 .. 10^16 a figure has an exponent.
_SMALLEST, _LARGEST = -6, 15


def plain(value: Any) -> str:
    """A value without a bound. Whole numbers and decimals keep every digit; floats have enough digits to be
    read back.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Fraction):
        return plain(value.numerator) if value.denominator == 1 else str(value)
    return str(value)


def encrypted(value: Any, bound: float | None, exact: bool | None, *, undecided: bool = False) -> str:
    """ "12 exact", "1.4142135623730951 rounded", or "50.31 ± 2e-9".

    The bound has one digit, rounded up to include the rounding of the figure. Figure and bound end at the same decimal
    digit; trailing zeros of the figure are omitted.
    """
    mark = " undecided" if undecided else ""
    if value is None:
        return f"NULL{mark}"
    if exact:
        return f"{plain(value)} exact{mark}"
    if not _is_number(value):
        return f"{plain(value)}{mark}"
    if is_rounded(value, bound):
        return f"{plain(value)} rounded{mark}"
    if bound is None or not math.isfinite(bound) or not _is_finite(value):
        return f"{plain(value)} ± unknown{mark}"
    if bound == 0:
        return f"{plain(value)} ± 0{mark}"
    with localcontext(_CONTEXT):
        shown, covered = _rounded(_decimal(value), Decimal(bound))
        return f"{_written(shown)} ± {covered.scaleb(-covered.adjusted()):f}e{covered.adjusted()}{mark}"


def is_rounded(value: Any, bound: float | None) -> bool:
    """True if `value` is the double nearest to the exact value: its error is at most half a unit in the last place."""
    if not isinstance(value, float) or not math.isfinite(value) or not bound:
        return False
    return bound <= math.ulp(value) / 2  # 0 for the smallest doubles, which have no half unit


def published(value: Any, bound: float | None, exact: bool | None) -> tuple[Any, float | None]:
    """For programs: the value as a Decimal without digits beyond its bound, and the bound of that.

    A value that is exact, correctly rounded or without a bound is not changed.
    """
    if is_rounded(value, bound):
        return value, bound
    if exact or not bound or not math.isfinite(bound) or not _is_number(value) or not _is_finite(value):
        return value, bound
    with localcontext(_CONTEXT):
        shown, covered = _rounded(_decimal(value), Decimal(bound))
        return Decimal(_written(shown)), float(covered)


def _rounded(value: Decimal, bound: Decimal) -> tuple[Decimal, Decimal]:
    """The figure rounded to the bound's first digit, and a one-digit bound that includes this rounding."""
    place = bound.adjusted()
    while True:
        unit = Decimal(1).scaleb(place)
        shown = value.quantize(unit, ROUND_HALF_EVEN)
        covered = (bound + abs(shown - value)).quantize(unit, ROUND_CEILING)
        if covered.adjusted() == place:
            return shown, covered
        place += 1  # 9.6 -> 10: the bound's first digit moves one digit to the left


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _written(value: Decimal) -> str:
    if not value:
        return "0"  # never -0
    if not _SMALLEST <= value.adjusted() <= _LARGEST:
        short = value.normalize()
        return f"{short.scaleb(-short.adjusted()):f}e{short.adjusted()}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimal(value: Any) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator) if isinstance(value, Fraction) else Decimal(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
