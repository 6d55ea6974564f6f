"""How rows lie in ciphertexts that are summed by group under masks: in the simple call's group_by and in scans.

A chunk is one ciphertext of N coefficients. `lanes` values of a row stand side by side, row r at coefficients
lanes*r .. lanes*r + lanes-1. The last SENTINELS coefficients hold values only the key holder knows, here as
in every chunk of ours.
Summing the rows of a group is one multiplication by the integer polynomial

    M = m_0 - sum_{r>=1} m_r X^(N - lanes*r)

whose product has lane b's total at coefficient b (X^N = -1 turns X^(N-i) into -X^-i).
Source: HERMES (coefficients-encoding); tried out in docs/ckks.md section 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cleave_shared import limits
from cleave_shared.dataclass import dataclass

SENTINELS = 16
FILTERED = limits.FILTERED

Run = tuple[int, int]  # (group number, rows)
Polynomial = NDArray[np.int64]  # N signed integer coefficients


def rows_per_chunk(degree: int, lanes: int) -> int:
    return (degree - SENTINELS) // lanes


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows `start`..`stop` of one chunk, all of one group."""

    group: int
    start: int
    stop: int


def segments(runs: Iterable[Run], capacity: int) -> Iterator[list[Segment]]:
    """Cut run-length coded group numbers into chunks of `capacity` rows: one list a chunk, in order."""
    chunk: list[Segment] = []
    filled = 0
    for group, rows in runs:
        left = rows
        while left:
            taken = min(left, capacity - filled)
            chunk.append(Segment(group, filled, filled + taken))
            filled += taken
            left -= taken
            if filled == capacity:
                yield chunk
                chunk, filled = [], 0
    if chunk:
        yield chunk


def row_mask(degree: int, lanes: int, spans: Sequence[tuple[int, int]]) -> Polynomial:
    """The mask polynomial that adds up the rows in `spans` (half-open), lane by lane."""
    mask = np.zeros(degree, np.int64)
    for start, stop in spans:
        rows = np.arange(max(start, 1), stop)
        mask[degree - lanes * rows] = -1
        if start == 0:
            mask[0] = 1
    return mask


def sentinel_weights(label: str) -> NDArray[np.int64]:
    """SENTINELS public weights of +-1 for `label`, so that two chunks cannot change places unseen."""
    bits = np.unpackbits(np.frombuffer(hashlib.sha256(label.encode()).digest()[: SENTINELS // 8], np.uint8))
    return 1 - 2 * bits.astype(np.int64)


def sentinel_mask(degree: int, label: str) -> Polynomial:
    """The mask whose product has the weighted sum of a chunk's sentinels at coefficient 0."""
    mask = np.zeros(degree, np.int64)
    # the sentinel at coefficient N-j is brought to 0 by -X^j (j = SENTINELS .. 1)
    mask[np.arange(SENTINELS, 0, -1)] = -sentinel_weights(label)
    return mask


def is_whole(chunk: Sequence[Segment], capacity: int) -> bool:
    """Whether every row of a full chunk is of one group, so that it can be added before it is masked."""
    return len(chunk) == 1 and chunk[0].stop - chunk[0].start == capacity


def sentinel_label(index: int, chunk: Sequence[Segment], capacity: int) -> str:
    """Which weights the sentinels of chunk `index` of the job get."""
    if is_whole(chunk, capacity):
        return f"cleave/1/group/{chunk[0].group}"
    return f"cleave/1/chunk/{index}"


def scan_label(label: str, number: int) -> str:
    """Which weights the sentinels of chunk `number` get in a scan that goes by `label`."""
    return f"cleave/1/scan/{label}/{number}"
