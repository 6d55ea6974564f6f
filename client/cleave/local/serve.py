"""Both services on this machine over HTTP, under one address: what `cleave serve` runs.

/v1/sensitive/...  /v1/plain/...            the services, as API Gateway shows them
/sensitive/...     /plain/...               each whole, with its own /openapi.json and /v1/health
/  /health  /docs                           for people, see `pages`

Ciphertexts and SQL are read in children of two fork servers, one for each service: a child answers one request. Only
requests whose Host is a loopback name or one that was given are answered, since a web page can point a name of its own
at this machine (DNS rebinding). Nothing is said of CORS unless origins are given, so no browser shows a page an answer.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave.local.door import Connection, Door, problem
from cleave.local.pages import Pages
from cleave_services import links
from cleave_services.log import log_to_stderr
from cleave_services.plain.service import service as plain
from cleave_services.sensitive import workers
from cleave_services.sensitive.service import service as sensitive
from cleave_shared.errors import InputError, ServiceError

_STOP_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Listening:
    """How `cleave serve` listens. `log`: say a line for each request.

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

    Raises InputError if the address cannot be had.
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
    listener = _listen(listening.host, listening.port)
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
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
        if name == "localhost" or name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


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


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InputError(
            f"{host} port {port} cannot be listened on ({error.strerror})", hint="another --port, or 0 for any free one"
        ) from None
    listener.set_inheritable(False)
    return listener


class _Server(uvicorn.Server):
    """Tells when it is ready, and ends without ado on a signal: uvicorn's own would raise it once more."""

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
