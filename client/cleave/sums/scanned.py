"""The sums that services made of rows: checked, decrypted, and put together by group.

A lane's first result is the sum of the others, each times a weight, and of sentinels of every chunk. All are made of
the same ciphertexts by exact multiplications, so they agree modulo q up to the sentinels' own noise, whatever the
values are: a chunk that was left out, or taken twice, or another's, for one group or for all, shows; so do results
that changed places and anything added to one. A wrong choice of rows that is wrong in the same way in the check does
not: a scan finds faults, not a service that lies.

Answers to several calls may be added up before they come here. A group has the same weight in each of these, so check
results of a lane add up to the check result of all their sums.

A question is cut into what one call of a service adds up. The plain service numbers the rows of its half by group; the
sealed order gives the place of each row among the ciphertexts. A group's rows come back as partial sums. The width of
the fields limits how many rows one partial sum has.
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

PartialSum = tuple[int, int]  # a group, and how many rows the sum is of


@dataclass(frozen=True, slots=True)
class Shape:
    """Parts of an answer: of each lane a check result, then sums."""

    lanes: dict[int, tuple[PartialSum, ...]]

    @property
    def results(self) -> int:
        return sum(1 + len(pieces) for pieces in self.lanes.values())

    def places(self) -> dict[int, int]:
        """Where each lane's check result stands."""
        places, place = {}, 0
        for lane, pieces in self.lanes.items():
            places[lane] = place
            place += 1 + len(pieces)
        return places


@dataclass(frozen=True, slots=True)
class SumCall:
    """Identity of one call. `weights`: of each group in the check, no two alike."""

    cut: Addends  # as the states of jobs call it
    label: str
    weights: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        addends = self.cut
        pieces = tuple((group, rows) for group, each in zip(addends.groups, addends.rows, strict=True) for rows in each)
        return Shape(dict.fromkeys(addends.lanes, pieces))


def weights_of(groups: int) -> tuple[int, ...]:
    """Secret weights of so many groups, no two alike."""
    return tuple(secrets.SystemRandom().sample(_WEIGHTS, groups))


def sum_call(addends: Addends, weights: Sequence[int] | None = None) -> SumCall:
    """`weights`: of all groups of the scan, where answers to several calls are to be added up; else the call's own."""
    taken = weights_of(len(addends.groups)) if weights is None else tuple(weights[group] for group in addends.groups)
    return SumCall(addends, secrets.token_hex(16), taken)


class Scanned:
    """The sums of a scan by group, of rows that are stored in `lanes`."""

    def __init__(self, lanes: Lanes, cipher: Cipher) -> None:
        self._lanes = lanes
        self._cipher = cipher
        self._sums: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by lane and group: rows and value of each sum

    def accept(self, shape: Shape, files: Sequence[bytes], calls: Iterable[tuple[str, SumCall]]) -> None:
        """Take in one answer, whole or not at all. `calls`: all calls that it adds up, with their segments.

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
        for segment, each in calls:
            weights |= dict(zip(each.cut.groups, each.weights, strict=True))
            for lane in each.cut.lanes:
                expected[lane] += self._sentinels(segment, each, lane)
                chunks[lane] += len(each.cut.chunks)
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
        """Return the total of `column` of the lanes over all `rows` rows of a group. Raises CheckFailed for what is no
        sum of these.
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
        """The sentinels' part of a lane's check result."""
        return sum(
            int(
                sentinels(self._cipher, bytes.fromhex(segment), lane, number)
                @ sentinel_weights(scan_label(call.label, number))
            )
            for number in call.cut.chunks
        )


_FILE_OVERHEAD = 512  # of a ciphertext in an object over its 8 N bytes

Counts = NDArray[np.int64]  # (chunks, groups): rows
Pieces = dict[int, list[tuple[int, int]]]  # of each group its partial sums: chunk at which one begins, and its rows


@dataclass(frozen=True, slots=True)
class Addends:
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


def addends_of(placed: Numbers, groups: int, lanes: Sequence[int], window: int) -> Iterator[Addends]:
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
            yield _addends(placed, counts, taken, some, pieces)


def pieces_of(rows: NDArray[np.int64], window: int) -> list[tuple[int, int]]:
    """(chunk, rows) of every partial sum of a group that has `rows` (chunks,): where it begins, and how many."""
    pieces: list[tuple[int, int]] = []
    for chunk in np.flatnonzero(rows):
        more = int(rows[chunk])
        if pieces and pieces[-1][1] + more <= window:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + more)
        else:
            pieces.append((int(chunk), more))
    return pieces


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


def _addends(
    placed: Numbers,
    counts: Counts,
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
