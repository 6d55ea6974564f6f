"""Casts between numbers and booleans, as DuckDB rounds them, and the ranges of types."""

from __future__ import annotations

from collections.abc import Callable

from flint import arb, fmpq

from cleave.aggregates.balls import Number, nearest, rational
from cleave.finish import numbers
from cleave.finish.functions import number
from cleave.finish.numbers import Special, ends
from cleave.finish.values import Atom, Result, strict
from cleave.table.types import decimals_of, digits_of

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
FLOATS = frozenset({"FLOAT", "DOUBLE"})
INTEGERS = frozenset({*_BITS, *(f"U{name}" for name in _BITS)})


def is_numeric(type_: str) -> bool:
    return type_ in FLOATS or type_ in INTEGERS or digits_of(type_) is not None


def span(type_: str) -> tuple[fmpq, fmpq] | None:
    """The least and largest value of an exact type."""
    if type_ in INTEGERS:
        bits = _BITS[type_.removeprefix("U")]
        return (
            (fmpq(0), fmpq(2**bits - 1))
            if type_.startswith("U")
            else (-fmpq(2 ** (bits - 1)), fmpq(2 ** (bits - 1) - 1))
        )
    digits = digits_of(type_)
    if digits is None:
        return None
    largest = fmpq(10**digits - 1, 10 ** (decimals_of(type_) or 0))
    return -largest, largest


def in_range(type_: str) -> Callable[[Atom], Result]:
    """A result of exact arithmetic, which is an error beyond its type."""
    limits = span(type_)

    def checked(atom: Atom) -> Result:
        if limits is None or not isinstance(atom, fmpq | arb):
            return atom
        low, high = ends(atom)
        if low >= limits[0] and high <= limits[1]:
            return atom
        return Special.FAILED if low > limits[1] or high < limits[0] else Special.UNKNOWN

    return checked


def cast(source: str, target: str) -> Callable[..., Result] | None:
    """None for what is not cast here: text, dates and the like."""
    if not (is_numeric(source) or source == "BOOLEAN"):
        return None
    if target == "BOOLEAN":
        return _truth
    if target == "DOUBLE":
        return strict(number)
    if target == "FLOAT":
        return _single
    limits = span(target)
    if limits is None:
        return None
    unit = fmpq(10) ** -(decimals_of(target) or 0) if target not in INTEGERS else numbers.ONE
    step = numbers.half_even if source in FLOATS and target in INTEGERS else numbers.half_away
    checked = in_range(target)

    @strict
    def rounded(atom: Atom) -> Result:
        value = number(atom)
        if not isinstance(value, fmpq | arb):
            return Special.FAILED if isinstance(value, Special) else Special.UNKNOWN
        wide = numbers.as_double(value) if source in FLOATS else value
        made: list[Atom] = []
        for each in numbers.stepped(wide, step, unit):
            result = checked(each)
            made.extend(result if isinstance(result, tuple) else (result,))  # type: ignore[arg-type]
        return tuple(made)

    return rounded


@strict
def _truth(atom: Atom) -> Result:
    if isinstance(atom, bool):
        return atom
    if not isinstance(atom, fmpq | arb):
        return True if isinstance(atom, Special) else Special.UNKNOWN
    low, high = ends(atom)
    if low == high:
        return low != 0
    return True if low > 0 or high < 0 else (True, False)


@strict
def _single(atom: Atom) -> Result:
    value = number(atom)
    return single(value) if isinstance(value, fmpq | arb) else value


def single(value: Number) -> Number | Special:
    """As a FLOAT holds it; an error beyond its range."""
    doubles = [numbers.nearest_single(nearest(end)) for end in ends(value)]
    if any(abs(double) == float("inf") for double in doubles):
        return Special.UNKNOWN if doubles[0] != doubles[1] else Special.FAILED
    return numbers.between(*map(rational, doubles))
