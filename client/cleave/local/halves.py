"""Each service in a process of its own behind `cleave serve`, and the way there: HTTP over a Unix socket.

What ends one half leaves the other answering, and it is started again. The plain half has no SEAL and the sensitive one
no DuckDB. Both end with the process that forked them, however that ends.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import socket
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import httpx
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave_services import links
from cleave_services.log import log_to_stderr
from cleave_services.plain.service import service as plain
from cleave_services.sensitive.service import service as sensitive
from cleave_shared import children, limits, wire
from cleave_shared.children import Channel, Child
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import ServiceError

NAMES = ("sensitive", "plain")
MOST_DEATHS, DEATH_SECONDS = 5, 60.0
_START_SECONDS = 60.0
_ANSWER_SECONDS = max(limits.PLAIN_SECONDS, limits.SENSITIVE_SECONDS) + 10
_OWN_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"})
_NOT_FORWARDED = _OWN_HOP | {b"origin"}  # a half answers no Origin: whether one may ask is for `serve` to say
_NOT_RETURNED = _OWN_HOP | {b"date", b"server"}


class Halves:
    """Both services, forked, as `applications` that forward to them; each is started again when it dies.

    A context manager. `stores`: URLs of the folders that links may lead into (`cleave_services.links`).
    """

    def __init__(self, *, log: bool, stores: Sequence[str] = ()) -> None:
        self._halves = [_Half(name, log, stores) for name in NAMES]
        self.applications: dict[str, ASGIApp] = {half.name: Forward(half.path) for half in self._halves}

    def __enter__(self) -> Halves:
        """Raises ServiceError if one does not start."""
        for half in self._halves:
            half.start()
        for half in self._halves:
            half.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for half in self._halves:
            half.end()

    def watch(self, give_up: Callable[[], None]) -> None:
        """Start again each half that dies from now on, in the running event loop; `give_up` where one keeps dying."""
        for half in self._halves:
            half.watch(give_up)


class _Half:
    def __init__(self, name: str, log: bool, stores: Sequence[str]) -> None:
        self.name = name
        self._log, self._stores = log, stores
        self._listener, self._node = _listener()
        self.path = f"/proc/self/fd/{self._node}"
        self._child: Child | None = None
        self._deaths = Deaths()

    @property
    def child(self) -> Child:
        """The process. Raises ServiceError before the first `start`."""
        if self._child is None:
            raise ServiceError(f"the {self.name} service is not started")
        return self._child

    def start(self) -> None:
        keep = {self._listener.fileno(), *({2} if self._log else ())}  # the request log goes to stderr
        work = _serving(self.name, self._listener, log=self._log, stores=self._stores)
        self._child = children.fork(work, keep=keep)

    def wait(self) -> None:
        self.child.receive(_START_SECONDS)

    def end(self) -> None:
        if self._child is not None:
            self._child.__exit__(None, None, None)
        self._listener.close()
        os.close(self._node)

    def watch(self, give_up: Callable[[], None]) -> None:
        """Requests wait in the listener, which is this process's too, until the new half takes them."""
        loop, ended = asyncio.get_running_loop(), os.pidfd_open(self.child.pid)

        def again() -> None:
            loop.remove_reader(ended)
            os.close(ended)
            self.child.__exit__(None, None, None)
            if self._deaths.too_many():
                give_up()
                return
            try:
                self.start()
            except OSError:  # no memory, too many processes
                give_up()
                return
            self.watch(give_up)

        loop.add_reader(ended, again)


class Deaths:
    """Decides whether a half may be started once more: MOST_DEATHS within DEATH_SECONDS are a crash loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: deque[float] = deque(maxlen=MOST_DEATHS)

    def too_many(self) -> bool:
        """Note a death now."""
        self._at.append(self._clock())
        return len(self._at) == MOST_DEATHS and self._at[-1] - self._at[0] < DEATH_SECONDS


def _listener() -> tuple[socket.socket, int]:
    """A Unix socket without a name, and a descriptor of its file by which this process alone connects.

    Its folder is gone before anything is answered, so that a process that is killed leaves no file.
    """
    listener = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{place}/half")  # however long the folder's name: a socket's has 107 bytes
            return listener, os.open("half", os.O_PATH | os.O_NOFOLLOW, dir_fd=place)
        finally:
            os.close(place)
            listener.listen(128)


def _serving(name: str, listener: socket.socket, *, log: bool, stores: Sequence[str]) -> Callable[[Channel], None]:
    def serve(channel: Channel) -> None:
        gc.enable()
        links.allow(stores)
        service = _Mounted(_application(name), name)
        if log:
            log_to_stderr()
        config = uvicorn.Config(service, log_config=None, access_log=False, lifespan="off", server_header=False)
        server = _Telling(config, channel)
        server.run([listener])

    return serve


def _application(name: str) -> ASGIApp:
    """Imported in its own process: neither half has the other's library."""
    module = importlib.import_module(f"cleave_services.{name}.app")
    service = plain if name == "plain" else sensitive
    service.prepare()  # before uvicorn starts a thread
    application: ASGIApp = module.app
    return application


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
                await problem(502, "this half does not answer", "ask again: it is started again when it dies")(
                    scope, receive, send
                )
            return
        headers = [(name, value) for name, value in answer.headers.raw if name.lower() not in _NOT_RETURNED]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def problem(status: int, error: str, hint: str, headers: Mapping[str, str] | None = None) -> ASGIApp:
    """An error in the form the services have for theirs."""
    more = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an ASGI application
        body = wire.dump_json(wire.Problem(error=error, hint=hint))
        length = str(len(body)).encode()
        headers = [(b"content-type", wire.JSON_TYPE.encode()), (b"content-length", length), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer
