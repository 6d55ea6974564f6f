"""Both services inside this process, called as ASGI applications: the same bodies, limits and answers as over HTTP.

The applications are handed in: the client imports no service (see cleave.local).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from cleave.transport.base import EnvelopeTransport, Service
from cleave.transport.deadline import Deadline
from cleave.transport.responses import Response, request_id
from cleave_shared.errors import ServiceError
from cleave_shared.wire import FRAMES_TYPE

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


def connect_embedded(applications: Mapping[Service, Application]) -> EnvelopeTransport:
    return EnvelopeTransport(_Embedded(applications))


class _Embedded:
    def __init__(self, applications: Mapping[Service, Application]) -> None:
        self._applications = applications

    def exchange(self, service: Service, body: bytes, deadline: Deadline) -> Response:
        # a loop and a thread per call: a service's work cannot be cancelled, only left alone; it bounds its own time
        return deadline.call(lambda: asyncio.run(_post(self._applications[service], service, body)))

    def close(self) -> None:
        """Nothing is held open between calls."""


async def _post(application: Application, service: Service, body: bytes) -> Response:
    path = service.value
    scope: Message = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"host", b"embedded"),
            (b"content-type", FRAMES_TYPE.encode()),
            (b"accept", FRAMES_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": None,
        "server": None,
    }
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    outgoing: list[Message] = []
    answered = asyncio.Event()

    async def receive() -> Message:
        if incoming:
            return incoming.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        outgoing.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    await application(scope, receive, send)
    if not answered.is_set():
        raise ServiceError(f"{service.label} gave no answer")
    start = next(message for message in outgoing if message["type"] == "http.response.start")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Response(
        status=start["status"],
        content_type=headers.get("content-type", ""),
        body=b"".join(message.get("body", b"") for message in outgoing if message["type"] == "http.response.body"),
        request_id=request_id(headers),
    )
