"""The sums that services made of rows: checked, decrypted, and put together by group.

A lane's first result is the sum of the others, each times a weight, and of sentinels of every chunk. All are made of
the same ciphertexts by exact multiplications, so they agree modulo q up to the sentinels' own noise, whatever the
values are: a chunk that was left out, or taken twice, or another's, for one group or for all, shows; so do results
that changed places and anything added to one. A wrong choice of rows that is wrong in the same way in the check does
not: a scan finds faults, not a service that lies.

Answers to several calls may be added up before they come here. A group has the same weight in each of these, so check
results of a lane add up to the check result of all their sums.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cleave.ckks.checks import require_weighted_sum
from cleave.ckks.cipher import Cipher
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave.sums.masks import Cut
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import scan_label, sentinel_weights

_WEIGHTS = range(1, 1 << 15)

Term = tuple[int, int]  # a step, and a place among the ciphertexts of its answer
Piece = tuple[int, int]  # a group, and how many rows the sum is of


@dataclass(frozen=True, slots=True)
class Shape:
    """Parts of an answer: of each lane a check result, then sums."""

    lanes: dict[int, tuple[Piece, ...]]

    @property
    def results(self) -> int:
        return sum(1 + len(pieces) for pieces in self.lanes.values())

    def places(self) -> dict[int, int]:
        """Where each lane's check result stands."""
        found, place = {}, 0
        for lane, pieces in self.lanes.items():
            found[lane] = place
            place += 1 + len(pieces)
        return found


@dataclass(frozen=True, slots=True)
class Question:
    """Identity of one call. `weights`: of each group in the check, no two alike."""

    cut: Cut
    label: str
    weights: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        cut = self.cut
        pieces = tuple((group, rows) for group, each in zip(cut.groups, cut.rows, strict=True) for rows in each)
        return Shape(dict.fromkeys(cut.lanes, pieces))


def weights_of(groups: int) -> tuple[int, ...]:
    """Secret weights of so many groups, no two alike."""
    return tuple(secrets.SystemRandom().sample(_WEIGHTS, groups))


def question(cut: Cut, weights: Sequence[int] | None = None) -> Question:
    """`weights`: of all groups of the scan, where answers to several calls are to be added up; else the call's own."""
    taken = weights_of(len(cut.groups)) if weights is None else tuple(weights[group] for group in cut.groups)
    return Question(cut, secrets.token_hex(16), taken)


def reduced(shapes: Sequence[Shape], window: int) -> tuple[Shape, list[list[Term]]]:
    """Return the sum of the answers of steps, and the terms of each of its ciphertexts. `window`: rows a sum may
    have.
    """
    lanes = sorted({lane for shape in shapes for lane in shape.lanes})
    places = [shape.places() for shape in shapes]
    made: dict[int, tuple[Piece, ...]] = {}
    terms: list[list[Term]] = []
    for lane in lanes:
        having = [(step, shape.lanes[lane]) for step, shape in enumerate(shapes) if lane in shape.lanes]
        terms.append([(step, places[step][lane]) for step, _ in having])
        sums: dict[int, list[tuple[int, list[Term]]]] = {}  # by group: rows, terms
        for step, pieces in having:
            for at, (group, rows) in enumerate(pieces, 1):
                known = sums.setdefault(group, [])
                term = (step, places[step][lane] + at)
                if known and known[-1][0] + rows <= window:
                    known[-1] = (known[-1][0] + rows, [*known[-1][1], term])
                else:
                    known.append((rows, [term]))
        made[lane] = tuple((group, rows) for group, each in sums.items() for rows, _ in each)
        terms += [found for each in sums.values() for _, found in each]
    return Shape(made), terms


class Scanned:
    """The sums of a scan by group, of rows that lie in `lanes`."""

    def __init__(self, lanes: Lanes, cipher: Cipher) -> None:
        self._lanes = lanes
        self._cipher = cipher
        self._sums: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by lane and group: rows and value of each sum

    def accept(self, shape: Shape, files: Sequence[bytes], asked: Iterable[tuple[str, Question]]) -> None:
        """Take in one answer, whole or not at all. `asked`: all calls that it is put together of, with their segments.

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
        for segment, each in asked:
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
        for lane, found in sums.items():
            for (group, rows), value in zip(shape.lanes[lane], found, strict=True):
                self._sums.setdefault((lane, group), []).append((rows, value))

    def total(self, column: int, group: int, rows: int) -> int:
        """Return the total of `column` of the lanes over all `rows` rows of a group. Raises CheckFailed for what is no
        sum of these.
        """
        parts = self._lanes.of(column)
        if not parts:
            return 0
        total = left = 0
        for at, (count, _) in enumerate(self._sums.get((parts[0], group), ())):
            planes = {lane: np.array([self._sums[lane, group][at][1]], np.int64) for lane in parts}
            (found,) = self._lanes.decode(column, planes, count)
            total += int(found)
            left += count
        if left != rows:
            raise CheckFailed("envelope", "the answer to a scan is not of all rows of a group")
        return total

    def _sentinels(self, segment: str, asked: Question, lane: int) -> int:
        """The sentinels' part of a lane's check result."""
        return sum(
            int(
                sentinels(self._cipher, bytes.fromhex(segment), lane, number)
                @ sentinel_weights(scan_label(asked.label, number))
            )
            for number in asked.cut.chunks
        )
