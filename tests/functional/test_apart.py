"""Embedded in the client the sensitive service has a crew, forked by a small process, and no worker holds the key."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from aws import many_chunks
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave_services.sensitive import workers as sharing
from cleave_shared import limits, requests
from cleave_shared.crew import Crew
from cleave_shared.errors import ServiceError
from tests.functional.processes import descendants, have_ended, server_of

CLIENT = os.getpid()
CREW = Crew(sharing._server.fork, 4)


@pytest.fixture(autouse=True)
def apart_from_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_crew", CREW)


@pytest.fixture(scope="module")
def request_of_many(key: SecretKey) -> Iterator[requests.SumsRequest]:
    request = many_chunks.request(key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_crew", CREW)  # here are threads: the server is an interpreter of its own
        embedded_services().sensitive(request)  # it is there from now on
        yield request


def test_no_worker_is_forked_from_the_client(key: SecretKey, request_of_many: requests.SumsRequest) -> None:
    lasting, mine, over = set(descendants(CLIENT)), set[int](), threading.Event()

    def watch() -> None:
        while not over.is_set():
            mine.update(pid for pid in descendants(CLIENT) if pid not in lasting and parent_of(pid) == CLIENT)

    watching = threading.Thread(target=watch)
    watching.start()
    for _ in range(3):
        answer = embedded_services().sensitive(request_of_many)
        assert many_chunks.total_of(key, answer) == many_chunks.TOTAL
    over.set()
    watching.join()
    assert not mine
    assert workers()


def test_a_worker_serves_request_after_request(key: SecretKey, request_of_many: requests.SumsRequest) -> None:
    embedded_services().sensitive(request_of_many)
    before = workers()
    assert many_chunks.total_of(key, embedded_services().sensitive(request_of_many)) == many_chunks.TOTAL
    assert workers() == before != set()


def test_an_idle_worker_that_died_is_not_used(key: SecretKey, request_of_many: requests.SumsRequest) -> None:
    embedded_services().sensitive(request_of_many)
    dead = workers()
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    assert have_ended(*dead)
    assert many_chunks.total_of(key, embedded_services().sensitive(request_of_many)) == many_chunks.TOTAL
    assert workers().isdisjoint(dead)


def test_a_worker_that_is_late_ends(
    key: SecretKey, request_of_many: requests.SumsRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(limits, "SENSITIVE_SECONDS", 1e-4)
        with pytest.raises(ServiceError, match="answered 422: stopped after"):
            embedded_services().sensitive(request_of_many)
    assert many_chunks.total_of(key, embedded_services().sensitive(request_of_many)) == many_chunks.TOTAL


def workers() -> set[int]:
    """Living workers of the sensitive service's own fork server. Other tests leave other servers behind."""
    server = server_of(sharing._server)
    return set(descendants(server)) if server else set()


def parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return int(file.read().rpartition(") ")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("place", [0, 27, many_chunks.CHUNKS - 1])
def test_a_bad_chunk_is_refused_as_ever(request_of_many: requests.SumsRequest, place: int) -> None:
    with pytest.raises(ServiceError, match="answered 422: not a ciphertext") as refused:
        embedded_services().sensitive(many_chunks.damaged(request_of_many, place))
    assert refused.value.status == 422


def test_a_request_that_is_killed_is_one_error(key: SecretKey, request_of_many: requests.SumsRequest) -> None:
    over, seen = threading.Event(), list[int]()

    def kill() -> None:
        while not over.is_set():
            for pid in workers():
                seen.append(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    for _ in range(10):
        hunting = threading.Thread(target=kill)
        hunting.start()
        try:
            embedded_services().sensitive(request_of_many)
        except ServiceError as error:
            assert error.status == 500  # noqa: PT017 - it may have been over before it was found
            break
        finally:
            over.set()
            hunting.join()
            over.clear()
    else:
        pytest.fail("no request was found at work")
    assert have_ended(*seen)
    assert many_chunks.total_of(key, embedded_services().sensitive(request_of_many)) == many_chunks.TOTAL
