"""Which sums of a scan come back packed, and how they are checked.

The check result of a lane (`cleave.store.scanned`) is packed as well: it comes out once, modulo q, off by the noise of
key switching. Sums come out as integers, without the noise that is in the check result. So groups' weights lie close
together and sentinels count many times: that a group's sum is off by one then shows beside the noise of all
rows, if these are not too many. `most_rows` says how many a check result may be of; a lane has as many as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cleave.ckks import packed
from cleave.ckks.layout import SIGMAS_EXACT
from cleave.ckks.packed import Packing
from cleave.store.lanes import Lanes
from cleave.store.masks import Cut, Pieces, counts_of, cut, cut_of, cut_pieces, pieces_of
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.moments import SENTINELS
from cleave_shared.packing import SENTINEL_FACTOR, ciphertexts
from cleave_shared.rowsets import Numbers

KEY_BYTES = limits.MAX_PACKING_LEVELS * 131_407  # of a packing key, stored once
_USUAL_LEVELS = 6  # that sums of a few thousand rows leave room for
WEIGHTS = range(3 << 13, 1 << 15)  # of groups in the check of packed sums


@dataclass(frozen=True, slots=True)
class Room:
    """What decides it besides the rows: of a segment its `lanes`, the ring's degree and modulus."""

    lanes: Lanes
    degree: int
    modulus: int


def agreement(room: Room, weighted: float, chunks: int, levels: int) -> float:
    """What a check result may be off by. `weighted`: the rows of all groups, each times its weight squared."""
    terms = weighted + SENTINEL_FACTOR**2 * SENTINELS * chunks
    return SIGMAS_EXACT * math.sqrt(room.lanes.layout.variance * terms) + packed.switch_noise(room.degree, levels)


def most_rows(room: Room, chunks: int) -> int:
    """That a check result may be of: a sum that is off by one then moves it by more than twice what it may be off."""
    least = WEIGHTS.start << room.lanes.layout.guard
    spare = (least / 2 - packed.switch_noise(room.degree, limits.MAX_PACKING_LEVELS)) / SIGMAS_EXACT
    terms = spare**2 / room.lanes.layout.variance - SENTINEL_FACTOR**2 * SENTINELS * chunks
    return max(0, int(terms / WEIGHTS.stop**2))


def cuts(
    placed: Numbers, groups: int, lanes: Sequence[int], window: int, room: Room
) -> Iterator[tuple[Cut, Packing | None]]:
    """All that is asked of one segment, as `masks.cut` has it; packed where there are many sums of few rows."""
    counts = counts_of(placed, groups)
    rows = counts.sum(axis=0)
    if not wants(rows, lanes):
        yield from ((each, None) for each in cut(placed, groups, lanes, window))
        return
    most = min(window, most_rows(room, len(placed)))
    by_size = [int(group) for group in np.argsort(-rows, kind="stable") if rows[group]]
    many: Pieces = {group: pieces_of(counts[:, group], window) for group in by_size if rows[group] > most}
    few = [group for group in by_size if rows[group] <= most]
    for some in _calls(few, rows, limits.MAX_PACKED_RESULTS // len(lanes), most):
        packing = _packing(room, lanes, rows, some)
        members = [group for check in some for group in check]
        pieces = {group: pieces_of(counts[:, group], window) for group in members}
        if packing is None:
            many |= pieces
        else:
            yield cut_of(placed, counts, tuple(lanes), members, pieces), packing
    yield from ((each, None) for each in cut_pieces(placed, counts, lanes, many))


def wants(rows: NDArray[np.int64], lanes: Sequence[int]) -> bool:
    """Whether sums of these groups' rows, of so many lanes, are worth a key."""
    present = int(np.count_nonzero(rows))
    return present > 0 and len(lanes) * (1 + present) > limits.PACKED_RESULTS and len(lanes) <= limits.MAX_LANES // 4


def answer_bytes(results: int) -> int:
    """What so many sums of a segment come back as, about, before it is known of how many rows they are."""
    if results <= limits.PACKED_RESULTS:
        return results * limits.MASKED_RESULT_BYTES
    return ciphertexts(results, _USUAL_LEVELS) * limits.MASKED_RESULT_BYTES


Checks = list[list[int]]  # of each check result its groups


def _packing(room: Room, lanes: Sequence[int], rows: NDArray[np.int64], some: Checks) -> Packing | None:
    """None where packing saves too little."""
    results = len(lanes) * sum(1 + len(check) for check in some)
    largest = max(int(rows[check].max()) for check in some)
    found = packed.fit(room.lanes.layout, lanes, largest, results, room.degree, room.modulus)
    if found is None or 2 * ciphertexts(results, found.levels) > results:
        return None
    return replace(found, checks=tuple(map(len, some)))


def _calls(groups: Sequence[int], rows: NDArray[np.int64], most: int, together: int) -> Iterator[Checks]:
    """Groups by check result, whose rows are at most `together`; a call's results of a lane at most `most`."""
    checks: Checks = []
    selected = 0
    for group in groups:
        more = int(rows[group])
        results = len(checks) + sum(map(len, checks))
        if checks and results + 1 <= most and selected + more <= together:
            checks[-1].append(group)
            selected += more
            continue
        if results + 2 > most:
            yield checks
            checks = []
        checks.append([group])
        selected = more
    if checks:
        yield checks
