"""Sums of the rows of each group, of lanes that are stored apart: a mask is encoded once and picks from every lane.

Row r of a chunk is coefficient r of one ciphertext of each lane. A mask brings the rows of one group to coefficient 0,
where their sum is read (`cleave_shared.moments` has the polynomial, here with one lane). Which rows stand where is
told by the asker, as numbers of groups; what they mean is known to the asker alone.

One more mask of every chunk is the groups' masks, each times its weight, and the sentinels': so the check result is
the weighted sum of the others and of sentinels that the asker knows. What was done for one group and not for another
shows, and so does a chunk that is another's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleave_services.sensitive.evaluate import Clock, Evaluator, Sums, Totals, merge
from cleave_shared.errors import WireError
from cleave_shared.moments import Polynomial, scan_label, sentinel_mask
from cleave_shared.rowsets import Numbers

CHECK = 0  # the place of a lane's check result among its results; those of the groups follow


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Chunk `number` of every lane, the `place`-th that is asked about, and the groups of its rows."""

    place: int
    number: int
    numbers: Numbers
    files: tuple[bytes | memoryview, ...]  # by lane


@dataclass(frozen=True, slots=True)
class Wanted:
    """`cuts`: of each group the places of chunks at which another partial sum of it begins.

    The asker cuts so that a partial sum stays within its field. `weights`: of each group in the check.
    """

    lanes: int
    cuts: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    label: str

    @property
    def results(self) -> int:
        """Return the results of one lane."""
        return 1 + sum(map(len, self.cuts))

    def result(self, group: int, place: int) -> int:
        """Which of a lane's results a group's rows of the chunk at `place` go to. Raises WireError for none."""
        piece = bisect_right(self.cuts[group], place) - 1
        if piece < 0:
            raise WireError(f"cuts[{group}]: the group has rows before its first partial sum")
        return CHECK + 1 + sum(map(len, self.cuts[:group])) + piece


class MaskedSums:
    def __init__(self, evaluator: Evaluator, wanted: Wanted) -> None:
        self._evaluator = evaluator
        self._wanted = wanted

    def evaluate(self, chunks: Iterable[ScanChunk]) -> Totals:
        """Files by lane * results + result."""
        clock, sums = Clock(), Sums(self._evaluator)
        for chunk in chunks:
            clock.lap("read")
            numbers, masks = self._masks(chunk)
            clock.lap("mask")
            for lane, file in enumerate(chunk.files):
                ciphertext = self._evaluator.load(file)
                clock.lap("load")
                for number, mask in zip(numbers, masks, strict=True):
                    sums.add(lane * self._wanted.results + number, self._evaluator.multiply(ciphertext, mask))
                clock.lap("evaluate")
        files = sums.dump(1)
        clock.lap("save")
        return Totals(files, clock.seconds)

    def merge(self, parts: Sequence[Totals]) -> Totals:
        return merge(self._evaluator, parts, 1)

    def _masks(self, chunk: ScanChunk) -> tuple[list[int], list[Any]]:
        degree, wanted = self._evaluator.degree, self._wanted
        results = [CHECK]
        polynomials = [sentinel_mask(degree, scan_label(wanted.label, chunk.number))]
        for group, weight in enumerate(wanted.weights):
            mask = selected_mask(degree, chunk.numbers == group + 1)
            if mask is not None:
                polynomials[CHECK] += weight * mask
                results.append(wanted.result(group, chunk.place))
                polynomials.append(mask)
        return results, self._evaluator.masks(polynomials)


def selected_mask(degree: int, selected: np.ndarray[Any, np.dtype[np.bool_]]) -> Polynomial | None:
    """The polynomial that brings the sum of the selected rows to coefficient 0; None where there is none."""
    if not selected.any():
        return None
    mask = np.zeros(degree, np.int64)
    mask[0] = selected[0]
    mask[degree - len(selected) + 1 :] -= selected[:0:-1]
    return mask
