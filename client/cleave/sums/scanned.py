"""Sums that services made of rows: checked, decrypted, and combined by group.

The first result of a lane is the check: the weighted sum of the other results, plus the weighted sentinels of every
chunk. All results come from the same ciphertexts by exact operations, so they agree modulo q, up to the sentinels'
noise, for any values. The check fails for a chunk that is missing, repeated or foreign, for swapped results, and for
any added value. It does not detect a wrong choice of rows that is wrong in the check result too. A scan finds faults,
not a service that cheats.

Answers to several calls may be added up before they arrive. A group has the same weight in all of them, so the check
results of a lane add up to the check result of their sums.

A question is cut into calls that a service can add up. The plain service numbers the rows of its half by group. The
sealed order gives each row's position among the ciphertexts. A group's rows come back as partial sums, because the
width of the fields limits the rows in one sum.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.checks import require_weighted_sum
from cleave.ckks.cipher import Cipher
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave_shared import limits, rowsets
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS, scan_label, sentinel_weights
from cleave_shared.rowsets import Numbers

_WEIGHTS = range(1, 1 << 15)

PartialSum = tuple[int, int]  # (group, number of rows in the sum)


@dataclass(frozen=True, slots=True)
class Shape:
    """Structure of an answer: for each lane a check result, then its sums."""

    lanes: dict[int, tuple[PartialSum, ...]]

    @property
    def results(self) -> int:
        return sum(1 + len(pieces) for pieces in self.lanes.values())

    def places(self) -> dict[int, int]:
        """The index of each lane's check result."""
        places, place = {}, 0
        for lane, pieces in self.lanes.items():
            places[lane] = place
            place += 1 + len(pieces)
        return places


@dataclass(frozen=True, slots=True)
class SumCall:
    """Identity of one call. `weights`: one per group in the check, all different."""

    cut: Addends  # the name in stored states of jobs
    label: str
    weights: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        addends = self.cut
        pieces = tuple((group, rows) for group, each in zip(addends.groups, addends.rows, strict=True) for rows in each)
        return Shape(dict.fromkeys(addends.lanes, pieces))


def weights_of(groups: int) -> tuple[int, ...]:
    """Secret weights for this many groups, all different."""
    return tuple(secrets.SystemRandom().sample(_WEIGHTS, groups))


def sum_call(addends: Addends, weights: Sequence[int] | None = None) -> SumCall:
    """A call about `addends`. `weights`: of all groups of the scan, if answers to several calls will be added up; else
    random.
    """
    taken = weights_of(len(addends.groups)) if weights is None else tuple(weights[group] for group in addends.groups)
    return SumCall(addends, secrets.token_hex(16), taken)


class Scanned:
    """Collects the sums of a scan by group. Rows are stored in `lanes`."""

    def __init__(self, lanes: Lanes, cipher: Cipher) -> None:
        self._lanes = lanes
        self._cipher = cipher
        self._sums: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by lane and group: (rows, value) of each sum

    def accept(self, shape: Shape, files: Sequence[bytes], calls: Iterable[tuple[str, SumCall]]) -> None:
        """Check and add one answer, completely or not at all. `calls`: all calls that it adds up, with their segments.

        Raises CheckFailed.
        """
        if len(files) != shape.results:
            raise CheckFailed("envelope", "the answer to a scan lacks requested results")
        try:
            values = self._cipher.constants(files).tolist()
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}") from None
        expected, chunks = dict.fromkeys(shape.lanes, 0), dict.fromkeys(shape.lanes, 0)
        weights: dict[int, int] = {}
        for segment, call in calls:
            weights |= dict(zip(call.cut.groups, call.weights, strict=True))
            for lane in call.cut.lanes:
                expected[lane] += self._sentinels(segment, call, lane)
                chunks[lane] += len(call.cut.chunks)
        sums = {}
        for lane, place in shape.places().items():
            pieces = shape.lanes[lane]
            sums[lane] = values[place + 1 : place + 1 + len(pieces)]
            weighted = (weights[group] for group, _ in pieces)
            modulus = self._cipher.ring.modulus
            require_weighted_sum(values[place], sums[lane], weighted, expected[lane], chunks[lane], modulus)
        for lane, lane_sums in sums.items():
            for (group, rows), value in zip(shape.lanes[lane], lane_sums, strict=True):
                self._sums.setdefault((lane, group), []).append((rows, value))

    def total(self, column: int, group: int, rows: int) -> int:
        """The total of `column` over all `rows` rows of a group. Raises CheckFailed if its sums do not cover these
        rows.
        """
        parts = self._lanes.holding(column)
        if not parts:
            return 0
        total = left = 0
        for at, (count, _) in enumerate(self._sums.get((parts[0], group), ())):
            planes = {lane: np.array([self._sums[lane, group][at][1]], np.int64) for lane in parts}
            (value,) = self._lanes.decode(column, planes, count)
            total += int(value)
            left += count
        if left != rows:
            raise CheckFailed("envelope", "the answer to a scan is not of all rows of a group")
        return total

    def _sentinels(self, segment: str, call: SumCall, lane: int) -> int:
        """The sentinels' part in a lane's check result."""
        return sum(
            int(
                sentinels(self._cipher, bytes.fromhex(segment), lane, number)
                @ sentinel_weights(scan_label(call.label, number))
            )
            for number in call.cut.chunks
        )


_FILE_OVERHEAD = 512  # bytes of a ciphertext's file besides 8 N bytes

_Counts = NDArray[np.int64]  # rows, (chunks, groups)
Pieces = dict[int, list[tuple[int, int]]]  # for each group its partial sums: (first chunk, rows)


@dataclass(frozen=True, slots=True)
class Addends:
    """The part of a call about one segment.

    `groups`: numbers in the question. `chunks`: numbers of the chunks with their rows. `numbers`: for each row, chunk
    after chunk (cleave_shared.rowsets), the index of its group in `groups`. `cuts`: for each group the indices in
    `chunks` where a partial sum begins; `rows`: the number of rows in each.
    """

    lanes: tuple[int, ...]
    groups: tuple[int, ...]
    chunks: tuple[int, ...]
    numbers: bytes
    cuts: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def results(self) -> int:
        """Number of ciphertexts in an answer: for each lane the partial sums and one check result."""
        return len(self.lanes) * (1 + sum(map(len, self.cuts)))


def stored_order(numbers: Numbers, order: NDArray[np.uint32], capacity: int) -> Numbers:
    """`numbers` of a segment's rows in the order of its ciphertexts, (chunks, capacity); 0 for unused positions."""
    chunks = -(-len(order) // capacity)
    placed = np.zeros(chunks * capacity, np.int32)
    placed[: len(order)] = numbers[order]
    return placed.reshape(chunks, capacity)


def counts_of(placed: Numbers, groups: int) -> _Counts:
    chunks = len(placed)
    keys = placed + np.arange(chunks)[:, None] * (groups + 1)
    return np.bincount(keys.ravel(), minlength=chunks * (groups + 1)).reshape(chunks, groups + 1)[:, 1:]


def addends_of(placed: Numbers, groups: int, lanes: Sequence[int], window: int) -> Iterator[Addends]:
    """All addends of one segment, whose rows are in groups 1..`groups`, or in none (0).

    `window`: maximum rows of a partial sum, at least those of one chunk.
    """
    counts = counts_of(placed, groups)
    pieces = {group: pieces_of(counts[:, group], window) for group in range(groups) if counts[:, group].any()}
    most = max((len(each) for each in pieces.values()), default=0)
    if not most or not lanes:
        return
    linked = len(placed) * (8 * (placed.shape[1] + SENTINELS) + _FILE_OVERHEAD)  # maximum bytes of a lane
    at_once = max(1, min(limits.MAX_SCAN_RESULTS // (1 + most), limits.MAX_LINKED_BYTES // linked))
    for start in range(0, len(lanes), at_once):
        taken = tuple(lanes[start : start + at_once])
        for some in _batches(pieces, limits.MAX_SCAN_RESULTS // len(taken) - 1):
            yield _addends(placed, counts, taken, some, pieces)


def pieces_of(rows: NDArray[np.int64], window: int) -> list[tuple[int, int]]:
    """(First chunk, rows) of every partial sum of a group with `rows` (chunks,) rows."""
    pieces: list[tuple[int, int]] = []
    for chunk in np.flatnonzero(rows):
        more = int(rows[chunk])
        if pieces and pieces[-1][1] + more <= window:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + more)
        else:
            pieces.append((int(chunk), more))
    return pieces


def _batches(pieces: Pieces, most: int) -> Iterator[list[int]]:
    """Groups with at most `most` partial sums together, but at least one group."""
    batch: list[int] = []
    left = most
    for group, chunks in pieces.items():
        if batch and len(chunks) > left:
            yield batch
            batch, left = [], most
        batch.append(group)
        left -= len(chunks)
    if batch:
        yield batch


def _addends(
    placed: Numbers,
    counts: _Counts,
    lanes: tuple[int, ...],
    groups: Sequence[int],
    pieces: Pieces,
) -> Addends:
    chunks = np.flatnonzero(counts[:, groups].any(axis=1))
    place = {int(chunk): at for at, chunk in enumerate(chunks)}
    renumbered = np.zeros(counts.shape[1] + 1, np.int32)
    renumbered[np.asarray(groups) + 1] = np.arange(1, len(groups) + 1)
    packed = [rowsets.pack(renumbered[placed[chunk]], len(groups)) for chunk in chunks]
    return Addends(
        lanes=lanes,
        groups=tuple(groups),
        chunks=tuple(place),
        numbers=b"".join(packed),
        cuts=tuple(tuple(place[chunk] for chunk, _ in pieces[group]) for group in groups),
        rows=tuple(tuple(rows for _, rows in pieces[group]) for group in groups),
    )
