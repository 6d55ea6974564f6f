"""One cell of the answer from the alternatives of its value: a value of DuckDB's type, its bound, and marks."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import Number, half_unit, nearest, rational
from cleave.aggregates.base import Figure
from cleave.finish import numbers
from cleave.finish.casts import FLOATS, INTEGERS, is_numeric
from cleave.finish.numbers import Special, ends, nearest_single
from cleave.finish.values import Text, Value
from cleave.table.types import decimals_of
from cleave_shared.dataclass import dataclass

PRECISE = Context(prec=60)  # more than the 38 digits of any DECIMAL
_SPECIALS = {Special.NAN: math.nan, Special.UP: math.inf, Special.DOWN: -math.inf}


@dataclass(frozen=True, slots=True)
class Cell:
    value: Any
    bound: float | None
    exact: bool | None
    undecided: bool = False


def of_figure(figure: Figure, type_: str) -> Cell:
    """An aggregate that stands by itself."""
    value = figure.value
    if isinstance(value, float) and type_ == "DOUBLE":
        value += 0.0  # -0 becomes 0
    elif value is not None and not isinstance(value, bool) and math.isfinite(value):
        value = held(rational(value), type_)
    if figure.exact:
        return Cell(value, 0.0, exact=True)
    return Cell(value, figure.bound if math.isfinite(figure.bound) else None, exact=False)


def needs_guess(value: Value) -> bool:
    return value.single in (None, Special.UNKNOWN)


def of_value(value: Value, type_: str, guess: Any) -> Cell:
    """`guess`: DuckDB's own value for the figures as they are shown; taken where `value` names no single one."""
    atom = value.single
    if atom is Special.UNKNOWN:
        return Cell(guess, None, exact=False, undecided=not is_numeric(type_))
    if atom is None:
        return Cell(guess, _reach(value, guess), exact=False, undecided=True)
    if isinstance(atom, fmpq | arb):
        cell = _number(atom, type_)
        return Cell(cell.value, None, exact=False) if value.guessed else _torn(cell, value)
    if value.guessed:
        return Cell(_python(atom), None, exact=None)
    return Cell(_python(atom), 0.0, exact=True)


def _torn(cell: Cell, value: Value) -> Cell:
    return Cell(cell.value, cell.bound, cell.exact, undecided=value.torn)


def _python(atom: Any) -> Any:
    if atom is Special.NULL:
        return None
    return atom.text if isinstance(atom, Text) else _SPECIALS.get(atom, atom) if isinstance(atom, Special) else atom


def _number(value: Number, type_: str) -> Cell:
    low, high = ends(value)
    if type_ in FLOATS:
        least, most = held(low, type_), held(high, type_)
        if least == most:  # whatever it is, the type holds it as this
            is_rational = isinstance(value, fmpq) or not math.isfinite(least) or type_ != "DOUBLE"
            return Cell(least, 0.0 if is_rational else half_unit(least), exact=is_rational)
    middle = held((low + high) / 2, type_)
    if isinstance(middle, float) and not math.isfinite(middle):
        return Cell(middle, None, exact=False)
    distance = _distance(low, high, middle)
    return Cell(middle, distance, exact=not distance)


def held(value: fmpq, type_: str) -> Any:
    """The value of the type that is nearest."""
    if type_ == "DOUBLE":
        return nearest(value)
    if type_ == "FLOAT":
        return nearest_single(nearest(value))
    if type_ in INTEGERS:
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
    """How far the alternatives lie from the guess, where all of them are numbers."""
    if len(value.numbers) < len(value.atoms) or isinstance(guess, bool | str):
        return None
    limits = [end for number in value.numbers for end in ends(number)]
    return _distance(min(limits), max(limits), guess)
