"""How the answers of many calls become few: which ciphertexts of theirs are added up, and by what the sums are known.

Every call scans one segment and answers, of each of its lanes, with a check result and with partial sums of groups
(`cleave.sums.scanned`). A group has the same weight in every call, so check results of a lane add up to the check
result of all their sums. Partial sums of a group are added up while their rows fit a field. Segments whose rows lie in
lanes otherwise, as contributors' beside the owner's, have lanes of their own here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cleave.store.lanes import Lanes
from cleave.sums.scanned import Question, Scanned, Sums, require_agreement
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

Term = tuple[int, int]  # a step, and a place among the ciphertexts of its answer
Piece = tuple[int, int]  # a group, and how many rows the sum is of
Lane = tuple[int, int]  # a layout, by the number it is given here, and one of its lanes


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer consists of: of each lane a check result, then sums."""

    lanes: dict[Lane, tuple[Piece, ...]]

    @property
    def results(self) -> int:
        return sum(1 + len(pieces) for pieces in self.lanes.values())

    def places(self) -> dict[Lane, int]:
        """Where each lane's check result stands."""
        found, place = {}, 0
        for lane, pieces in self.lanes.items():
            found[lane] = place
            place += 1 + len(pieces)
        return found


def shape_of(asked: Question, layout: int = 0) -> Shape:
    cut = asked.cut
    pieces = tuple((group, rows) for group, each in zip(cut.groups, cut.rows, strict=True) for rows in each)
    return Shape({(layout, lane): pieces for lane in cut.lanes})


def reduced(shapes: Sequence[Shape], window: int) -> tuple[Shape, list[list[Term]]]:
    """What the answers of steps become, and the terms of each of its ciphertexts. `window`: rows a sum may have."""
    lanes = sorted({lane for shape in shapes for lane in shape.lanes})
    places = [shape.places() for shape in shapes]
    made: dict[Lane, tuple[Piece, ...]] = {}
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
    asked: Iterable[tuple[Scanned, int, Question]],
    layouts: Sequence[Lanes],
    modulus: int,
) -> list[Sums]:
    """By layout, rows and sum of every piece of an answer. `values`: decrypted, one of each ciphertext.

    `asked`: all that was put together in it, with the number of its layout, a group's weight always the same.
    Raises CheckFailed.
    """
    if len(values) != shape.results:
        raise CheckFailed("envelope", "the answer to a job has not the results that were asked for")
    known = dict.fromkeys(shape.lanes, 0)
    chunks = dict.fromkeys(shape.lanes, 0)
    weights: dict[int, int] = {}
    for scanned, layout, question in asked:
        weights |= dict(zip(question.cut.groups, question.weights, strict=True))
        for lane in question.cut.lanes:
            known[layout, lane] += scanned.known(question, lane)
            chunks[layout, lane] += len(question.cut.chunks)
    found: list[Sums] = [{} for _ in layouts]
    for (layout, lane), place in shape.places().items():
        pieces = shape.lanes[layout, lane]
        sums = values[place + 1 : place + 1 + len(pieces)]
        expected = sum(weights[group] * value for (group, _), value in zip(pieces, sums, strict=True))
        off = values[place] - expected - known[layout, lane]
        require_agreement(off, chunks[layout, lane], modulus)
        for (group, rows), value in zip(pieces, sums, strict=True):
            found[layout].setdefault((lane, group), []).append((rows, int(value)))
    return found
