"""Adds up chunks, block by block, as ciphertexts that the service cannot read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cleave_shared.moments import Polynomial


class Evaluator(Protocol):
    """Interface of a scheme for evaluation. cleave_shared.seal implements it with CKKS, the tests with integers.

    `add` may change its first argument.
    """

    degree: int

    def load(self, blob: bytes | memoryview) -> Any: ...

    def masks(self, polynomials: Sequence[Polynomial]) -> list[Any]: ...

    def multiply(self, ciphertext: Any, mask: Any) -> Any: ...

    def add(self, total: Any, ciphertext: Any) -> Any: ...

    def dump(self, ciphertext: Any, coefficients: int) -> bytes:
        """The file of a result. Only its first `coefficients` coefficients matter."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """A ciphertext's file, and the block it belongs to."""

    block: int
    blob: bytes | memoryview

    def __reduce__(self) -> Any:
        return Chunk, (self.block, memoryview(self.blob))


@dataclass(slots=True)
class Results:
    """Result files by number of their block or group, and seconds by stage."""

    files: dict[int, bytes]
    seconds: dict[str, float] = field(default_factory=dict)


class RunningSums:
    """Running sums of ciphertexts, by number."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.by_number: dict[int, Any] = {}

    def add(self, number: int, ciphertext: Any) -> None:
        total = self.by_number.get(number)
        self.by_number[number] = ciphertext if total is None else self._evaluator.add(total, ciphertext)

    def dump(self, coefficients: int) -> dict[int, bytes]:
        return {number: self._evaluator.dump(total, coefficients) for number, total in self.by_number.items()}


class Stopwatch:
    """Seconds by stage: a lap is added to the stage that it ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._mark
        self._mark = now


class BlockSums:
    """Adds up the chunks of each block, without masks or groups."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def work(self, chunks: Sequence[Chunk]) -> int:
        return len(chunks)

    def part(self, chunks: Sequence[Chunk]) -> BlockSums:  # noqa: ARG002 - the protocol's argument
        return self

    def evaluate(self, chunks: Iterable[Chunk]) -> Results:
        clock, sums = Stopwatch(), RunningSums(self._evaluator)
        for chunk in chunks:
            ciphertext = self._evaluator.load(chunk.blob)
            clock.lap("load")
            sums.add(chunk.block, ciphertext)
            clock.lap("evaluate")
        files = sums.dump(self._evaluator.degree)
        clock.lap("save")
        return Results(files, clock.seconds)

    def merge(self, parts: Sequence[Results]) -> Results:
        return merge(self._evaluator, parts, self._evaluator.degree)


def merge(evaluator: Evaluator, parts: Sequence[Results], coefficients: int) -> Results:
    """Add up the results of several workers."""
    if len(parts) == 1:
        return parts[0]
    files: dict[int, list[bytes]] = {}
    seconds: dict[str, float] = {}
    for part in parts:
        for number, blob in part.files.items():
            files.setdefault(number, []).append(blob)
        for stage, spent in part.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return Results({number: _add_files(evaluator, blobs, coefficients) for number, blobs in files.items()}, seconds)


def _add_files(evaluator: Evaluator, blobs: list[bytes], coefficients: int) -> bytes:
    if len(blobs) == 1:
        return blobs[0]
    total = evaluator.load(blobs[0])
    for blob in blobs[1:]:
        total = evaluator.add(total, evaluator.load(blob))
    return evaluator.dump(total, coefficients)
