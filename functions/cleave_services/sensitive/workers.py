"""Spread chunks over forked processes.

Every ciphertext is read in a child, never in the service's own process: what crashes or stalls SEAL ends one request.
Children are forked, so they inherit the ring; TenSEAL holds the GIL in every call, so threads would gain nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from cleave_services.sensitive.evaluate import Totals
from cleave_shared import children, limits
from cleave_shared.children import Bounds, Channel
from cleave_shared.errors import ProcessDied, WireError

MIN_WORK = 24  # a second process's fork and answer cost about as much as loading or masking this many chunks
SPARE = 1.0  # seconds between the kernel's end of a child and the end of waiting for it

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)

_under_way = 0
_lock = threading.Lock()


def processors() -> int:
    """On Lambda what the memory buys, elsewhere what this process may run on."""
    memory = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
    count = int(memory) // limits.LAMBDA_MB_PER_CPU if memory else len(os.sched_getaffinity(0))
    return max(1, min(count, limits.MAX_WORKERS))


@contextlib.contextmanager
def fair_share() -> Iterator[int]:
    """Processes one request may use while others are under way: Lambda has one at a time, a local server several."""
    global _under_way  # noqa: PLW0603 - counts this process's requests
    with _lock:
        _under_way += 1
        share = max(1, processors() // _under_way)
    try:
        yield share
    finally:
        with _lock:
            _under_way -= 1


class Evaluation(Protocol[Item_contra]):
    """What is done with chunks; `work` estimates it in chunks loaded or masked."""

    def work(self, chunks: Sequence[Item_contra]) -> int: ...

    def evaluate(self, chunks: Sequence[Item_contra]) -> Totals: ...

    def merge(self, parts: Sequence[Totals]) -> Totals: ...


def evaluate_in_parallel(
    evaluation: Evaluation[Item], chunks: Sequence[Item], workers: int, seconds: float | None = None
) -> Totals:
    """`evaluation` over `workers` processes, whose results one more adds up. Raises what `spread` raises."""
    deadline = time.monotonic() + (limits.SENSITIVE_SECONDS if seconds is None else seconds)
    count = needed(evaluation, chunks, workers)
    parts = spread(lambda share: dumped(evaluation.evaluate(share)), chunks, count, deadline)
    if len(parts) > 1:
        parts = spread(lambda _: dumped(evaluation.merge(list(map(loaded, parts)))), [None], 1, deadline)
    return loaded(parts[0])


def needed(evaluation: Evaluation[Item], chunks: Sequence[Item], workers: int) -> int:
    """Of `workers` processes those that are worth their forks."""
    return max(1, min(workers, evaluation.work(chunks) // MIN_WORK))


def spread(
    work: Callable[[Sequence[Item]], list[bytes]], items: Sequence[Item], count: int, deadline: float | None = None
) -> list[list[bytes]]:
    """What `work` makes of `count` consecutive shares of `items`, each in a forked process, in order.

    Raises the WireError of a share that is refused, and one (422) past `deadline` (of time.monotonic; None:
    limits.SENSITIVE_SECONDS from now); ServiceError (500) where a process dies. Whatever happens, no process is left.
    """
    size = -(-len(items) // max(1, min(count, len(items))))
    shares = [items[start : start + size] for start in range(0, len(items), size)]
    left = limits.SENSITIVE_SECONDS if deadline is None else max(SPARE, deadline - time.monotonic())
    bounds = Bounds(seconds=left, memory=limits.WORKER_BYTES)
    until = time.monotonic() + left + SPARE
    with contextlib.ExitStack() as stack:
        forked = [stack.enter_context(children.fork(_working(work, share), bounds)) for share in shares]
        try:
            return [child.receive(until - time.monotonic(), limits.WORKER_BYTES) for child in forked]
        except ProcessDied as died:
            raise told(died) from None


def _working(work: Callable[[Sequence[Item]], list[bytes]], share: Sequence[Item]) -> Callable[[Channel], None]:
    return lambda channel: channel.send(work(share))


def told(died: ProcessDied) -> Exception:
    if died.late:
        return WireError(
            f"stopped after {limits.SENSITIVE_SECONDS:g} s", hint="send fewer chunks or groups per request", status=422
        )
    return ProcessDied(
        "a worker process died", hint="give the function more memory or send smaller requests", signal=died.signal
    )


def dumped(totals: Totals) -> list[bytes]:
    head = {"numbers": list(totals.files), "seconds": totals.seconds}
    return [json.dumps(head).encode(), *totals.files.values()]


def loaded(parts: list[bytes]) -> Totals:
    head, *blobs = parts
    told = json.loads(head)
    return Totals(dict(zip(told["numbers"], blobs, strict=True)), told["seconds"])
