"""Every fault of tests/vectors/faults.toml, on real ciphertexts: the named check fails and no total is taken."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cleave.aggregates.columns import Exact, Real
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import encode
from cleave.ckks.job import LEAST_TO_ADD, Job, _Shared
from cleave.ckks.layout import noise
from cleave.ckks.packing import ChunkRange, Packing, plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave_services.sensitive.calls import sums
from cleave_shared import seal
from cleave_shared.chunks import joined, split
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.params import SUM60_PACK
from cleave_shared.requests import Lane, SumsRequest, SumsResponse
from cleave_shared.seal import SealEvaluator, ring

FAULTS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "faults.toml").read_text())["fault"]
# Two blocks: groups 0..3 are large, and there are more small ones than a chunk has positions for.
COUNTS = np.array([9000, 6000, 9000, 5000] + [1] * 4500)
LIMIT = 10**6


def summed(request: SumsRequest) -> SumsResponse:
    answer = sums(request, lambda **_: None, None, SealEvaluator(ring(SUM60_PACK.name)))
    assert isinstance(answer, SumsResponse)
    return answer


def chunks_of(request: SumsRequest) -> list[bytes]:
    return [chunk for each in request.objects if isinstance(each, bytes) for chunk in split(each)]


def totals_of(answer: SumsResponse) -> list[bytes]:
    return [total for (total,) in answer.totals]


@dataclass
class Case:
    packing: Packing
    job: Job
    part: ChunkRange
    key: SecretKey
    cipher: Cipher
    request: SumsRequest
    answer: SumsResponse

    def summed(self, chunks: list[bytes], blocks: list[int] | None = None) -> SumsResponse:
        """The answer of a service that adds up `chunks` in place of what it was sent."""
        blocks = blocks or [*self.blocks[:-1], len(chunks) - sum(self.blocks[:-1])]
        left = iter(chunks)
        lanes = [Lane(objects=[joined([next(left)]) for _ in range(block)], stop=1) for block in blocks]
        return self.with_totals(totals_of(summed(replace(self.request, lanes=lanes))))

    @property
    def chunks(self) -> list[bytes]:
        return chunks_of(self.request)

    @property
    def blocks(self) -> list[int]:
        return [len(lane.objects) for lane in self.request.lanes]

    @property
    def totals(self) -> list[bytes]:
        return totals_of(self.answer)

    def with_totals(self, totals: list[bytes]) -> SumsResponse:
        return replace(self.answer, totals=[[each] for each in totals])

    def offset(self, block: int, coefficients: dict[int, int]) -> SumsResponse:
        """What a service does that adds a polynomial of its own to a total: it needs no key for that."""
        polynomial = np.zeros((1, SUM60_PACK.degree), np.int64)
        for coefficient, amount in coefficients.items():
            polynomial[0, coefficient] = amount
        of = ring(SUM60_PACK.name)
        total = of.ciphertext(self.totals[block])
        of.evaluator.add_plain_inplace(total, of.plaintexts(list(polynomial))[0])
        totals = list(self.totals)
        totals[block] = seal.save(total)
        return self.with_totals(totals)

    def coefficient(self, group: int, lane: int = 0) -> tuple[int, int]:
        """Block and first coefficient of a group's total."""
        for number, block in enumerate(self.packing.placement.blocks):
            for place, each in enumerate(block.groups):
                if each == group:
                    return number, lane * self.packing.placement.capacity + int(block.first[place])
        raise AssertionError


def make_case(key: SecretKey, seed: int = 5) -> Case:
    """One that nothing was answered to yet."""
    made = _made(key, seed)
    return replace(made, job=made.job.unanswered())


@cache
def _made(key: SecretKey, seed: int) -> Case:
    random = np.random.default_rng(seed)
    rows = int(COUNTS.sum())
    packing = plan_packing([Exact(LIMIT), Real()], COUNTS, SUM60_PACK)
    values = [random.integers(0, LIMIT, (1, rows)).astype(np.uint64), random.normal(size=rows)]
    cipher = Cipher(key)
    job = Job(packing, encode(packing, values), cipher)
    (part,) = packing.ranges(1)
    request = job.request(part, key.key_id, list(job.encrypt(part)))
    case = Case(packing, job, part, key, cipher, request, summed(request))
    assert len(case.blocks) > 1
    assert max(case.blocks) > 1
    return case


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


def replaced(items: list[bytes], place: int, item: bytes) -> list[bytes]:
    return [*items[:place], item, *items[place + 1 :]]


def moved(case: Case, amount: int, *, lane: int) -> SumsResponse:
    """Takes from group 0 what it gives to group 1, so that all groups together stay right."""
    block, giver = case.coefficient(0, lane)
    same, taker = case.coefficient(1, lane)
    assert block == same
    return case.offset(block, {giver: -amount, taker: amount})


def turned(case: Case) -> SumsResponse:
    """Positions moved by one: everybody's total becomes a neighbour's (multiplication by X)."""
    of = ring(SUM60_PACK.name)
    x = np.zeros(SUM60_PACK.degree, np.int64)
    x[1] = 1
    total, product = of.ciphertext(case.totals[0]), seal.api.Ciphertext()
    of.evaluator.multiply_plain(total, of.plaintexts([x])[0], product)
    return case.with_totals(replaced(case.totals, 0, seal.save(product)))


def crept(case: Case) -> SumsResponse:
    """Each of a group's positions off by less than its noise, all to the same side."""
    block, first = case.coefficient(0, lane=1)
    chosen = case.packing.placement.blocks[block]
    count = int(chosen.positions[list(chosen.groups).index(0)])
    assert count > 4
    return case.offset(block, dict.fromkeys(range(first, first + count), int(0.5 * noise(chosen.chunks))))


Fault = Callable[[Case, SecretKey], SumsResponse]
ACTIONS: dict[str, Fault] = {
    "no fault": lambda c, _: c.answer,
    "two chunks of a block exchanged": lambda c, _: c.summed([*c.chunks[1::-1], *c.chunks[2:]]),
    "answer decrypted with another key": lambda c, _: c.answer,
    "chunk dropped": lambda c, _: c.summed(c.chunks[1:], [c.blocks[0] - 1, *c.blocks[1:]]),
    "chunk counted twice": lambda c, _: c.summed([*c.chunks, c.chunks[-1]]),
    "chunks of two blocks exchanged": lambda c, _: c.summed([c.chunks[-1], *c.chunks[1:-1], c.chunks[0]]),
    "chunk added to another block": lambda c, _: c.summed(c.chunks, [c.blocks[0] - 1, c.blocks[1] + 1, *c.blocks[2:]]),
    "chunk of another table": lambda c, _: c.summed(replaced(c.chunks, 1, make_case(c.key, 6).chunks[1])),
    "chunk under another key": lambda c, o: c.summed(replaced(c.chunks, 1, make_case(o).chunks[1])),
    "bits flipped in a chunk": lambda c, _: c.summed(replaced(c.chunks, 1, flipped(c.chunks[1]))),
    "chunk cut short": lambda c, _: c.summed(replaced(c.chunks, 1, c.chunks[1][:-50])),
    "one total doubled": lambda c, _: c.with_totals(replaced(c.totals, 0, doubled(c.totals[0]))),
    "totals of two blocks exchanged": lambda c, _: c.with_totals([c.totals[1], c.totals[0], *c.totals[2:]]),
    "totals of groups moved to their neighbours": lambda c, _: turned(c),
    "bits flipped in a total": lambda c, _: c.with_totals(replaced(c.totals, 0, flipped(c.totals[0]))),
    "total replaced by noise": lambda c, o: c.with_totals(replaced(c.totals, 0, make_case(o).totals[0])),
    "total cut short": lambda c, _: c.with_totals(replaced(c.totals, 0, c.totals[0][:-50])),
    "whole amount moved from one group to another": lambda c, _: moved(c, 10_000_00 << c.packing.layout.guard, lane=0),
    "part of a unit added to an exact total": lambda c, _: moved(c, 1 << (c.packing.layout.guard - 1), lane=0),
    "amount moved in a real column": lambda c, _: moved(c, 1 << 40, lane=1),
    "every position of a group moved within its noise": lambda c, _: crept(c),
    "exact total below zero": lambda c, _: c.offset(0, {c.coefficient(0)[1]: -(1 << 57)}),
    "amount added where no group lies": lambda c, _: c.offset(
        0, {c.packing.layout.lanes * c.packing.placement.capacity - 1: 1 << 40}
    ),
    "sentinel changed": lambda c, _: c.offset(0, {SUM60_PACK.degree - 1: 1 << 20}),
    "block missing": lambda c, _: c.with_totals(c.totals[1:]),
    "block answered twice": lambda c, _: c.with_totals([*c.totals, c.totals[0]]),
    "answer of another key id": lambda c, _: replace(c.answer, key_id="1" * 32),
    "answer to another request": lambda c, _: replace(c.answer, label="1" * 32),
    "answer of another profile": lambda c, _: replace(c.answer, profile="other"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_fault_of_ciphertexts_is_found_by_its_check(
    fault: dict[str, str], key: SecretKey, other_key: SecretKey
) -> None:
    case = make_case(key)
    if "decrypted with another key" in fault["name"]:
        case.job._cipher = Cipher(other_key)
    if fault["check"] == "service":
        with pytest.raises(WireError, match="not a ciphertext"):
            ACTIONS[fault["name"]](case, other_key)
        return
    answer = ACTIONS[fault["name"]](case, other_key)
    if fault["check"] == "passes":
        case.job.accept(case.part, case.request, answer)
        assert (total := case.job.totals.estimates(0)[0].value) > 0
        with pytest.raises(CheckFailed, match="accepted before"):
            case.job.accept(case.part, case.request, answer)
        assert case.job.totals.estimates(0)[0].value == total
        with pytest.raises(CheckFailed, match="not every chunk"):
            case.job.unanswered().totals.estimates(0)
        return
    with pytest.raises(CheckFailed) as caught:
        case.job.accept(case.part, case.request, answer)
    assert caught.value.check == fault["check"]
    assert not case.job._totals.estimates(0)[0].value  # not even part of the answer was taken
    with pytest.raises(CheckFailed, match="not every chunk"):
        case.job.totals.estimates(0)


def test_every_fault_is_carried_out() -> None:
    assert [fault["name"] for fault in FAULTS] == list(ACTIONS)


@pytest.mark.parametrize("backwards", [False, True])
def test_answers_about_parts_are_added_up_in_any_order(backwards: bool, key: SecretKey) -> None:
    """And none is taken twice. So many chunks are encrypted in the form that can only be added."""
    counts = np.array([120_000, 80_000, 1])
    packing = plan_packing([Exact(LIMIT)], counts, SUM60_PACK)
    assert packing.chunks >= LEAST_TO_ADD
    values = np.random.default_rng(7).integers(0, LIMIT, (1, counts.sum())).astype(np.uint64)
    job = Job(packing, encode(packing, [values]), Cipher(key))
    parts = packing.ranges(3)
    assert len(parts) > 2
    for part in parts[::-1] if backwards else parts:
        request = job.request(part, key.key_id, [*job.encrypt(part)])
        answer = summed(request)
        job.accept(part, request, answer)
        with pytest.raises(CheckFailed, match="accepted before"):
            job.accept(part, request, answer)
    ends = [0, *counts.cumsum()]
    expected = [int(values[0, start:end].sum()) for start, end in pairwise(ends)]
    assert [job.totals.estimates(group)[0].value for group in range(len(counts))] == expected


@pytest.mark.parametrize(("chunks", "ntt"), [(LEAST_TO_ADD - 1, True), (LEAST_TO_ADD, False)])
def test_a_worker_encrypts_what_the_job_would(chunks: int, ntt: bool, key: SecretKey) -> None:
    """In the same form. Only reading: workers have the plaintexts in common."""
    counts = np.array([8192 * chunks - 8000])
    packing = plan_packing([Exact(LIMIT)], counts, SUM60_PACK)
    assert packing.chunks == chunks
    values = np.random.default_rng(8).integers(0, LIMIT, (1, counts.sum())).astype(np.uint64)
    job = Job(packing, encode(packing, [values]), Cipher(key))
    (part,) = packing.ranges(1)
    with job.shared() as (memory, start, words):
        worker = start(memory, *words)
    assert isinstance(worker, _Shared)
    assert not worker._plaintexts.flags.writeable
    for encrypting in (job, worker):
        request = job.request(part, key.key_id, [*encrypting.encrypt(part)])
        assert (request.profile, request.key_id) == (SUM60_PACK.name, key.key_id)
        assert {ring(SUM60_PACK.name).ciphertext(each).is_ntt_form() for each in chunks_of(request)} == {ntt}
        asked = job.unanswered()
        asked.accept(part, request, summed(request))
        assert asked.totals.estimates(0)[0].value == values.sum()
