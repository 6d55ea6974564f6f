"""Evaluation apart from a process that is large: where the service is embedded in the client.

A fork copies the page tables of all that its parent holds, and the parent then copies every page it writes to: some 20
ms of a client with a million rows, for every worker of every request. Here a request's workers are forked by a
fork server (`cleave_shared.fork_server`), which has nothing but SEAL. A worker that adds up is given a few chunks at a
time and needs no room for more. Workers are used again by the next request: starting one takes as long as
adding up 20 chunks, and what masks take, which a scan makes, as long as adding up 150. None inherits the key, where
the server is prepared before there is one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator, Totals
from cleave_services.sensitive.workers import (
    SPARE,
    dumped,
    evaluate_in_parallel,
    loaded,
    processes,
    processors,
    told,
)
from cleave_shared import limits
from cleave_shared.children import Bounds, Channel, Child, limit_time
from cleave_shared.errors import ProcessDied
from cleave_shared.fork_server import ForkServer
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring

if TYPE_CHECKING:
    from cleave_services.sensitive.scan_work import ScanWork

ring(SUM60_PACK.name)  # made before the fork server is, so that no request waits for it and every worker inherits it
# what only scans need is imported there, since a question over files asks for none
_server = ForkServer([__name__, "cleave_services.sensitive.scan_work"])
_wanted = False
_MOST_IDLE = 4  # as many requests a client has under way
_TOGETHER = 8  # chunks of a frame
_BLOCK, _SECONDS = struct.Struct("<I"), struct.Struct("<d")
_idle: list[Child] = []  # workers, each for one request at a time
_lock = threading.Lock()


def _forget() -> None:
    """A process forked from this one has no workers: it shares its parent's ends of their channels, and closes them."""
    global _lock  # noqa: PLW0603 - may be held
    _lock = threading.Lock()
    while _idle:
        _idle.pop().release()


def _end_idle() -> None:
    with _lock:
        while _idle:
            _idle.pop().__exit__(None, None, None)


os.register_at_fork(after_in_child=_forget)
atexit.register(_end_idle)  # before the server's own end, which was registered first


def prepare() -> None:
    """From now on evaluate apart. Best called while this process is small.

    It forks beside other threads, those of numpy's linear algebra among them, as every worker would be forked without
    it: what TenSEAL does it does under the GIL, and a worker touches no other library that has locks.
    """
    global _wanted  # noqa: PLW0603 - a fact about the process
    if _wanted:
        return
    _wanted = True
    _server.start(beside_threads=True)


def block_sums(
    evaluator: Evaluator,
    profile: str,
    chunks: Sequence[Chunk],
    workers: int,
    seconds: float | None = None,
) -> Totals:
    """The sums of all blocks, made by `workers` processes. Raises what `evaluate_in_parallel` raises."""
    seconds = limits.SENSITIVE_SECONDS if seconds is None else seconds
    sums = BlockSums(evaluator)
    if not _wanted:
        return evaluate_in_parallel(sums, chunks, workers, seconds)
    count = processes(sums, chunks, workers)
    longest = seconds + SPARE  # with the kernel's end of a worker first
    with contextlib.ExitStack() as stack, _dying_told():
        taken = [stack.enter_context(_worker()) for _ in range(count)]
        for each in taken:
            each.send(_asked(_add_up, profile, seconds), longest)
        for place, start in enumerate(range(0, len(chunks), _TOGETHER)):
            taken[place % count].send(_frame(chunks[start : start + _TOGETHER]), longest)
        done: list[Totals] = []
        for each in taken:  # what one has added up is a chunk to the next
            for before in done[-1:]:
                for block, blob in before.files.items():
                    each.send(_frame([Chunk(block, blob)]), longest)
            each.send([], longest)
            done.append(loaded(each.receive(longest, limits.WORKER_BYTES)))
    stages = {stage: sum(each.seconds[stage] for each in done) for stage in done[-1].seconds}
    return Totals(done[-1].files, stages)


@contextlib.contextmanager
def _worker() -> Iterator[Child]:
    """One that is idle, else a new one. Whatever fails in the block ends it."""
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(_idle_worker() or _server.fork(_serve, (), Bounds(memory=limits.WORKER_BYTES)))
        yield child
        with _lock:
            if len(_idle) < max(_MOST_IDLE, processors()):
                _idle.append(child)
                stack.pop_all()


def _idle_worker() -> Child | None:
    while True:
        with _lock:
            if not _idle:
                return None
            child = _idle.pop()
        poll = select.poll()
        poll.register(child.channel.fileno(), select.POLLIN)
        if not poll.poll(0):
            return child
        child.__exit__(None, None, None)  # it says nothing unless it has died


def masked_sums(work: ScanWork) -> Totals:
    """The sums of the rows of each group. Raises what `ScanWork.totals` raises."""
    if not _wanted:
        return work.totals()
    longest = work.seconds + 2 * SPARE  # the limit of processes that the worker forks comes first
    with _dying_told(), _worker() as worker:
        worker.send(_asked(_scan, work, longest), longest)
        return loaded(worker.receive(longest + SPARE, limits.WORKER_BYTES))


@contextlib.contextmanager
def _dying_told() -> Iterator[None]:
    try:
        yield
    except ProcessDied as died:
        raise told(died) from None


def _asked(work: Callable[[Channel, Any], Totals], argument: object, seconds: float) -> list[bytes]:
    return [_SECONDS.pack(seconds), pickle.dumps((work, argument), pickle.HIGHEST_PROTOCOL)]


def _serve(channel: Channel) -> None:
    """Request after request, each by `_asked` and what else its work takes in."""
    with contextlib.suppress(EOFError):
        while True:
            seconds, payload = channel.receive()
            limit_time(*_SECONDS.unpack(seconds))
            work, argument = pickle.loads(payload)  # noqa: S301 - from the process that this one serves
            answer = dumped(work(channel, argument))
            limit_time(0.0)  # whoever asked waits no longer than that, and ends this process
            channel.send(answer)


def _frame(chunks: Sequence[Chunk]) -> list[bytes | memoryview]:
    return [b"".join(_BLOCK.pack(each.block) for each in chunks), *(each.blob for each in chunks)]


def _add_up(channel: Channel, profile: str) -> Totals:
    """Frames of `_frame`, then an empty one."""
    received = _received(channel)
    try:
        return BlockSums(SealEvaluator(ring(profile))).evaluate(received)
    except Exception:
        for _ in received:  # whoever sends reads the error only then
            pass
        raise


def _received(channel: Channel) -> Iterator[Chunk]:
    while parts := channel.receive():
        head, *blobs = parts
        for (block,), blob in zip(_BLOCK.iter_unpack(head), blobs, strict=True):
            yield Chunk(block, blob)


def _scan(_: Channel, work: ScanWork) -> Totals:
    return work.totals(in_child=True)
