"""What goes wrong in one of several workers of the sensitive service, whatever carries requests to it.

A chunk that is no ciphertext at every position, and each worker killed: one clean error each, in time, and afterwards
the service is as fast as before and has no process that it had not before.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from aws import many_chunks
from aws.events import MOMENTS, rest_event
from aws.runtime_api import Function
from aws.serving import served
from cleave.ckks.secret_key import SecretKey
from cleave_shared import limits, requests, wire
from tests.functional.processes import descendants, is_running, met

NO_CIPHERTEXT = b"no ciphertext"


@dataclass(frozen=True)
class Service:
    """`ask` gives status and body of the answer to a path, a body and its type; `pid` is the process that forks.

    `ahead`: workers that are forked before a request comes, and wait for it. Each takes one request. `others`: children
    of that process that are servers of other tests.
    """

    ask: Callable[[str, bytes, str], tuple[int, bytes]]
    pid: Callable[[], int]
    ahead: int = 0
    others: tuple[int, ...] = ()

    def processes(self) -> set[int]:
        return set(descendants(self.pid())).difference(*([each, *descendants(each)] for each in self.others))


def by_events(invoke: Callable[[dict[str, Any]], Mapping[str, Any]], pid: Callable[[], int]) -> Service:
    """A service that is handed API Gateway's events."""

    def ask(path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        reply = invoke(rest_event(path, body, kind))
        content = base64.b64decode(reply["body"]) if reply["isBase64Encoded"] else reply["body"].encode()
        return reply["statusCode"], content

    return Service(ask, pid)


@contextlib.contextmanager
def http(workers: int) -> Iterator[Service]:
    """`cleave serve`. Our own client would ask again after a 500."""
    memory = workers * limits.LAMBDA_MB_PER_CPU
    with served("--quiet", AWS_LAMBDA_FUNCTION_MEMORY_SIZE=str(memory)) as (base, process):

        def ask(path: str, body: bytes, kind: str) -> tuple[int, bytes]:
            reply = httpx.post(base + path, content=body, headers={"content-type": kind}, trust_env=False, timeout=120)
            return reply.status_code, reply.content

        yield Service(ask, lambda: process.pid, workers)


@contextlib.contextmanager
def runtime(workers: int) -> Iterator[Service]:
    """The runtime client of Lambda, under a Runtime API of ours."""
    memory = workers * limits.LAMBDA_MB_PER_CPU
    with Function("cleave_services.sensitive.app.handler", memory=memory) as function:

        def pid() -> int:
            assert function.process
            return function.process.pid

        yield by_events(function.invoke, pid)


@dataclass(frozen=True)
class Work:
    """A request of `chunks` ciphertexts that keeps `workers` processes busy where there are as many processors."""

    path: str
    kind: str
    chunks: int
    body: bytes
    damaged: Callable[[int], bytes]
    is_right: Callable[[bytes], bool]

    def ends(self, workers: int) -> list[int]:
        """The places of the first and last chunk of every worker's share."""
        share = -(-self.chunks // workers)
        starts = range(0, self.chunks, share)
        return sorted({min(place, self.chunks - 1) for start in starts for place in (start, start + share - 1)})


def sums(key: SecretKey) -> Work:
    """Enough for two workers: a request holds no more."""
    request = many_chunks.request(key)

    def is_right(body: bytes) -> bool:
        answer = wire.load(requests.SumsResponse, body, wire.FRAMES_TYPE)
        return many_chunks.total_of(key, answer) == many_chunks.TOTAL

    return Work(
        MOMENTS,
        wire.FRAMES_TYPE,
        many_chunks.CHUNKS,
        wire.dump_frames(request),
        lambda place: wire.dump_frames(many_chunks.damaged(request, place, NO_CIPHERTEXT)),
        is_right,
    )


def survives(service: Service, work: Work, workers: int, places: Sequence[int] | None = None) -> str:
    """All of it, at `places` or every one. Returns what was tried, to be printed. Raises AssertionError."""
    before, lasting = _seconds(service, work), _lasting(service, work)
    assert _seen(service, work, lasting, workers) == workers, "another number of workers than the test is about"
    slowest = 0.0  # printed, as all times are: how long anything takes is the machine's affair
    for place in range(work.chunks) if places is None else places:
        started = time.perf_counter()
        status, body = service.ask(work.path, work.damaged(place), work.kind)
        slowest = max(slowest, time.perf_counter() - started)
        assert (status, json.loads(body).keys()) == (422, {"error", "hint", "code"}), (place, status, body[:200])
        assert json.loads(body)["error"].startswith("not a ciphertext"), body
    for nth in range(workers):
        status, body = _with_one_killed(service, work, lasting, nth)
        assert (status, json.loads(body)["error"]) == (500, "a worker process died")
    assert _seen(service, work, lasting, workers) == workers  # as many as before, so as fast
    after = _seconds(service, work)
    _waiting(service, lasting)
    tried = work.chunks if places is None else len(places)
    return (
        f"{tried} bad chunks of {work.chunks} and {workers} killed of {workers} workers: "
        f"slowest refusal {slowest:.2f} s; a sound request {before:.2f} s before, {after:.2f} s after; "
        "processes left behind: 0"
    )


def _lasting(service: Service, work: Work) -> set[int]:
    """The processes that outlive a request."""
    before = service.processes()
    service.ask(work.path, work.body, work.kind)
    return before & service.processes()


def _workers(service: Service, lasting: set[int]) -> list[int]:
    """Those alive, in the order they were forked."""
    return sorted(service.processes() - lasting)


def _waiting(service: Service, lasting: set[int]) -> list[int]:
    """The workers while there is no request: as many as are forked ahead, and no other process that does not last."""
    assert met(lambda: len(_workers(service, lasting)) == service.ahead), "processes left behind"
    return _workers(service, lasting)


def _seconds(service: Service, work: Work) -> float:
    best = math.inf
    for _ in range(3):
        started = time.perf_counter()
        status, body = service.ask(work.path, work.body, work.kind)
        best = min(best, time.perf_counter() - started)
        assert status == 200, body[:200]
        assert work.is_right(body)
    return best


def _seen(service: Service, work: Work, lasting: set[int], enough: int) -> int:
    """The most workers that one request was seen to use up."""
    most = 0
    for _ in range(100):
        seen = set(_waiting(service, lasting))
        with _watched(service, seen.update, lasting):
            service.ask(work.path, work.body, work.kind)
        most = max(most, len(seen - set(_waiting(service, lasting))))
        if most >= enough:
            break
    return most


def _with_one_killed(service: Service, work: Work, lasting: set[int], nth: int) -> tuple[int, bytes]:
    """The answer to a request of whose workers the `nth` was killed while it was under way."""
    for _ in range(300):
        waiting = _waiting(service, lasting)
        killed: list[int] = []

        def kill(pids: list[int], waiting: list[int] = waiting, killed: list[int] = killed) -> None:
            for pid in (waiting or pids)[nth : nth + 1]:
                if not killed and (pid not in waiting or is_running(pid)):  # one that waits is not at work yet
                    killed.append(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        with _watched(service, kill, lasting):
            answer = service.ask(work.path, work.body, work.kind)
        if answer[0] != 200:
            return answer
    raise AssertionError("no worker was met alive")


@contextlib.contextmanager
def _watched(service: Service, tell: Callable[[list[int]], None], lasting: set[int]) -> Iterator[None]:
    """Tell of the workers alive, in the order they were forked, over and over."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            tell(_workers(service, lasting))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
