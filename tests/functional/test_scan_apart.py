"""Scans beside a client: a worker makes one after another, with the same masks' context and in the same memory."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from cleave.sums.scanned import sum_call
from cleave_services.links import Buffer
from cleave_services.sensitive import workers as sharing
from cleave_shared import children, limits, wire
from cleave_shared.children import Channel, Child, ChildLimits
from cleave_shared.requests import ScanResponse
from tests.functional.processes import have_ended
from tests.functional.test_apart import CREW, workers
from tests.functional.test_scan_services import numbers, rows, scan
from tests.functional.test_stored_services import Store, store
from tests.functional.test_workers import forks
from tests.store.scanning import Rows

__all__ = ["forks", "rows", "store"]  # fixtures


@pytest.fixture(autouse=True)
def apart_from_the_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sharing, "_crew", CREW)
    monkeypatch.setattr(sharing, "processors", lambda: 2)
    CREW.end()
    assert have_ended(*workers())  # the kernel may take its time over another test's workers
    yield
    CREW.end()


def asked(store: Store, rows: Rows, groups: int) -> httpx.Response:
    """Of sums that are right where there are any."""
    told = numbers(groups)
    (addends,) = rows.addends(told, groups)
    of = sum_call(addends)
    answer = scan(store, rows, of)
    if answer.status_code == 200:
        assert rows.read(of, wire.load(ScanResponse, answer.content, wire.FRAMES_TYPE).totals) == rows.truth(told)
    return answer


def test_a_worker_scans_request_after_request(store: Store, rows: Rows) -> None:
    assert asked(store, rows, 3).status_code == 200
    (worker,) = workers()
    for groups in (2, 5, 3):
        assert asked(store, rows, groups).status_code == 200
        assert workers() == {worker}


@pytest.mark.parametrize(("chunks", "forked"), [(1, 2), (2, 1)])
def test_a_scan_of_many_chunks_is_divided(
    store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch, forks: list[Child], chunks: int, forked: int
) -> None:
    """Between two processes, however few groups there are: of three chunks here."""
    monkeypatch.setattr(sharing, "_crew", None)
    monkeypatch.setattr(limits, "SCAN_CHUNKS_OF_A_PROCESS", chunks)
    assert asked(store, rows, 3).status_code == 200
    assert len(forks) == forked


def test_a_scan_of_few_chunks_is_not_however_many_groups_it_has(store: Store, rows: Rows, forks: list[Child]) -> None:
    assert asked(store, rows, 16).status_code == 200
    (worker,) = workers()
    assert asked(store, rows, 16).status_code == 200
    assert workers() == {worker}
    assert not forks


def test_a_scan_that_is_late_ends(store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(store, rows, 3).status_code == 200
    before = workers()
    assert before
    with monkeypatch.context() as patch:
        patch.setattr(limits, "SENSITIVE_SECONDS", 1e-3)
        answer = asked(store, rows, 3)
    assert answer.status_code == 422
    assert "stopped after" in answer.text
    assert asked(store, rows, 3).status_code == 200
    assert workers().isdisjoint(before)


def test_a_bad_ciphertext_is_refused_and_ends_the_worker(store: Store, rows: Rows) -> None:
    bad = Rows.__new__(Rows)
    bad.__dict__ |= vars(rows) | {"files": [[b"no ciphertext" for _ in lane] for lane in rows.files]}
    answer = asked(store, bad, 3)
    assert answer.status_code == 422
    assert "not a ciphertext" in answer.text
    assert have_ended(*workers())
    assert asked(store, rows, 3).status_code == 200


def test_a_buffer_holds_one_object_after_another() -> None:
    buffer = Buffer()
    first = buffer.reserve(10)
    first[:] = b"0123456789"
    assert bytes(buffer.reserve(4)) == b"0123"  # where the one before stood
    assert len(buffer.reserve(5 << 20)) == 5 << 20
    assert bytes(first) == b"0123456789"  # of a view that outlives its buffer


def test_a_forked_process_has_a_buffer_of_its_own() -> None:
    buffer = Buffer()
    ours = buffer.reserve(4)
    ours[:] = b"ours"

    def work(channel: Channel) -> None:
        into = buffer.reserve(4)
        into[:] = b"mine"
        channel.send([bytes(into)])

    with children.fork(work, ChildLimits()) as child:
        assert child.receive(120) == [b"mine"]
        assert bytes(ours) == b"ours"
