"""The sums that a service made of a segment's rows: checked, decrypted, and put together by group.

A lane's first result is the sum of the others, each times a weight, and of sentinels of every chunk. All are made of
the same ciphertexts by exact multiplications, so they agree modulo q up to the sentinels' own noise, whatever the
values are: a chunk that was left out, or taken twice, or another's, for one group or for all, shows; so do results
that changed places and anything added to one. A wrong choice of rows that is wrong in the same way in the check does
not: a scan finds faults, not a service that lies.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Sentinels
from cleave.ckks.layout import noise
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave.sums.masks import Cut
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS, scan_label, sentinel_weights

_WEIGHTS = range(1, 1 << 15)
Sums = dict[tuple[int, int], list[tuple[int, int]]]  # by lane and group: of each partial sum its rows and its value


Integers = NDArray[np.int64]


class Decrypting(Protocol):
    def constants(self, blobs: Sequence[bytes]) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class Question:
    """What makes one call its own. `weights`: of each group in the check, no two alike."""

    cut: Cut
    label: str
    weights: tuple[int, ...]


def weights_of(groups: int) -> tuple[int, ...]:
    """Secret weights of so many groups, no two alike."""
    return tuple(secrets.SystemRandom().sample(_WEIGHTS, groups))


def question(cut: Cut, weights: Sequence[int] | None = None) -> Question:
    """`weights`: of all groups of the scan, where answers to several calls are to be added up; else the call's own."""
    taken = weights_of(len(cut.groups)) if weights is None else tuple(weights[group] for group in cut.groups)
    return Question(cut, secrets.token_hex(16), taken)


class Scanned:
    """What comes back of one segment. `label`: of its rows' sentinels."""

    def __init__(self, lanes: Lanes, cipher: Decrypting, marks: Sentinels, label: bytes, modulus: int) -> None:
        self._lanes = lanes
        self._cipher = cipher
        self._marks = marks
        self._label = label
        self._modulus = modulus
        self._sums: Sums = {}

    def accept(self, asked: Question, totals: Sequence[Sequence[bytes]]) -> None:
        """One answer, whole or not at all. Raises CheckFailed."""
        cut = asked.cut
        results = 1 + sum(map(len, cut.cuts))
        if [len(lane) for lane in totals] != [results] * len(cut.lanes):
            raise CheckFailed("envelope", "the answer to a scan has not the results that were asked for")
        found = self._decrypted([blob for lane in totals for blob in lane])
        for lane, values in zip(cut.lanes, found.reshape(len(cut.lanes), results).tolist(), strict=True):
            self._check(asked, lane, values)
            taken = iter(values[1:])
            for group, rows in zip(cut.groups, cut.rows, strict=True):
                self._sums[lane, group] = [(count, next(taken)) for count in rows]

    def _decrypted(self, files: Sequence[bytes]) -> Integers:
        try:
            return self._cipher.constants(files)
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}") from None

    def total(self, column: int, group: int) -> int:
        """Of `column` of the lanes over all rows of a group. Raises CheckFailed for what is no sum of so many."""
        return total_of(self._sums, self._lanes, column, group)

    def known(self, asked: Question, lane: int) -> int:
        """The sentinels' part of a lane's check result."""
        return sum(
            int(sentinels(self._marks, self._label, lane, number) @ sentinel_weights(scan_label(asked.label, number)))
            for number in asked.cut.chunks
        )

    def _check(self, asked: Question, lane: int, values: Sequence[int]) -> None:
        weights = [weight for weight, cuts in zip(asked.weights, asked.cut.cuts, strict=True) for _ in cuts]
        expected = sum(weight * value for weight, value in zip(weights, values[1:], strict=True))
        off = values[0] - expected - self.known(asked, lane)
        require_agreement(off, len(asked.cut.chunks), self._modulus)


def total_of(sums: Sums, lanes: Lanes, column: int, group: int) -> int:
    """Of `column` over all rows of a group. Raises CheckFailed for what is no sum of so many."""
    parts = lanes.of(column)
    total = 0
    for at, (rows, _) in enumerate(sums[parts[0], group] if parts else ()):
        planes = {lane: np.array([sums[lane, group][at][1]], np.int64) for lane in parts}
        (found,) = lanes.decode(column, planes, rows)
        total += int(found)
    return total


def require_agreement(off: int, chunks: int, modulus: int) -> None:
    """Raises CheckFailed unless `off`, the error of a check result of `chunks` chunks, is at most their noise."""
    off %= modulus
    if min(off, modulus - off) > noise(SENTINELS * chunks):
        raise CheckFailed(
            "scan",
            "the sums of a scan do not agree with each other or with the ciphertexts that were asked about",
            hint="a chunk was lost, doubled or exchanged, or a sum is another's: ask again, and if it happens "
            "again do not use this service",
        )
