"""HTTP of this machine's servers, with uvicorn and h11: which requests reach an application, and when a connection
ends.

`Server` accepts connections through cleave.front.admission. `Limits` checks the head of each request, takes the
connection for a user, and counts the body's bytes. `TimedConnection` ends silent connections. h11 refuses what is not
HTTP (400), and heads over 64 KB unless they arrive at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import FrameType
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cleave.front.admission import Admission, Admitted, accept
from cleave.transport.addresses import is_loopback
from cleave_shared import limits

_STOP_SECONDS = 5
_DIGITS = 18  # longest length that is read
_CLOSE = {"connection": "close"}


class Limits:
    """Refuses requests before they reach `application`: by head, framing, Host, user, and size and time of the body."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        problem: Callable[[int, str, str, Mapping[str, str]], ASGIApp],
        most_body: int,
        user_of: Callable[[Scope], str | None],
        is_name: Callable[[str], bool],
        host_hint: str,
    ) -> None:
        """`problem` builds an error response from status, error, hint and headers. `most_body`: maximum bytes of a
        body.

        `user_of` names the user who takes the connection for a request: "" takes any free one; None leaves it waiting.
        `is_name` tests whether a host name in lower case is this server's; loopback names and the server's address
        always are. `host_hint`: how to allow a host name.
        """
        self._application = application
        self._make_problem = problem
        self._most_body = most_body
        self._user_of = user_of
        self._is_name = is_name
        self._host_hint = host_hint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if refusal := self._refusal(scope["headers"]):
            await refusal(scope, receive, send)
        elif not is_own_host(scope, self._is_name):
            refusal = self._problem(421, "the Host header names no host of this server", self._host_hint)
            await refusal(scope, receive, send)
        elif (user := self._user_of(scope)) is None:
            await self._bounded(scope, receive, send)
        elif (admitted := admitted_of(scope)).take(user):
            try:
                await self._bounded(scope, receive, send)
            finally:
                admitted.give_back(user)
        else:
            headers = _CLOSE | {"retry-after": "1"}
            busy = self._problem(503, "too many requests are under way", "try again later", headers)
            await busy(scope, receive, send)

    def _problem(self, status: int, error: str, hint: str, headers: Mapping[str, str] = _CLOSE) -> ASGIApp:
        return self._make_problem(status, error, hint, headers)

    def _refusal(self, headers: Collection[tuple[bytes, bytes]]) -> ASGIApp | None:
        named = dict(headers)
        if sum(len(name) + len(value) + 4 for name, value in headers) > limits.SERVE_HEAD_BYTES:
            return self._problem(431, f"the headers are over {limits.SERVE_HEAD_BYTES:,} bytes", "send fewer of them")
        if b"content-length" in named and b"transfer-encoding" in named:
            error = "the request has both Content-Length and Transfer-Encoding"
            return self._problem(400, error, "send one of them")
        announced = named.get(b"content-length", b"0")  # h11 allows digits only
        if len(announced) > _DIGITS or int(announced) > self._most_body:
            return self._large()
        return None

    def _large(self) -> ASGIApp:
        return self._problem(413, f"a body has at most {self._most_body:,} bytes", "send less at once")

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a body that is bounded in bytes and in time, or answer 413 or 408."""
        until = asyncio.get_running_loop().time() + limits.SERVE_ARRIVAL_SECONDS
        is_whole = is_answered = False
        size = 0
        refusal: ASGIApp | None = None

        async def within() -> Message:
            nonlocal is_whole, size, refusal
            if refusal is not None:
                return {"type": "http.disconnect"}
            try:
                async with asyncio.timeout_at(None if is_whole else until):
                    message = await receive()
            except TimeoutError:
                error = f"the request did not arrive within {limits.SERVE_ARRIVAL_SECONDS:g} s"
                refusal = self._problem(408, error, "send it at once")
                return {"type": "http.disconnect"}
            size += len(message.get("body", b""))
            if size > self._most_body:
                refusal = self._large()
                return {"type": "http.disconnect"}
            is_whole = not message.get("more_body", False)
            return message

        async def answer(message: Message) -> None:
            nonlocal is_answered
            if refusal is None or is_answered:
                is_answered = True
                await send(message)

        await self._application(scope, within, answer)
        if refusal is not None and not is_answered:
            await refusal(scope, receive, send)


def is_own_host(scope: Scope, is_name: Callable[[str], bool]) -> bool:
    """True if the request has exactly one Host: a loopback name, the address that the client connected to, or a known
    name.

    A web page can point a name of its own to this machine (DNS rebinding), but not an address.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return False
    try:
        name = urlsplit(f"//{hosts[0].decode('ascii')}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name == (scope.get("server") or ("",))[0] or is_name(name)


def admitted_of(scope: Scope) -> Admitted:
    admitted: Admitted = scope["state"]["admitted"]
    return admitted


class TimedConnection(H11Protocol):
    """Ends a connection if a request's head, or the next request, does not arrive in time, or if the client reads
    nothing of an answer for that time.

    uvicorn's own timer only runs until the first byte after an answer.
    """

    def __init__(self, admitted: Admitted, config: uvicorn.Config, server: uvicorn.Server) -> None:
        super().__init__(config, server.server_state, {"admitted": admitted})
        self.has_ended = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0  # bytes, when the timer was set

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)
        self.has_ended.set()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._timer is None:
            self._unsent = self.transport.get_write_buffer_size()
            self._timer = self.loop.call_later(limits.SERVE_ARRIVAL_SECONDS, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:  # the client reads the answer slowly
            self._wait()
        elif unsent or self.conn.our_state is not h11.IDLE:
            self.transport.abort()
        else:
            headers = [("connection", "close"), ("content-length", "0")]
            answer = self.conn.send(h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"))
            self.transport.write(answer or b"")
            self.transport.close()


class Server(uvicorn.Server):
    """Serves `application` on `listener`, with TLS if there is a `context`.

    `ready` is called once connections are accepted. `signals`: end on SIGINT and SIGTERM; False leaves signals to
    others.
    """

    def __init__(
        self,
        application: ASGIApp,
        listener: socket.socket,
        admission: Admission,
        ready: Callable[[], None] = lambda: None,
        context: Callable[[], ssl.SSLContext | None] = lambda: None,
        *,
        signals: bool = True,
    ) -> None:
        config = uvicorn.Config(
            application,
            http=TimedConnection,
            ws="none",
            workers=1,  # ignores WEB_CONCURRENCY
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # limits apply to the address that connected
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        super().__init__(config)
        self._listener = listener
        self._admission = admission
        self._ready = ready
        self._context = context
        self._signals = signals

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals() if self._signals else contextlib.nullcontext():
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """End on a signal (uvicorn would raise it again). A second signal ends running requests too."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.servers = []
        self._accepting = asyncio.create_task(accept(self._listener, self._admission, self._serve_one))
        self.started = True
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        self._listener.close()
        await super().shutdown(sockets)

    async def _serve_one(self, accepted: socket.socket, admitted: Admitted) -> None:
        context = self._context()
        transport, connection = await asyncio.get_running_loop().connect_accepted_socket(
            partial(TimedConnection, admitted, self.config, self),
            accepted,
            ssl=context,
            ssl_handshake_timeout=limits.SERVE_ARRIVAL_SECONDS if context else None,
        )
        try:
            await connection.has_ended.wait()
        finally:
            transport.abort()
