"""The simple call's totals by group: rows lie one after another, and a mask picks out those of a group.

Our own client gives every group its own positions instead and needs no mask (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cleave_services.sensitive.evaluate import Clock, Evaluator, Sums, Totals, merge
from cleave_shared.dataclass import dataclass
from cleave_shared.moments import FILTERED, Segment, is_whole, row_mask, rows_per_chunk, sentinel_label, sentinel_mask

SENTINEL = -1  # the number under which `Totals` holds the weighted sum of all sentinels: no group has it


@dataclass(frozen=True, slots=True)
class MaskedChunk:
    """One ciphertext's file, its place among the column's chunks, and the groups of its rows."""

    index: int
    segments: list[Segment]
    blob: bytes


class GroupTotals:
    """Adds up `lanes` interleaved values of the rows of each group.

    Chunks that lie wholly in one group are added first and masked once; every other chunk gets one mask per group.
    """

    def __init__(self, evaluator: Evaluator, lanes: int) -> None:
        self._evaluator = evaluator
        self._lanes = lanes
        self._capacity = rows_per_chunk(evaluator.degree, lanes)

    def work(self, chunks: Sequence[MaskedChunk]) -> int:
        return len(chunks) + sum(len(chunk.segments) for chunk in chunks if len(chunk.segments) > 1)

    def evaluate(self, chunks: Sequence[MaskedChunk]) -> Totals:
        clock, totals, whole = Clock(), Sums(self._evaluator), Sums(self._evaluator)
        for chunk in chunks:
            ciphertext = self._evaluator.load(chunk.blob)
            clock.lap("load")
            if is_whole(chunk.segments, self._capacity):
                whole.add(chunk.segments[0].group, ciphertext)
            else:
                self._mask(
                    totals, ciphertext, chunk.segments, sentinel_label(chunk.index, chunk.segments, self._capacity)
                )
            clock.lap("evaluate")
        for group, ciphertext in whole.by_number.items():
            full = [Segment(group, 0, self._capacity)]
            self._mask(totals, ciphertext, full, sentinel_label(0, full, self._capacity))
        clock.lap("evaluate")
        files = totals.dump(self._lanes)
        clock.lap("save")
        return Totals(files, clock.seconds)

    def merge(self, parts: Sequence[Totals]) -> Totals:
        return merge(self._evaluator, parts, self._lanes)

    def _mask(self, totals: Sums, ciphertext: Any, segments: Sequence[Segment], label: str) -> None:
        spans: dict[int, list[tuple[int, int]]] = {}
        for segment in segments:
            if segment.group != FILTERED:
                spans.setdefault(segment.group, []).append((segment.start, segment.stop))
        degree = self._evaluator.degree
        polynomials = [row_mask(degree, self._lanes, rows) for rows in spans.values()]
        masks = self._evaluator.masks([*polynomials, sentinel_mask(degree, label)])
        for number, mask in zip([*spans, SENTINEL], masks, strict=True):
            totals.add(number, self._evaluator.multiply(ciphertext, mask))
