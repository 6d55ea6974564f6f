"""Sums of blocks, and totals by group under masks: on integers and on CKKS, whose precision is asserted."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_services.sensitive.masked import SENTINEL, GroupTotals, MaskedChunk
from cleave_services.sensitive.workers import evaluate_in_parallel
from cleave_shared.errors import ServiceError, WireError
from cleave_shared.moments import FILTERED, Run, rows_per_chunk, segments, sentinel_label, sentinel_weights
from tests.evaluation.schemes import Scheme

SHIFT = 20  # scale of the test's integers: leaves room for the noise of CKKS
JOB = b"job"


def make_blocks(scheme: Scheme, sizes: list[int]) -> tuple[list[Chunk], np.ndarray]:
    """Chunks of random integers, and the sum (blocks, N) of each block's."""
    random = np.random.default_rng(7)
    chunks, sums = [], []
    for block, size in enumerate(sizes):
        polynomials = random.integers(-(2**20), 2**20, (size, scheme.degree)) << SHIFT
        chunks += [Chunk(block, blob) for blob in scheme.cipher.encrypt(polynomials)]
        sums.append(polynomials.sum(axis=0))
    return chunks, np.stack(sums)


def check_blocks(scheme: Scheme, found, sizes: list[int], sums: np.ndarray) -> None:
    assert sorted(found.files) == list(range(len(sizes)))
    decrypted = scheme.cipher.decrypt([found.files[block] for block in range(len(sizes))])
    for coefficients, expected, size in zip(decrypted, sums, sizes, strict=True):
        # docs/ckks.md section 3; 0 on the plaintext backend
        assert np.abs(coefficients - expected).max() <= 7.54 * scheme.noise * size**0.5


@pytest.mark.parametrize("sizes", [[1], [5], [1, 1, 1], [3, 1, 4]])
def test_sums_of_blocks(scheme: Scheme, sizes: list[int]) -> None:
    chunks, sums = make_blocks(scheme, sizes)
    check_blocks(scheme, BlockSums(scheme.evaluator).evaluate(chunks), sizes, sums)


def test_several_processes_add_up_to_one(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    sizes = [4, 1, 2]  # processes get 3, 3 and 1 chunks: two of them share a block
    chunks, sums = make_blocks(scheme, sizes)
    check_blocks(scheme, evaluate_in_parallel(BlockSums(scheme.evaluator), chunks, 3), sizes, sums)


def make_chunks(scheme: Scheme, matrix: np.ndarray, runs: list[Run], first: int = 0) -> list[MaskedChunk]:
    lanes = matrix.shape[1]
    capacity = rows_per_chunk(scheme.degree, lanes)
    chunks = []
    for place, groups in enumerate(segments(runs, capacity)):
        polynomial = np.zeros((1, scheme.degree), np.int64)
        part = matrix[place * capacity : (place + 1) * capacity] << SHIFT
        polynomial[0, : part.size] = part.ravel()
        polynomial[0, -16:] = scheme.cipher.sentinels(JOB, first + place) << SHIFT
        chunks.append(MaskedChunk(first + place, groups, scheme.cipher.encrypt(polynomial)[0]))
    return chunks


def expected_totals(matrix: np.ndarray, runs: list[Run]) -> dict[int, np.ndarray]:
    labels = np.repeat([group for group, _ in runs], [rows for _, rows in runs])
    return {int(group): matrix[labels == group].sum(axis=0) for group in np.unique(labels) if group != FILTERED}


def check(scheme: Scheme, matrix: np.ndarray, runs: list[Run], found, chunks: list[MaskedChunk]) -> None:
    lanes = matrix.shape[1]
    wanted = expected_totals(matrix, runs)
    assert found.files.keys() - {SENTINEL} == wanted.keys()
    for group, expected in wanted.items():
        coefficients = scheme.cipher.decrypt([found.files[group]])[0][:lanes]
        rows = sum(n for g, n in runs if g == group)
        assert np.abs(coefficients - (expected << SHIFT)).max() <= 7.54 * scheme.noise * rows**0.5
    capacity = rows_per_chunk(scheme.degree, lanes)
    sentinel = sum(
        int(scheme.cipher.sentinels(JOB, c.index) @ sentinel_weights(sentinel_label(c.index, c.segments, capacity)))
        for c in chunks
    )
    assert round(int(scheme.cipher.decrypt([found.files[SENTINEL]])[0][0]) / 2**SHIFT) == sentinel


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
    check(scheme, matrix, runs, GroupTotals(scheme.evaluator, lanes).evaluate(chunks), chunks)


def test_several_processes_mask_as_one_does(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    runs = [(0, 20_000), (1, 9_000), (2, 4_000)]
    matrix = np.random.default_rng(8).integers(-1000, 1000, (33_000, 1))
    chunks = make_chunks(scheme, matrix, runs)
    check(scheme, matrix, runs, evaluate_in_parallel(GroupTotals(scheme.evaluator, 1), chunks, 3), chunks)


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
    chunks, _ = make_blocks(scheme, [3])
    with pytest.raises(ServiceError, match="worker process died"):
        evaluate_in_parallel(BlockSums(DyingEvaluator(scheme, os.getpid())), chunks, 2)


def test_a_workers_refusal_reaches_the_caller(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    chunks, _ = make_blocks(scheme, [3])
    with pytest.raises(WireError, match="not a"):
        evaluate_in_parallel(BlockSums(scheme.evaluator), [*chunks[:-1], Chunk(0, b"not a ciphertext")], 2)
