"""Which position of which chunk each row of a group takes.

A group has its own positions, the same in every chunk of its block, and fills them chunk after chunk. So the sum of a
block's chunks holds every group's rows in the group's own positions, and no mask, number or size of a group is sent:

    chunk 0   | a a a | b | c c |          position 0-2: group a, 3: b, 4-5: c
    chunk 1   | a a a | b | c . |
    sum       | a a a | b | c c |          the client adds up a group's positions

What the number of chunks tells is how many rows are selected, and, where groups outnumber the positions, about how
many groups there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

# A block's answer is two polynomials, a chunk sent is one: so many chunks cost as much as a further block.
_ANSWER_IN_CHUNKS = 2


@dataclass(frozen=True, slots=True)
class Block:
    """Groups whose positions lie side by side in `chunks` chunks, the first of which is chunk `start` of the job.

    `groups` are numbers of groups, `first` and `positions` the place and number of each one's positions.
    """

    start: int
    chunks: int
    groups: NDArray[np.int64]
    first: NDArray[np.int64]
    positions: NDArray[np.int64]

    @property
    def stop(self) -> int:
        return self.start + self.chunks


@dataclass(frozen=True, slots=True)
class Placement:
    capacity: int  # positions of a chunk
    counts: Counts  # rows of each group
    blocks: tuple[Block, ...]

    @property
    def chunks(self) -> int:
        return self.blocks[-1].stop if self.blocks else 0

    def places(self, degree: int) -> NDArray[np.int64]:
        """Return the places of every row, sorted by group: chunk * degree + position."""
        first, positions, start = (np.zeros(len(self.counts), np.int64) for _ in range(3))
        for block in self.blocks:
            first[block.groups], positions[block.groups], start[block.groups] = (
                block.first,
                block.positions,
                block.start,
            )
        before = np.cumsum(self.counts) - self.counts
        number = np.arange(int(self.counts.sum())) - np.repeat(before, self.counts)  # within the group
        chunk, position = np.divmod(number, np.repeat(positions, self.counts))
        chunk *= degree
        chunk += position
        chunk += np.repeat(start * degree + first, self.counts)
        return chunk

    def put(self, column: NDArray[np.int64], plaintexts: NDArray[np.int64]) -> None:
        """A lane (rows,), sorted by group, into its coefficients (chunks, positions) of all chunks.

        Group by group, which copies whole rows of positions: for few groups.
        """
        ends = np.cumsum(self.counts)
        for block in self.blocks:
            for group, first, positions in zip(block.groups, block.first, block.positions, strict=True):
                rows = column[ends[group] - self.counts[group] : ends[group]]
                if not len(rows):
                    continue  # has no positions
                whole, rest = divmod(len(rows), int(positions))
                places = plaintexts[block.start : block.stop, first : first + positions]
                places[:whole] = rows[: len(rows) - rest].reshape(whole, positions)
                if rest:
                    places[whole, :rest] = rows[len(rows) - rest :]

    def terms(self) -> Counts:
        """How many fresh ciphertext coefficients each group's total is the sum of."""
        terms = np.zeros(len(self.counts), np.int64)
        for block in self.blocks:
            terms[block.groups] = block.positions * block.chunks
        return terms


def place(counts: Counts, capacity: int, *, pad: bool) -> Placement:
    """Positions for groups of `counts` rows. `pad`: both the blocks and the chunks of each are a power of two."""
    order = np.argsort(-counts, kind="stable")
    cuts: list[tuple[NDArray[np.int64], int]] = []
    start = 0
    while start < len(order) and counts[order[start]]:
        stop, chunks = _best(counts[order[start:]], capacity)
        cuts.append((order[start : start + stop], chunks))
        start += stop
    if pad:
        chunks = _power_of_two(max((chunks for _, chunks in cuts), default=1))
        cuts = [(groups, chunks) for groups, _ in cuts]
        cuts += [(order[:0], chunks)] * (_power_of_two(max(1, len(cuts))) - len(cuts))
    blocks, at = [], 0
    for groups, chunks in cuts:
        positions = -(-counts[groups] // chunks)
        blocks.append(Block(at, chunks, groups, np.cumsum(positions) - positions, positions))
        at += chunks
    return Placement(capacity, counts, tuple(blocks))


def _best(sizes: Counts, capacity: int) -> tuple[int, int]:
    """How many of the next groups, largest first, to take into a block, and its chunks: the cheapest per row."""
    candidates = {min(len(sizes), capacity * quarter // 4) for quarter in (1, 2, 3, 4)} - {0}
    costs = []
    for taken in sorted(candidates, reverse=True):
        chunks = _fewest_chunks(sizes[:taken], capacity)
        rows = int(sizes[:taken].sum())
        costs.append(((chunks + _ANSWER_IN_CHUNKS) / rows, taken, chunks))
    _, taken, chunks = min(costs, key=lambda cost: cost[0])
    return taken, chunks


def _fewest_chunks(sizes: Counts, capacity: int) -> int:
    """The least C for which groups of `sizes` rows, ceil(size / C) positions each, fit a chunk."""
    low, high = max(1, -(-int(sizes.sum()) // capacity)), max(1, int(sizes[0]))
    while low < high:
        middle = (low + high) // 2
        if int((-(-sizes // middle)).sum()) <= capacity:
            high = middle
        else:
            low = middle + 1
    return low


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
