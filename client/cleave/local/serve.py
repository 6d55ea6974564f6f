"""Both services on this machine over HTTP, under one address: what `cleave serve` runs.

/v1/sensitive/...  /v1/plain/...            the services, as API Gateway shows them
/sensitive/...     /plain/...               each whole, with its own /openapi.json and /v1/health
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave_services.http import log_to_stderr
from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive
from cleave_shared.errors import InputError, ServiceError

_STOP_SECONDS = 5


def serve(host: str, port: int, ready: Callable[[str], None], *, log: bool) -> None:
    """Answer until SIGINT or SIGTERM; `ready` gets the base URL once connections are accepted. Port 0: any free one.

    Raises InputError if the address cannot be had.
    """
    if log:
        log_to_stderr()
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        Switch({"sensitive": sensitive, "plain": plain}),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, lambda: ready(f"http://{shown}:{listener.getsockname()[1]}"))
    try:
        server.run([listener])
    finally:
        listener.close()
    if not server.started:
        raise ServiceError(f"nothing could be served at {shown}")


class Switch:
    """Hands each request to the service that its path names."""

    def __init__(self, services: dict[str, ASGIApp]) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, *parts = scope["path"].split("/", maxsplit=3)
        for name, service in self._services.items():
            if parts[:1] == [name]:  # /plain/openapi.json is the plain service's /openapi.json
                mounted = {**scope, "root_path": f"{scope.get('root_path', '')}/{name}"}
                return await service(mounted, receive, send)
            if parts[:2] == ["v1", name]:
                return await service(scope, receive, send)
        first = next(iter(self._services.values()))  # answers 404, or /v1/health and /openapi.json of its own
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
