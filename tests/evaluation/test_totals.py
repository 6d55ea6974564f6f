"""Sums of blocks: on integers and on CKKS, whose precision is asserted."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_shared.errors import ServiceError, WireError
from tests.evaluation.schemes import Scheme

SHIFT = 20  # scale of the test's integers: leaves room for the noise of CKKS


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
    check_blocks(scheme, workers.evaluate(BlockSums(scheme.evaluator), chunks, 3), sizes, sums)


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
        workers.evaluate(BlockSums(DyingEvaluator(scheme, os.getpid())), chunks, 2)


def test_a_workers_refusal_reaches_the_caller(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    chunks, _ = make_blocks(scheme, [3])
    with pytest.raises(WireError, match="not a"):
        workers.evaluate(BlockSums(scheme.evaluator), [*chunks[:-1], Chunk(0, b"not a ciphertext")], 2)
