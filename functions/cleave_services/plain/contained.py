"""One forked child a request: what an expression does to DuckDB, it does there.

SQL of one line can make DuckDB recurse until its stack ends, allocate past its own memory_limit or compute past an
interrupt. The child has bounds on address space, processor and time that the kernel holds it to, no socket but the one
it answers on, and no core file. It hands back bytes, which are validated like a stranger's.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cleave_services.plain import database
from cleave_services.plain.database import lambda_megabytes, threads
from cleave_shared import children, limits
from cleave_shared.children import Bounds, Channel, Child
from cleave_shared.errors import ProcessDied, ServiceError, WireError
from cleave_shared.fork_server import ForkServer

Request = TypeVar("Request")
Response = TypeVar("Response", bound=BaseModel)
_SPARE = 1.0  # seconds between the kernel's end of the child and the end of waiting for it
_SHORT = WireError("needs more memory than the service has", hint="send fewer rows or columns per request", status=413)
# Children come from here and never from the process of the service, where threads may be at work in DuckDB or anywhere.
_server = ForkServer(["cleave_services.plain.engine", "cleave_services.plain.select", "cleave_services.plain.simple"])
_ahead: dict[int, Child] = {}  # asked nothing yet; by the process whose it is, not one that is forked from that


def prepare() -> None:
    """Start what the first request would start. Takes 2 ms before this process has a second thread, 0.3 s after."""
    _server.start()


def fork_ahead() -> None:
    """Have the next request's child open its DuckDB now: the request need not wait for that.

    It serves one request like any other child, within the same bounds; its time begins with the request. There is none
    where it would have to be waited for.
    """
    with contextlib.suppress(ServiceError):
        if os.getpid() not in _ahead and _server.is_ready():
            _ahead[os.getpid()] = _server.fork(_answer_later, (), replace(_bounds(limits.PLAIN_SECONDS), seconds=None))


@atexit.register
def _end_ahead() -> None:
    child = _ahead.pop(os.getpid(), None)
    if child is not None:
        with child:
            """It goes with this process, and its sockets are closed."""


def peak_kb() -> int:
    """The most memory that any child has had."""
    return _server.peak_kb


def run(
    work: Callable[[Request], Response],
    request: Request,
    answer: type[Response],
    most: int = limits.MAX_JSON_BYTES,
    seconds: float | None = None,
) -> Response:
    """`work(request)`, an `answer` of `most` bytes as JSON, made in a child within `seconds` (limits.PLAIN_SECONDS).

    Raises WireError: what `work` raises; 413 where memory is short; 422 where time runs out or the child dies of it.
    """
    seconds = limits.PLAIN_SECONDS if seconds is None else seconds
    try:
        with _asked(work, request, most, seconds) as child:
            (body,) = child.receive(seconds + _SPARE, 2 * most)
    except ProcessDied as died:
        raise _told(died) from None
    try:
        return answer.model_validate_json(body)
    except ValidationError:
        raise ServiceError("DuckDB's process sent no answer", status=500) from None


def _asked(work: Callable[[Request], Response], request: Request, most: int, seconds: float) -> Child:
    """The child that was forked ahead, or a new one, at work."""
    payload = pickle.dumps((work, request, most), pickle.HIGHEST_PROTOCOL)
    with contextlib.suppress(KeyError, ProcessDied), contextlib.ExitStack() as stack:  # there is none, or no more
        child = stack.enter_context(_ahead.pop(os.getpid()))
        child.send([str(seconds).encode(), payload], seconds)
        stack.pop_all()
        return child
    return _server.fork(_answer, (work, request, most), _bounds(seconds))


def _answer_later(channel: Channel) -> None:
    database.open_ahead()
    seconds, payload = channel.receive()
    children.limit_time(float(seconds))  # before anything of the request is read
    _answer(channel, *pickle.loads(payload))  # noqa: S301 - from the process that this one serves


def _answer(channel: Channel, work: Callable[[Request], Response], request: Request, most: int) -> None:
    database.leave_open()
    try:
        body = work(request).model_dump_json().encode()
    except MemoryError:
        raise _SHORT from None
    if len(body) > most:
        raise WireError("the answer is too large", hint="ask for fewer groups per request", status=413)
    channel.send([body])


def _bounds(seconds: float) -> Bounds:
    """DuckDB's memory_limit covers its tables, not the strings and lists that functions make: hence address space."""
    memory = lambda_megabytes()
    return Bounds(
        seconds=seconds,
        cpu_seconds=math.ceil(seconds * threads()),
        memory=memory * limits.MIB * 8 // 10 if memory else limits.PLAIN_BYTES,
    )


def _told(died: ProcessDied) -> WireError:
    if died.late:
        return WireError(
            f"stopped after {limits.PLAIN_SECONDS:g} s",
            hint="send fewer rows per request or ask for a simpler expression",
        )
    if died.signal in (None, signal.SIGKILL):
        return _SHORT
    return WireError(
        f"an expression ended the process it was evaluated in ({signal.Signals(died.signal).name})",
        hint="it needs more memory or deeper nesting than there is: ask for a simpler one",
    )
