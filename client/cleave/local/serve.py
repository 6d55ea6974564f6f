"""Both services on this machine over HTTP, under one address: what `cleave serve` runs.

/v1/sensitive/...  /v1/plain/...            the services, as API Gateway shows them
/sensitive/...     /plain/...               each whole, with its own /openapi.json and /v1/health
/  /health  /docs                           for people, see `pages`

This process only hands requests on (see `halves`). It answers those alone whose Host is a loopback name or one that was
given, since a web page can point a name of its own at this machine (DNS rebinding); and it says nothing of CORS unless
origins are given, so no browser shows a page what it answers.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave.cli.group import Listening
from cleave.local.door import Connection, Door
from cleave.local.halves import DEATH_SECONDS, MOST_DEATHS, Halves, problem
from cleave.local.pages import Pages
from cleave_shared.errors import InputError, ServiceError

_STOP_SECONDS = 5


def serve(listening: Listening, ready: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM; `ready` gets the base URL once connections are accepted. Port 0: any free one.

    Raises InputError if the address cannot be had, ServiceError if a service does not start or keeps dying.
    """
    host = listening.host
    with Halves(
        log=listening.log, stores=listening.stores
    ) as halves:  # forked first, while there is no thread and no listener yet
        listener = _listen(host, listening.port)
        shown = f"[{host}]" if ":" in host else host
        shown_to_people = Pages(Switch(halves.applications), halves.applications)
        application: ASGIApp = Door(Named(shown_to_people, {host, *listening.names}))
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
        server = _Server(config, halves, lambda: ready(f"http://{shown}:{listener.getsockname()[1]}"))
        try:
            server.run([listener])
        finally:
            listener.close()
        if not server.started:
            raise ServiceError(f"nothing could be served at {shown}")
        if server.gave_up:
            raise ServiceError(
                f"a service died {MOST_DEATHS} times within {DEATH_SECONDS:g} s",
                hint="is there enough memory? Without --quiet it logs each request",
            )


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
    """Hands each request to the service that its path names; whatever names none, to the first, which answers 404."""

    def __init__(self, services: Mapping[str, ASGIApp]) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, *parts = scope["path"].split("/", maxsplit=3)
        for name, service in self._services.items():
            if parts[:1] == [name] or parts[:2] == ["v1", name]:
                return await service(scope, receive, send)
        first = next(iter(self._services.values()))
        return await first(scope, receive, send)


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

    def __init__(self, config: uvicorn.Config, halves: Halves, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._halves = halves
        self._ready = ready
        self.gave_up = False

    def _give_up(self) -> None:
        self.gave_up = self.should_exit = self.force_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.force_exit = self.should_exit  # a second signal does not wait for requests under way
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._halves.watch(self._give_up)
            self._ready()
