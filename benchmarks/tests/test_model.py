"""Estimates: counts times timings, which are this machine's where it was calibrated."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from benchmarks.lab import asked, calibrate
from benchmarks.lab.model import timings
from benchmarks.lab.model.cost import PROGRAM_BYTES, Prices, Work
from benchmarks.lab.model.fit import Sample, fitted
from benchmarks.lab.model.operations import Operation
from benchmarks.lab.model.timings import SHIPPED, Timings
from cleave.local.embedded import embedded_services

FILES = Prices(bucket=False, elsewhere=False, timings=SHIPPED)


def test_every_operation_has_a_shipped_timing() -> None:
    assert {*SHIPPED.seconds} == {*Operation}
    assert all(0 < each < 1 for each in SHIPPED.seconds.values())


def test_shared_work_is_divided_by_the_cores() -> None:
    counts = {Operation.ENCRYPT: 10.0, Operation.ENCRYPT_ALONE: 10.0}
    shared, alone = (10 * SHIPPED.seconds[each] for each in counts)
    assert [SHIPPED.of(counts, cores) for cores in (1, 4)] == pytest.approx([shared + alone, shared / 4 + alone])


def test_work_is_added_up_and_memory_begins_with_the_program() -> None:
    work = Work({Operation.READ: 2.0}, (5,), sent=3, memory=7) + Work({Operation.READ: 1.0}, (6,), sent=4, memory=8)
    assert (dict(work.here), work.reads, work.sent, work.memory) == ({Operation.READ: 3.0}, (5, 6), 7, 15)
    assert FILES.of(work).memory == PROGRAM_BYTES + 15


def test_what_is_sent_takes_the_networks_time() -> None:
    far = Prices(bucket=False, elsewhere=True, timings=SHIPPED)
    near, more = (far.of(Work(calls=1, sent=each)).seconds for each in (0, 125_000_000))
    assert more - near == pytest.approx(10.0)


def test_calibrating_asks_questions_by_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "FILES", asked.FILES[:1])
    monkeypatch.setattr(asked, "STORES", [((3_000, 3_000), "g", asked.STORES[0][2])])
    monkeypatch.setattr(asked, "REPEATS", 1)
    samples: list[Sample] = []

    def kept(found: Sequence[Sample], guess: Timings, source: str, known: Collection[Operation]) -> Timings:
        samples.extend(found)
        return fitted(found, guess, source, known)

    monkeypatch.setattr(calibrate, "fitted", kept)
    said: list[str] = []
    found = calibrate.calibrate(embedded_services, said.append)
    assert {*found.seconds} == {*Operation}
    assert all(0 < each < 10 for each in found.seconds.values())
    assert found.source.startswith("calibrated on this machine, 2")
    assert said[:3] == ["single operations on ciphertexts", "questions over files", "questions over stored tables"]
    asked_for = {each for sample in samples for each, count in sample.work.counts.items() if count}
    assert asked_for >= {Operation.PLAIN, Operation.LOCAL, Operation.TOTALS, Operation.FETCH, Operation.SELECT}
    assert timings.SHIPPED.source.startswith("shipped")


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    once = asked.Asked(Sample(Work({Operation.QUESTION: 1.0}), 0.1), 3.0)
    for name in ("of_files", "of_stores"):
        monkeypatch.setattr(calibrate, name, lambda *_: iter([once]))
    monkeypatch.setattr(calibrate, "_primitives", lambda: {Operation.ADD: 1e-3})
    said: list[str] = []
    found = calibrate.calibrate(embedded_services, said.append)
    assert any("3.0 times as long" in line for line in said)
    assert found.seconds[Operation.QUESTION] == pytest.approx(0.1, rel=0.05)
    # twice as slow at what was timed, so at what no question asked for
    assert found.seconds[Operation.FETCH] / SHIPPED.seconds[Operation.FETCH] == pytest.approx(
        1e-3 / SHIPPED.seconds[Operation.ADD]
    )


# --- timings from what questions took --------------------------------------------------------------------------------


def works() -> list[Work]:
    """Some of few things and some of many, of all that questions over files are made of."""
    random, found = np.random.default_rng(3), []
    for _ in range(60):
        rows = float(10 ** random.uniform(1, 6.5))
        chunks = rows / 8176
        here = {Operation.QUESTION: 1.0, Operation.READ: rows * random.integers(1, 8), Operation.ENCRYPT: chunks}
        plain = {Operation.PLAIN: 1.0, Operation.PLAIN_VALUE: rows} if random.random() < 0.5 else {}
        found.append(Work(here, there={Operation.ADD: chunks} | plain, calls=1))
    return found


def took(of: Timings) -> list[Sample]:
    return [Sample(work, Prices(bucket=False, elsewhere=False, timings=of).of(work).seconds) for work in works()]


def test_timings_are_those_that_questions_took() -> None:
    """ENCRYPT and ADD go together in all of them: only their sum can be told, and the known one is left as it is."""
    guess = Timings({**SHIPPED.seconds, Operation.PLAIN_VALUE: 1e-7}, "")
    true = {
        Operation.QUESTION: 4 * SHIPPED.seconds[Operation.QUESTION],
        Operation.READ: 3 * SHIPPED.seconds[Operation.READ],
        Operation.ENCRYPT: 3 * SHIPPED.seconds[Operation.ENCRYPT],
        Operation.ADD: SHIPPED.seconds[Operation.ADD],
        Operation.PLAIN: 5 * SHIPPED.seconds[Operation.PLAIN],
        Operation.PLAIN_VALUE: 2e-7,
    }
    found = fitted(took(Timings({**SHIPPED.seconds, **true}, "")), guess, "fitted", {Operation.ADD})
    assert found.source == "fitted"
    for each, seconds in true.items():
        assert found.seconds[each] == pytest.approx(seconds, rel=0.3), each
    assert found.seconds[Operation.ADD] == pytest.approx(true[Operation.ADD], rel=0.02)
    others = {*Operation} - {*true}
    assert all(found.seconds[each] == pytest.approx(SHIPPED.seconds[each]) for each in others)


def test_noise_makes_no_operation_free() -> None:
    noise = np.random.default_rng(4)
    samples = [Sample(each.work, each.seconds * float(noise.lognormal(0, 0.1))) for each in took(SHIPPED)]
    found = fitted(samples, SHIPPED, "")
    assert all(0.2 < found.seconds[each] / SHIPPED.seconds[each] < 5 for each in Operation)


def test_what_services_do_beside_each_other_takes_its_time() -> None:
    """All cores are at work as it is."""
    sums = Work({Operation.ENCRYPT: 100.0}, there={Operation.ADD: 100.0}, calls=1)
    plain = Work({Operation.PLAIN_ROW: 1e6}, there={Operation.PLAIN: 1.0, Operation.PLAIN_VALUE: 1e6}, calls=1)
    both, one, other = (FILES.of(each).seconds for each in (sums + plain, sums, plain))
    assert both == pytest.approx(one + other)
