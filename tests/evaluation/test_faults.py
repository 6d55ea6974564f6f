"""Every fault of tests/vectors/faults.toml, on real ciphertexts: the named check fails and no total is taken."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cleave.aggregates import AGGREGATES
from cleave.aggregates.columns import Domain, Values
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.job import Arrangement, Job, Slice
from cleave.ckks.secret_key import SecretKey
from cleave_services.sensitive.app import moments
from cleave_services.sensitive.evaluate import Chunk, evaluate
from cleave_shared import seal
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import FILTERED, Segment, rows_per_chunk, segments
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring
from cleave_shared.wire import GroupTotals, MomentsRequest, MomentsResponse

FAULTS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "faults.toml").read_text())["fault"]
RUNS = [(0, 9000), (1, 100), (2, 10_000), (3, 1000)]


@dataclass
class Case:
    job: Job
    part: Slice
    key: SecretKey
    cipher: Cipher
    request: MomentsRequest
    answer: MomentsResponse

    @property
    def chunks(self) -> list[Chunk]:
        cut = segments(self.request.runs, rows_per_chunk(8192, self.request.lanes))
        return [Chunk(i, c, blob) for i, (c, blob) in enumerate(zip(cut, self.request.chunks, strict=True))]

    def summed(self, chunks: list[Chunk]) -> MomentsResponse:
        """The answer of a service that evaluates `chunks` in place of what it was sent."""
        totals = evaluate(SealEvaluator(ring(SUM60_PACK.name)), self.request.lanes, chunks)
        groups = [each.model_copy(update={"totals": totals.groups[each.group]}) for each in self.answer.groups]
        return self.answer.model_copy(update={"groups": groups, "sentinel": totals.sentinel})

    def with_total(self, place: int, blob: bytes) -> MomentsResponse:
        groups = list(self.answer.groups)
        groups[place] = groups[place].model_copy(update={"totals": blob})
        return self.answer.model_copy(update={"groups": groups})


def make_case(key: SecretKey, seed: int = 5) -> Case:
    rows = sum(n for _, n in RUNS)
    values = np.random.default_rng(seed).integers(0, 10**6, rows)
    columns = Columns([Domain(0, 0, 10**6, nullable=False)], [Asked(AGGREGATES["SUM"], (0,))])
    job = Job(SUM60_PACK, columns, ["x"], [Values(values, None)], Arrangement(np.arange(rows), RUNS, np.arange(4)))
    cipher = Cipher(key)
    (part,) = job.slices(1)
    request = job.request(part, key.key_id, "0" * 32, job.encrypt(cipher, part))
    return Case(job, part, key, cipher, request, moments(request, SealEvaluator(ring(SUM60_PACK.name))))


def flipped(blob: bytes) -> bytes:
    """The same ciphertext with bits flipped below the modulus, so that SEAL loads it.

    A bit of a result meets one coefficient of the secret key, and a third of those are 0: one in each of many
    coefficients is sure to count.
    """
    of = ring(SUM60_PACK.name)
    ciphertext = of.ciphertext(blob)
    polynomials = of._polynomials(ciphertext).copy()
    polynomials[1, :32] ^= np.uint64(1) << np.arange(20, 52, dtype=np.uint64)
    return of._ciphertext_file(polynomials, ntt_form=ciphertext.is_ntt_form())


def doubled(blob: bytes) -> bytes:
    of = ring(SUM60_PACK.name)
    ciphertext = of.ciphertext(blob)
    of.evaluator.add_inplace(ciphertext, of.ciphertext(blob))
    return seal.save(ciphertext)


def with_chunk(case: Case, place: int, blob: bytes) -> list[Chunk]:
    chunks = case.chunks
    chunks[place] = Chunk(place, chunks[place].segments, blob)
    return chunks


def exchanged(case: Case) -> list[Chunk]:
    a, b, c = case.chunks
    return [Chunk(0, a.segments, c.blob), b, Chunk(2, c.segments, a.blob)]


def skipped(case: Case) -> list[Chunk]:
    chunks = case.chunks
    left_out = [Segment(FILTERED if s.group == 2 else s.group, s.start, s.stop) for s in chunks[1].segments]
    chunks[1] = Chunk(1, left_out, chunks[1].blob)
    return chunks


Fault = Callable[[Case, SecretKey], MomentsResponse]
ACTIONS: dict[str, Fault] = {
    "no fault": lambda c, _: c.answer,
    "answer decrypted with another key": lambda c, _: c.answer,
    "chunk dropped": lambda c, _: c.summed(c.chunks[1:]),
    "chunk counted twice": lambda c, _: c.summed([*c.chunks, c.chunks[1]]),
    "two chunks exchanged": lambda c, _: c.summed(exchanged(c)),
    "chunk of another table": lambda c, _: c.summed(with_chunk(c, 1, make_case(c.key, 6).request.chunks[1])),
    "chunk under another key": lambda c, o: c.summed(with_chunk(c, 1, make_case(o).request.chunks[1])),
    "bits flipped in a chunk": lambda c, _: c.summed(with_chunk(c, 1, flipped(c.request.chunks[1]))),
    "chunk cut short": lambda c, _: c.summed(with_chunk(c, 1, c.request.chunks[1][:-50])),
    "one group skips a chunk": lambda c, _: c.summed(skipped(c)),
    "one total doubled": lambda c, _: c.with_total(1, doubled(c.answer.groups[1].totals)),
    "bits flipped in a total": lambda c, _: c.with_total(1, flipped(c.answer.groups[1].totals)),
    "bits flipped in the sentinel": lambda c, _: c.answer.model_copy(update={"sentinel": flipped(c.answer.sentinel)}),
    "total replaced by noise": lambda c, o: c.with_total(1, make_case(o).answer.groups[1].totals),
    "total cut short": lambda c, _: c.with_total(1, c.answer.groups[1].totals[:-50]),
    "group missing": lambda c, _: c.answer.model_copy(update={"groups": c.answer.groups[1:]}),
    "group answered twice": lambda c, _: c.answer.model_copy(update={"groups": [*c.answer.groups, c.answer.groups[0]]}),
    "group never asked for": lambda c, _: c.answer.model_copy(
        update={"groups": [*c.answer.groups[1:], c.answer.groups[0].model_copy(update={"group": 9})]}
    ),
    "group of another size": lambda c, _: c.answer.model_copy(
        update={"groups": [*c.answer.groups[1:], c.answer.groups[0].model_copy(update={"rows": 8999})]}
    ),
    "answer of another key id": lambda c, _: c.answer.model_copy(update={"key_id": "1" * 32}),
    "answer of another schema": lambda c, _: c.answer.model_copy(update={"schema_hash": "1" * 32}),
    "answer of another chunk range": lambda c, _: c.answer.model_copy(update={"chunk_range": (1, 4)}),
    "answer of another profile": lambda c, _: c.answer.model_copy(update={"profile": "other"}),
    "totals of two groups exchanged": lambda c, _: c.answer.model_copy(
        update={
            "groups": [
                GroupTotals(group=a.group, rows=a.rows, totals=b.totals)
                for a, b in zip(c.answer.groups, [c.answer.groups[i] for i in (2, 1, 0, 3)], strict=True)
            ]
        }
    ),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_fault(fault: dict[str, str], key: SecretKey, other_key: SecretKey) -> None:
    case = make_case(key)
    cipher = Cipher(other_key) if "decrypted with another key" in fault["name"] else case.cipher
    if fault["check"] == "service":
        with pytest.raises(WireError, match="not a ciphertext"):
            ACTIONS[fault["name"]](case, other_key)
        return
    answer = ACTIONS[fault["name"]](case, other_key)
    if fault["check"] in ("passes", "none"):
        case.job.accept(cipher, case.part, case.request, answer)
        return
    with pytest.raises(CheckFailed) as caught:
        case.job.accept(cipher, case.part, case.request, answer)
    assert caught.value.check == fault["check"]
    assert not case.job._integers  # not even part of the answer was taken


def test_every_fault_is_carried_out() -> None:
    assert [fault["name"] for fault in FAULTS] == list(ACTIONS)
