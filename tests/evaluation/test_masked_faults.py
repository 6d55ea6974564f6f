"""Faults of the simple call's group_by, where the service is told the groups and could get them wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from cleave.aggregates.columns import Exact, Real
from cleave.ckks.cipher import Cipher
from cleave.ckks.masked import MaskedJob
from cleave.ckks.secret_key import SecretKey
from cleave_services.sensitive.masked import SENTINEL, GroupTotals, MaskedChunk
from cleave_shared.errors import CheckFailed
from cleave_shared.moments import FILTERED, Segment, rows_per_chunk, segments
from cleave_shared.seal import SealEvaluator
from tests.evaluation.test_faults import doubled, flipped

RUNS = [(0, 9000), (1, 100), (2, 6000), (3, 1000)]


@dataclass
class Case:
    job: MaskedJob
    values: np.ndarray
    cipher: Cipher
    chunks: list[MaskedChunk]

    def totals(self, chunks: list[MaskedChunk] | None = None) -> dict[int, bytes]:
        return GroupTotals(SealEvaluator(self.cipher.ring), self.job.lanes).evaluate(chunks or self.chunks).files

    def with_total(self, group: int, change: Callable[[bytes], bytes]) -> dict[int, bytes]:
        totals = self.totals()
        return totals | {group: change(totals[group])}

    def accept(self, totals: dict[int, bytes]) -> dict:
        named = {group: blob for group, blob in sorted(totals.items()) if group != SENTINEL}
        return self.job.accept(named, totals[SENTINEL])


@pytest.fixture(scope="module")
def case(key: SecretKey) -> Case:
    random = np.random.default_rng(5)
    rows = sum(count for _, count in RUNS)
    values = random.integers(0, 10**6, (1, rows)).astype(np.uint64)
    cipher = Cipher(key)
    job = MaskedJob([Exact(10**6), Real()], [values, random.normal(size=rows)], RUNS, cipher)
    cut = segments(RUNS, rows_per_chunk(8192, job.lanes))
    chunks = [MaskedChunk(i, c, blob) for i, (c, blob) in enumerate(zip(cut, job.encrypt(), strict=True))]
    return Case(job, values[0], cipher, chunks)


def skipped(case: Case) -> dict[int, bytes]:
    chunks = list(case.chunks)
    place = next(i for i, chunk in enumerate(chunks) if any(s.group == 2 for s in chunk.segments))
    left_out = [Segment(FILTERED if s.group == 2 else s.group, s.start, s.stop) for s in chunks[place].segments]
    chunks[place] = MaskedChunk(place, left_out, chunks[place].blob)
    return case.totals([chunk for chunk in chunks if any(s.group != FILTERED for s in chunk.segments)] or chunks)


def exchanged(case: Case) -> dict[int, bytes]:
    totals = case.totals()
    return totals | {0: totals[2], 2: totals[0]}


def swapped(case: Case) -> dict[int, bytes]:
    a, *middle, b = case.chunks
    return case.totals([MaskedChunk(a.index, a.segments, b.blob), *middle, MaskedChunk(b.index, b.segments, a.blob)])


FAULTS: dict[str, tuple[str, Callable[[Case], dict[int, bytes]]]] = {
    "chunk dropped": ("sentinel", lambda c: c.totals(c.chunks[1:])),
    "chunk counted twice": ("sentinel", lambda c: c.totals([*c.chunks, c.chunks[1]])),
    "two chunks exchanged": ("sentinel", swapped),
    "one group skips a chunk": ("total", skipped),
    "totals of two groups exchanged": ("total", exchanged),
    "one total doubled": ("total", lambda c: c.with_total(0, doubled)),
    "bits flipped in a total": ("range", lambda c: c.with_total(1, flipped)),
    "bits flipped in the sentinel": ("sentinel", lambda c: c.with_total(SENTINEL, flipped)),
    "total cut short": ("envelope", lambda c: c.with_total(1, lambda blob: blob[:-50])),
    "group missing": ("envelope", lambda c: {g: b for g, b in c.totals().items() if g != 0}),
    "group never asked for": ("envelope", lambda c: c.totals() | {9: c.totals()[0]}),
}


def test_no_fault(case: Case) -> None:
    found, start = case.accept(case.totals()), 0
    for group, rows in RUNS:
        assert found[group][0].value == int(case.values[start : start + rows].sum())
        start += rows


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(case: Case, fault: str) -> None:
    check, make = FAULTS[fault]
    with pytest.raises(CheckFailed) as caught:
        case.accept(make(case))
    assert caught.value.check in ({check} if check != "range" else {"range", "residual"})
