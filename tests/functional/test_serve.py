"""`cleave serve`: no process outlives it; Host and Origin; a child that dies."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aws import many_chunks
from aws.serving import served
from cleave.ckks.secret_key import SecretKey
from cleave.local.serve import Router
from cleave.transport.base import Transport
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave_shared import limits, wire
from cleave_shared.version import VERSION
from tests.functional.gateway import call
from tests.functional.processes import HANGS, descendants, have_ended, is_alive, met

JSON = {"content-type": wire.JSON_TYPE}
SUM = {"data": {"x": [1, 2]}, "operation": "sum"}
ENDLESS = {"version": wire.VERSION, "rows": [1], "keys": ["len(list_sort(range(100000000)))"]}


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server with a host and an origin let in."""
    with served("--quiet", "--allow-host", "Given.internal", "--cors", "https://page.example") as found:
        yield found


def port_is_free(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.sampled(4)
def test_nothing_outlives_serve(number: signal.Signals, tmp_path: Path) -> None:
    """Not even while both fork servers and a child of one of them are at work; nor does a file."""
    with served("--quiet", TMPDIR=str(tmp_path)) as (url, process):
        asking = threading.Thread(target=lambda: suppressed_post(f"{url}/v1/plain/aggregate", ENDLESS))
        asking.start()
        assert met(lambda: len(descendants(process.pid)) == 3)
        started = descendants(process.pid)
        process.send_signal(number)
        if number in (signal.SIGTERM, signal.SIGINT):  # waits for requests under way; a second one does not
            assert met(lambda: port_is_free(url))
            process.send_signal(number)
        assert have_ended(process.pid, *started)
        assert port_is_free(url)
        asking.join(HANGS)
    assert list(tmp_path.iterdir()) == []


def suppressed_post(url: str, body: object) -> None:
    try:
        httpx.post(url, json=body, trust_env=False, timeout=HANGS)
    except httpx.HTTPError:
        """The server is being ended."""


def test_a_worker_reads_one_request_and_a_process_that_dies_is_started_again(key: SecretKey) -> None:
    """A fork server's end ends what its children are at, and no later request."""
    chunks = many_chunks.request(key)
    with served("--quiet") as (url, process), contextlib.closing(over_http(url)) as services:
        lasting = descendants(process.pid)
        services.sensitive(chunks)
        assert met(lambda: set(descendants(process.pid)) - set(lasting))  # the next worker starts beside the answer
        waiting = set(descendants(process.pid)) - set(lasting)
        services.sensitive(chunks)
        assert have_ended(*waiting)
        for _ in range(2):
            assert httpx.post(f"{url}/v1/plain", json=SUM, trust_env=False, timeout=HANGS).json()["result"] == {"x": 3}
            assert many_chunks.total_of(key, services.sensitive(chunks)) == many_chunks.TOTAL
            started = descendants(process.pid)
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert have_ended(*started)
        assert is_alive(process.pid)


def over_http(url: str) -> Transport:
    return connect_http(read_endpoints(url, insecure_http=False))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("127.8.9.1:1", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1@evil.example", 421),
        ("[::1", 421),
        ("8.8.8.8", 421),
        ("0.0.0.0", 421),  # noqa: S104 - a name in a header
        ("", 421),
    ],
)
def test_the_host_must_be_this_machine(service: str, host: str, status: int) -> None:
    answer = httpx.get(f"{service}/v1/health", headers={"host": host}, trust_env=False, timeout=120)
    assert answer.status_code == status
    if status != 200:
        assert "--allow-host" in answer.json()["hint"]


def test_two_hosts_are_none(service: str) -> None:
    """As HTTP/1.1 has it (RFC 9112, 3.2): 400, from the server itself."""
    port = int(service.rpartition(":")[2])
    for hosts in ("Host: localhost\r\nHost: evil.example\r\n", ""):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(f"GET /v1/health HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
            assert connection.recv(100).split()[1] in (b"400", b"421")


def test_a_host_that_was_given_is_let_in(opened: tuple[str, subprocess.Popen[str]]) -> None:
    for host, status in (("given.internal:80", 200), ("localhost", 200), ("other.internal", 421)):
        answer = httpx.get(f"{opened[0]}/v1/health", headers={"host": host}, trust_env=False, timeout=120)
        assert answer.status_code == status


def test_no_cors_unless_asked_for(service: str) -> None:
    origin = {"origin": "https://page.example"}
    preflight = origin | {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    with httpx.Client(base_url=service, trust_env=False) as client:
        answers = [
            client.post("/v1/plain", json=SUM, headers=origin),
            client.options("/v1/plain", headers=preflight),
            client.get("/v1/health", headers=origin),
        ]
    assert [answer.status_code for answer in answers] == [200, 405, 200]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_cors_for_the_origins_that_were_named(opened: tuple[str, subprocess.Popen[str]]) -> None:
    with httpx.Client(base_url=opened[0], trust_env=False, timeout=HANGS) as client:
        for origin, allowed in (("https://page.example", "https://page.example"), ("https://evil.example", None)):
            asked = {"origin": origin, "access-control-request-method": "POST"}
            preflight = client.options("/v1/plain", headers=asked)
            answer = client.post("/v1/plain", json=SUM, headers={"origin": origin})
            assert answer.headers.get("access-control-allow-origin") == allowed
            assert preflight.headers.get("access-control-allow-origin") == allowed
            assert preflight.status_code == (200 if allowed else 400)


def test_bodies_pass_whole_and_their_limits_hold(service: str) -> None:
    with httpx.Client(base_url=service, trust_env=False, timeout=120) as client:
        many = {"data": {"x": list(range(300_000))}, "operation": "sum"}
        assert client.post("/v1/plain", json=many).json()["result"] == {"x": 299_999 * 150_000}
        large = json.dumps(many["data"]).encode() + b" " * limits.MAX_JSON_BYTES
        assert client.post("/v1/plain", content=large, headers=JSON).status_code == 413
        parts = (large[i : i + 65536] for i in range(0, len(large), 65536))  # chunked: no length is announced
        assert client.post("/v1/plain", content=parts, headers=JSON).status_code == 413
        assert client.get("/plain/openapi.json?x=%2F..").status_code == 200
        assert client.get("/plain/%2e%2e/v1/health").status_code == 404


def test_a_caller_who_leaves_midway_costs_nothing(service: str) -> None:
    port = int(service.rpartition(":")[2])
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            head = (
                f"POST /v1/plain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nContent-Type: {wire.JSON_TYPE}"
            )
            connection.sendall(f"{head}\r\n\r\n{{".encode())
    assert httpx.post(f"{service}/v1/plain", json=SUM, trust_env=False, timeout=120).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_for_people_load_nothing(service: str, path: str) -> None:
    answer = httpx.get(f"{service}{path}", trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<script|<link|<img|<iframe|src=|http-equiv", answer.text)
    assert all(link.startswith(("/", "#")) for link in re.findall(r'href="([^"]*)"', answer.text))
    head = httpx.head(f"{service}{path}", trust_env=False)
    assert (head.status_code, head.content) == (200, b"")


def test_the_docs_name_every_operation(service: str) -> None:
    page = httpx.get(f"{service}/docs", trust_env=False).text
    for half in ("sensitive", "plain"):
        document = httpx.get(f"{service}/{half}/openapi.json", trust_env=False).json()
        for path, methods in document["paths"].items():
            assert all(f"<h2>{method.upper()} {path}</h2>" in page for method in methods)


def test_health_names_both_services(service: str) -> None:
    answer = httpx.get(f"{service}/health", trust_env=False)
    assert (answer.status_code, answer.json()) == (200, {"version": VERSION, "sensitive": "ok", "plain": "ok"})


@pytest.mark.parametrize("path", ["/", "/health", "/docs"])
def test_pages_are_for_this_machines_names_alone(service: str, path: str) -> None:
    assert httpx.get(f"{service}{path}", headers={"host": "evil.example"}, trust_env=False).status_code == 421


def test_the_switch_goes_by_whole_names() -> None:
    seen = []

    def half(name):
        async def application(scope, receive, send) -> None:
            seen.append(name)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        return application

    app = Router({"sensitive": half("sensitive"), "plain": half("plain")})
    for path in (
        "/v1/plain",
        "/v1/plain/aggregate",
        "/plain/openapi.json",
        "/v1/plainer",
        "/plain2",
        "/",
        "/v1/sensitive",
    ):
        call(app, "GET", path)
    assert seen == ["plain", "plain", "plain", "sensitive", "sensitive", "sensitive", "sensitive"]
