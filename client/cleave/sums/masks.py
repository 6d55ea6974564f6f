"""Which positions of a segment belong to each group of a question, cut into what one call of a service adds up.

The plain service numbers the rows of its half by group; the sealed order tells where each row stands among the
ciphertexts. A group's rows come back as partial sums, each of so many rows at most as its fields are wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave_shared import limits, rowsets
from cleave_shared.moments import SENTINELS
from cleave_shared.rowsets import Numbers

_FILE_OVERHEAD = 512  # of a ciphertext in an object over its 8 N bytes

Counts = NDArray[np.int64]  # (chunks, groups): rows
Pieces = dict[int, list[tuple[int, int]]]  # of each group its partial sums: chunk at which one begins, and its rows


@dataclass(frozen=True, slots=True)
class Cut:
    """Part of one call that is about one segment.

    `groups`: numbers of the question's groups. `chunks`: numbers of the chunks that hold rows of them. `numbers`: the
    groups of their rows, chunk after chunk (cleave_shared.rowsets), by place in `groups`. `cuts`: of each group the
    places in `chunks` at which a partial sum begins, `rows`: how many rows each of these has.
    """

    lanes: tuple[int, ...]
    groups: tuple[int, ...]
    chunks: tuple[int, ...]
    numbers: bytes
    cuts: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def results(self) -> int:
        """Ciphertexts of an answer: of each lane the partial sums, and the one they are checked by."""
        return len(self.lanes) * (1 + sum(map(len, self.cuts)))


def stored_order(numbers: Numbers, order: NDArray[np.uint32], capacity: int) -> Numbers:
    """`numbers` of the rows of a segment in the order of its ciphertexts, (chunks, capacity); 0 where no row is."""
    chunks = -(-len(order) // capacity)
    placed = np.zeros(chunks * capacity, np.int32)
    placed[: len(order)] = numbers[order]
    return placed.reshape(chunks, capacity)


def counts_of(placed: Numbers, groups: int) -> Counts:
    chunks = len(placed)
    keys = placed + np.arange(chunks)[:, None] * (groups + 1)
    return np.bincount(keys.ravel(), minlength=chunks * (groups + 1)).reshape(chunks, groups + 1)[:, 1:]


def cut(placed: Numbers, groups: int, lanes: Sequence[int], window: int) -> Iterator[Cut]:
    """All that is asked of one segment whose rows are in groups 1..`groups`, or 0: none.

    `window`: rows that a partial sum may have, those of one chunk at least.
    """
    counts = counts_of(placed, groups)
    pieces = {group: pieces_of(counts[:, group], window) for group in range(groups) if counts[:, group].any()}
    most = max((len(each) for each in pieces.values()), default=0)
    if not most or not lanes:
        return
    linked = len(placed) * (8 * (placed.shape[1] + SENTINELS) + _FILE_OVERHEAD)  # bytes of a lane at most
    at_once = max(1, min(limits.MAX_SCAN_RESULTS // (1 + most), limits.MAX_LINKED_BYTES // linked))
    for start in range(0, len(lanes), at_once):
        taken = tuple(lanes[start : start + at_once])
        for some in _batches(pieces, limits.MAX_SCAN_RESULTS // len(taken) - 1):
            yield _cut_of(placed, counts, taken, some, pieces)


def pieces_of(rows: NDArray[np.int64], window: int) -> list[tuple[int, int]]:
    """(chunk, rows) of every partial sum of a group that has `rows` (chunks,): where it begins, and how many."""
    found: list[tuple[int, int]] = []
    for chunk in np.flatnonzero(rows):
        more = int(rows[chunk])
        if found and found[-1][1] + more <= window:
            found[-1] = (found[-1][0], found[-1][1] + more)
        else:
            found.append((int(chunk), more))
    return found


def _batches(pieces: Pieces, most: int) -> Iterator[list[int]]:
    """Groups that have `most` partial sums together, at least one group a time."""
    batch: list[int] = []
    left = most
    for group, each in pieces.items():
        if batch and len(each) > left:
            yield batch
            batch, left = [], most
        batch.append(group)
        left -= len(each)
    if batch:
        yield batch


def _cut_of(
    placed: Numbers,
    counts: Counts,
    lanes: tuple[int, ...],
    groups: Sequence[int],
    pieces: Pieces,
) -> Cut:
    chunks = np.flatnonzero(counts[:, groups].any(axis=1))
    place = {int(chunk): at for at, chunk in enumerate(chunks)}
    renumbered = np.zeros(counts.shape[1] + 1, np.int32)
    renumbered[np.asarray(groups) + 1] = np.arange(1, len(groups) + 1)
    packed = [rowsets.pack(renumbered[placed[chunk]], len(groups)) for chunk in chunks]
    return Cut(
        lanes=lanes,
        groups=tuple(groups),
        chunks=tuple(place),
        numbers=b"".join(packed),
        cuts=tuple(tuple(place[chunk] for chunk, _ in pieces[group]) for group in groups),
        rows=tuple(tuple(rows for _, rows in pieces[group]) for group in groups),
    )
