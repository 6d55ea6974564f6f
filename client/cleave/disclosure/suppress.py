"""Hides small groups before an answer is finished: a sum over a few people reveals something about each.

It happens before HAVING, ORDER BY and LIMIT, so these only see what is shown, and no total over groups contains a
hidden one. A group's size is its number of people, or rows, after WHERE. One answer cannot protect against two
questions whose difference is a small group, nor against expressions that select rows within a large group.

In a shown group, NULLs divide the rows: if one of twelve rows has a value, the sum is that value. So the arguments of
an answer join one after the other. An argument joins a group if each class of its rows is large enough; classes differ
in which of the joined arguments, and this one, are NULL. Figures of other arguments are hidden.

With GROUPING SETS, ROLLUP or CUBE one answer has sums of sums, and a hidden group or class could be computed by
subtraction. So more is hidden until none can: see `_exposed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.disclosure.crowds import NO_CLASS, Crowd, Labels
from cleave.sql.rejoin import Groups, Members

if TYPE_CHECKING:
    from collections.abc import Collection

_ENTRIES = 1 << 20  # of a matrix of rows by classes: its elimination takes about a second


@dataclass(frozen=True, slots=True)
class ShownGroups:
    """The `groups` that may be shown. For each of them, `of` has its finest groups, `hidden` its hidden arguments.

    `small` counts groups that are hidden because of their size. `withheld` counts groups that are hidden because they
    would reveal a small one.
    """

    groups: Groups
    of: list[Members]
    hidden: list[frozenset[int]]
    small: int
    withheld: int


def suppress_small(groups: Groups, of: Sequence[Members], crowd: Crowd, arguments: int) -> ShownGroups:
    """`of`: the finest groups of each group. `arguments`: how many may be NULL.

    Without GROUP BY the selected rows are one group; without rows it is hidden.
    """
    rows = _AnswerRows(groups, of, crowd)
    large = [row for row in range(len(of)) if rows.large[row]]
    shown = rows.unexposed(large) if groups.sets else large
    hidden = rows.hidden(shown, arguments)
    left = replace(
        groups,
        keys=[groups.keys[row] for row in shown],
        counts=[groups.counts[row] for row in shown],
        plain=[groups.plain[row] for row in shown],
        sets=[groups.sets[row] for row in shown] if groups.sets else [],
        local=[groups.local[row] for row in shown] if groups.local else [],
    )
    small = len(of) - len(large)
    return ShownGroups(left, [of[row] for row in shown], hidden, small, len(large) - len(shown))


class _AnswerRows:
    """Rows of an answer, by index: one per group of each set of keys."""

    def __init__(self, groups: Groups, of: Sequence[Members], crowd: Crowd) -> None:
        self._of = of
        self._crowd = crowd
        self._sets = groups.sets
        self._finest = 1 + max((place for each in of for place in each), default=-1)
        sizes, large = np.zeros(len(of), np.int64), np.zeros(len(of), np.bool_)
        for row_of in self._partitions(range(len(of))):
            labels = row_of[crowd.tally.groups]
            sizes += crowd.sizes(labels, len(of))
            large |= crowd.large(labels, len(of))
        self._sizes = sizes
        self.large = large

    def _partitions(self, rows: Sequence[int]) -> Iterator[Labels]:
        """For each set of keys, the row of `rows` that contains each finest group; NO_CLASS if none does."""
        if not self._sets:  # each is a finest group
            row_of = np.full(self._finest, NO_CLASS)
            row_of[list(rows)] = rows
            yield row_of
            return
        by_set: dict[int, list[int]] = {}
        for row in rows:
            by_set.setdefault(self._sets[row], []).append(row)
        for alike in by_set.values():
            row_of = np.full(self._finest, NO_CLASS)
            for row in alike:
                row_of[list(self._of[row])] = row
            yield row_of

    def unexposed(self, shown: Sequence[int]) -> list[int]:
        """Those of the rows `shown` that may stay. The smallest row with an exposed class is removed, until there is
        none.
        """
        left = list(shown)
        nothing = np.zeros(len(self._of), np.uint64)
        while exposed := self._exposed(left, nothing):
            smallest = {min(rows, key=self._by_size) for rows in exposed}
            left = [row for row in left if row not in smallest]
        return left

    def _by_size(self, row: int) -> tuple[int, int]:
        return int(self._sizes[row]), row

    def hidden(self, shown: Sequence[int], arguments: int) -> list[frozenset[int]]:
        """The arguments that do not join, for each of the rows `shown`."""
        joined = np.zeros(len(self._of), np.uint64)  # bits of arguments, by row
        for argument in range(arguments):
            bit = np.uint64(1 << argument)
            joining = self._joining(shown, joined | bit)
            if self._sets:
                joining = self._joining_unexposed(shown, joined, bit, joining)
            joined[joining] |= bit
        return [frozenset(each for each in range(arguments) if not int(joined[row]) >> each & 1) for row in shown]

    def _joining(self, shown: Sequence[int], masks: NDArray[np.uint64]) -> list[int]:
        """The rows in which each class, by the bits of `masks`, is large enough."""
        tally = self._crowd.tally
        failed = set[int]()
        for row_of in self._partitions(shown):
            rows = row_of[tally.groups]
            numbers, of_pattern = np.unique(tally.patterns & masks[rows], return_inverse=True)
            # NO_CLASS counts as one more row; whether that fails does not matter
            codes, labels = np.unique(rows * len(numbers) + of_pattern, return_inverse=True)
            small = ~self._crowd.large(labels, len(codes))
            failed.update((codes[small] // len(numbers)).tolist())
        return [row for row in shown if row not in failed]

    def _joining_unexposed(
        self, shown: Sequence[int], joined: NDArray[np.uint64], bit: np.uint64, joining: Sequence[int]
    ) -> list[int]:
        """The rows of `joining` in which the argument of `bit` can join without exposing a class."""
        left = list(joining)
        while left:
            masks = joined.copy()
            masks[left] |= bit
            exposed = self._exposed(shown, masks)
            if not exposed:
                break
            holding = [[row for row in rows if row in left] for rows in exposed]
            smallest = {min(rows, key=self._by_size) for rows in holding if rows} or {min(left, key=self._by_size)}
            left = [row for row in left if row not in smallest]
        return left

    def _exposed(self, shown: Sequence[int], masks: NDArray[np.uint64]) -> list[Collection[int]]:
        """For each class that is too small and that the shown rows reveal something about: the rows that contain it.

        Each row shows a sum over each of its classes by the bits of `masks`. Adding and subtracting sums gives the row
        space of the matrix of sums by classes. The small classes are safe if every nonzero vector of it has a nonzero
        large class. If the matrix is reduced with the large classes first, the unsafe vectors are the rows without a
        pivot among these. Some refused combinations might be large enough together; refusing them is the safe side.

        A party leaves out the classes that are wholly its own: a small class less a large one of them is a small one.
        """
        sums, labels, classes = self._classes(shown, masks)
        found: dict[tuple[int, ...], None] = {}
        for unknown, large in self._crowd.views(labels, len(classes)):
            small = list(compress(classes, unknown & ~large))
            if small and len(sums) * len(classes) <= _ENTRIES:
                small = _had(len(sums), list(compress(classes, unknown & large)), small)
            found |= dict.fromkeys(small)
        return [{sums[number] for number in each} for each in found]

    def _classes(
        self, shown: Sequence[int], masks: NDArray[np.uint64]
    ) -> tuple[list[int], Labels, list[tuple[int, ...]]]:
        """The row of each sum; the class of each tally entry; and for each class the numbers of its sums, which
        identify it.
        """
        tally = self._crowd.tally
        codes = np.stack([tally.groups.astype(np.uint64), tally.patterns])
        kinds, of_kind = np.unique(codes, axis=1, return_inverse=True)
        of_group: list[list[int]] = [[] for _ in range(self._finest)]
        for kind, group in enumerate(kinds[0].tolist()):
            of_group[group].append(kind)
        sums: dict[tuple[int, int], int] = {}
        holding: list[list[int]] = [[] for _ in range(kinds.shape[1])]
        for row in shown:
            for group in self._of[row]:
                for kind in of_group[group]:
                    which = row, int(kinds[1, kind] & masks[row])
                    holding[kind].append(sums.setdefault(which, len(sums)))
        classes: dict[tuple[int, ...], int] = {}
        label = [classes.setdefault(tuple(each), len(classes)) if each else NO_CLASS for each in holding]
        labels = np.asarray(label, np.int64)[of_kind]
        return [row for row, _ in sums], labels, list(classes)


def _had(sums: int, large: Sequence[tuple[int, ...]], small: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The classes of `small` that the sums reveal something about. Classes are given by the numbers of their sums."""
    from flint import fmpz_mat  # noqa: PLC0415 - 20 ms

    ordered = [*large, *small]
    columns = [frozenset(each) for each in ordered]
    matrix = [[int(row in each) for each in columns] for row in range(sums)]
    reduced, _, rank = fmpz_mat(matrix).rref()
    found = set[int]()
    for row in range(rank):
        entries = [int(reduced[row, column]) for column in range(len(ordered))]
        if not any(entries[: len(large)]):
            found.update(column for column, entry in enumerate(entries) if entry)
    return [ordered[column] for column in sorted(found)]
