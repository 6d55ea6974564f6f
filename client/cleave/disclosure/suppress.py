"""Hides small groups before an answer is finished: a sum over a few people reveals something about each.

It happens before HAVING, ORDER BY and LIMIT, so these only see what is shown, and no total over groups contains a
hidden one. A group's size is its number of people, or rows, after WHERE. One answer cannot protect against two
questions whose difference is a small group, nor against expressions that select rows within a large group.

In a shown group, the arguments of the answer join one after the other (rule A1, `cleave.disclosure.joining`). Figures
of those that do not join are hidden.

With GROUPING SETS, ROLLUP or CUBE one answer has sums of sums, and a hidden group or class could be computed by
subtraction. So more is hidden until none can: see `_exposed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.disclosure.crowds import NO_CLASS, Bools, Crowd, Labels, divided
from cleave.disclosure.joining import joined
from cleave.sql.rejoin import Groups, Members
from cleave.sql.tally import Tally

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


def suppress_small(groups: Groups, of: Sequence[Members], tally: Tally, least: int, arguments: int) -> ShownGroups:
    """`of`: the finest groups of each group. `least`: people, or rows if `tally` has no people. `arguments`: how many
    may be NULL.

    Without GROUP BY the selected rows are one group; without rows it is hidden.
    """
    rows = _AnswerRows(groups, of, tally, least, arguments)
    large = [row for row in range(len(of)) if rows.large[row]]
    shown = rows.unexposed(large) if groups.sets else large
    hidden = rows.hidden(shown)
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
    """Rows of an answer, by index: one per group of each set of keys.

    Its classes are of the rows of a finest group with one pattern of NULLs.
    """

    def __init__(self, groups: Groups, of: Sequence[Members], tally: Tally, least: int, arguments: int) -> None:
        self._of = of
        self._least = least
        self._sets = groups.sets
        self._finest = 1 + max((place for each in of for place in each), default=-1)
        classes = divided(tally.groups, np.zeros_like(tally.groups, np.bool_))
        for argument in range(arguments):
            classes = divided(classes, _have_value(tally.patterns, argument))
        self._crowd = Crowd(classes, tally.parties, tally.people, tally.rows)
        number = int(classes.max(initial=-1)) + 1
        self._group_of, self._patterns = np.zeros(number, np.int64), np.zeros(number, np.uint64)
        self._group_of[classes], self._patterns[classes] = tally.groups, tally.patterns
        self._values = [_have_value(self._patterns, argument) for argument in range(arguments)]
        self._groupings = [row_of[self._group_of] for row_of in self._partitions(groups.sets)]
        self._sizes, self.large = np.zeros(len(of), np.int64), np.zeros(len(of), np.bool_)
        for each in self._groupings:
            sizes = self._crowd.sizes(each, len(of))
            self._sizes += sizes.whole
            self.large |= sizes.large(least)

    def _partitions(self, sets: Sequence[int]) -> Iterator[Labels]:
        """For each set of keys, the row that contains each finest group; NO_CLASS if none does."""
        by_set: dict[int, list[int]] = {}
        for row in range(len(self._of)):
            by_set.setdefault(sets[row] if sets else 0, []).append(row)
        for rows in by_set.values():
            row_of = np.full(self._finest, NO_CLASS)
            members = [self._of[row] for row in rows]
            row_of[list(chain.from_iterable(members))] = np.repeat(rows, [len(each) for each in members])
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

    def hidden(self, shown: Sequence[int]) -> list[frozenset[int]]:
        """The arguments that do not join, for each of the rows `shown`."""

        def admitted(argument: int, have_joined: Bools, joining: Bools) -> Bools:
            return self._unexposed_by(argument, shown, have_joined, joining) if self._sets else joining

        is_shown = np.isin(range(len(self._of)), shown)
        groupings = [np.where(is_shown[each], each, NO_CLASS) for each in self._groupings]
        joins = joined(self._crowd, self._least, groupings, len(self._of), self._values, admitted)
        return [frozenset(compress(range(len(row)), row)) for row in (~joins[list(shown)]).tolist()]

    def _unexposed_by(self, argument: int, shown: Sequence[int], have_joined: Bools, joining: Bools) -> Bools:
        """Those of the rows `joining` that the argument can join without exposing a class."""
        before = have_joined @ (np.uint64(1) << np.arange(have_joined.shape[1], dtype=np.uint64))
        left = [row for row in shown if joining[row]]
        while left:
            masks = before.copy()
            masks[left] |= np.uint64(1 << argument)
            exposed = self._exposed(shown, masks)
            if not exposed:
                break
            holding = [[row for row in rows if row in left] for rows in exposed]
            smallest = {min(rows, key=self._by_size) for rows in holding if rows} or {min(left, key=self._by_size)}
            left = [row for row in left if row not in smallest]
        return np.isin(range(len(joining)), left)

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
        for unknown, people in self._crowd.sizes(labels, len(classes)).views():
            large = people >= self._least
            small = list(compress(classes, unknown & ~large))
            if small and len(sums) * len(classes) <= _ENTRIES:
                small = _had(len(sums), list(compress(classes, unknown & large)), small)
            found |= dict.fromkeys(small)
        return [{sums[number] for number in each} for each in found]

    def _classes(
        self, shown: Sequence[int], masks: NDArray[np.uint64]
    ) -> tuple[list[int], Labels, list[tuple[int, ...]]]:
        """The row of each sum; the label of each class; and for each label the numbers of its sums, which identify
        it.
        """
        of_group: list[list[int]] = [[] for _ in range(self._finest)]
        for kind, group in enumerate(self._group_of.tolist()):
            of_group[group].append(kind)
        sums: dict[tuple[int, int], int] = {}
        holding: list[list[int]] = [[] for _ in self._patterns]
        for row in shown:
            for group in self._of[row]:
                for kind in of_group[group]:
                    which = row, int(self._patterns[kind] & masks[row])
                    holding[kind].append(sums.setdefault(which, len(sums)))
        classes: dict[tuple[int, ...], int] = {}
        labels = [classes.setdefault(tuple(each), len(classes)) if each else NO_CLASS for each in holding]
        return [row for row, _ in sums], np.asarray(labels, np.int64), list(classes)


def _have_value(patterns: NDArray[np.uint64], argument: int) -> Bools:
    return (patterns >> np.uint64(argument) & np.uint64(1)).astype(np.bool_)


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
