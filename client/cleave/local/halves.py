"""Each service in a process of its own behind `cleave serve`, and the way there: HTTP over a Unix socket.

What ends one half leaves the other answering, the plain half has no SEAL and the sensitive one no DuckDB, and both end
with the process that forked them, however that ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import httpx
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave_services import links
from cleave_shared import children, limits, wire
from cleave_shared.children import Channel
from cleave_shared.dataclass import dataclass

NAMES = ("sensitive", "plain")
_LONGEST_FOLDER = 75  # bytes: the path of a Unix socket may have 103 on every system
_START_SECONDS = 60.0
_ANSWER_SECONDS = max(limits.PLAIN_SECONDS, limits.SENSITIVE_SECONDS) + 10
_OWN_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"})
_NOT_FORWARDED = _OWN_HOP | {b"origin"}  # a half answers no Origin: whether one may ask is for `serve` to say
_NOT_RETURNED = _OWN_HOP | {b"date", b"server"}


@contextlib.contextmanager
def halves(*, log: bool, stores: Sequence[str] = ()) -> Iterator[dict[str, ASGIApp]]:
    """Both services, forked, as applications that forward to them. Raises ServiceError if one does not start.

    `stores`: URLs of the folders that links may lead into (`cleave_services.links`).
    """
    short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
    place = None if short else "/tmp"  # noqa: S108 - a folder of this user's alone is made there
    with tempfile.TemporaryDirectory(prefix="cleave-", dir=place) as folder, contextlib.ExitStack() as stack:
        paths = {name: str(Path(folder) / name) for name in NAMES}
        forked = []
        for name, path in paths.items():
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen(128)
                keep = {listener.fileno(), *({2} if log else ())}  # the request log goes to stderr
                forked.append(
                    stack.enter_context(children.fork(_serving(name, listener, log=log, stores=stores), keep=keep))
                )
        for child in forked:
            child.receive(_START_SECONDS)
        yield {name: Forward(path) for name, path in paths.items()}


def _serving(name: str, listener: socket.socket, *, log: bool, stores: Sequence[str]) -> Callable[[Channel], None]:
    def serve(channel: Channel) -> None:
        gc.enable()
        links.allow(stores)
        service = _Mounted(_application(name), name)
        if log:
            from cleave_services.http import log_to_stderr  # noqa: PLC0415 - FastAPI

            log_to_stderr()
        config = uvicorn.Config(service, log_config=None, access_log=False, lifespan="off", server_header=False)
        server = _Telling(config, channel)
        server.run([listener])

    return serve


def _application(name: str) -> ASGIApp:
    """Imported in its own process: neither half has the other's library."""
    if name == "plain":
        from cleave_services.plain.app import app as plain  # noqa: PLC0415
        from cleave_services.plain.contained import prepare  # noqa: PLC0415

        prepare()  # before uvicorn starts a thread
        return plain
    from cleave_services.sensitive.app import app as sensitive  # noqa: PLC0415

    return sensitive


class _Telling(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, channel: Channel) -> None:
        super().__init__(config)
        self._channel = channel

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._channel.send([b"ready"])


@dataclass(frozen=True, slots=True)
class _Mounted:
    """/plain/openapi.json is the plain service's /openapi.json."""

    application: ASGIApp
    name: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].split("/")[1:2] == [self.name]:
            scope = {**scope, "root_path": f"{scope.get('root_path', '')}/{self.name}"}
        await self.application(scope, receive, send)


class Forward:
    """An application that asks another over a Unix socket; bodies are passed on as they come."""

    def __init__(self, path: str) -> None:
        limits_ = httpx.Limits(max_connections=None, max_keepalive_connections=8)
        self._client = httpx.AsyncHTTPTransport(uds=path, limits=limits_, retries=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = False

        async def body() -> AsyncIterator[bytes]:
            nonlocal gone
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    gone = True
                    raise httpx.ReadError("the caller has gone")
                yield message.get("body", b"")
                if not message.get("more_body"):
                    return

        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        request = httpx.Request(
            scope["method"],
            httpx.URL("http://half").copy_with(raw_path=target),
            headers=[(name, value) for name, value in scope["headers"] if name not in _NOT_FORWARDED],
            content=body(),
            extensions={"timeout": httpx.Timeout(_ANSWER_SECONDS).as_dict()},
        )
        try:
            answer = await self._client.handle_async_request(request)
            content = await answer.aread()
        except httpx.TransportError:
            if not gone:
                await problem(502, "this half does not answer", "stop `cleave serve` and start it again")(
                    scope, receive, send
                )
            return
        headers = [(name, value) for name, value in answer.headers.raw if name.lower() not in _NOT_RETURNED]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def problem(status: int, error: str, hint: str) -> ASGIApp:
    """An error in the form the services have for theirs."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an ASGI application
        body = wire.dump_json(wire.Problem(error=error, hint=hint))
        length = str(len(body)).encode()
        headers = [(b"content-type", wire.JSON_TYPE.encode()), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer
