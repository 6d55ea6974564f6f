"""Small groups are left out before an answer is finished: a sum over a few people tells about each of them.

Before, not after: HAVING, ORDER BY and LIMIT then see only what is shown, and no total over groups can hold a
suppressed one. A size is the number of people, or rows, that the group has after WHERE. What one answer cannot cover:
two questions whose difference is a small group, and expressions that pick rows within a large one.

In a group that is shown, NULLs divide the rows: a sum of twelve rows of which one has a value is that value. So the
arguments of an answer join one after the other: one joins a group if each of its classes of rows, by which of the
arguments joined so far and of this one are NULL, is large enough. A figure of any other argument is hidden.

With GROUPING SETS, ROLLUP or CUBE one answer holds sums of sums, and a suppressed group, or class, could be had by
subtraction. So more is left out until none can: see `_exposed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.disclosure.crowds import NO_CLASS, Crowd, Labels
from cleave.sql.rejoin import Groups, Members

if TYPE_CHECKING:
    from collections.abc import Collection

_ENTRIES = 1 << 20  # of a matrix of rows by classes: elimination takes about a second here


@dataclass(frozen=True, slots=True)
class Shown:
    """The groups that may be shown, the finest groups each is `of`, and the arguments `hidden` in each. `small`: groups
    left out for their size; `withheld`: others, of which a small one would follow.
    """

    groups: Groups
    of: list[Members]
    hidden: list[frozenset[int]]
    small: int
    withheld: int


def suppress_small(groups: Groups, of: Sequence[Members], crowd: Crowd, arguments: int = 0) -> Shown:
    """`of`: the finest groups of each group. `arguments`: how many there are that may be NULL.

    Without GROUP BY the selected rows are one group; one without rows is left out.
    """
    rows = _Rows(groups, of, crowd)
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
    return Shown(left, [of[row] for row in shown], hidden, small, len(large) - len(shown))


class _Rows:
    """Rows of an answer, by their places: one for each group of each set of keys."""

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
        """By set of keys, the one of `rows` that holds each finest group, NO_CLASS where none does."""
        if not self._sets:  # each is a finest group
            row_of = np.full(self._finest, NO_CLASS, np.int64)
            row_of[list(rows)] = rows
            yield row_of
            return
        by_set: dict[int, list[int]] = {}
        for row in rows:
            by_set.setdefault(self._sets[row], []).append(row)
        for each in by_set.values():
            row_of = np.full(self._finest, NO_CLASS, np.int64)
            for row in each:
                row_of[list(self._of[row])] = row
            yield row_of

    def unexposed(self, shown: Sequence[int]) -> list[int]:
        """Those of the rows `shown` that may be: the smallest that holds an exposed class is left out, until none
        does.
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
        """The arguments that do not join in each of the rows `shown`."""
        if not arguments:
            return [frozenset()] * len(shown)
        joined = np.zeros(len(self._of), np.uint64)  # bits of arguments by row
        for argument in range(arguments):
            bit = np.uint64(1 << argument)
            joining = self._joining(shown, joined | bit)
            if self._sets:
                joining = self._joining_unexposed(shown, joined, bit, joining)
            joined[joining] |= bit
        return [frozenset(each for each in range(arguments) if not int(joined[row]) >> each & 1) for row in shown]

    def _joining(self, shown: Sequence[int], masks: NDArray[np.uint64]) -> list[int]:
        """Those rows each of whose classes by the bits of `masks` is large enough."""
        tally = self._crowd.tally
        failed = np.zeros(len(self._of), np.bool_)
        for row_of in self._partitions(shown):
            rows = row_of[tally.groups]
            inside = rows != NO_CLASS
            of_bits = tally.patterns[inside] & masks[rows[inside]]
            numbers, of_pattern = np.unique(of_bits, return_inverse=True)
            codes, of_class = np.unique(rows[inside] * len(numbers) + of_pattern, return_inverse=True)
            labels = np.full(len(rows), NO_CLASS, np.int64)
            labels[inside] = of_class
            small = ~self._crowd.large(labels, len(codes))
            failed[codes[small] // max(1, len(numbers))] = True
        return [row for row in shown if not failed[row]]

    def _joining_unexposed(
        self, shown: Sequence[int], joined: NDArray[np.uint64], bit: np.uint64, joining: Sequence[int]
    ) -> list[int]:
        """Those of the rows `joining` in which the argument of `bit` joins without exposing a class."""
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
        """The rows that hold each class that is not large enough and of which something follows from the rows shown.

        Each row tells a sum over each of its classes by the bits of `masks`. What can be had by adding and subtracting
        these is the row space of the matrix that says which sum is over which class. Nothing of the small classes alone
        can be had if no vector of it, but 0, vanishes on all large ones: where the matrix is reduced with the large
        classes first, such vectors are the rows without a pivot among those. Some that are refused would still be large
        together; that is the safe side.
        """
        sums, labels, classes = self._classes(shown, masks)
        large = self._crowd.large(labels, len(classes))
        small = [each for each, is_large in zip(classes, large, strict=True) if not is_large]
        if small and len(sums) * len(classes) <= _ENTRIES:
            small = _had(len(sums), [each for each, is_large in zip(classes, large, strict=True) if is_large], small)
        return [{sums[number] for number in each} for each in small]

    def _classes(
        self, shown: Sequence[int], masks: NDArray[np.uint64]
    ) -> tuple[list[int], Labels, list[tuple[int, ...]]]:
        """The row of each sum; the class of each entry of the tally; and of each class, the numbers of its sums, by
        which it is told from all others.
        """
        tally = self._crowd.tally
        codes = np.stack([tally.groups.astype(np.uint64), tally.patterns])
        kinds, of_kind = np.unique(codes, axis=1, return_inverse=True)
        of_group: dict[int, list[int]] = {}
        for kind, group in enumerate(kinds[0].tolist()):
            of_group.setdefault(group, []).append(kind)
        sums: dict[tuple[int, int], int] = {}
        holding: list[list[int]] = [[] for _ in range(kinds.shape[1])]
        for row in shown:
            for group in self._of[row]:
                for kind in of_group.get(group, ()):
                    which = row, int(kinds[1, kind] & masks[row])
                    holding[kind].append(sums.setdefault(which, len(sums)))
        classes: dict[tuple[int, ...], int] = {}
        label = [classes.setdefault(tuple(each), len(classes)) if each else NO_CLASS for each in holding]
        labels = np.asarray(label, np.int64)[of_kind.reshape(-1)] if label else np.zeros(0, np.int64)
        return [row for row, _ in sums], labels, list(classes)


def _had(sums: int, large: Sequence[tuple[int, ...]], small: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those of the classes `small`, given as the numbers of their sums, of which something follows from the sums."""
    from flint import fmpz_mat  # noqa: PLC0415 - 20 ms

    ordered = [*large, *small]
    matrix = [[0] * len(ordered) for _ in range(sums)]
    for column, rows in enumerate(ordered):
        for row in rows:
            matrix[row][column] = 1
    reduced, _, rank = fmpz_mat(matrix).rref()
    columns = set()
    for row in range(rank):
        entries = [int(reduced[row, column]) for column in range(len(ordered))]
        if not any(entries[: len(large)]):
            columns |= {column for column in range(len(large), len(ordered)) if entries[column]}
    return [ordered[column] for column in sorted(columns)]
