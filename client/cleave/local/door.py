"""The front door of `cleave serve`: how many requests it takes at once, their framing, and how long they may take.

h11 refuses what is no HTTP (400), and a head over 64 KB unless it arrives at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cleave_shared import limits, wire


def problem(status: int, error: str, hint: str, headers: Mapping[str, str] | None = None) -> ASGIApp:
    """Make an error in the form the services have for theirs."""
    content = wire.dump_json(wire.Problem(error=error, hint=hint))
    return Response(content, status, headers=headers, media_type=wire.JSON_TYPE)


_CLOSE = {"connection": "close"}
_BUSY = problem(
    503, f"{limits.SERVE_REQUESTS} requests are under way", "ask again later", _CLOSE | {"retry-after": "1"}
)
_TWO_LENGTHS = problem(400, "the request has both Content-Length and Transfer-Encoding", "send one of them", _CLOSE)
_LARGE = problem(431, f"the headers are over {limits.SERVE_HEAD_BYTES:,} bytes", "send fewer of them", _CLOSE)
_LATE = problem(408, f"the request did not arrive within {limits.SERVE_ARRIVAL_SECONDS:g} s", "send it at once", _CLOSE)


class Door:
    """Lets in SERVE_REQUESTS at once, whose bodies arrive within SERVE_ARRIVAL_SECONDS."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"] if scope["type"] == "http" else []
        names = [name for name, _ in headers]
        if sum(len(name) + len(value) + 4 for name, value in headers) > limits.SERVE_HEAD_BYTES:
            await _LARGE(scope, receive, send)
        elif b"content-length" in names and b"transfer-encoding" in names:
            await _TWO_LENGTHS(scope, receive, send)
        elif self._inside >= limits.SERVE_REQUESTS:
            await _BUSY(scope, receive, send)
        else:
            self._inside += 1
            try:
                await self._timely(scope, receive, send)
            finally:
                self._inside -= 1

    async def _timely(self, scope: Scope, receive: Receive, send: Send) -> None:
        until = asyncio.get_running_loop().time() + limits.SERVE_ARRIVAL_SECONDS
        whole = late = answered = False

        async def within() -> Message:
            nonlocal whole, late
            try:
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                late = True
                return {"type": "http.disconnect"}
            whole = not message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        await self._application(scope, within, noted)
        if late and not answered:
            await _LATE(scope, receive, send)


class Connection(H11Protocol):
    """Ends a connection on which the head of a request, or what follows an answer, does not come in time.

    uvicorn's own timer runs only until the first byte after an answer.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(limits.SERVE_ARRIVAL_SECONDS, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.conn.our_state is h11.IDLE:
            headers = [("connection", "close"), ("content-length", "0")]
            answer = self.conn.send(h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"))
            self.transport.write(answer or b"")
        self.transport.close()
