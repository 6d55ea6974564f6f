"""Spreads sums over worker processes.

Ciphertexts are only read in workers, never in the service's own process: if SEAL crashes or stalls, one request fails.
TenSEAL holds the GIL in every call, so threads would not help.

A Lambda function forks the workers of each request; they inherit the ring and their chunks. A client with an embedded
service (`prepare`) is large: forking it takes 20 ms, for its page tables and for each page that it writes to
afterwards. So it uses a crew, forked before there is a key from a process that has only SEAL. Starting a worker takes
as long as adding up 20 chunks, and loading what masks need as long as adding up 150.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from cleave_services.sensitive.evaluate import Results
from cleave_shared import children, limits
from cleave_shared.children import Channel, Child, ChildLimits
from cleave_shared.crew import Crew
from cleave_shared.errors import ProcessDied, WireError
from cleave_shared.fork_server import ForkServer
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import ring

MIN_WORK = 24  # a second process costs about as much as loading or masking this many chunks
SPARE = 1.0  # seconds between the kernel's kill and the end of the wait
_MOST_IDLE = 4  # a client's requests at once

_Item = TypeVar("_Item")
Item_contra = TypeVar("Item_contra", contravariant=True)

ring(SUM60_PACK.name)  # created here, so that no request waits for it and every worker inherits it
# scans' imports are in their module, since questions over files need none of them
_server = ForkServer([__name__, "cleave_services.sensitive.scan"])
_crew: Crew | None = None
_under_way = 0
_lock = threading.Lock()


class Evaluation(Protocol[Item_contra]):
    """Sums over items. It can be pickled. `work` estimates it in chunks loaded or masked."""

    def work(self, items: Sequence[Item_contra]) -> int: ...

    def part(self, items: Sequence[Item_contra]) -> Evaluation[Item_contra]:
        """The part that evaluating `items` needs."""
        ...

    def evaluate(self, items: Sequence[Item_contra]) -> Results: ...

    def merge(self, parts: Sequence[Results]) -> Results: ...


def prepare(*, once: bool = False) -> ForkServer:
    """Keep workers between this process's requests from now on. Returns the fork server that starts them.

    Call it while the process is small. `once`: each worker serves one request, for a process with several clients.
    """
    global _crew  # noqa: PLW0603 - a fact about the process
    with _lock:  # threads of one client may call it together
        if _crew is None:
            _crew = Crew(_server.fork, max(_MOST_IDLE, processors()), once=once)
            _server.start()
    return _server


def processors() -> int:
    """Number of processors: on Lambda from the function's memory, elsewhere those that this process may use."""
    memory = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
    count = int(memory) // limits.LAMBDA_MB_PER_CPU if memory else len(os.sched_getaffinity(0))
    return max(1, min(count, limits.MAX_WORKERS))


@contextlib.contextmanager
def fair_share() -> Iterator[int]:
    """Number of processes that one request may use, given the other running requests. (Lambda runs one at a time.)"""
    global _under_way  # noqa: PLW0603 - counts this process's requests
    with _lock:
        _under_way += 1
        share = max(1, processors() // _under_way)
    try:
        yield share
    finally:
        with _lock:
            _under_way -= 1


def evaluate(
    evaluation: Evaluation[_Item], items: Sequence[_Item], workers: int, seconds: float | None = None
) -> Results:
    """Evaluate consecutive shares of `items`, each in one of at most `workers` processes. Each adds its sums to the
    previous one's.

    Raises the WireError of a refused share, or one (422) after `seconds` (default limits.SENSITIVE_SECONDS);
    ServiceError (500) if a worker dies. In any case all workers end.
    """
    seconds = limits.SENSITIVE_SECONDS if seconds is None else seconds
    bounds = ChildLimits(seconds=seconds, memory=limits.WORKER_BYTES, confined=True)
    until = time.monotonic() + seconds + SPARE  # so that the kernel ends the worker first
    count = max(1, min(workers, evaluation.work(items) // MIN_WORK, len(items)))
    size = -(-len(items) // count)
    shares = [items[start : start + size] for start in range(0, len(items), size)]
    with contextlib.ExitStack() as stack:
        try:
            at_work = [stack.enter_context(_worker(evaluation, share, bounds)) for share in shares]
            sums: list[bytes] = []
            for child in at_work:
                child.send(sums, max(0.01, until - time.monotonic()))
                sums = child.receive(until - time.monotonic(), limits.WORKER_BYTES)
        except ProcessDied as died:
            raise _failure(died) from None
    return loaded(sums)


@contextlib.contextmanager
def _worker(evaluation: Evaluation[_Item], share: Sequence[_Item], bounds: ChildLimits) -> Iterator[Child]:
    crew = _crew  # another thread may exchange it
    if crew is None:
        with children.fork(lambda channel: _evaluate(channel, evaluation, share), bounds) as child:
            yield child
    else:
        with crew.worker() as child:
            child.call(_evaluate, (evaluation.part(share), share), bounds, lasting=True)
            yield child


def _evaluate(channel: Channel, evaluation: Evaluation[_Item], share: Sequence[_Item]) -> None:
    children.start_no_more()
    try:
        own = evaluation.evaluate(share)
    finally:
        before = channel.receive()  # also for a refused share: the sender reads the error only then
    channel.send(dumped(evaluation.merge([loaded(before), own]) if before else own))


def _failure(died: ProcessDied) -> Exception:
    if died.late:
        return WireError(
            f"stopped after {limits.SENSITIVE_SECONDS:g} s", hint="send fewer chunks or groups per request"
        )
    return ProcessDied(
        "a worker process died", hint="give the function more memory or send smaller requests", signal=died.signal
    )


def dumped(totals: Results) -> list[bytes]:
    head = {"numbers": list(totals.files), "seconds": totals.seconds}
    return [json.dumps(head).encode(), *totals.files.values()]


def loaded(parts: list[bytes]) -> Results:
    head, *blobs = parts
    facts = json.loads(head)
    return Results(dict(zip(facts["numbers"], blobs, strict=True)), facts["seconds"])
