"""Several processes in the sensitive service, really forked: bad chunks, dying workers, late ones; then as before."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from aws.events import MOMENTS
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave_services.sensitive import workers
from cleave_shared import children, limits, wire
from cleave_shared.children import Child
from cleave_shared.errors import ServiceError, WireError
from tests.functional import many_chunks
from tests.functional.processes import descendants
from tests.functional.runtime_api import Function
from tests.functional.serving import served

CHUNKS = many_chunks.CHUNKS
# the first and last of every process's share, whether there are one, two or four
PLACES = (0, 1, 13, 14, 27, 28, 41, 42, CHUNKS - 2, CHUNKS - 1)
SOON = 5.0  # seconds: a tenth of one is usual, for ever was the bug


@pytest.fixture(scope="module")
def request_of_many(key: SecretKey) -> wire.MomentsRequest:
    return many_chunks.request(key)


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


def no_child_is_left() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG) == (0, 0)  # others' children, alive: not ours
    except ChildProcessError:
        return True


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_bad_chunk_is_one_refusal_wherever_it_stands(
    key: SecretKey,
    request_of_many: wire.MomentsRequest,
    forks: list[Child],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    monkeypatch.setattr(workers, "processors", lambda: count)
    monkeypatch.setattr(workers, "MIN_WORK", CHUNKS // 4)
    for place in PLACES:
        forks.clear()
        transport = embedded_services()  # sends nothing more after a failure
        with pytest.raises(ServiceError, match="answered 422: not a ciphertext") as refused:
            transport.sensitive(many_chunks.damaged(request_of_many, place))
        assert refused.value.status == 422
        assert len(forks) == count
        assert all(not Path(f"/proc/{child.pid}").exists() for child in forks)
    started = time.perf_counter()
    assert many_chunks.total_of(key, embedded_services().sensitive(request_of_many)) == many_chunks.TOTAL
    assert time.perf_counter() - started < SOON


Way = Callable[[wire.MomentsRequest], wire.MomentsResponse]


@pytest.fixture(scope="module")
def memory(request: pytest.FixtureRequest) -> int:
    return request.param * limits.LAMBDA_MB_PER_CPU


@pytest.fixture
def way(request: pytest.FixtureRequest, memory: int) -> tuple[Way, Callable[[], int]]:
    """Ask, and the process that does the work."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def http(memory: int) -> Iterator[tuple[Way, Callable[[], int]]]:
    os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = str(memory)
    try:
        with served("--quiet") as (base, process):
            headers = {"content-type": wire.FRAMES_TYPE}

            def ask(
                request: wire.MomentsRequest,
            ) -> wire.MomentsResponse:  # once: our own client asks again after a 500
                reply = httpx.post(base + MOMENTS, content=wire.dump_frames(request), headers=headers, trust_env=False)
                if reply.status_code != 200:
                    raise ServiceError(reply.text, status=reply.status_code)
                return wire.load(wire.MomentsResponse, reply.content, wire.FRAMES_TYPE)

            yield ask, lambda: process.pid
    finally:
        del os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]


@pytest.fixture(scope="module")
def emulator(memory: int) -> Iterator[tuple[Way, Callable[[], int]]]:
    with Function("cleave_services.sensitive.app.handler", memory=memory) as function:

        def ask(request: wire.MomentsRequest) -> wire.MomentsResponse:
            reply = function.invoke(many_chunks.event_of(request))
            if reply["statusCode"] != 200:
                raise ServiceError(reply["body"], status=reply["statusCode"])
            return many_chunks.answer_of(reply)

        def pid() -> int:
            assert function.process
            return function.process.pid

        yield ask, pid


@pytest.mark.parametrize(("way", "memory"), [("http", 1), ("http", 2), ("http", 4), ("emulator", 2)], indirect=True)
def test_bad_chunks_and_killed_workers_leave_a_service_at_full_speed(
    key: SecretKey, request_of_many: wire.MomentsRequest, way: tuple[Way, Callable[[], int]]
) -> None:
    ask, pid = way

    def seconds() -> float:
        best = SOON
        for _ in range(3):
            started = time.perf_counter()
            assert many_chunks.total_of(key, ask(request_of_many)) == many_chunks.TOTAL
            best = min(best, time.perf_counter() - started)
        return best

    before, lasting = seconds(), descendants(pid())
    for place in (0, CHUNKS // 2 - 1, CHUNKS - 1):
        started = time.perf_counter()
        with pytest.raises(ServiceError, match="not a ciphertext") as refused:
            ask(many_chunks.damaged(request_of_many, place))
        assert refused.value.status == 422
        assert time.perf_counter() - started < SOON
    assert kill_a_worker(pid(), lasting, lambda: ask(request_of_many)).status == 500
    assert seconds() < 1.5 * before + 0.05
    assert descendants(pid()) == lasting


def kill_a_worker(pid: int, lasting: list[int], ask: Callable[[], object]) -> ServiceError:
    """The error of a request a worker of which was killed while it was under way."""
    over = threading.Event()

    def hunt() -> None:
        while not over.is_set():
            for each in descendants(pid):
                if each not in lasting:
                    os.kill(each, signal.SIGKILL)
                    return

    for _ in range(20):
        over.clear()
        hunter = threading.Thread(target=hunt)
        hunter.start()
        try:
            ask()
        except ServiceError as error:
            return error
        finally:
            over.set()
            hunter.join()
    raise AssertionError("no worker was met alive")


# --- of `spread` itself ----------------------------------------------------------------------------------------------


def test_shares_come_back_in_order(forks: list[Child]) -> None:
    found = workers.spread(lambda share: [bytes(share)], list(range(10)), 4)
    assert found == [[b"\0\1\2"], [b"\3\4\5"], [b"\6\7\10"], [b"\t"]]
    assert len(forks) == 4
    assert no_child_is_left()


def test_never_more_processes_than_items(forks: list[Child]) -> None:
    assert workers.spread(lambda share: [bytes(share)], [7], 4) == [[b"\7"]]
    assert len(forks) == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_refusal_at_any_place_leaves_no_process(count: int) -> None:
    def work(share: list[int]) -> list[bytes]:
        if bad[0] in share:
            raise WireError("not this one")
        return [bytes(300_000)]  # more than a pipe holds: who joins first waits for ever

    bad = [0]
    for bad[0] in range(12):
        with pytest.raises(WireError, match="not this one"):
            workers.spread(work, list(range(12)), count)
        assert no_child_is_left()


@pytest.mark.parametrize("place", range(4))
def test_a_worker_that_stalls_is_a_refusal_at_the_deadline(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SENSITIVE_SECONDS", 0.2)

    def work(share: list[int]) -> list[bytes]:
        if share[0] == place:
            time.sleep(600)
        return []

    with pytest.raises(WireError, match=r"stopped after 0\.2 s") as refused:
        workers.spread(work, list(range(4)), 4)
    assert refused.value.status == 422
    assert no_child_is_left()


@pytest.mark.usefixtures("expected_crashes")
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_is_an_error(place: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(share: list[int]) -> list[bytes]:
        if share[0] == place:
            os.kill(os.getpid(), number)
        return [bytes(3_000_000)]  # more than a pipe holds

    with pytest.raises(ServiceError, match="a worker process died") as failed:
        workers.spread(work, list(range(4)), 4)
    assert failed.value.status == 500
    assert no_child_is_left()


def test_a_worker_that_fails_is_told_by_its_class() -> None:
    def work(share: list[int]) -> list[bytes]:
        raise KeyError("secret value")

    with pytest.raises(ServiceError, match=r"failed: KeyError$") as failed:
        workers.spread(work, [1], 1)
    assert failed.value.status == 500
