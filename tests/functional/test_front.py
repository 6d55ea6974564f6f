"""What an HTTP server of this machine lets in: odd framing, large bodies, slow callers, crowds; renewed certificates.

Nothing hangs, is read twice, or keeps others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Scope

from cleave.front.admission import ANYONE, Admission
from cleave.front.certificates import Certificate, self_signed
from cleave.front.http import Limits, Server
from cleave_shared import limits
from cleave_shared.errors import InputError
from tests.functional.processes import met

PATIENCE = 60.0  # seconds until a test gives up
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
FOLLOWING = b"GET /second HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


MOST = 1_000_000  # bytes of a body
WAITING = 20
Context = Callable[[], ssl.SSLContext | None]


class Echo:
    """Answers with the length of the body, and notes the paths that it was sent, and `size`, bytes of bodies.

    /wait waits for `leave`; /large answers 64 MB; /lingers returns a while after its answer.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.size = 0
        self.come, self.leave = threading.Semaphore(0), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break  # and answer all the same, as a library may
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            self.size += len(message.get("body", b""))
        if scope["path"] == "/wait":
            self.come.release()
            await asyncio.to_thread(self.leave.wait, PATIENCE)
        await Response(bytes(64 << 20) if scope["path"] == "/large" else str(size))(scope, receive, send)
        if scope["path"] == "/lingers":
            await asyncio.sleep(0)  # the next request begins


def problem(status: int, error: str, hint: str, headers: Mapping[str, str]) -> ASGIApp:
    return PlainTextResponse(f"{error} ({hint})", status, headers)


def user_of(scope: Scope) -> str | None:
    """As the request says."""
    user = dict(scope["headers"]).get(b"user")
    return None if user is None else user.decode()


class _Server(Server):
    number: int


@contextlib.contextmanager
def started(
    echo: Echo, admission: Admission, context: Callable[[], ssl.SSLContext | None] = lambda: None
) -> Iterator[_Server]:
    """A server on port `number`."""
    limits = {"problem": problem, "most_body": MOST, "user_of": user_of, "host_hint": "name it"}
    limited = Limits(echo, is_name={"given.example"}.__contains__, **limits)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        ready = threading.Event()
        server = _Server(limited, listener, admission, ready.set, context)
        server.number = listener.getsockname()[1]
        thread = threading.Thread(target=server.run)
        thread.start()
        assert ready.wait(PATIENCE)
        try:
            yield server
        finally:
            echo.leave.set()
            server.should_exit = server.force_exit = True
            thread.join(PATIENCE)


@pytest.fixture(scope="module")
def serving() -> Iterator[tuple[int, Echo]]:
    echo = Echo()
    with started(echo, Admission(8, WAITING)) as server:
        yield server.number, echo


@pytest.fixture
def port(serving: tuple[int, Echo]) -> int:
    return serving[0]


@pytest.fixture
def echo(serving: tuple[int, Echo]) -> Echo:
    serving[1].paths.clear()
    return serving[1]


def answers(port: int, sent: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(sent)
        parts = []
        try:
            while part := connection.recv(1 << 16):
                parts.append(part)
        except ConnectionResetError:
            """It had not read everything."""
        return b"".join(parts)


ODD = {
    "both lengths": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, other order": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "two lengths in one": b"Content-Length: 4, 5\r\n\r\nabcd",
    "negative length": b"Content-Length: -1\r\n\r\n",
    "length with a sign": b"Content-Length: +4\r\n\r\nabcd",
    "length in words": b"Content-Length: four\r\n\r\nabcd",
    "length of 100 digits": b"Content-Length: " + b"9" * 100 + b"\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: gzip\r\n\r\n",
    "coding before chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunk of no number": b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
    "chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n",
    "chunk longer than it says": b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "chunk size of 100 digits": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 100 + b"\r\n",
    "a header of 100 KB": b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "20,000 headers": b"X: x\r\n" * 20_000 + b"\r\n",
    "endless headers": b"X: x\r\n" * 100_000,
    "folded name": b"X : x\r\n\r\n",
    "no name": b": x\r\n\r\n",
    "NUL in a header": b"X: \0\r\n\r\n",
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_framing_is_refused_and_what_follows_is_not_read(port: int, echo: Echo, kind: str) -> None:
    found = answers(port, POST + ODD[kind] + FOLLOWING)
    # a chunk of no size is found after the head, and a reset may take the answer with it
    assert found.split(b" ")[1:2] in ([b"400"], [b"431"], [b"413"], []), found[:200]
    assert b" 200 " not in found
    assert "/second" not in echo.paths


def test_the_refusal_of_two_lengths_can_be_read(port: int) -> None:
    assert b"both Content-Length and Transfer-Encoding" in answers(port, POST + ODD["both lengths"])


def test_sound_framing_is_answered_in_order(port: int, echo: Echo) -> None:
    found = answers(port, POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + FOLLOWING)
    assert found.count(b" 200 ") == 2
    assert echo.paths == ["/", "/second"]


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST", POST, POST + b"X: x\r\n", POST + b"Content-Length: 5\r\n\r\nabc"],
    ids=["nothing", "part of a line", "part of a head", "more of a head", "part of a body"],
)
def test_a_slow_caller_is_answered_408(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(limits, "SERVE_ARRIVAL_SECONDS", 0.05)
    assert answers(port, sent).startswith(b"HTTP/1.1 408 ")


def test_a_caller_who_goes_slow_after_an_answer_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVE_ARRIVAL_SECONDS", 0.05)
    found = answers(port, POST + b"Content-Length: 3\r\n\r\nabcPO")
    assert found.startswith(b"HTTP/1.1 200 ")


def test_a_caller_who_takes_nothing_of_an_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVE_ARRIVAL_SECONDS", 0.05)
    with started(Echo(), Admission(8, WAITING)) as server, contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.number), PATIENCE))
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1) == b"H"
        assert met(lambda: not server.server_state.connections)


def sent_until_refused(port: int, head: bytes, chunks: int) -> tuple[int, bytes]:
    """How much of so many chunks of a megabyte the server lets come, and what it answers."""
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    size = 0
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(head)
        with contextlib.suppress(OSError):
            for _ in range(chunks):
                size += connection.send(chunk)
        found = b""
        with contextlib.suppress(OSError):
            while part := connection.recv(1 << 16):
                found += part
    return size, found


@pytest.mark.parametrize("length", [b"", b"Content-Length: 2\r\n"], ids=["chunked", "beside a length"])
def test_a_body_without_end_is_not_read_to_its_end(port: int, echo: Echo, length: bytes) -> None:
    """1.5 GB: what the application was given is bounded, and so is what was taken from the client."""
    before = echo.size
    size, _ = sent_until_refused(port, POST + length + b"Transfer-Encoding: chunked\r\n\r\n", 1500)
    assert echo.size - before <= MOST
    assert size < 64 << 20  # both sides' sockets hold some megabytes


def test_the_refusal_of_a_large_body_can_be_read(port: int, echo: Echo) -> None:
    body = b"f4241\r\n" + bytes(MOST + 1) + b"\r\n"
    for sent in (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + body,
        POST + f"Content-Length: {MOST + 1}\r\n\r\n".encode(),
    ):
        found = answers(port, sent)
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b"at most 1,000,000 bytes" in found
    whole = POST + b"Connection: close\r\n" + f"Content-Length: {MOST}\r\n\r\n".encode() + bytes(MOST)
    assert answers(port, whole).endswith(str(MOST).encode())
    assert echo.paths == ["/", "/"]  # the announced one came to no application


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("given.example:80", 200), ("127.0.0.1", 200), ("evil.example", 421), ("8.8.8.8", 421)],
)
def test_whose_host_is_let_in(port: int, host: str, status: int) -> None:
    found = answers(port, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert found.startswith(f"HTTP/1.1 {status} ".encode())


GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\nUser: %b\r\nConnection: close\r\n\r\n"


def test_requests_beyond_a_users_share_are_503_with_retry_after_and_others_are_answered(port: int, echo: Echo) -> None:
    echo.leave.clear()
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            connection.sendall(GET % (b"/wait", b"alice"))
            assert echo.come.acquire(timeout=PATIENCE)
        found = answers(port, GET % (b"/", b"alice"))
        assert found.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in found
        assert b"under way" in found
        assert answers(port, GET % (b"/", b"bob")).startswith(b"HTTP/1.1 200 ")
        assert answers(port, GET % (b"/", ANYONE.encode())).startswith(b"HTTP/1.1 200 ")
        echo.leave.set()
    assert met(lambda: answers(port, GET % (b"/", b"alice")).startswith(b"HTTP/1.1 200 "))


def test_requests_in_a_row_take_one_place_and_give_it_back(port: int) -> None:
    request = b"GET /lingers HTTP/1.1\r\nHost: localhost\r\nUser: alice\r\n\r\n"
    for _ in range(5):
        found = answers(port, 2 * request + FOLLOWING)
        assert found.count(b" 200 ") == 3
    assert answers(port, GET % (b"/", b"alice")).startswith(b"HTTP/1.1 200 ")


def test_three_hundred_that_say_nothing_stop_nobody(port: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        assert answers(port, GET % (b"/", b"alice")).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def written(files: tuple[Path, Path]) -> bytes:
    """A new certificate and its key in `files`; as DER."""
    private, public = self_signed()
    files[0].write_bytes(public)
    files[1].write_bytes(private)
    return ssl.PEM_cert_to_DER_cert(public.decode())


def shown(port: int) -> bytes | None:
    """The certificate that a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as connection,
        context.wrap_socket(connection) as secured,
    ):
        secured.sendall(GET % (b"/", b"alice"))
        assert secured.recv(1 << 10).startswith(b"HTTP/1.1 200 ")
        return secured.getpeercert(binary_form=True)


def test_a_renewed_certificate_is_shown_from_then_on_and_a_broken_one_never(files: tuple[Path, Path]) -> None:
    first = written(files)
    certificate = Certificate(*files)
    with started(Echo(), Admission(8, WAITING), lambda: certificate.context) as server, contextlib.ExitStack() as stack:
        number = server.number
        for _ in range(2 * WAITING):  # in the middle of a handshake, which they do not begin
            stack.enter_context(socket.create_connection(("127.0.0.1", number), PATIENCE))
        assert shown(number) == first
        second = written(files)
        assert shown(number) == first
        certificate.renew()
        assert shown(number) == second
        other = self_signed()[0]
        for broken in (other, b"", b"no PEM", second):
            files[1].write_bytes(broken)
            with pytest.raises(InputError, match="not a certificate and its key"):
                certificate.renew()
            assert shown(number) == second
        files[0].unlink()
        with pytest.raises(InputError, match=r"cert\.pem: No such file"):
            certificate.renew()
        assert shown(number) == second


def test_the_names_of_a_certificate() -> None:
    certificate = Certificate(None, None)
    assert certificate.is_for("localhost")
    certificate.names = frozenset({"*.example.org", "10.0.0.1"})
    assert [certificate.is_for(each) for each in ("a.example.org", "a.b.example.org", "example.org", "10.0.0.1")] == [
        True,
        False,
        False,
        True,
    ]
