"""Evaluates each request in a forked child, so that an expression cannot harm another process.

One line of SQL can make DuckDB overflow its stack, exceed its memory_limit, or ignore an interrupt. So the kernel
limits the child's address space, processor time and time. The child has no socket but its answer's, and leaves no core
file. It returns bytes, which are validated like a stranger's. It has a copy of an empty DuckDB that its parent opened.
It answers one request and ends; then the next child is forked in advance.
"""

from __future__ import annotations

import math
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from cleave_services.bodies import Note
from cleave_services.plain import database
from cleave_services.plain.database import lambda_megabytes, threads
from cleave_shared import limits, wire
from cleave_shared.children import Channel, ChildLimits
from cleave_shared.crew import Crew
from cleave_shared.errors import ProcessDied, ServiceError, WireError
from cleave_shared.fork_server import ForkServer
from cleave_shared.messages import Message

_Response = TypeVar("_Response", bound=Message)
_PEAK = struct.Struct("<I")  # the most memory of a child, in KiB
_SPARE = 1.0  # seconds between the kernel's kill and the end of the wait
_SHORT = WireError(
    "needs more memory than the service has", hint="send fewer rows or columns per request", code="too_large"
)
# Children are forked here, not in the service's process, which may have threads in DuckDB or elsewhere.
_server = ForkServer(
    [
        "cleave_services.plain.engine",
        "cleave_services.plain.simple",
        "cleave_services.plain.database:open_to_fork",
    ]
)
_crew = Crew(_server.fork, 0, once=True)


def prepare(*, ahead: bool = True) -> None:
    """Start what the first request would start. It takes 2 ms while this process has one thread, 0.3 s later.

    `ahead`: from the first request on, a child is forked in advance. For a process that answers many requests.
    """
    _crew.most_idle = int(ahead)
    _server.start()


def run(
    work: Callable[..., _Response],
    arguments: Sequence[object],
    answer: type[_Response],
    note: Note,
    most: int = limits.MAX_JSON_BYTES,
    seconds: float | None = None,
) -> _Response:
    """Run `work(*arguments)` in a child within `seconds` (default limits.PLAIN_SECONDS). Its answer has at most `most`
    bytes of JSON.

    It notes the most memory that any child used. Raises WireError: the work's own, 413 for too little memory, 422 if
    time runs out or the child dies.
    """
    seconds = limits.PLAIN_SECONDS if seconds is None else seconds
    try:
        with _crew.worker() as child:
            child.call(_answer, (work, arguments, most), _bounds(seconds))
            body, peak = child.receive(seconds + _SPARE, 2 * most)
        _server.note(*_PEAK.unpack(peak))
        return _read(answer, body)
    except ProcessDied as died:
        raise _refusal(died) from None
    except struct.error:
        raise _no_answer() from None
    finally:
        note(peak_worker_kb=_server.peak_kb)


def _answer(channel: Channel, work: Callable[..., _Response], arguments: Sequence[object], most: int) -> None:
    database.be_the_last()
    try:
        body = wire.dump_json(work(*arguments))
    except MemoryError:
        raise _SHORT from None
    if len(body) > most:
        raise WireError("the answer is too large", hint="request fewer groups at a time", code="too_large")
    channel.send([body, _PEAK.pack(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)])


def _read(answer: type[_Response], body: bytes) -> _Response:
    try:
        body.decode()  # json would accept other encodings too
        value, _ = wire.parse(body, wire.JSON_TYPE)
        return wire.validate(answer, value, own=True)
    except (UnicodeDecodeError, WireError):
        raise _no_answer() from None


def _no_answer() -> ServiceError:
    return ServiceError("DuckDB's process sent no answer", status=500)


def _bounds(seconds: float) -> ChildLimits:
    """Limits of a child. Address space is limited because DuckDB's memory_limit does not cover strings and lists made
    by functions.
    """
    memory = lambda_megabytes()
    return ChildLimits(
        seconds=seconds,
        cpu_seconds=math.ceil(seconds * threads()),
        memory=memory * limits.MIB * 8 // 10 if memory else limits.PLAIN_BYTES,
        confined=True,
    )


def _refusal(died: ProcessDied) -> WireError:
    if died.late:
        return WireError(
            f"stopped after {limits.PLAIN_SECONDS:g} s",
            hint="send fewer rows per request or a simpler expression",
        )
    if died.signal in (None, signal.SIGKILL):
        return _SHORT
    return WireError(
        f"an expression ended the process it was evaluated in ({signal.Signals(died.signal).name})",
        hint="it needs too much memory or is nested too deeply: send a simpler one",
    )
