"""Servers that hold, flood, throttle or mislead the client: it gives up in time, within its memory, and says why."""

from __future__ import annotations

import gzip
import json
import resource
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cleave.deadline import Deadline, OutOfTime, Stopped
from cleave.transport import retry
from cleave.transport.base import Service, Transport, connect_embedded
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave.transport.lambda_ import Functions
from cleave.transport.responses import Response
from cleave.transport.retry import WIDEST, Gate
from cleave_shared import wire
from cleave_shared.errors import ServiceError
from tests.functional.envelopes import COUNTS, COUNTS_FRAMES, MOMENTS, ROWS, TOTALS, TOTALS_FRAMES
from tests.functional.processes import HANGS, met
from tests.functional.scripted import Reply, Scripted, scripted
from tests.functional.test_transport_http import self_signed
from tests.security.ways import unsigned

GOOD = Reply(body=TOTALS_FRAMES)
ROOT = Path(__file__).parents[2]


def at(server: Scripted, policy: retry.Policy = retry.REMOTE) -> Transport:
    return connect_http(read_endpoints(server.url, insecure_http=False), policy=policy)


def waiting(waits: list[float], **settings: float) -> retry.Policy:
    """Retries that note how long they would have waited, and do not."""
    return retry.Policy(attempts=4, sleep=lambda _, seconds: waits.append(seconds), **settings)


# --- time


Way = tuple[Transport, Callable[[], int]]


@pytest.fixture(params=["body", "headers", "silence", "lambda", "embedded"])
def slow(request: pytest.FixtureRequest) -> Iterator[Way]:
    """A way to a service that never comes to an end of its answer, and how many requests have arrived there."""
    if request.param == "embedded":
        over, arrived = threading.Event(), list[str]()

        def silent(path: str, body: bytes, kind: str) -> Response:
            arrived.append(path)
            over.wait(600)
            return Response(200, kind, body)

        yield connect_embedded({Service.SENSITIVE: silent}), lambda: len(arrived)
        over.set()
        return
    reply = {"silence": Reply(stall=600), "lambda": Reply(missing=9999, drip="body")}.get(
        request.param, Reply(missing=9999, drip=request.param)
    )
    with scripted(reply) as server:
        transport = at(server)
        if request.param == "lambda":
            sender = transport._carrier._sender  # type: ignore[attr-defined]
            names = {Service.SENSITIVE: "a", Service.PLAIN: "b"}
            transport = Transport(Functions(sender, server.url, unsigned, names))
        yield transport, lambda: len(server.asked)
        transport.close()


def test_one_deadline_ends_every_wait(slow: Way) -> None:
    query = slow[0].begin(Deadline(0.1))
    with pytest.raises(OutOfTime, match=r"within the 0\.1 seconds") as caught:
        query.sensitive(MOMENTS)
    assert "--timeout" in str(caught.value.hint)
    with pytest.raises(OutOfTime):  # the same query asks no more
        query.plain(ROWS)
    assert query.requests <= 1


def test_stopping_ends_every_wait_at_once(slow: Way) -> None:
    transport, arrived = slow
    query = transport.begin(Deadline(600))
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(query.sensitive, MOMENTS) for _ in range(2)]
        assert met(lambda: arrived() == 2)
        query.stop()
        for call in calls:
            with pytest.raises(Stopped):
                call.result()


def test_closing_ends_what_is_under_way() -> None:
    with scripted(Reply(missing=9, drip="body")) as server, ThreadPoolExecutor(1) as pool:
        transport = at(server)
        call = pool.submit(transport.sensitive, MOMENTS)
        assert met(lambda: server.asked)
        transport.close()
        with pytest.raises(Stopped):
            call.result()
        with pytest.raises(Stopped):
            transport.begin().sensitive(MOMENTS)


def test_the_deadline_covers_waits_between_attempts() -> None:
    with scripted(Reply(503)) as server:
        transport = at(server, retry.Policy(attempts=50, first=0.05, longest=0.05)).begin(Deadline(0.5))
        with pytest.raises(ServiceError):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) < 50


def test_each_query_has_time_and_counts_of_its_own() -> None:
    with scripted(GOOD) as server:
        transport = at(server)
        first, second = transport.begin(), transport.begin(Deadline(120))
        first.sensitive(MOMENTS)
        second.sensitive(MOMENTS)
        transport.close()
    assert (transport.requests, first.requests, second.requests) == (0, 1, 1)
    assert first.sent == len(wire.dump_frames(MOMENTS))


# --- memory and parsers


def gzip_bomb() -> bytes:
    """1 GB of zeros in a few bytes: gzip over gzip."""
    return gzip.compress(gzip.compress(bytes(1 << 20), 9) * 1024, 9)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip, gzip", "deflate", "br", "zstd", "x-unknown", "GZIP"])
def test_an_encoded_answer_is_refused_and_never_decoded(encoding: str) -> None:
    with scripted(Reply(body=gzip_bomb(), headers={"content-encoding": encoding})) as server:
        transport = at(server)
        with pytest.raises(ServiceError, match="compressed answer"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1


def test_an_encoded_error_is_told_by_its_status() -> None:
    bomb = Reply(403, gzip_bomb(), "text/html", headers={"content-encoding": "gzip"})
    with scripted(bomb) as server:
        transport = at(server)
        with pytest.raises(ServiceError, match=r"answered 403$"):
            transport.sensitive(MOMENTS)
        transport.close()


def test_identity_is_no_encoding() -> None:
    with scripted(Reply(body=TOTALS_FRAMES, headers={"content-encoding": "identity"})) as server:
        transport = at(server)
        assert transport.sensitive(MOMENTS) == TOTALS
        transport.close()


BOMBED = """
import resource, sys
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave_shared.errors import ServiceError
from tests.functional.envelopes import MOMENTS
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    connect_http(read_endpoints(sys.argv[1], insecure_http=False)).sensitive(MOMENTS)
except ServiceError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error.message)
"""


def test_bombs_cost_no_memory() -> None:
    """45 bytes of layered deflate made httpx allocate 10.6 GB before any of our limits saw a byte."""
    bomb = gzip_bomb()
    for _ in range(2):
        bomb = gzip.compress(bomb, 9)
    with scripted(Reply(body=bomb, headers={"content-encoding": "gzip, gzip, gzip, gzip"})) as server:
        done = subprocess.run(
            [sys.executable, "-c", BOMBED, server.url],
            capture_output=True,
            text=True,
            check=True,
            timeout=HANGS,
            cwd=ROOT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
        )
    grown, message = done.stdout.split(maxsplit=1)
    assert "compressed answer" in message
    assert int(grown) < 30_000, "KB"


@pytest.mark.parametrize(
    "body", [b"[" * 1_000_000, b'{"a":' * 200_000, b'{"version": 1e999}', b'{"version": ' + b"9" * 5000 + b"}", b"\xff"]
)
@pytest.mark.parametrize("status", [200, 400])
def test_hostile_json_is_refused(body: bytes, status: int) -> None:
    with scripted(Reply(status, body, wire.JSON_TYPE)) as server:
        transport = at(server)
        with pytest.raises(ServiceError) as caught:
            transport.sensitive(MOMENTS)
        transport.close()
    assert caught.value.hint
    assert len(caught.value.message) < 450


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_below_1_2_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system's OpenSSL would take it: hence the cipher string of security level 0."""
    old = self_signed(tmp_path)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")

    def lax(**_: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.set_ciphers("ALL:@SECLEVEL=0")
        return context

    monkeypatch.setattr(httpx, "create_ssl_context", lax)
    with scripted(GOOD, tls=old) as server:
        transport = connect_http(read_endpoints(server.url.replace("http:", "https:"), insecure_http=False))
        with pytest.raises(ServiceError, match="no TLS with") as caught:
            transport.sensitive(MOMENTS)
        transport.close()
    assert "1.2" in str(caught.value.hint)
    assert server.asked == []


# --- what is repeated


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(form: str) -> None:
    in_an_hour = datetime.now(UTC) + timedelta(seconds=3_600)
    value = "3" if form == "seconds" else format_datetime(in_an_hour, usegmt=True)
    waits: list[float] = []
    with scripted(Reply(429, headers={"retry-after": value}), GOOD) as server:
        transport = at(server, waiting(waits)).begin(Deadline(7200))
        assert transport.sensitive(MOMENTS) == TOTALS
        transport.close()
    assert waits == [pytest.approx(3 if form == "seconds" else 3_600, rel=0.1)]


@pytest.mark.parametrize("value", ["86400", "9" * 30, "9" * 99])
def test_a_wait_past_the_deadline_is_not_begun(value: str) -> None:
    with scripted(Reply(503, headers={"retry-after": value})) as server:
        transport = at(server)
        with pytest.raises(ServiceError, match="answered 503"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1


@pytest.mark.parametrize("value", ["", "-1", "soon", "1e9", "9" * 200, "٣", "Thu, 99 Foo"])
def test_a_retry_after_that_says_nothing(value: str) -> None:
    assert retry.retry_after(value) is None


def test_all_requests_of_a_query_share_one_budget() -> None:
    with scripted(Reply(503)) as server:
        transport = at(server, retry.Policy(attempts=10, first=0, budget=6))
        with pytest.raises(ServiceError):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 7
    budget = retry.Budget(2)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budget.earn()
    assert [budget.take() for _ in range(2)] == [True, False]


def test_a_bad_digest_is_asked_for_once_more() -> None:
    damaged = Reply(body=TOTALS_FRAMES[:-1] + b"x")
    with scripted(damaged, GOOD) as server:
        transport = at(server)
        assert transport.sensitive(MOMENTS) == TOTALS
        transport.close()
    assert len(server.asked) == 2
    with scripted(damaged) as server:
        transport = at(server)
        with pytest.raises(ServiceError, match="its digest says"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 2


def test_a_request_that_arrived_damaged_is_sent_once_more() -> None:
    refused = Reply(422, json.dumps({"error": "no", "hint": "ask again", "code": "damaged"}).encode(), wire.JSON_TYPE)
    with scripted(refused, GOOD) as server:
        transport = at(server)
        assert transport.sensitive(MOMENTS) == TOTALS
        transport.close()
    assert len(server.asked) == 2


def test_nothing_is_sent_after_a_failure() -> None:
    with scripted(Reply(403), GOOD) as server:
        query = at(server).begin()
        with pytest.raises(ServiceError, match="403"):
            query.plain(ROWS)
        with pytest.raises(ServiceError, match="403"):
            query.sensitive(MOMENTS)
        query.close()
    assert len(server.asked) == 1


def test_a_failure_ends_the_retries_of_the_other_half() -> None:
    class Halves:
        def __init__(self) -> None:
            self.asked: list[Service] = []
            self.other = threading.Event()  # the sensitive half is asked

        def exchange(self, service: Service, *_: object) -> Response:
            self.asked.append(service)
            if service == Service.SENSITIVE:
                self.other.set()
            else:
                assert self.other.wait(HANGS)
            return Response(503 if service == Service.SENSITIVE else 403, "", b"")

        def close(self) -> None:
            """Nothing is open."""

    halves = Halves()
    query = Transport(halves, retry.Policy(attempts=5, first=600, longest=600))
    with ThreadPoolExecutor(2) as pool:
        calls: list[Future[Any]] = [pool.submit(query.sensitive, MOMENTS), pool.submit(query.plain, ROWS)]
        for call in calls:
            with pytest.raises(ServiceError, match="403"):
                call.result()
    assert sorted(halves.asked, key=str) == [Service.PLAIN, Service.SENSITIVE]


# --- how many at once


def test_throttling_halves_what_is_under_way_once_a_round() -> None:
    gate = Gate(Deadline(HANGS))
    ages = [gate.enter() for _ in range(WIDEST)]
    for age in ages:  # all of one round are throttled: that is one halving
        gate.throttled(age)
    assert gate.width == WIDEST / 2
    for _ in ages:
        gate.leave()
    gate.throttled(gate.enter())
    assert gate.width == 1
    gate.leave()
    for _ in range(100):
        gate.answered()
    assert gate.width == WIDEST


class Counting:
    """A carrier that throttles what comes while another is under way, and remembers how many ever were."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.throttled = False
        self.most_after = 0

    def exchange(self, *_: object) -> Response:
        with self.lock:
            self.inside += 1
            crowded = self.inside > 1
            if self.throttled:
                self.most_after = max(self.most_after, self.inside)
            self.throttled |= crowded
        time.sleep(0.02)
        with self.lock:
            self.inside -= 1
        return Response(429, "", b"") if crowded else Response(200, wire.FRAMES_TYPE, COUNTS_FRAMES)

    def close(self) -> None:
        """Nothing is open."""


def test_a_throttled_service_is_asked_by_fewer_at_once() -> None:
    carrier = Counting()
    query: Transport = Transport(carrier, retry.Policy(attempts=20, first=0.05, budget=200))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(query.plain, [ROWS] * 24))
    assert answers == [COUNTS] * 24
    assert query.requests < 24 + 40  # unhindered they would all collide, time and again


def test_the_id_of_a_request_reaches_the_error() -> None:
    cases = {
        "x-request-id": {"x-request-id": "mine-1", "x-amzn-requestid": "other"},
        "x-amzn-RequestId": {"x-amzn-RequestId": "mine-1", "x-amz-apigw-id": "other"},
        "x-amz-apigw-id": {"x-amz-apigw-id": "mine-1"},
        "damaged": {"x-request-id": "two words\x1b[31m", "x-amz-apigw-id": "mine-1"},
    }
    for headers in cases.values():
        for reply in (Reply(403, headers=headers), Reply(body=b"?", headers=headers)):
            with scripted(reply) as server:
                transport = at(server)
                with pytest.raises(ServiceError, match=r"\[request id mine-1\]$"):
                    transport.sensitive(MOMENTS)
                transport.close()
