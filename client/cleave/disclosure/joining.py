"""Which arguments join a group, so that no sum is over fewer than N people (rule A1); and the parts of a release (R1).

In a group NULLs divide the rows: if one of twelve rows has a value, the sum is that value. So the arguments of an
answer, or the measures of a release, join in their order: one joins a group if every class of its rows with one pattern
of NULLs, over all that have joined, is none or large enough. So every number of a group is constant on classes of N
people, and so is every linear combination of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from cleave.disclosure.crowds import NO_CLASS, Bools, Crowd, Labels, divided

Shown = Literal[0, 1, 2]
Class = tuple[int, int]  # cell, and pattern: a bit for each measure that may be NULL, set where it has a value
SQUARES = 3  # times N people: fewer squares would give single values of few people


def joined(
    crowd: Crowd,
    least: int,
    groupings: Sequence[Labels],
    groups: int,
    values: Sequence[Bools],
    admitted: Callable[[int, Bools, Bools], Bools],
) -> Bools:
    """Which arguments have joined each of so many `groups` (groups, arguments).

    `groupings`: each gives the group of every class, or NO_CLASS; these groups are large enough. `values`: for each
    argument, whether the rows of each class have a value. `admitted` gets an argument, those that have joined before
    it, and the groups that it can join (groups,); it returns those that it joins.
    """
    have_joined = np.zeros((groups, len(values)), np.bool_)
    divisions = [_Division(crowd, each) for each in groupings]
    for argument, value in enumerate(values):
        joining = np.ones(groups, np.bool_)
        for each in divisions:
            joining[each.refusing(value, least)] = False
        have_joined[:, argument] = admitted(argument, have_joined, joining)
        for each in divisions:
            each.divide(value, have_joined[:, argument])
    return have_joined


class _Division:
    """The classes of groups, divided by the arguments that have joined."""

    def __init__(self, crowd: Crowd, grouping: Labels) -> None:
        self._crowd = crowd
        self._places = np.flatnonzero(grouping != NO_CLASS)
        self._classes = len(grouping)
        self._groups = self._labels = grouping[self._places]

    def refusing(self, value: Bools, least: int) -> Labels:
        """The groups in which a class would be too small if it were divided by `value`."""
        value = value[self._places]
        inside = is_divided(self._labels, value)
        labels = np.full(self._classes, NO_CLASS)
        labels[self._places[inside]] = codes = 2 * self._labels[inside] + value[inside]
        if not len(codes):
            return codes
        large = self._crowd.sizes(labels, int(codes.max()) + 1).large(least)
        return self._groups[inside][~large[codes]]

    def divide(self, value: Bools, joins: Bools) -> None:
        self._labels = divided(self._labels, value[self._places] & joins[self._groups])


def is_divided(labels: Labels, value: Bools) -> Bools:
    """Whether some classes of the same label have a value, and some not."""
    has = np.zeros((int(labels.max(initial=-1)) + 1, 2), np.bool_)
    has[labels, value.astype(np.int64)] = True
    return (has[:, 0] & has[:, 1])[labels]


class Why(StrEnum):
    """Reason why a measure is withheld in a part, for the owner alone."""

    NULLS = "few people have it, or have it not"
    DOMINANCE = "one of them has most of it"


@dataclass(frozen=True, slots=True)
class Part:
    """A cell that is published. `shown`: by measure 0, or 1 for count and sum, or 2 for the squares too. `why`: of
    those withheld. `size`: of all its rows.
    """

    size: int
    shown: tuple[Shown, ...]
    why: Mapping[int, Why]


def parts_of(
    classes: Collection[Class],
    crowd: Crowd,
    bits: Sequence[int | None],
    squared: Sequence[bool],
    dominated: Mapping[int, Collection[int]],
    least: int,
) -> dict[int, Part]:
    """The parts by cell.

    `bits`: the bit of each measure in the patterns; None if it is never NULL. `squared`: whether each measure has
    squares. `dominated`: measure -> cells that withhold it because one person dominates its sum.
    """
    cells = sorted({cell for cell, _ in classes})
    places = {cell: place for place, cell in enumerate(cells)}
    of_cell = np.array([places[cell] for cell, _ in classes], np.int64)
    sizes = crowd.sizes(of_cell, len(cells))
    large, many = sizes.large(least), sizes.large(SQUARES * least)
    grouping = np.where(large[of_cell], of_cell, NO_CLASS)
    values = [np.array([bit is None or pattern >> bit & 1 for _, pattern in classes], np.bool_) for bit in bits]
    refused = np.zeros((len(cells), len(bits)), np.bool_)
    for measure, those in dominated.items():
        refused[[places[cell] for cell in those], measure] = True
    joins = joined(crowd, least, [grouping], len(cells), values, lambda measure, _, open_: open_ & ~refused[:, measure])
    shown = joins.astype(np.int64)
    for measure in np.flatnonzero(squared).tolist():
        having = np.where(values[measure], grouping, NO_CLASS)
        enough = crowd.sizes(having, len(cells)).large(SQUARES * least)
        enough |= np.isin(range(len(cells)), having, invert=True)  # none has a value
        shown[:, measure] += joins[:, measure] & many & enough
    return {
        cells[place]: Part(
            int(sizes.whole[place]),
            tuple(shown[place].tolist()),
            {
                measure: Why.DOMINANCE if refused[place, measure] else Why.NULLS
                for measure in np.flatnonzero(~joins[place]).tolist()
            },
        )
        for place in np.flatnonzero(large).tolist()
    }
