"""A query's deadline bounds the wait for its own encrypting processes, as it bounds every other."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ckks import encryptors as encryptors_module
from cleave.ckks.encryptors import MIN_CHUNKS_TO_FORK, Encryptors
from cleave.ckks.job import Job
from cleave.ckks.key_file import create_key
from cleave.deadline import Deadline, OutOfTime
from cleave.local.embedded import embedded_services
from cleave.table.lazy import of_files
from tests.answering import table_of
from tests.functional.encrypting import Work, never, one_chunk, three_chunks
from tests.functional.processes import HANGS, descendants, have_ended, met, server_of
from tests.samples import write_table


def test_a_part_that_is_not_done_in_time_is_waited_for_no_longer() -> None:
    job: Any = Work(never)
    parts: Any = [SimpleNamespace(start=0, stop=MIN_CHUNKS_TO_FORK)] * 2
    with Encryptors(job, parts) as encryptors, pytest.raises(OutOfTime):
        encryptors.each(never, 4, threading.Event(), Deadline(0.2))


def test_a_process_that_cannot_be_given_its_work_ends() -> None:
    parts: Any = [SimpleNamespace(start=0, stop=MIN_CHUNKS_TO_FORK)]
    job: Any = Work(lambda: None)  # cannot be pickled
    before = {*descendants(server_of(encryptors_module._server))}
    with pytest.raises((AttributeError, pickle.PicklingError)), Encryptors(job, parts):
        pass
    assert have_ended(*({*descendants(server_of(encryptors_module._server))} - before))


def test_a_query_ends_with_its_time_while_it_encrypts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_table(tmp_path / "t.csv", "x\n" + "1.5\n2.5\n" * 60_000, x="encrypted DOUBLE")
    key = tmp_path / "key.json"
    create_key(key, None)
    monkeypatch.setattr(Job, "shared", lambda _: Work(never).shared())
    with Session(FileSource(of_files([table]), Access(key), embedded_services)) as session:
        plan = session.plan("SELECT SUM(x) FROM t")
        table_of(session)
        with pytest.raises(OutOfTime, match=r"within the 0\.5 seconds"):
            session.ask(plan, seconds=0.5)


def test_processes_end_while_the_last_parts_are_asked_about() -> None:
    parts: Any = [SimpleNamespace(start=0, stop=MIN_CHUNKS_TO_FORK)] * 2
    job: Any = Work(one_chunk)
    ended = threading.Event()

    def ask(*_: object) -> None:
        assert ended.wait(HANGS)

    encryptors_module._server.start()
    server = server_of(encryptors_module._server)
    before = {*descendants(server)}  # of other tests: the sums' processes, and what waits to be one
    with Encryptors(job, parts) as encryptors:
        assert met(lambda: len({*descendants(server)} - before) >= 2)
        children = {*descendants(server)} - before

        def watch() -> None:
            if have_ended(*children):
                ended.set()

        threading.Thread(target=watch, daemon=True).start()
        encryptors.each(ask, 4, threading.Event(), Deadline(HANGS))
    assert ended.is_set()


def test_chunks_stay_as_they_are_until_they_are_asked_about() -> None:
    parts: Any = [SimpleNamespace(start=MIN_CHUNKS_TO_FORK * n, stop=MIN_CHUNKS_TO_FORK * (n + 1)) for n in range(9)]
    job: Any = Work(three_chunks)
    begun, right = threading.Semaphore(0), []

    def ask(part: Any, chunks: Sequence[bytes | memoryview]) -> None:
        begun.release()
        if part.start == 0:  # while all others are encrypted and asked about
            for _ in parts:
                assert begun.acquire(timeout=HANGS)
        right.append([*chunks] == [*job.encrypt(part)])

    with Encryptors(job, parts) as encryptors:
        encryptors.each(ask, 4, threading.Event(), Deadline(HANGS))
    assert right == [True] * len(parts)
