"""Answers of several segments added up: exact as far as fields reach, and known by one check for each lane."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.sums.job import ResultIndex, reduced
from cleave.sums.scanned import Shape, SumCall, sum_call, weights_of
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_shared.errors import CheckFailed
from cleave_shared.params import DEFAULT_PROFILE
from tests.campaign import FACTOR, sampled
from tests.store.scanning import SEGMENT, Rows

LIMITS = (5_000, 10_494_950, (1 << 53) + 7)
GROUPS, SEGMENTS, ROWS = 3, 4, 9_000
WINDOW = 12_000


class Segments:
    """Some segments of one table, scanned; `files`: of every answer its ciphertexts."""

    def __init__(self, key: SecretKey, count: int = SEGMENTS) -> None:
        rng = np.random.default_rng(7)
        self.segments = [
            Rows(key, [(limit, rng.integers(0, limit + 1, ROWS, np.uint64)) for limit in LIMITS], WINDOW)
            for _ in range(count)
        ]
        self.numbers = [rng.integers(0, GROUPS + 1, ROWS).astype(np.int32) for _ in self.segments]
        self.numbers[1][self.numbers[1] == 2] = 0  # a group need not have rows everywhere
        self.weights = weights_of(GROUPS)
        self.asked: list[tuple[Rows, SumCall]] = [
            (rows, sum_call(each, self.weights))
            for rows, numbers in zip(self.segments, self.numbers, strict=True)
            for each in rows.addends(numbers, GROUPS)
        ]
        self.shapes = [asked.shape for _, asked in self.asked]
        self.files = [[blob for lane in rows.answer(asked) for blob in lane] for rows, asked in self.asked]

    @property
    def truth(self) -> dict[tuple[int, int], int]:
        truths = [rows.truth(numbers) for rows, numbers in zip(self.segments, self.numbers, strict=True)]
        return {place: sum(truth.get(place, 0) for truth in truths) for place in set().union(*truths)}

    def summed(self, terms: Sequence[Sequence[ResultIndex]], files: Sequence[Sequence[bytes]]) -> list[bytes]:
        """What a reducing step makes of answers."""
        chunks = [Chunk(at, files[step][place]) for at, some in enumerate(terms) for step, place in some]
        found = BlockSums(self.segments[0].evaluator).evaluate(chunks).files
        return [found[at] for at in range(len(terms))]

    def totals(self, shape: Shape, files: Sequence[bytes]) -> dict[tuple[int, int], int]:
        scanned = self.segments[0].scanned()
        scanned.accept(shape, files, [(SEGMENT, each) for _, each in self.asked])
        return {
            (at, group): scanned.total(at, group, self.rows[group])
            for at in range(len(LIMITS))
            for group in range(GROUPS)
        }

    @property
    def rows(self) -> list[int]:
        """Rows of each group in all segments."""
        return [sum(int((each == group + 1).sum()) for each in self.numbers) for group in range(GROUPS)]


@pytest.fixture(scope="module")
def segments() -> Segments:
    return Segments(fresh_key(DEFAULT_PROFILE))


def test_answers_of_segments_add_up_in_one_step_or_in_two(segments: Segments) -> None:
    shape, terms = reduced(segments.shapes, WINDOW)
    assert shape.results < sum(each.results for each in segments.shapes)
    assert all(rows <= WINDOW for pieces in shape.lanes.values() for _, rows in pieces)
    assert segments.totals(shape, segments.summed(terms, segments.files)) == segments.truth
    half = len(segments.asked) // 2
    parts = [slice(0, half), slice(half, None)]
    steps = [reduced(segments.shapes[part], WINDOW) for part in parts]
    files = [segments.summed(terms, segments.files[part]) for part, (_, terms) in zip(parts, steps, strict=True)]
    last, terms = reduced([shape for shape, _ in steps], WINDOW)
    assert segments.totals(last, segments.summed(terms, files)) == segments.truth


@pytest.mark.parametrize("times", sampled(10, 30, 50 * FACTOR))
def test_what_a_step_does_wrong_is_found(segments: Segments, times: int) -> None:
    shape, terms = reduced(segments.shapes, WINDOW)
    for seed in range(times):
        spoiled = _spoiled(terms, random.Random(seed))
        with pytest.raises(CheckFailed):
            segments.totals(shape, segments.summed(spoiled, segments.files))


def _spoiled(terms: Sequence[Sequence[ResultIndex]], rng: random.Random) -> list[list[ResultIndex]]:
    spoiled = [list(each) for each in terms]
    at = rng.choice([at for at, each in enumerate(spoiled) if len(each) > 1])
    other = rng.choice([number for number in range(len(spoiled)) if number != at])
    fault = rng.choice(["left out", "twice", "another's", "exchanged"])
    if fault == "left out":
        spoiled[at].pop(rng.randrange(len(spoiled[at])))
    elif fault == "twice":
        spoiled[at].append(rng.choice(spoiled[at]))
    elif fault == "another's":
        spoiled[at][rng.randrange(len(spoiled[at]))] = rng.choice(spoiled[other])
    else:
        spoiled[at], spoiled[other] = spoiled[other], spoiled[at]
    return spoiled


def test_an_answer_of_another_size_is_refused(segments: Segments) -> None:
    shape, terms = reduced(segments.shapes, WINDOW)
    with pytest.raises(CheckFailed, match="lacks requested results"):
        segments.totals(shape, segments.summed(terms, segments.files)[:-1])
