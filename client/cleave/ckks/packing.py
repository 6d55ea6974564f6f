"""A job's packing: lanes, places and requests, from column types and group sizes alone.

Nothing here sees a value. So what is sent depends on the schema, on the question and on counts only: how many lanes,
chunks and requests there are says nothing about a value or about where NULLs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cleave.aggregates.columns import Column
from cleave.ckks.layout import Layout, plan_layout
from cleave.ckks.placement import Block, Counts, Placement, place
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

# A seeded ciphertext's file over its 8 N bytes of residues: headers, the seed, zstd's framing.
_FILE_OVERHEAD = 512
_LEAST_CHUNKS = 8  # of a request that is cut off so that several run at once
DIGITS = 9


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive chunks of one block that are added up in one request."""

    block: Block
    start: int
    stop: int

    @property
    def chunks(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Part:
    """Content of one request: chunks `start`..`stop` of the job."""

    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        return self.pieces[0].start

    @property
    def stop(self) -> int:
        return self.pieces[-1].stop


@dataclass(frozen=True, slots=True)
class Packing:
    profile: Profile
    columns: tuple[Column, ...]
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
        """Chunks up, and answers down, which are twice as long."""
        window = self.layout.window
        return self.chunks + 2 * sum(-(-block.chunks // window) for block in self.placement.blocks)

    def parts(self, streams: int) -> list[Part]:
        """Cut the job into requests: within the limits of a body and an answer, and enough for `streams` at once."""
        most = min(limits.MAX_REQUEST_CHUNKS, max(_LEAST_CHUNKS, -(-self.chunks // streams)))
        parts: list[Part] = []
        pieces: list[Piece] = []
        left = most
        for block in self.placement.blocks:
            start = block.start
            while start < block.stop:
                # a block is not torn without need: every piece costs an answer
                torn = start == block.start and block.chunks > left and block.chunks <= most
                if pieces and (left == 0 or torn or len(pieces) == limits.MAX_REQUEST_BLOCKS):
                    parts.append(Part(tuple(pieces)))
                    pieces, left = [], most
                stop = min(block.stop, start + left, start + self.layout.window)
                pieces.append(Piece(block, start, stop))
                left -= stop - start
                start = stop
        return [*parts, Part(tuple(pieces))] if pieces else parts


def plan_packing(
    columns: Sequence[Column],
    counts: Sequence[int] | Counts,
    profile: Profile,
    *,
    pad: bool = False,
) -> Packing:
    """Pack `columns` of groups of `counts` rows.

    `pad` rounds the numbers of chunks and of blocks up to powers of two. How many chunks are added up at once is chosen
    so that least is sent and answered: fewer leave fields narrow, so that more columns share a lane, and cost more
    answers. Raises QueryRefused where the columns do not fit a ciphertext.
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
            break  # no larger window takes fewer
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
            hint="ask for fewer aggregates at a time",
        )
    return best


def bytes_of_chunk(profile: Profile) -> int:
    return 8 * profile.degree + _FILE_OVERHEAD
