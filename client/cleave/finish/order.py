"""ORDER BY and LIMIT over values known within bounds: the rows, and those whose choice or place is uncertain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import nearest, rational
from cleave.finish.compare import PLACES
from cleave.finish.numbers import ZERO, Special, ends
from cleave.finish.values import Atom, Text, Value, atom_of
from cleave.table.types import FLOATS

Ranks = tuple[int, ...]
_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Term:
    """Ranks of every group: that of the value shown, and the lowest and highest it may have."""

    shown: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]


def settled(ranks: Sequence[int]) -> Term:
    return Term(ranks, ranks, ranks)


def term(values: Sequence[Value], shown: Sequence[Any], type_: str, *, descending: bool, nulls_first: bool) -> Term:
    """Ranks of values that may be anywhere among their alternatives; `shown` are those in the answer, None for NULL."""
    keys = [[key for atom in value.atoms for key in _keys(atom, type_)] for value in values]
    mine = [_key(atom_of(value)) for value in shown]
    ordered = sorted({key for each in keys for key in each if key is not None} | {key for key in mine if key})
    ranks: dict[Any, int] = {key: -rank if descending else rank for rank, key in enumerate(ordered)}
    ranks[None] = -_FAR if nulls_first else _FAR
    low, high = [], []
    for value, each in zip(values, keys, strict=True):
        if Special.UNKNOWN in value.atoms or Special.FAILED in value.atoms:
            low.append(-2 * _FAR)
            high.append(2 * _FAR)
        else:
            found = [ranks[key] for key in each]
            low.append(min(found))
            high.append(max(found))
    return Term([ranks[key] for key in mine], low, high)


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
    terms: Sequence[Term],
    ties: Sequence[int],
    limit: int | None,
    offset: int,
    doubtful: frozenset[int],
) -> tuple[list[int], frozenset[int]]:
    """The groups shown, in order, and those of them that perhaps stand in another's place.

    `ties`: ranks that order what the terms leave equal. `doubtful`: groups that HAVING does not surely let in.
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
        away = sum(row in doubtful for row in skipped)  # a row that is not there lets another slip back
        unsure |= set(chosen[:away])
    return chosen, frozenset(unsure)


def unplaced(chosen: Sequence[int], terms: Sequence[Term]) -> frozenset[int]:
    """Those of the rows `chosen`, in the order shown, that the bounds might put before or after another of them.

    Rows whose terms are equal for certain need no mark: ORDER BY leaves their order open whatever the bounds.
    """
    if not terms:
        return frozenset()
    lows = [tuple(term.low[row] for term in terms) for row in chosen]
    highs = [tuple(term.high[row] for term in terms) for row in chosen]
    # lexicographic: a row surely does not come after another if its highest ranks are not above the other's lowest
    before = [None, *itertools.accumulate(highs, max)]
    after = [*reversed([None, *itertools.accumulate(reversed(lows), min)])][1:]
    return frozenset(
        row
        for place, row in enumerate(chosen)
        if ((above := before[place]) is not None and above > lows[place])
        or ((below := after[place]) is not None and highs[place] > below)
    )
