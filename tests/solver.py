"""What follows from published sums: exact linear algebra over the rows behind them, with no code of Cleave's."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeVar

from flint import fmpz_mat

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


Number = Mapping[Unknown, int]
"""A published number, as the factor of each unknown in it."""


def revealed(
    numbers: Iterable[Number[Unknown]], person_of: Mapping[Unknown, Hashable | None], fewer_than: int
) -> frozenset[Hashable] | None:
    """Fewer than `fewer_than` people whom some combination of `numbers` is about and nobody else; None: there are none.

    `person_of` has every unknown that counts; others are known and drop out. An unknown of None is about nobody, so it
    protects nobody: a combination over such unknowns alone is about no people, which are too few.
    """
    rows = {tuple(sorted(_known_left_out(each, person_of).items(), key=repr)) for each in numbers}
    space = _Space([dict(each) for each in rows if each], person_of)
    return space.people(fewer_than)


def _known_left_out(number: Number[Unknown], person_of: Mapping[Unknown, Any]) -> dict[Unknown, int]:
    return {unknown: factor for unknown, factor in number.items() if factor and unknown in person_of}


class _Space:
    """The span of numbers. Unknowns of one person with the same factors everywhere are one column."""

    def __init__(self, numbers: Sequence[Number[Any]], person_of: Mapping[Any, Hashable | None]) -> None:
        factors: dict[Any, list[int]] = {}
        for place, number in enumerate(numbers):
            for unknown, factor in number.items():
                factors.setdefault(unknown, [0] * len(numbers))[place] = factor
        found = {(person_of[unknown], tuple(column)) for unknown, column in factors.items()}
        self._columns = sorted(found, key=repr)
        self._rank = _rank([column for _, column in self._columns])

    def people(self, fewer_than: int) -> frozenset[Hashable] | None:
        everyone = sorted({person for person, _ in self._columns if person is not None}, key=repr)
        for count in range(min(fewer_than, len(everyone) + 1)):
            for few in combinations(everyone, count):
                others = [column for person, column in self._columns if person is not None and person not in few]
                if _rank(others) < self._rank:
                    return frozenset(few)
        return None


def _rank(columns: Sequence[Sequence[int]]) -> int:
    distinct = [*dict.fromkeys(map(tuple, columns))]
    return int(fmpz_mat([list(each) for each in distinct]).rank()) if distinct else 0
