"""Both protocols of a gateway share one admission: silent and greedy clients keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from cleave.front.admission import Admission, accept
from cleave.front.certificates import Certificate, self_signed
from cleave.front.http import Server
from cleave.gateway import workers as of_workers
from cleave.gateway.codecs import row
from cleave.gateway.http import application, limited
from cleave.gateway.postgres import Clients
from cleave.gateway.refusal import Refused
from cleave.gateway.wire import message
from cleave.gateway.work import Request
from cleave.gateway.workers import Reply
from cleave.logins.users import read_users, write_user
from cleave_shared import limits
from tests.functional.processes import HANGS, met
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop
from tests.gateway.fakes import Readers
from tests.gateway.test_http import post

TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname, TRUSTING.verify_mode = False, ssl.CERT_NONE
COUNT = "SELECT COUNT(*) AS n FROM wards"


def http_port(gateway: Gateway) -> int:
    return int(gateway.http.rpartition(":")[2])


def test_three_hundred_silent_connections_stop_nobody(gateway: Gateway) -> None:
    with ExitStack() as stack:
        for port in (gateway.port, http_port(gateway)):
            for _ in range(300):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), HANGS))
        assert gateway.rows(COUNT) == [(3,)]
        assert post(gateway, {"sql": COUNT}).json()["rows"] == [["3"]]


class Answers(Readers):
    """In the place of workers: every query has the same answer."""

    @staticmethod
    def _row(form: str) -> bytes:
        return b'["3"]' if form == "json" else message(b"D", row([20], [0])([3]))

    async def ask(self, _: str, __: object, request: Request) -> Reply:
        return Reply([("n", "BIGINT")], [(1, self._row(request.form))], [], [], 1)


class Small(NamedTuple):
    """Both listeners of a gateway in this process; users have 6 connections at most."""

    postgres: int
    http: int
    token: str

    def connect(self, user: str) -> psycopg.Connection:
        return connect(self.postgres, user)

    def status(self) -> int:
        """Of a query of alice."""
        headers = {"authorization": f"Bearer {self.token}"}
        url = f"http://127.0.0.1:{self.http}/v1/query"
        return httpx.post(url, json={"sql": COUNT}, headers=headers, timeout=HANGS).status_code


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    path = tmp_path_factory.mktemp("small") / "users.toml"
    tokens = []
    for name in ("alice", "bob"):
        token = write_user(path, name, PASSWORD.encode(), tables=None, min_group=0, rows=True, token=name == "alice")
        tokens.append(token)
    workers: Any = Answers()
    clients = Clients(workers, lambda: read_users(path), Certificate(None, None))
    served = limited(application(workers), lambda: read_users(path), lambda _: False)
    with socket.create_server(("127.0.0.1", 0)) as postgres, socket.create_server(("127.0.0.1", 0)) as http:
        admission = Admission(6)
        server = Server(served, http, admission, signals=False)

        async def serve() -> None:
            accepting = asyncio.create_task(accept(postgres, admission, clients.serve))
            await server.serve()
            accepting.cancel()

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        yield Small(postgres.getsockname()[1], http.getsockname()[1], tokens[0] or "")
        server.should_exit = server.force_exit = True
        thread.join(HANGS)


def test_one_user_leaves_half_of_all_connections_to_others(small: Small) -> None:
    """Of both protocols, and until that user closes some."""
    with ExitStack() as stack:
        held = [stack.enter_context(closing(small.connect("alice"))) for _ in range(2)]
        first = small.connect("alice")
        with pytest.raises(psycopg.OperationalError, match="too many connections of alice"):
            small.connect("alice")
        assert small.status() == 503
        small.connect("bob").close()
        for connection in (first, *held):
            assert connection.execute(COUNT).fetchall() == [(3,)]  # what is there goes on
        first.close()
        assert met(lambda: small.status() == 200)
        small.connect("alice").close()


def test_answers_that_wait_have_a_size_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user has as many bytes as are free, until the answers are let go."""
    monkeypatch.setattr(of_workers, "_MOST_HELD", 100)
    crew: Any = SimpleNamespace(fork=None)
    setup: Any = None
    workers = of_workers.Workers(crew, setup, 1)

    def reply(size: int) -> Reply:
        return Reply([], [(1, bytes(size))], [], [], 1)

    answers = [reply(40), reply(25)]
    workers._hold("alice", answers[0])
    with pytest.raises(Refused, match="wait to be taken"):
        workers._hold("alice", reply(30))
    workers._hold("bob", answers[1])
    answers.clear()
    workers._hold("alice", reply(45))
    workers.close()


@pytest.mark.slow
def test_one_user_leaves_half_of_the_real_gateways_connections_to_others(gateway: Gateway) -> None:
    """Both listeners share an account: of more connections than the quick test can open in its time."""
    with ExitStack() as stack:
        for _ in range(limits.GATEWAY_CONNECTIONS // 2):
            stack.enter_context(closing(gateway.connect()))
        with pytest.raises(psycopg.OperationalError, match="too many connections of owner"):
            gateway.connect()
        refused = post(gateway, {"sql": COUNT})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.headers["content-type"] == "application/problem+json"
        assert gateway.rows(COUNT, "counter") == [(3,)]
        assert post(gateway, {"sql": COUNT}, "wards_only").json()["rows"] == [["3"]]


@pytest.mark.parametrize("length", ["", "Content-Length: 2\r\n"], ids=["chunked", "beside a length"])
def test_a_body_of_1500_megabytes_is_not_taken(gateway: Gateway, length: str) -> None:
    head = (
        f"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {gateway.tokens['owner']}\r\n"
        f"Content-Type: application/json\r\n{length}Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk, size = b"100000\r\n" + b" " * (1 << 20) + b"\r\n", 0
    with socket.create_connection(("127.0.0.1", http_port(gateway)), HANGS) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(OSError):
            for _ in range(1500):
                size += connection.send(chunk)
    assert size < 64 << 20  # what two sockets hold, and 4 MB
    assert post(gateway, {"sql": COUNT}).status_code == 200


def test_a_body_that_is_too_large_is_413_however_it_is_announced(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {gateway.tokens['owner']}", "content-type": "application/json"}
    for content in (b" " * (5 << 20), (bytes(1 << 10) for _ in range(4097))):
        answer = httpx.post(f"{gateway.http}/v1/query", content=content, headers=headers, timeout=HANGS)
        assert answer.status_code == 413
    parts = iter([b'{"sql": "', COUNT.encode(), b'"}'])  # without a length
    assert httpx.post(f"{gateway.http}/v1/query", content=parts, headers=headers, timeout=HANGS).status_code == 200


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 421)])
def test_whose_host_is_let_in(gateway: Gateway, host: str, status: int) -> None:
    answer = httpx.get(f"{gateway.http}/health", headers={"host": host}, timeout=HANGS)
    assert answer.status_code == status
    if status == 421:
        assert "--allow-host" in answer.json()["detail"]


def test_a_renewed_certificate_is_shown_by_both_protocols_after_sighup(
    gateway: Gateway, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def write() -> bytes:
        private, public = self_signed()
        cert.write_bytes(public)
        key.write_bytes(private)
        return ssl.PEM_cert_to_DER_cert(public.decode())

    first = write()
    for name in ("store", "key.json", "users.toml"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    options = ("--http-port", str(free_port()), "--tls-cert", str(cert), "--tls-key", str(key), "--tables", "wards")
    process, addresses = started(tmp_path, *options)
    ports = [int(each.rpartition(":")[2]) for each in addresses]

    def shown() -> list[bytes | None]:
        with (
            socket.create_connection(("127.0.0.1", ports[0]), HANGS) as clear,
            socket.create_connection(("127.0.0.1", ports[1]), HANGS) as plain,
            TRUSTING.wrap_socket(plain) as http,
        ):
            clear.sendall(struct.pack("!II", 8, 80877103))
            assert clear.recv(1) == b"S"
            with TRUSTING.wrap_socket(clear) as postgres:
                return [each.getpeercert(binary_form=True) for each in (postgres, http)]

    def hup() -> str:
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        return process.stderr.readline()

    assert shown() == [first, first]
    with closing(connect(ports[0])) as old:
        second = write()
        assert shown() == [first, first]
        assert re.search("read .*cert.pem again", hup())
        assert shown() == [second, second]
        key.write_bytes(self_signed()[0])  # of no certificate there
        for _ in range(2):  # each time
            said = hup()
            assert "not a certificate and its key" in said
            assert "certificate in use stays" in said
            assert shown() == [second, second]
        old.execute(COUNT)
    stop(process)
