"""Comparisons in three values: what surely holds, what surely does not, and what the bounds leave open."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from flint import arb, fmpq

from cleave.aggregates.balls import Number, nearest, rational
from cleave.finish.functions import number
from cleave.finish.numbers import Special, ends
from cleave.finish.values import Atom, Result, Text, strict

PLACES = {Special.DOWN: 0, Special.UP: 2, Special.NAN: 3}  # DuckDB sorts NaN above Infinity
_NUMBER = 1
Order = frozenset[int]  # of -1, 0, 1: what one value may be to another

OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def comparison(
    operator: str, *, floats: bool, exact_sides: tuple[bool, bool] = (False, False)
) -> Callable[..., Result]:
    """`floats`: DuckDB compares as DOUBLE. `exact_sides`: which operand is no DOUBLE by itself, as a literal 0.1 is."""
    holds = OPERATORS[operator]

    @strict
    def compared(one: Atom, other: Atom) -> Result:
        orders = order_of(one, other, floats=floats, exact_sides=exact_sides)
        if orders is None:
            return Special.UNKNOWN
        return tuple({holds(order) for order in orders})

    return compared


def order_of(one: Atom, other: Atom, *, floats: bool, exact_sides: tuple[bool, bool] = (False, False)) -> Order | None:
    """Compare two values that are not NULL; None for types that are not compared here."""
    if isinstance(one, bool) and isinstance(other, bool):
        return frozenset({one - other})
    if isinstance(one, Text) and isinstance(other, Text):
        return frozenset({(one.text > other.text) - (one.text < other.text)})
    a, b = number(one), number(other)
    places = _place(a), _place(b)
    if None in places:
        return None
    if places[0] != places[1] or places[0] != _NUMBER:
        return frozenset({(places[0] > places[1]) - (places[0] < places[1])})  # type: ignore[operator]
    if not isinstance(a, fmpq | arb) or not isinstance(b, fmpq | arb):
        return None
    return _as_doubles(a, b, exact_sides) if floats else _exactly(ends(a), ends(b))


def _place(atom: Atom) -> int | None:
    if isinstance(atom, fmpq | arb):
        return _NUMBER
    return PLACES.get(atom) if isinstance(atom, Special) else None


def _as_doubles(a: Number, b: Number, exact_sides: tuple[bool, bool]) -> Order:
    """DuckDB compares the doubles that hold the values; where these and the values themselves say the same it is so.

    A literal 0.1 beside a DOUBLE may be read as itself or as the double that holds it.
    """
    doubles = _exactly(_doubles(a), _doubles(b))
    readings = [
        [ends(value), _doubles(value)] if is_exact else [ends(value)]
        for value, is_exact in zip((a, b), exact_sides, strict=True)
    ]
    values = frozenset[int]().union(*(_exactly(one, other) for one, other in product(*readings)))
    return doubles if len(doubles) == 1 and doubles <= values else doubles | values


def _doubles(value: Number) -> tuple[fmpq, fmpq]:
    low, high = ends(value)
    return _double(low), _double(high)


def _double(value: fmpq) -> fmpq:
    double = nearest(value)
    return value if double in (float("inf"), float("-inf")) else rational(double)


def _exactly(one: tuple[fmpq, fmpq], other: tuple[fmpq, fmpq]) -> Order:
    orders = set()
    if one[0] < other[1]:
        orders.add(-1)
    if one[1] > other[0]:
        orders.add(1)
    if max(one[0], other[0]) <= min(one[1], other[1]):
        orders.add(0)
    return frozenset(orders)


def both(one: Atom, other: Atom) -> Result:
    """AND."""
    return _logic(one, other, decisive=False)


def any_of(one: Atom, other: Atom) -> Result:
    """OR."""
    return _logic(one, other, decisive=True)


def _logic(one: Atom, other: Atom, *, decisive: bool) -> Result:
    if Special.FAILED in (one, other):
        return Special.FAILED
    if decisive in (one, other):
        return decisive
    for special in (Special.UNKNOWN, Special.NULL):
        if special in (one, other):
            return special
    return not decisive


@strict
def negation(one: Atom) -> Result:
    return not one if isinstance(one, bool) else Special.UNKNOWN


def same(*, floats: bool, exact_sides: tuple[bool, bool] = (False, False)) -> Callable[..., Result]:
    """IS NOT DISTINCT FROM."""
    equal = comparison("=", floats=floats, exact_sides=exact_sides)

    def compared(one: Atom, other: Atom) -> Result:
        missing = (one is Special.NULL) + (other is Special.NULL)
        if Special.FAILED in (one, other):
            return Special.FAILED
        if missing and Special.UNKNOWN in (one, other):
            return True, False
        return missing == 2 if missing else equal(one, other)

    return compared


def is_null(one: Atom) -> Result:
    if one is Special.UNKNOWN:
        return True, False
    return one if one is Special.FAILED else one is Special.NULL


def extreme(*, greatest: bool, floats: bool) -> Callable[..., Result]:
    """GREATEST and LEAST of two; NULL is left out, NaN is the largest."""

    def chosen(one: Atom, other: Atom) -> Result:
        if Special.FAILED in (one, other):
            return Special.FAILED
        if one is Special.NULL:
            return other
        if other is Special.NULL:
            return one
        a, b = number(one), number(other)
        inexact = isinstance(a, arb) or isinstance(b, arb)
        if inexact and isinstance(a, fmpq | arb) and isinstance(b, fmpq | arb):
            return arb(a).max(arb(b)) if greatest else arb(a).min(arb(b))
        orders = None if Special.UNKNOWN in (a, b) else order_of(a, b, floats=floats)
        if orders is None:
            return Special.UNKNOWN
        return tuple(a if (order > 0) == greatest or order == 0 else b for order in orders)

    return chosen
