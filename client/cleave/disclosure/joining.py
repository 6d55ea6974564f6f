"""Which cells become parts of a release, and which measures join a part, so that no sum is over fewer than N people.

A part is published if it is large enough. Measures join it in their order: one joins if every class of its rows with
one pattern of NULLs, over all measures that have joined, is none or large enough. So every number of a part is constant
on classes of N people, and so is every linear combination of numbers.

A size counts people where rows have an entity, else rows. With contributors the others of each party count too: a party
knows its own rows, and must not find fewer than N people by taking them away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

Shown = Literal[0, 1, 2]
Class = tuple[int, int]  # cell, and pattern: a bit for each measure that may be NULL, set where it has a value
SQUARES = 3  # times N people: fewer squares would give single values of few people


class Why(StrEnum):
    """Reason why a measure is withheld in a part, for the owner alone."""

    NULLS = "few people have it, or have it not"
    DOMINANCE = "one of them has most of it"


@dataclass(frozen=True, slots=True)
class Size:
    """People, or rows, of a class. `others`: of each party that has rows in it, those of all others; None: no rows."""

    count: int
    others: Mapping[int, int | None]

    def is_large(self, least: int) -> bool:
        return self.count >= least and all(each is None or each >= least for each in self.others.values())


class Sizes(Protocol):
    def of(self, labels: Mapping[Class, int]) -> Mapping[int, Size]:
        """The sizes of classes taken together, by their label."""


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
    sizes: Sizes,
    bits: Sequence[int | None],
    squared: Sequence[bool],
    dominated: Mapping[int, Collection[int]],
    least: int,
) -> dict[int, Part]:
    """The parts by cell.

    `bits`: the bit of each measure in the patterns; None if it is never NULL. `squared`: whether each measure has
    squares. `dominated`: measure -> cells that withhold it because one person dominates its sum.
    """
    whole = sizes.of({each: each[0] for each in classes})
    large = {cell for cell, size in whole.items() if size.is_large(least)}
    patterns: dict[int, list[int]] = {cell: [] for cell in large}
    for cell, pattern in classes:
        if cell in large:
            patterns[cell].append(pattern)
    joined = dict.fromkeys(large, 0)  # bits of the measures that have joined
    shown: dict[int, list[Shown]] = {cell: [0] * len(bits) for cell in large}
    why: dict[int, dict[int, Why]] = {cell: {} for cell in large}
    for number, bit in enumerate(bits):
        refused = dominated.get(number, ())
        candidates = [cell for cell in large if cell not in refused]
        divided = [cell for cell in candidates if bit is not None and _divides(bit, patterns[cell])]
        small = _small(divided, {cell: joined[cell] | 1 << (bit or 0) for cell in divided}, patterns, sizes, least)
        few = _small(divided, dict.fromkeys(divided, 1 << (bit or 0)), patterns, sizes, SQUARES * least, value=True)
        for cell in large:
            if cell in refused or cell in small:
                why[cell][number] = Why.DOMINANCE if cell in refused else Why.NULLS
                continue
            if bit is not None:
                joined[cell] |= 1 << bit
            has_squares = squared[number] and whole[cell].is_large(SQUARES * least) and cell not in few
            shown[cell][number] = 2 if has_squares else 1
    return {cell: Part(whole[cell].count, tuple(shown[cell]), why[cell]) for cell in sorted(large)}


def _divides(bit: int, patterns: Collection[int]) -> bool:
    """Check whether some rows have a value, and some not."""
    return len({pattern >> bit & 1 for pattern in patterns}) > 1


def _small(
    cells: Sequence[int],
    masks: Mapping[int, int],
    patterns: Mapping[int, Sequence[int]],
    sizes: Sizes,
    least: int,
    *,
    value: bool = False,
) -> set[int]:
    """Those of `cells` that have a class, by the bits of its mask, which is not large. `value`: of rows that have one
    alone.
    """
    numbers: dict[tuple[int, int], int] = {}
    labels = {
        (cell, pattern): numbers.setdefault((cell, pattern & masks[cell]), len(numbers))
        for cell in cells
        for pattern in patterns[cell]
        if not value or pattern & masks[cell]
    }
    if not labels:
        return set()
    by_number = sizes.of(labels)
    return {cell for (cell, _), number in numbers.items() if not by_number[number].is_large(least)}
