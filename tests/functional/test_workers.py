"""Several processes in the sensitive service, really forked: bad chunks, dying workers, late ones; then as before."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from aws import many_chunks
from aws.events import MOMENTS
from cleave.ckks.secret_key import SecretKey
from cleave_services.sensitive import workers
from cleave_services.sensitive.app import app
from cleave_shared import children, limits, requests, wire
from cleave_shared.children import Child
from cleave_shared.errors import ServiceError, WireError
from tests.functional import worker_faults
from tests.functional.gateway import call
from tests.functional.processes import are_reaped, descendants
from tests.functional.worker_faults import Service, Work
from tests.sharing import spread

CHUNKS = many_chunks.CHUNKS


@pytest.fixture(scope="module")
def request_of_many(key: SecretKey) -> requests.SumsRequest:
    return many_chunks.request(key)


@pytest.fixture(autouse=True)
def as_in_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked here, whoever embedded the service in this process before."""
    monkeypatch.setattr(workers, "_crew", None)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """Every child forked in this process from now on."""
    made: list[Child] = []
    fork = children.fork

    def counting(*args, **kwargs) -> Child:
        made.append(fork(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(children, "fork", counting)
    return made


def pids(forked: list[Child]) -> list[int]:
    return [child.pid for child in forked]


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


@EVERY
@pytest.mark.parametrize("count", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 4))])
def test_a_bad_chunk_is_one_refusal_wherever_it_stands(
    key: SecretKey,
    request_of_many: requests.SumsRequest,
    forks: list[Child],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    every: bool,
) -> None:
    """At the first and last place of every worker's share, be there `count` of them, or `every` number."""
    monkeypatch.setattr(workers, "processors", lambda: count)
    monkeypatch.setattr(workers, "MIN_WORK", CHUNKS // 4)
    share = CHUNKS // (4 if every else count)
    for place in (each for start in range(0, CHUNKS, share) for each in (start, start + share - 1)):
        forks.clear()
        refused = post(many_chunks.damaged(request_of_many, place))
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("not a ciphertext")
        assert len(forks) == count
        assert are_reaped(*pids(forks))
    answer = wire.load(requests.SumsResponse, post(request_of_many).content, wire.FRAMES_TYPE)
    assert many_chunks.total_of(key, answer) == many_chunks.TOTAL


def post(request: requests.SumsRequest) -> httpx.Response:
    return call(app, "POST", MOMENTS, content=wire.dump_frames(request), headers={"content-type": wire.FRAMES_TYPE})


# --- whatever carries the requests; tests/aws has Lambda's emulator and containers ------------------------------------


@pytest.fixture(scope="module")
def works(key: SecretKey) -> dict[int, Work]:
    """By the number of workers."""
    sums = worker_faults.sums(key)
    return {1: sums, 2: sums}


@contextlib.contextmanager
def embedded(count: int) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "processors", lambda: count)
        patch.setattr(workers, "_crew", None)

        def ask(path: str, body: bytes, kind: str) -> tuple[int, bytes]:
            reply = call(app, "POST", path, content=body, headers={"content-type": kind})
            return reply.status_code, reply.content

        yield Service(ask, os.getpid, others=tuple(descendants(os.getpid())))


@pytest.mark.parametrize(
    ("way", "count"),
    [(embedded, 1), (embedded, 2), (worker_faults.http, 2), (worker_faults.runtime, 2)],
)
@pytest.mark.slow  # one bad chunk, one death: the tests around it
def test_bad_chunks_and_killed_workers_leave_a_service_at_full_speed(
    way: Callable[[int], contextlib.AbstractContextManager[Service]],
    count: int,
    works: dict[int, Work],
    printed_figures: list[str],
) -> None:
    """Bad chunks at the ends of every worker's share; `make test-sam` tries every place and every way."""
    work = works[count]
    with way(count) as service:
        told = worker_faults.survives(service, work, count, work.ends(count))
    printed_figures.append(f"{way.__name__}: {told}")


# --- of sharing itself -----------------------------------------------------------------------------------------------


def test_shares_come_back_in_order(forks: list[Child]) -> None:
    found = spread(lambda share: [bytes(share)], list(range(10)), 4)
    assert found == [[b"\0\1\2"], [b"\3\4\5"], [b"\6\7\10"], [b"\t"]]
    assert len(forks) == 4
    assert are_reaped(*pids(forks))


def test_never_more_processes_than_items(forks: list[Child]) -> None:
    assert spread(lambda share: [bytes(share)], [7], 4) == [[b"\7"]]
    assert len(forks) == 1


@EVERY
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_refusal_at_any_place_leaves_no_process(count: int, forks: list[Child], every: bool) -> None:
    def work(share: list[int]) -> list[bytes]:
        if bad[0] in share:
            raise WireError("not this one")
        return [bytes(300_000)]  # more than a pipe holds: who joins first waits for ever

    bad = [0]
    for bad[0] in range(0, 12, 1 if every else 12 // count):  # or the first of every share
        with pytest.raises(WireError, match="not this one"):
            spread(work, list(range(12)), count)
        assert are_reaped(*pids(forks))


@pytest.mark.parametrize("place", range(4))
@pytest.mark.sampled(3)
def test_a_worker_that_stalls_is_a_refusal_at_the_deadline(
    place: int, forks: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SENSITIVE_SECONDS", 0.2)

    def work(share: list[int]) -> list[bytes]:
        if share[0] == place:
            time.sleep(600)
        return []

    with pytest.raises(WireError, match=r"stopped after 0\.2 s") as refused:
        spread(work, list(range(4)), 4)
    assert refused.value.code == "wire"
    assert are_reaped(*pids(forks))


@pytest.mark.usefixtures("expected_crashes")
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.sampled(5)
def test_a_worker_that_dies_is_an_error(place: int, number: int, forks: list[Child]) -> None:
    def work(share: list[int]) -> list[bytes]:
        if share[0] == place:
            os.kill(os.getpid(), number)
        return [bytes(3_000_000)]  # more than a pipe holds

    with pytest.raises(ServiceError, match="a worker process died") as failed:
        spread(work, list(range(4)), 4)
    assert failed.value.status == 500
    assert are_reaped(*pids(forks))


def test_a_worker_that_fails_is_told_by_its_class() -> None:
    def work(share: list[int]) -> list[bytes]:
        raise KeyError("secret value")

    with pytest.raises(ServiceError, match=r"failed: KeyError$") as failed:
        spread(work, [1], 1)
    assert failed.value.status == 500
