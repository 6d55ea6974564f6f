"""Group totals of interleaved lanes: the same cases on integers and on CKKS, whose precision is asserted."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import Chunk, evaluate
from cleave_services.sensitive.workers import evaluate_in_parallel
from cleave_shared.errors import ServiceError, WireError
from cleave_shared.moments import FILTERED, Run, rows_per_chunk, segments, sentinel_label, sentinel_weights
from tests.evaluation.schemes import Scheme

SHIFT = 20  # scale of the test's integers: leaves room for the noise of CKKS
JOB = b"job"


def make_chunks(scheme: Scheme, matrix: np.ndarray, runs: list[Run], first: int = 0) -> list[Chunk]:
    lanes = matrix.shape[1]
    capacity = rows_per_chunk(scheme.degree, lanes)
    chunks = []
    for place, groups in enumerate(segments(runs, capacity)):
        polynomial = np.zeros((1, scheme.degree), np.int64)
        part = matrix[place * capacity : (place + 1) * capacity] << SHIFT
        polynomial[0, : part.size] = part.ravel()
        polynomial[0, -16:] = scheme.cipher.sentinels(JOB, first + place) << SHIFT
        chunks.append(Chunk(first + place, groups, scheme.cipher.encrypt(polynomial)[0]))
    return chunks


def expected_totals(matrix: np.ndarray, runs: list[Run]) -> dict[int, np.ndarray]:
    labels = np.repeat([group for group, _ in runs], [rows for _, rows in runs])
    return {int(group): matrix[labels == group].sum(axis=0) for group in np.unique(labels) if group != FILTERED}


def check(scheme: Scheme, matrix: np.ndarray, runs: list[Run], found, chunks: list[Chunk]) -> None:
    lanes = matrix.shape[1]
    wanted = expected_totals(matrix, runs)
    assert found.groups.keys() == wanted.keys()
    for group, blob in found.groups.items():
        coefficients = scheme.cipher.decrypt([blob])[0][:lanes]
        rows = sum(n for g, n in runs if g == group)
        error = np.abs(coefficients - (wanted[group] << SHIFT)).max()
        assert error <= 7.54 * scheme.noise * rows**0.5  # docs/ckks.md section 3; 0 on the plaintext backend
    capacity = rows_per_chunk(scheme.degree, lanes)
    sentinel = sum(
        int(scheme.cipher.sentinels(JOB, c.index) @ sentinel_weights(sentinel_label(c.index, c.segments, capacity)))
        for c in chunks
    )
    assert round(int(scheme.cipher.decrypt([found.sentinel])[0][0]) / 2**SHIFT) == sentinel


CASES = {
    "one row": ([(0, 1)], 1),
    "one full chunk": ([(5, 8176)], 1),
    "full chunks of two groups": ([(1, 4088 * 2), (0, 4088)], 2),
    "groups across chunk borders": ([(2, 3000), (0, 5000), (1, 1234)], 3),
    "a group that comes twice": ([(1, 10), (0, 10), (1, 10)], 4),
    "filtered rows": ([(0, 100), (FILTERED, 8176), (1, 77)], 1),
    "everything filtered": ([(FILTERED, 300)], 2),
    "forty small groups": ([(g, 1 + g % 3) for g in range(40)], 5),
    "widest rows": ([(0, 20), (1, 21)], 256),
}


@pytest.mark.parametrize("case", CASES)
def test_totals_of_groups(scheme: Scheme, case: str) -> None:
    runs, lanes = CASES[case]
    rows = sum(n for _, n in runs)
    matrix = np.random.default_rng(7).integers(-(2**20), 2**20, (rows, lanes))
    chunks = make_chunks(scheme, matrix, runs, first=3)
    check(scheme, matrix, runs, evaluate(scheme.evaluator, lanes, chunks), chunks)


def test_several_processes_add_up_to_one(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    runs = [(0, 20_000), (1, 9_000), (2, 4_000)]
    matrix = np.random.default_rng(8).integers(-1000, 1000, (33_000, 1))
    chunks = make_chunks(scheme, matrix, runs)
    check(scheme, matrix, runs, evaluate_in_parallel(scheme.evaluator, 1, chunks, 3), chunks)


class DyingEvaluator:
    """Kills the process it evaluates in, except the parent's."""

    def __init__(self, scheme: Scheme, parent: int) -> None:
        self._inner, self._parent, self.degree = scheme.evaluator, parent, scheme.degree

    def load(self, blob: bytes):
        if os.getpid() != self._parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._inner.load(blob)

    def __getattr__(self, name: str):
        return getattr(self._inner, name)


def test_a_killed_worker_is_an_error_and_no_answer(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    chunks = make_chunks(scheme, np.ones((20_000, 1), np.int64), [(0, 20_000)])
    with pytest.raises(ServiceError, match="worker process died"):
        evaluate_in_parallel(DyingEvaluator(scheme, os.getpid()), 1, chunks, 2)


def test_a_workers_refusal_reaches_the_caller(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    chunks = make_chunks(scheme, np.ones((20_000, 1), np.int64), [(0, 20_000)])
    damaged = [*chunks[:-1], Chunk(chunks[-1].index, chunks[-1].segments, b"not a ciphertext")]
    with pytest.raises(WireError, match="not a"):
        evaluate_in_parallel(scheme.evaluator, 1, damaged, 2)
