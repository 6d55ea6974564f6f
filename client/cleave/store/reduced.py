"""How the answers of many calls become few: which ciphertexts of theirs are added up, and by what the sums are known.

Every call scans one segment and answers, of each of its lanes, with a check result and with partial sums of groups
(`cleave.store.scanned`). A group has the same weight in every call, so check results of a lane add up to the check
result of all their sums. Partial sums of a group are added up while their rows fit a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cleave.store.lanes import Lanes
from cleave.store.scanned import Question, Scanned, Sums, require_agreement
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

Term = tuple[int, int]  # a step, and a place among the ciphertexts of its answer
Piece = tuple[int, int]  # a group, and how many rows the sum is of


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer consists of: of each lane a check result, then sums."""

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


def shape_of(asked: Question) -> Shape:
    cut = asked.cut
    pieces = tuple((group, rows) for group, each in zip(cut.groups, cut.rows, strict=True) for rows in each)
    return Shape(dict.fromkeys(cut.lanes, pieces))


def reduced(shapes: Sequence[Shape], window: int) -> tuple[Shape, list[list[Term]]]:
    """What the answers of steps become, and the terms of each of its ciphertexts. `window`: rows a sum may have."""
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


def sums_of(
    shape: Shape,
    values: Sequence[int],
    asked: Iterable[tuple[Scanned, Question]],
    lanes: Lanes,
    modulus: int,
) -> Sums:
    """Rows and sum of every piece of an answer, by lane and group. `values`: decrypted, one of each ciphertext.

    `asked`: all that was put together in it, a group's weight always the same. Raises CheckFailed.
    """
    if len(values) != shape.results:
        raise CheckFailed("envelope", "the answer to a job has not the results that were asked for")
    known = dict.fromkeys(shape.lanes, 0)
    chunks = dict.fromkeys(shape.lanes, 0)
    weights: dict[int, int] = {}
    for scanned, question in asked:
        weights |= dict(zip(question.cut.groups, question.weights, strict=True))
        for lane in question.cut.lanes:
            known[lane] += scanned.known(question, lane)
            chunks[lane] += len(question.cut.chunks)
    found: Sums = {}
    for lane, place in shape.places().items():
        pieces = shape.lanes[lane]
        sums = values[place + 1 : place + 1 + len(pieces)]
        expected = sum(weights[group] * value for (group, _), value in zip(pieces, sums, strict=True))
        require_agreement(values[place] - expected - known[lane], chunks[lane], lanes, modulus)
        for (group, rows), value in zip(pieces, sums, strict=True):
            found.setdefault((lane, group), []).append((rows, int(value)))
    return found
