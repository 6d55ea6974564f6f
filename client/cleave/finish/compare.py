"""Three-valued comparisons: true, false, or not decided by the bounds. Also ORDER BY and LIMIT over bounded values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import Number, nearest, rational
from cleave.finish.functions import number
from cleave.finish.numbers import ZERO, Special, ends
from cleave.finish.values import Atom, Computed, Text, Value, atom_of, strict
from cleave.table.types import FLOATS

PLACES = {Special.DOWN: 0, Special.UP: 2, Special.NAN: 3}  # DuckDB sorts NaN above Infinity
_NUMBER = 1
Order = frozenset[int]  # of -1, 0, 1: possible results of comparing two values

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
) -> Callable[..., Computed]:
    """`floats`: DuckDB compares as DOUBLE. `exact_sides`: which operands are not DOUBLE by themselves, such as a
    literal 0.1.
    """
    holds = OPERATORS[operator]

    @strict
    def compared(one: Atom, other: Atom) -> Computed:
        orders = order_of(one, other, floats=floats, exact_sides=exact_sides)
        if orders is None:
            return Special.UNKNOWN
        return tuple({holds(order) for order in orders})

    return compared


def order_of(one: Atom, other: Atom, *, floats: bool, exact_sides: tuple[bool, bool] = (False, False)) -> Order | None:
    """Compare two values that are not NULL. None for types that cannot be compared."""
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
    """Compare as DuckDB compares doubles. The result is decided if the doubles and the values themselves agree.

    A literal 0.1 beside a DOUBLE may be read exactly, or as the nearest double.
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


def both(one: Atom, other: Atom) -> Computed:
    """SQL's three-valued AND."""
    return _logic(one, other, decisive=False)


def any_of(one: Atom, other: Atom) -> Computed:
    """SQL's three-valued OR."""
    return _logic(one, other, decisive=True)


def _logic(one: Atom, other: Atom, *, decisive: bool) -> Computed:
    if Special.FAILED in (one, other):
        return Special.FAILED
    if decisive in (one, other):
        return decisive
    for special in (Special.UNKNOWN, Special.NULL):
        if special in (one, other):
            return special
    return not decisive


@strict
def negation(one: Atom) -> Computed:
    return not one if isinstance(one, bool) else Special.UNKNOWN


def same(*, floats: bool, exact_sides: tuple[bool, bool] = (False, False)) -> Callable[..., Computed]:
    """SQL's IS NOT DISTINCT FROM."""
    equal = comparison("=", floats=floats, exact_sides=exact_sides)

    def compared(one: Atom, other: Atom) -> Computed:
        missing = (one is Special.NULL) + (other is Special.NULL)
        if Special.FAILED in (one, other):
            return Special.FAILED
        if missing and Special.UNKNOWN in (one, other):
            return True, False
        return missing == 2 if missing else equal(one, other)

    return compared


def is_null(one: Atom) -> Computed:
    if one is Special.UNKNOWN:
        return True, False
    return one if one is Special.FAILED else one is Special.NULL


def extreme(*, greatest: bool, floats: bool) -> Callable[..., Computed]:
    """GREATEST or LEAST of two values. NULL is ignored; NaN is the largest."""

    def chosen(one: Atom, other: Atom) -> Computed:
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


Ranks = tuple[int, ...]
_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class GroupRanks:
    """Ranks of each group: of the shown value, and the lowest and highest possible one."""

    shown: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]


def settled(ranks: Sequence[int]) -> GroupRanks:
    return GroupRanks(ranks, ranks, ranks)


def term(
    values: Sequence[Value], shown: Sequence[Any], type_: str, *, descending: bool, nulls_first: bool
) -> GroupRanks:
    """Ranks of values with alternatives. `shown`: the values in the answer, None for NULL."""
    keys = [[key for atom in value.atoms for key in _keys(atom, type_)] for value in values]
    mine = [_key(atom_of(value)) for value in shown]
    ordered = sorted({key for each in keys for key in each if key is not None} | {key for key in mine if key})
    ranks: dict[Any, int] = {key: -rank if descending else rank for rank, key in enumerate(ordered)}
    ranks[None] = -_FAR if nulls_first else _FAR
    low, high = [], []
    for value, row_keys in zip(values, keys, strict=True):
        if Special.UNKNOWN in value.atoms or Special.FAILED in value.atoms:
            low.append(-2 * _FAR)
            high.append(2 * _FAR)
        else:
            places = [ranks[key] for key in row_keys]
            low.append(min(places))
            high.append(max(places))
    return GroupRanks([ranks[key] for key in mine], low, high)


def _keys(atom: Atom, type_: str) -> list[Any]:
    if isinstance(atom, fmpq | arb):
        low, high = (exact_of(end, type_) for end in ends(atom))
        return [low, high]
    return [_key(atom)] if atom not in (Special.UNKNOWN, Special.FAILED) else []


def exact_of(end: fmpq, type_: str) -> Any:
    double = nearest(end)
    if type_ not in FLOATS:
        return (1, end)
    return (1, rational(double)) if not math.isinf(double) else (2 if double > 0 else 0, ZERO)


def _key(atom: Any) -> Any:
    if atom is Special.NULL:
        return None
    if isinstance(atom, fmpq):
        return (1, atom)
    if isinstance(atom, Text):
        return (1, atom.text)
    return (1, fmpq(int(atom))) if isinstance(atom, bool) else (PLACES[atom], ZERO)


def choose(
    candidates: Sequence[int],
    terms: Sequence[GroupRanks],
    ties: Sequence[int],
    limit: int | None,
    offset: int,
    doubtful: frozenset[int],
) -> tuple[list[int], frozenset[int]]:
    """Return the groups to show, in order, and those whose position is uncertain.

    `ties`: ranks that order groups with equal terms. `doubtful`: groups that HAVING may exclude.
    """

    def ranked(row: int, kind: str) -> Ranks:
        return (*(getattr(each, kind)[row] for each in terms), ties[row], row)

    order = sorted(candidates, key=lambda row: ranked(row, "shown"))
    stop = len(order) if limit is None else min(len(order), offset + limit)
    skipped, chosen, rest = order[:offset], order[offset:stop], order[stop:]
    unsure = set()
    if rest:
        first = min(ranked(row, "low") for row in rest)
        unsure |= {row for row in chosen if ranked(row, "high") > first}
    if skipped:
        last = max(ranked(row, "high") for row in skipped)
        unsure |= {row for row in chosen if ranked(row, "low") < last}
        away = sum(row in doubtful for row in skipped)  # if a skipped row is excluded, a later row may move up
        unsure |= set(chosen[:away])
    return chosen, frozenset(unsure)


def unplaced(chosen: Sequence[int], terms: Sequence[GroupRanks]) -> frozenset[int]:
    """Those of the rows `chosen`, given in order, that might belong before or after another of them.

    Rows with certainly equal terms are not marked: ORDER BY does not define their order.
    """
    if not terms:
        return frozenset()
    lows = [tuple(term.low[row] for term in terms) for row in chosen]
    highs = [tuple(term.high[row] for term in terms) for row in chosen]
    # lexicographic: a row does not come after another if its highest ranks are at most the other's lowest
    before = [None, *itertools.accumulate(highs, max)]
    after = [*reversed([None, *itertools.accumulate(reversed(lows), min)])][1:]
    return frozenset(
        row
        for place, row in enumerate(chosen)
        if ((above := before[place]) is not None and above > lows[place])
        or ((below := after[place]) is not None and highs[place] > below)
    )
