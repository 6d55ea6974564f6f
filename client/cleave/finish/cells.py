"""Figures of encrypted aggregates, their possible exact values, and the answer's cells computed from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import Number, half_unit, nearest, rational
from cleave.aggregates.base import UNIT, Figure
from cleave.finish import numbers
from cleave.finish.numbers import Special, ends, nearest_single, not_negative
from cleave.finish.values import NULL, UNKNOWN, Text, Value, value_of
from cleave.table.types import FLOATS, decimals_of, is_integer, is_numeric

PRECISE = Context(prec=60)  # more than the 38 digits of a DECIMAL
_SPECIALS = {Special.NAN: math.nan, Special.UP: math.inf, Special.DOWN: -math.inf}


@dataclass(frozen=True, slots=True)
class AnswerCell:
    value: Any
    bound: float | None
    exact: bool | None
    undecided: bool = False
    hidden: bool = False


HIDDEN = AnswerCell(None, None, exact=None, hidden=True)


def of_figure(figure: Figure, type_: str) -> AnswerCell:
    """The cell of an output that is a single aggregate."""
    if figure.hidden:
        return HIDDEN
    value = figure.value
    if isinstance(value, float) and type_ == "DOUBLE":
        value += 0.0  # -0 becomes 0
    elif value is not None and not isinstance(value, bool) and math.isfinite(value):
        value = held(rational(value), type_)
    if figure.exact:
        return AnswerCell(value, 0.0, exact=True)
    return AnswerCell(value, figure.bound if math.isfinite(figure.bound) else None, exact=False)


def needs_guess(value: Value) -> bool:
    return value.single in (None, Special.UNKNOWN)


def of_value(value: Value, type_: str, guess: Any) -> AnswerCell:
    """The cell of `value`. `guess`: DuckDB's value, computed from the shown figures; it is shown if `value` has
    alternatives.
    """
    atom = value.single
    if atom is Special.UNKNOWN:
        return AnswerCell(guess, None, exact=False, undecided=not is_numeric(type_))
    if atom is None:
        return AnswerCell(guess, _reach(value, guess), exact=False, undecided=True)
    if isinstance(atom, fmpq | arb):
        cell = _number(atom, type_)
        return AnswerCell(cell.value, None, exact=False) if value.guessed else _torn(cell, value)
    if value.guessed:
        return AnswerCell(_python(atom), None, exact=None)
    return AnswerCell(_python(atom), 0.0, exact=True)


def _torn(cell: AnswerCell, value: Value) -> AnswerCell:
    return AnswerCell(cell.value, cell.bound, cell.exact, undecided=value.torn)


def _python(atom: Any) -> Any:
    if atom is Special.NULL:
        return None
    return atom.text if isinstance(atom, Text) else _SPECIALS.get(atom, atom) if isinstance(atom, Special) else atom


def _number(value: Number, type_: str) -> AnswerCell:
    low, high = ends(value)
    if type_ in FLOATS:
        least, most = held(low, type_), held(high, type_)
        if least == most:  # every value within the bounds becomes this value of the type
            is_rational = isinstance(value, fmpq) or not math.isfinite(least) or type_ != "DOUBLE"
            return AnswerCell(least, 0.0 if is_rational else half_unit(least), exact=is_rational)
    middle = held((low + high) / 2, type_)
    if isinstance(middle, float) and not math.isfinite(middle):
        return AnswerCell(middle, None, exact=False)
    distance = _distance(low, high, middle)
    return AnswerCell(middle, distance, exact=not distance)


def held(value: fmpq, type_: str) -> Any:
    """The nearest value of the type."""
    if type_ == "DOUBLE":
        return nearest(value)
    if type_ == "FLOAT":
        return nearest_single(nearest(value))
    if is_integer(type_):
        return numbers.half_even(value)
    decimals = decimals_of(type_) or 0
    return Decimal(numbers.half_away(value * fmpq(10) ** decimals)).scaleb(-decimals, PRECISE)


def _distance(low: fmpq, high: fmpq, value: Any) -> float | None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    at = rational(value)
    distance = numbers.above(max(high - at, at - low, fmpq(0)))
    return distance if math.isfinite(distance) else None


def _reach(value: Value, guess: Any) -> float | None:
    """The largest distance of the alternatives from the guess; None unless all are numbers."""
    if len(value.numbers) < len(value.atoms) or isinstance(guess, bool | str):
        return None
    limits = [end for number in value.numbers for end in ends(number)]
    return _distance(min(limits), max(limits), guess)


NONNEGATIVE = frozenset(
    {"COUNT", "COUNT_IF", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "SEM", "GEOMEAN"}
    | {"REGR_COUNT", "REGR_SXX", "REGR_SYY", "REGR_R2"}
)
"""Aggregates, one name each, that are never below 0, whatever their bound reaches to."""
NEVER_MINUS_ZERO = NONNEGATIVE | {"SUM", "FSUM", "AVG"}
# more digits than the largest double over the smallest bound has
_PRECISE = Context(prec=2_000, Emax=9_999, Emin=-9_999)
_TINY = Fraction(2) ** -1074  # the error of a mean below the normal doubles


def certified(figure: Figure, names: tuple[str, ...]) -> Value:
    if figure.value is None:
        return NULL if figure.exact else UNKNOWN
    number = figure.value
    if isinstance(number, bool):
        return value_of(number)
    if isinstance(number, float) and not math.isfinite(number):
        if not figure.exact:
            return UNKNOWN
        return value_of(Special.NAN if math.isnan(number) else Special.UP if number > 0 else Special.DOWN)
    if figure.exact and (not isinstance(number, float) or not number):
        return value_of(rational(number))
    ball = figure.ball
    if isinstance(ball, fmpq):
        return value_of(ball)
    if ball is None:
        radius = figure.bound if not figure.exact else abs(float(number)) * UNIT
        if not math.isfinite(radius):
            return UNKNOWN
        ball = arb(rational(number)) + arb(0, radius)
    if not ball.is_finite():
        return UNKNOWN
    if ball.is_exact():
        return value_of(ball.fmpq())
    return value_of(ball if NONNEGATIVE.isdisjoint(names) else not_negative(ball))


def certified_plain(value: Any, total: Any, count: int | None) -> Value:
    """A plain SUM or AVG with its witnesses `total` and `count` (cleave.sql.plain).

    A sum of n doubles in any order has an error of at most gamma = (n - 1) u / (1 - (n - 1) u) times the sum of
    absolute values (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 4.2 and 4.4). The sum of
    absolute values has this relative error too. A mean is rounded once more. A `total` that is not a double is the
    exact sum of an AVG.
    """
    if value is None or not count:
        return NULL if value is None else UNKNOWN
    if not isinstance(total, float):
        return value_of(rational(Fraction(total) / count)) if total is not None else UNKNOWN
    if not math.isfinite(value) or not math.isfinite(total):
        return UNKNOWN
    roundings = count * Fraction(UNIT)  # one more than the actual number
    if roundings >= Fraction(1, 4):
        return UNKNOWN
    gamma = roundings / (1 - roundings)  # below 1/3
    radius = gamma * Fraction(total) / (1 - gamma) + 4 * Fraction(UNIT) * abs(Fraction(value)) + _TINY
    return value_of(arb(rational(value), arb(rational(radius))))


def published(figure: Figure) -> int | float | Fraction | bool | None:
    """The value without digits beyond its bound. DuckDB converts this value to text and computes guesses from it."""
    value, bound = figure.value, figure.bound
    if figure.exact or not isinstance(value, float) or not bound or not math.isfinite(value) or math.isinf(bound):
        return value
    place = Decimal(1).scaleb(Decimal(bound).adjusted(), _PRECISE)
    return float(Decimal(value).quantize(place, context=_PRECISE))
