"""Both services on this machine over HTTP, under one address: what `cleave serve` runs.

/v1/sensitive/...  /v1/plain/...            the services, as API Gateway shows them
/sensitive/...     /plain/...               each whole, with its own /openapi.json and /v1/health
/  /health  /docs                           for people

Ciphertexts and SQL are read in children of two fork servers, one for each service: a child answers one request. Only
requests whose Host is a loopback name or an allowed one are answered: a web page can point its own name at this machine
(DNS rebinding). Nothing is said of CORS unless origins are given, so no browser shows a page an answer.

`Door` limits the number of requests at once, their framing and their time. h11 refuses what is no HTTP (400), and a
head over 64 KB unless it arrives at once.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cleave.transport.addresses import in_url, is_loopback, listen
from cleave_services import links
from cleave_services.log import log_to_stderr
from cleave_services.openapi import Application
from cleave_services.plain.service import service as plain
from cleave_services.sensitive import workers
from cleave_services.sensitive.service import service as sensitive
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError
from cleave_shared.version import VERSION

_STOP_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Listening:
    """Address and settings of `cleave serve`. `log`: write a line for each request.

    `names`: further names of this machine that Host may hold; `origins`: web origins that may read answers; `stores`:
    URLs of the folders in which services may read stored tables.
    """

    host: str
    port: int
    log: bool
    names: Sequence[str] = ()
    origins: Sequence[str] = ()
    stores: Sequence[str] = ()


def serve(listening: Listening, ready: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM; `ready` gets the base URL once connections are accepted. Port 0: any free one.

    Raises InputError for an address that cannot be listened on.
    """
    sensitive.prepare()  # the processes that fork children start while there is no thread and no listener yet
    workers.prepare(once=True)
    plain.prepare()
    links.allow(listening.stores)
    if listening.log:
        log_to_stderr()
    from cleave_services.plain.app import app as plain_app  # noqa: PLC0415 - FastAPI, which the children go without
    from cleave_services.sensitive.app import app as sensitive_app  # noqa: PLC0415

    services = {"sensitive": sensitive_app, "plain": plain_app}
    listener, shown = listen(listening.host, listening.port), in_url(listening.host)
    names = {listening.host, *listening.names}
    application: ASGIApp = Door(Named(Pages(Switch(services), services), names))
    if listening.origins:
        application = CORSMiddleware(
            application, allow_origins=listening.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    config = uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, lambda: ready(f"http://{shown}:{listener.getsockname()[1]}"))
    try:
        server.run([listener])
    finally:
        listener.close()
    if not server.started:
        raise ServiceError(f"nothing could be served at {shown}")


class Named:
    """Refuses requests to a host that is neither this machine's loopback nor one of `names`."""

    def __init__(self, application: ASGIApp, names: Collection[str]) -> None:
        self._application = application
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._knows([value for name, value in scope["headers"] if name == b"host"]):
            await self._application(scope, receive, send)
        else:
            refusal = problem(
                421, "the Host header names no host of this server", "cleave serve --allow-host NAME lets one in"
            )
            await refusal(scope, receive, send)

    def _knows(self, hosts: list[bytes]) -> bool:
        if len(hosts) != 1:
            return False
        try:
            name = urlsplit(f"//{hosts[0].decode('ascii')}").hostname or ""
        except ValueError:
            return False
        return name in self._names or is_loopback(name)


class Switch:
    """Hands each request to the service that its path names; any other to the first, which answers 404.

    Without the request's Origin: a service lets any web page read its answers, this server does not.
    """

    def __init__(self, services: Mapping[str, ASGIApp]) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        _, *parts = scope["path"].split("/", maxsplit=3)
        name = next((each for each in self._services if each in parts[:1] or parts[:2] == ["v1", each]), None)
        scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != b"origin"]}
        if parts[:1] == [name]:  # /plain/openapi.json is the plain service's /openapi.json
            scope["root_path"] = f"/{name}"
        await self._services[name or next(iter(self._services))](scope, receive, send)


class _Server(uvicorn.Server):
    """Calls `ready`, and ends on a signal: uvicorn's own server would raise the signal once more."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.force_exit = self.should_exit  # a second signal does not wait for requests under way
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def problem(status: int, error: str, hint: str, headers: Mapping[str, str] | None = None) -> ASGIApp:
    """Make an error in the form the services have for theirs."""
    content = wire.dump_json(wire.Problem(error=error, hint=hint))
    return Response(content, status, headers=headers, media_type=wire.JSON_TYPE)


_CLOSE = {"connection": "close"}
_BUSY = problem(
    503, f"{limits.SERVE_REQUESTS} requests are under way", "try again later", _CLOSE | {"retry-after": "1"}
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


_POLICY = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


class Pages:
    """Answers GET of its own paths, and hands every other request on."""

    def __init__(self, application: ASGIApp, services: Mapping[str, Application]) -> None:
        self._application = application
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pages = {"/": self._index, "/health": self._health, "/docs": self._docs}
        application = self._application
        if scope["type"] == "http" and scope["path"] in pages and scope["method"] in ("GET", "HEAD"):
            application = pages[scope["path"]]()
        await application(scope, receive, send)

    def _index(self) -> Response:
        links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>' for path, text in _LINKS.items())
        return _page(f"<h1>Cleave {VERSION}</h1><p>{_ABOUT}</p><ul>{links}</ul>")

    def _health(self) -> Response:
        return JSONResponse({"version": VERSION, **dict.fromkeys(self._services, "ok")})

    def _docs(self) -> Response:
        return _page("".join(_service(each.openapi()) for each in self._services.values()))


_ABOUT = "Both services, for <code>cleave query --endpoint</code>. There is no authentication and no TLS here."
_LINKS = {
    "/health": "whether this server answers",
    "/docs": "what they take and return",
    "/sensitive/openapi.json": "the sensitive service, for programs",
    "/plain/openapi.json": "the plain service, for programs",
}


def _page(body: str) -> Response:
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Cleave</title>'
    return HTMLResponse(f"{head}<body>{body}</body></html>", headers=_POLICY)


def _service(document: Mapping[str, Any]) -> str:
    """Describe a service as HTML, by its OpenAPI document."""
    parts = [f"<h1>{_text(document['info']['title'])}</h1><p>{_text(document['info']['description'])}</p>"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2>{_text(method.upper())} {_text(path)}</h2><p>{_text(operation.get('description', ''))}</p>"
            )
            answers = operation["responses"].items()
            rows = "".join(f"<dt>{_text(status)}</dt><dd>{_text(each['description'])}</dd>" for status, each in answers)
            parts.append(f"<p>Takes {_models(operation.get('requestBody', {}))}. Answers:</p><dl>{rows}</dl>")
    for name, schema in document["components"]["schemas"].items():
        shown = _text(json.dumps(schema, indent=2, ensure_ascii=False))
        parts.append(f'<h3 id="{_text(name)}">{_text(name)}</h3><pre>{shown}</pre>')
    return "".join(parts)


def _models(body: Mapping[str, Any]) -> str:
    names = [each["schema"].get("$ref", "").rpartition("/")[2] for each in body.get("content", {}).values()]
    return (
        " or ".join(f'<a href="#{_text(name)}">{_text(name)}</a>' if name else "frames" for name in names) or "nothing"
    )


def _text(value: object) -> str:
    return escape(str(value))
