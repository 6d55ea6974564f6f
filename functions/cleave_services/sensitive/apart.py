"""Evaluation apart from a process that is large: where the service is embedded in the client.

A fork copies the page tables of all that its parent holds, and the parent then copies every page it writes to: some 20
ms of a client with a million rows, for every worker of every request. Here a request's workers are forked by a
fork server (`cleave_shared.fork_server`), which has nothing but SEAL. A worker that adds up is given its chunks one by
one, and needs no room for more than one. None inherits the key, where the server is prepared before there is one.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Sequence

from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator, Totals
from cleave_services.sensitive.pack import Packing, packed
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, Wanted
from cleave_services.sensitive.workers import SPARE, dumped, evaluate_in_parallel, loaded, processes, told
from cleave_shared import limits
from cleave_shared.children import Bounds, Channel
from cleave_shared.errors import ProcessDied
from cleave_shared.fork_server import ForkServer, Work
from cleave_shared.masking import mask_evaluator
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring

ring(SUM60_PACK.name)  # made before the fork server is, so that no request waits for it and every worker inherits it
_server = ForkServer([__name__])
_wanted = False
_BLOCK = struct.Struct("<I")


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
    longest = seconds + SPARE  # with the kernel's end of a worker first
    bounds = Bounds(seconds=seconds, memory=limits.WORKER_BYTES)
    count = processes(sums, chunks, workers)
    with contextlib.ExitStack() as stack, _dying_told():
        forked = [stack.enter_context(_server.fork(_add_up, (profile,), bounds)) for _ in range(count)]
        for place, chunk in enumerate(chunks):
            forked[place % count].send([_BLOCK.pack(chunk.block), chunk.blob], longest)
        done: list[Totals] = []
        for child in forked:  # what one has added up is a chunk to the next
            for each in done[-1:]:
                for block, blob in each.files.items():
                    child.send([_BLOCK.pack(block), blob], longest)
            child.send([], longest)
            done.append(loaded(child.receive(longest, limits.WORKER_BYTES)))
    stages = {stage: sum(each.seconds[stage] for each in done) for stage in done[-1].seconds}
    return Totals(done[-1].files, stages)


def masked_sums(
    evaluator: Evaluator,
    profile: str,
    wanted: Wanted,
    chunks: Sequence[ScanChunk],
    workers: int,
    seconds: float,
    packing: Packing | None = None,
) -> Totals:
    """The sums of the rows of each group; `packing`: in few files. Raises what `evaluate_in_parallel` raises."""
    if not _wanted:
        return _scanned(evaluator, profile, wanted, chunks, workers, seconds, packing)
    return _apart(_scan, (profile, wanted, list(chunks), workers, seconds, packing), seconds)


def _scanned(
    evaluator: Evaluator,
    profile: str,
    wanted: Wanted,
    chunks: Sequence[ScanChunk],
    workers: int,
    seconds: float,
    packing: Packing | None,
) -> Totals:
    until = time.monotonic() + seconds
    totals = evaluate_in_parallel(MaskedSums(evaluator, wanted), chunks, workers, seconds)
    if packing is None:
        return totals
    return packed(profile, packing, wanted, totals, workers, max(SPARE, until - time.monotonic()))


def _apart(work: Work, arguments: Sequence[object], seconds: float) -> Totals:
    longest = seconds + 2 * SPARE  # the workers' own limit comes first
    with _dying_told(), _server.fork(work, arguments, Bounds(seconds=longest)) as child:
        return loaded(child.receive(longest + SPARE, limits.WORKER_BYTES))


@contextlib.contextmanager
def _dying_told() -> Iterator[None]:
    try:
        yield
    except ProcessDied as died:
        raise told(died) from None


def _add_up(channel: Channel, profile: str) -> None:
    """Chunks come in frames of a block's number and a file, until an empty frame."""
    received = _received(channel)
    try:
        totals = BlockSums(SealEvaluator(ring(profile))).evaluate(received)
    except Exception:
        for _ in received:  # whoever sends reads the error only then
            pass
        raise
    channel.send(dumped(totals))


def _received(channel: Channel) -> Iterator[Chunk]:
    while parts := channel.receive():
        head, blob = parts
        (block,) = _BLOCK.unpack(head)
        yield Chunk(block, blob)


def _scan(
    channel: Channel,
    profile: str,
    wanted: Wanted,
    chunks: Sequence[ScanChunk],
    workers: int,
    seconds: float,
    packing: Packing | None,
) -> None:
    channel.send(dumped(_scanned(mask_evaluator(profile), profile, wanted, chunks, workers, seconds, packing)))
