"""A service as an ASGI application: bodies are measured while they arrive, work is done in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from cleave_services import bodies
from cleave_services.service import Exchange, Service
from cleave_shared import limits
from cleave_shared.errors import WireError

Message = MutableMapping[str, Any]
_threads = ThreadPoolExecutor(limits.SERVE_REQUESTS, "work")  # each forks, and lives as long as its children


def application(service: Service) -> Callable[..., Awaitable[None]]:
    """Nothing of a lifespan."""
    return partial(_answer, service)


async def _answer(
    service: Service,
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer one request, unless the caller has gone."""
    if scope["type"] != "http":
        return
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    exchange = Exchange(service, scope["method"], scope["path"], headers)
    body = bytearray()  # a list of parts of a byte each would be sixty times their size
    try:
        most = exchange.most()
        more = most > 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            bodies.check_size(len(body), most)
            more = message.get("more_body", False)
    except WireError as error:
        reply = exchange.refuse(error, len(body))
    else:
        reply = await asyncio.get_running_loop().run_in_executor(_threads, exchange.answer, bytes(body))
    head = {"content-type": reply.kind, "content-length": str(len(reply.content)), **reply.headers}
    await send(
        {
            "type": "http.response.start",
            "status": reply.status,
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.items()],
        }
    )
    await send({"type": "http.response.body", "body": reply.content})
