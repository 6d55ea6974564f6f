"""Totals of every lane over every group, on ciphertexts the service cannot read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cleave_shared.moments import (
    FILTERED,
    Polynomial,
    Segment,
    is_whole,
    row_mask,
    rows_per_chunk,
    sentinel_label,
    sentinel_mask,
)


class Evaluator(Protocol):
    """What evaluation needs of a scheme; `cleave_shared.seal` has it on CKKS, `cleave_shared.plaintext` on integers.

    Ciphertexts are consumed: `add` may change its first argument.
    """

    degree: int

    def load(self, blob: bytes) -> Any: ...

    def masks(self, polynomials: Sequence[Polynomial]) -> list[Any]: ...

    def multiply(self, ciphertext: Any, mask: Any) -> Any: ...

    def add(self, total: Any, ciphertext: Any) -> Any: ...

    def dump(self, ciphertext: Any, coefficients: int) -> bytes:
        """The file of a result of which only the first `coefficients` coefficients matter."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """One ciphertext: its number in the whole job, its rows' groups, its file."""

    index: int
    segments: list[Segment]
    blob: bytes


@dataclass(slots=True)
class Totals:
    """Result files by group, the sentinel's, and seconds by stage."""

    groups: dict[int, bytes]
    sentinel: bytes
    seconds: dict[str, float] = field(default_factory=dict)


class _Sums:
    """Running sums by key, made of ciphertexts."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.by_key: dict[Any, Any] = {}

    def add(self, key: Any, ciphertext: Any) -> None:
        total = self.by_key.get(key)
        self.by_key[key] = ciphertext if total is None else self._evaluator.add(total, ciphertext)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._mark
        self._mark = now


def evaluate(evaluator: Evaluator, lanes: int, chunks: Sequence[Chunk]) -> Totals:
    """Add up `chunks` group by group.

    Chunks that lie wholly in one group are added first and masked once; every other chunk gets one mask a group.
    """
    return _Evaluation(evaluator, lanes).run(chunks)


class _Evaluation:
    def __init__(self, evaluator: Evaluator, lanes: int) -> None:
        self._evaluator = evaluator
        self._lanes = lanes
        self._clock = _Clock()
        self._totals = _Sums(evaluator)  # by group
        self._sentinel = _Sums(evaluator)  # under one key

    def run(self, chunks: Sequence[Chunk]) -> Totals:
        capacity = rows_per_chunk(self._evaluator.degree, self._lanes)
        whole = _Sums(self._evaluator)
        for chunk in chunks:
            ciphertext = self._evaluator.load(chunk.blob)
            self._clock.lap("load")
            if is_whole(chunk.segments, capacity):
                whole.add(chunk.segments[0].group, ciphertext)
            else:
                self._mask(ciphertext, chunk.segments, sentinel_label(chunk.index, chunk.segments, capacity))
            self._clock.lap("evaluate")
        for group, ciphertext in whole.by_key.items():
            full = [Segment(group, 0, capacity)]
            self._mask(ciphertext, full, sentinel_label(0, full, capacity))
        self._clock.lap("evaluate")
        files = {group: self._evaluator.dump(total, self._lanes) for group, total in self._totals.by_key.items()}
        sentinel = self._evaluator.dump(self._sentinel.by_key[None], 1)
        self._clock.lap("save")
        return Totals(files, sentinel, self._clock.seconds)

    def _mask(self, ciphertext: Any, segments: Sequence[Segment], label: str) -> None:
        spans: dict[int, list[tuple[int, int]]] = {}
        for segment in segments:
            if segment.group != FILTERED:
                spans.setdefault(segment.group, []).append((segment.start, segment.stop))
        degree = self._evaluator.degree
        polynomials = [row_mask(degree, self._lanes, rows) for rows in spans.values()]
        self._clock.lap("evaluate")
        *masks, sentinel = self._evaluator.masks([*polynomials, sentinel_mask(degree, label)])
        self._clock.lap("mask")
        for group, mask in zip(spans, masks, strict=True):
            self._totals.add(group, self._evaluator.multiply(ciphertext, mask))
        self._sentinel.add(None, self._evaluator.multiply(ciphertext, sentinel))


def merge(evaluator: Evaluator, lanes: int, parts: Sequence[Totals]) -> Totals:
    """Add up what several workers found."""
    if len(parts) == 1:
        return parts[0]
    found: dict[int, list[bytes]] = {}
    seconds: dict[str, float] = {}
    for part in parts:
        for group, blob in part.groups.items():
            found.setdefault(group, []).append(blob)
        for stage, spent in part.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    groups = {group: _add_files(evaluator, blobs, lanes) for group, blobs in found.items()}
    return Totals(groups, _add_files(evaluator, [part.sentinel for part in parts], 1), seconds)


def _add_files(evaluator: Evaluator, blobs: list[bytes], coefficients: int) -> bytes:
    if len(blobs) == 1:
        return blobs[0]
    total = evaluator.load(blobs[0])
    for blob in blobs[1:]:
        total = evaluator.add(total, evaluator.load(blob))
    return evaluator.dump(total, coefficients)
