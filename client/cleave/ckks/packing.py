"""A job's packing: lanes, positions and requests, from column types and group sizes only.

No value is used here. So what is sent depends on the schema, the question and counts only. Numbers of lanes, chunks
and requests reveal nothing about values or about which rows are NULL.

A group has its own positions, the same in every chunk of its block, and fills them chunk after chunk. In the sum of a
block's chunks, a group's rows are in the group's own positions. So no mask, number or size of a group is sent:

  chunk 0   | a a a | b | c c |          position 0-2: group a, 3: b, 4-5: c
  chunk 1   | a a a | b | c . |
  sum       | a a a | b | c c |          the client adds up a group's positions

The number of chunks reveals how many rows are selected. If there are more groups than positions, it also reveals about
how many groups there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import ColumnType
from cleave.ckks.layout import Layout, plan_layout
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

# A seeded ciphertext's file has 8 N bytes of residues plus this: headers, seed, zstd framing.
_FILE_OVERHEAD = 512
_LEAST_CHUNKS = 8  # minimum chunks of a request when a job is cut to run several at once
DIGITS = 9


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Consecutive chunks of one block, added up in one request."""

    block: Block
    start: int
    stop: int

    @property
    def chunks(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The chunks `start`..`stop` of the job, sent in one request."""

    runs: tuple[BlockRun, ...]

    @property
    def start(self) -> int:
        return self.runs[0].start

    @property
    def stop(self) -> int:
        return self.runs[-1].stop


@dataclass(frozen=True, slots=True)
class Packing:
    profile: Profile
    columns: tuple[ColumnType, ...]
    layout: Layout
    placement: Placement

    @property
    def lanes(self) -> int:
        return self.layout.lanes

    @property
    def blocks(self) -> int:
        return len(self.placement.blocks)

    @property
    def chunks(self) -> int:
        return self.placement.chunks

    @property
    def rows(self) -> int:
        return int(self.placement.counts.sum())

    @property
    def bytes_up(self) -> int:
        return self.chunks * bytes_of_chunk(self.profile)

    @property
    def cost(self) -> int:
        """Chunks sent plus chunks answered. An answer's chunk counts twice: it is twice as long."""
        window = self.layout.window
        return self.chunks + 2 * sum(-(-block.chunks // window) for block in self.placement.blocks)

    def ranges(self, streams: int) -> list[ChunkRange]:
        """Cut the job into requests within the limits of body and answer, and enough of them for `streams` at once."""
        most = min(limits.MAX_REQUEST_CHUNKS, max(_LEAST_CHUNKS, -(-self.chunks // streams)))
        parts: list[ChunkRange] = []
        runs: list[BlockRun] = []
        left = most
        for block in self.placement.blocks:
            start = block.start
            while start < block.stop:
                # do not split a block without need: every run costs an answer
                torn = start == block.start and block.chunks > left and block.chunks <= most
                if runs and (left == 0 or torn or len(runs) == limits.MAX_REQUEST_SUMS):
                    parts.append(ChunkRange(tuple(runs)))
                    runs, left = [], most
                stop = min(block.stop, start + left, start + self.layout.window)
                runs.append(BlockRun(block, start, stop))
                left -= stop - start
                start = stop
        return [*parts, ChunkRange(tuple(runs))] if runs else parts


def plan_packing(
    columns: Sequence[ColumnType],
    counts: Sequence[int] | _Counts,
    profile: Profile,
    *,
    pad: bool = False,
) -> Packing:
    """Pack `columns` for groups of `counts` rows.

    `pad` rounds the numbers of chunks and blocks up to powers of two. The number of chunks added up at once is chosen
    for the least transfer: fewer chunks need narrower fields, so more columns share a lane, but there are more answers.
    Raises QueryRefused if the columns do not fit a ciphertext.
    """
    sizes = np.asarray(counts, np.int64)
    fewest = int(sizes.min(initial=limits.MAX_JOB_ROWS))
    best: Packing | None = None
    window = 1
    while window <= limits.MAX_REQUEST_CHUNKS:
        layout = plan_layout(columns, window, profile.capacity_bits, fewest, DIGITS)
        if not layout.lanes:
            return Packing(profile, tuple(columns), layout, Placement(0, sizes, ()))
        if layout.lanes > limits.MAX_LANES:
            break  # larger windows are no better
        placement = place(sizes, (profile.degree - SENTINELS) // layout.lanes, pad=pad)
        packing = Packing(profile, tuple(columns), layout, placement)
        if best is None or packing.cost <= best.cost:
            best = packing
        if window >= max((block.chunks for block in placement.blocks), default=1):
            break
        window *= 2
    if best is None:
        raise QueryRefused(
            f"the query needs {layout.lanes} encrypted columns, at most {limits.MAX_LANES} fit a ciphertext",
            hint="select fewer aggregates at a time",
        )
    return best


def bytes_of_chunk(profile: Profile) -> int:
    return 8 * profile.degree + _FILE_OVERHEAD


_Counts = NDArray[np.int64]

# An answer has two polynomials, a sent chunk one: another block costs as much as two chunks.
_ANSWER_IN_CHUNKS = 2


@dataclass(frozen=True, slots=True)
class Block:
    """Groups with neighbouring positions in `chunks` chunks. `start` is the block's first chunk in the job.

    For each group of `groups`: `first` is its first position, `positions` their number.
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
    capacity: int  # positions in a chunk
    counts: _Counts  # rows of each group
    blocks: tuple[Block, ...]

    @property
    def chunks(self) -> int:
        return self.blocks[-1].stop if self.blocks else 0

    def places(self, degree: int) -> NDArray[np.int64]:
        """The index of each row, sorted by group: chunk * degree + position."""
        first, positions, start = (np.zeros(len(self.counts), np.int64) for _ in range(3))
        for block in self.blocks:
            first[block.groups], positions[block.groups], start[block.groups] = (
                block.first,
                block.positions,
                block.start,
            )
        before = np.cumsum(self.counts) - self.counts
        number = np.arange(int(self.counts.sum())) - np.repeat(before, self.counts)  # row number within the group
        chunk, position = np.divmod(number, np.repeat(positions, self.counts))
        chunk *= degree
        chunk += position
        chunk += np.repeat(start * degree + first, self.counts)
        return chunk

    def put(self, column: NDArray[np.int64], plaintexts: NDArray[np.int64]) -> None:
        """Write a lane (rows,), sorted by group, into the coefficients (chunks, positions) of all chunks.

        It copies group by group, which is fast for few groups.
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

    def terms(self) -> _Counts:
        """Number of fresh ciphertext coefficients in each group's total."""
        terms = np.zeros(len(self.counts), np.int64)
        for block in self.blocks:
            terms[block.groups] = block.positions * block.chunks
        return terms


def place(counts: _Counts, capacity: int, *, pad: bool) -> Placement:
    """Place groups of `counts` rows. `pad`: round the numbers of blocks and of each one's chunks up to powers
    of two.
    """
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


def _best(sizes: _Counts, capacity: int) -> tuple[int, int]:
    """How many of the next groups (largest first) to put into a block, and its chunks: the cheapest choice per row."""
    candidates = {min(len(sizes), capacity * quarter // 4) for quarter in (1, 2, 3, 4)} - {0}
    costs = []
    for taken in sorted(candidates, reverse=True):
        chunks = _fewest_chunks(sizes[:taken], capacity)
        rows = int(sizes[:taken].sum())
        costs.append(((chunks + _ANSWER_IN_CHUNKS) / rows, taken, chunks))
    _, taken, chunks = min(costs, key=lambda cost: cost[0])
    return taken, chunks


def _fewest_chunks(sizes: _Counts, capacity: int) -> int:
    """The smallest C for which groups of `sizes` rows fit a chunk, with ceil(size / C) positions each."""
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
