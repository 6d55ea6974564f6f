"""Spread chunks over forked processes.

Process and Pipe only: Lambda has no usable /dev/shm, so Pool, Queue and Lock raise there. TenSEAL holds the GIL in
every call, so threads gain nothing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from cleave_services.sensitive.evaluate import Chunk, Evaluator, Totals, evaluate, merge
from cleave_shared import limits
from cleave_shared.errors import CleaveError, ServiceError, WireError

_FORK = multiprocessing.get_context("fork")  # Python 3.14 no longer defaults to it; the ring is inherited, not pickled
MIN_WORK = 24  # a worker's fork and answer cost about as much as loading or masking this many chunks


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


def evaluate_in_parallel(evaluator: Evaluator, lanes: int, chunks: Sequence[Chunk], workers: int) -> Totals:
    """`evaluate` over `workers` processes, this one included.

    Raises ServiceError (500) if a worker dies, WireError if a chunk is not a ciphertext.
    """
    work = len(chunks) + sum(len(chunk.segments) for chunk in chunks if len(chunk.segments) > 1)
    count = max(1, min(workers, work // MIN_WORK, len(chunks)))
    share = -(-len(chunks) // count)
    shares = [chunks[start : start + share] for start in range(0, len(chunks), share)]
    forked = []
    for part in shares[1:]:
        ours, theirs = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_work, args=(theirs, evaluator, lanes, part), daemon=True)
        process.start()
        theirs.close()
        forked.append((process, ours))
    try:
        # the answer is read before the join: a child blocks on a full pipe otherwise
        return merge(evaluator, lanes, [evaluate(evaluator, lanes, shares[0]), *(_receive(pipe) for _, pipe in forked)])
    finally:
        for process, pipe in forked:
            pipe.close()
            process.join()


def _receive(pipe: Connection) -> Totals:
    try:
        answer = pipe.recv()
    except EOFError:
        raise ServiceError(
            "a worker process died", hint="give the function more memory or send smaller requests", status=500
        ) from None
    if isinstance(answer, CleaveError):
        raise answer
    if not isinstance(answer, Totals):
        raise ServiceError(f"a worker process failed: {answer}", status=500)
    return answer


def _work(pipe: Connection, evaluator: Evaluator, lanes: int, chunks: Sequence[Chunk]) -> None:
    try:
        pipe.send(evaluate(evaluator, lanes, chunks))
    except WireError as error:
        pipe.send(error)
    except Exception as error:  # noqa: BLE001 - the parent must hear of it; the class says enough and quotes nothing
        pipe.send(type(error).__name__)
