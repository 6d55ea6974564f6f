"""Estimates: counts times timings, which are this machine's where it was calibrated."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cleave.bench import calibrate
from cleave.describe import Description
from cleave.local.embedded import embedded_services
from cleave.model import cache, timings
from cleave.model.cost import PROGRAM_BYTES, Prices, Work
from cleave.model.operations import Operation
from cleave.model.timings import SHIPPED, Timings
from cleave.session import Access, Session
from cleave.table.lazy import of_files
from cleave.table.schema import load_schema
from cleave_shared.errors import InputError
from tests.conftest import no_passphrase
from tests.store.trial import SAMPLE

FILES = Prices(bucket=False, elsewhere=False, timings=SHIPPED)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_every_operation_has_a_shipped_timing() -> None:
    assert {*SHIPPED.seconds} == {*Operation}
    assert all(0 < each < 1 for each in SHIPPED.seconds.values())


def test_what_is_kept_is_estimated_with(own_cache: Path) -> None:
    assert cache.current() is SHIPPED
    mine = Timings(dict.fromkeys(Operation, 0.5), "calibrated")
    place = cache.save(mine)
    assert own_cache in place.parents
    assert place.stat().st_mode & 0o777 == 0o600
    assert cache.current() == mine
    cache.save(Timings({**mine.seconds, Operation.ADD: 0.25}, "again"))
    assert cache.current().seconds[Operation.ADD] == 0.25


@pytest.mark.parametrize("about", ["processor", "version", "cores"])
def test_another_machine_or_version_has_none(own_cache: Path, monkeypatch: pytest.MonkeyPatch, about: str) -> None:
    cache.save(SHIPPED)
    assert cache.load() is not None
    if about == "processor":
        monkeypatch.setattr(cache, "_processor", lambda: "another")
    elif about == "version":
        monkeypatch.setattr(cache, "version", lambda _: "0.0.0")
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(77)))
    assert cache.load() is None
    assert list(own_cache.rglob("timings-*.json"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"source": "x", "seconds": []}',
        b'{"source": "x", "seconds": {"no such operation": 1}}',
        b'{"source": "x", "seconds": {"add": "soon"}}',
        b'{"source": "x", "seconds": {"add": null}}',
        b'{"source": "x", "seconds": {"add": -1}}',
        b'{"source": "x", "seconds": {"add": NaN}}',
        b'{"source": "x", "seconds": {"add": Infinity}}',
        b'{"source": "x", "seconds": {"add": 1e9}}',
        json.dumps({"source": "x" * 1000, "seconds": {"add": 1}}).encode(),
    ],
)
def test_a_file_that_makes_no_sense_is_not_used(own_cache: Path, content: bytes) -> None:
    place = cache.save(SHIPPED)
    place.write_bytes(content)
    assert cache.current() is SHIPPED


def test_a_part_that_is_kept_goes_before_what_is_shipped(own_cache: Path) -> None:
    place = cache.save(SHIPPED)
    place.write_text('{"source": "x", "seconds": {"add": 0.75}}')
    assert cache.current().seconds == {**SHIPPED.seconds, Operation.ADD: 0.75}


def test_a_cache_that_cannot_be_written_is_told(own_cache: Path) -> None:
    (own_cache / "cleave").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        cache.save(SHIPPED)


def test_a_folder_that_is_not_absolute_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the XDG specification has it."""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.place().is_relative_to(Path.home() / ".cache")


def test_shared_work_is_divided_by_the_cores() -> None:
    counts = {Operation.ENCRYPT: 10.0, Operation.ENCRYPT_ALONE: 10.0}
    one, four = (SHIPPED.of(counts, cores) for cores in (1, 4))
    assert one == pytest.approx(20 * SHIPPED.seconds[Operation.ENCRYPT])
    assert four == pytest.approx(12.5 * SHIPPED.seconds[Operation.ENCRYPT])


def test_work_is_added_up_and_memory_begins_with_the_program() -> None:
    work = Work({Operation.READ: 2.0}, (5,), sent=3, memory=7) + Work({Operation.READ: 1.0}, (6,), sent=4, memory=8)
    assert (dict(work.here), work.reads, work.sent, work.memory) == ({Operation.READ: 3.0}, (5, 6), 7, 15)
    assert FILES.of(work).memory == PROGRAM_BYTES + 15


def test_what_is_sent_takes_the_networks_time() -> None:
    far = Prices(bucket=False, elsewhere=True, timings=SHIPPED)
    near, more = (far.of(Work(calls=1, sent=each)).seconds for each in (0, 125_000_000))
    assert more - near == pytest.approx(10.0)


def described(sql: str, key_file: Path) -> Description:
    lazy = of_files([SAMPLE / "patients.csv"], load_schema(SAMPLE / "patients.schema.toml"), "patients")
    with Session(lazy, Access(key_file, no_passphrase), embedded_services) as session:
        return session.describe(session.plan(sql))


def test_plans_over_files_tell_what_they_take(key_file: Path, own_cache: Path) -> None:
    sql = "SELECT ward, COUNT(*), AVG(age), SUM(bill) FROM patients GROUP BY ward"
    takes, alone = described(sql, key_file).takes, described("SELECT MEDIAN(bill) FROM patients", key_file).takes
    assert takes is not None
    assert alone is not None
    assert 0 < alone.seconds < takes.seconds < 1
    assert alone.dollars == 0 < takes.dollars
    assert alone.memory >= PROGRAM_BYTES
    assert takes.timings == SHIPPED.source
    cache.save(Timings({**SHIPPED.seconds, Operation.ASK: 50.0}, "calibrated on this machine"))
    slower = described(sql, key_file).takes
    assert slower is not None
    assert slower.seconds == pytest.approx(takes.seconds + 50.0 - SHIPPED.seconds[Operation.ASK])
    assert slower.timings == "calibrated on this machine"


def test_calibrating_measures_what_questions_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "ROWS", 20_000)
    monkeypatch.setattr(calibrate, "_REPEATS", 1)
    said: list[str] = []
    found = calibrate.calibrate(embedded_services, said.append)
    assert {*found.seconds} == {*Operation}
    assert all(0 < each < 10 for each in found.seconds.values())
    assert found.source.startswith("calibrated on this machine, 2")
    assert said[:2] == ["single operations on ciphertexts", "questions over 20,000 rows"]
    assert timings.SHIPPED.source.startswith("shipped")


def test_what_noise_hides_is_not_calibrated_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question over many rows that took no longer than one over few: no operation is free, and it is told."""
    stages = dict.fromkeys(("plain", "split", "encode", "ask"), 0.01)
    taken = iter([0.1, 0.3] * 100)
    monkeypatch.setattr(calibrate, "ROWS", 1_000)
    monkeypatch.setattr(calibrate, "_REPEATS", 2)
    monkeypatch.setattr(calibrate, "_asked", lambda *_: calibrate._Took(0.02, stages, next(taken), 4))
    said: list[str] = []
    found = calibrate.calibrate(embedded_services, said.append)
    assert all(each > 0 for each in found.seconds.values())
    paces = [found.seconds[each] / SHIPPED.seconds[each] for each in (Operation.READ, Operation.GROUP, Operation.FETCH)]
    assert paces == pytest.approx([paces[-1]] * 3)  # as what is never measured
    assert any("3.0 times as long" in line for line in said)
    assert any(line.startswith("hidden by noise") and "read, split" in line for line in said)
