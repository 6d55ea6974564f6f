"""What follows from published sums: exact linear algebra over the rows behind them, with no code of Cleave's."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeVar

Unknown = TypeVar("Unknown", bound=Hashable)


def rank(vectors: Sequence[Sequence[int]]) -> int:
    """Rank over the rationals, by Gaussian elimination."""
    rows, found = [[Fraction(each) for each in vector] for vector in vectors], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((at for at in range(found, len(rows)) if rows[at][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        top = rows[found]
        for row in rows[found + 1 :]:
            if row[column]:
                factor = row[column] / top[column]
                row[column:] = [a - factor * b for a, b in zip(row[column:], top[column:], strict=True)]
        found += 1
    return found


def singled_out(sums: Collection[frozenset[Unknown]], row_of: dict[Unknown, int], fewer_than: int) -> set[int] | None:
    """Fewer than `fewer_than` rows that some combination of `sums` is over; None: there are none.

    `sums`: sets of unknowns that were added up. `row_of`: the row that an unknown is of. A combination is over the
    unknowns that it has with another factor than 0. Unknowns in the same sums have the same factor in all of them.
    """
    distinct = list(set(sums))
    classes: dict[tuple[int, ...], set[int]] = {}
    for unknown in frozenset[Unknown]().union(*distinct):
        pattern = tuple(int(unknown in each) for each in distinct)
        classes.setdefault(pattern, set()).add(row_of[unknown])
    patterns = list(classes)
    whole = rank(patterns)
    small = [each for each in patterns if len(classes[each]) < fewer_than]
    for count in range(1, fewer_than):
        for few in combinations(small, count):
            rows = set[int]().union(*(classes[each] for each in few))
            if len(rows) < fewer_than and rank([each for each in patterns if each not in few]) < whole:
                return rows
    return None
