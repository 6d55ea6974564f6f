"""Evaluation apart from a process that is large: where the service is embedded in the client.

A fork copies the page tables of all that its parent holds, and the parent then copies every page it writes to: some 20
ms of a client with a million rows, for every worker of every request. Here a request's workers are forked by a process
that has nothing but SEAL, and that is forked by a fork server (`cleave_shared.fork_server`); where one worker is
enough, that process is it. None inherits the key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator, Totals
from cleave_services.sensitive.workers import SPARE, dumped, evaluate_in_parallel, loaded, needed, told
from cleave_shared import limits
from cleave_shared.children import Bounds, Channel
from cleave_shared.errors import ProcessDied
from cleave_shared.fork_server import ForkServer, Work, threads
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring

if TYPE_CHECKING:
    from cleave_services.sensitive.pack import Packing
    from cleave_services.sensitive.scan import ScanChunk, Wanted

ring(SUM60_PACK.name)  # made before the fork server is, so that no request waits for it and every worker inherits it
# what only scans need is imported there, since a question over files asks for none
_server = ForkServer([__name__, "cleave_services.sensitive.pack", "cleave_services.sensitive.scan"])
_wanted = False


def prepare() -> None:
    """From now on evaluate apart, if this process has one thread as yet: else a new interpreter would cost more."""
    global _wanted  # noqa: PLW0603 - a fact about the process
    if _wanted or threads() > 1:
        return
    _wanted = True
    _server.start()


def block_sums(
    evaluator: Evaluator,
    profile: str,
    chunks: Sequence[Chunk],
    workers: int,
    seconds: float | None = None,
) -> Totals:
    """The sums of all blocks, made by `workers` processes. Raises what `evaluate_in_parallel` raises."""
    seconds = limits.SENSITIVE_SECONDS if seconds is None else seconds
    if not _wanted:
        return evaluate_in_parallel(BlockSums(evaluator), chunks, workers, seconds)
    sent = [(each.block, each.blob) for each in chunks]
    if needed(BlockSums(evaluator), chunks, workers) == 1:
        return _apart(_evaluate_alone, (profile, sent), seconds, limits.WORKER_BYTES)
    return _apart(_evaluate, (profile, sent, workers, seconds), seconds + 2 * SPARE)  # a worker's limit comes first


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
    return _apart(_scan, (profile, wanted, list(chunks), workers, seconds, packing), seconds + 2 * SPARE)


def _scanned(
    evaluator: Evaluator,
    profile: str,
    wanted: Wanted,
    chunks: Sequence[ScanChunk],
    workers: int,
    seconds: float,
    packing: Packing | None,
) -> Totals:
    from cleave_services.sensitive.pack import packed  # noqa: PLC0415 - see _server
    from cleave_services.sensitive.scan import MaskedSums  # noqa: PLC0415

    until = time.monotonic() + seconds
    totals = evaluate_in_parallel(MaskedSums(evaluator, wanted), chunks, workers, seconds)
    if packing is None:
        return totals
    return packed(profile, packing, wanted, totals, workers, max(SPARE, until - time.monotonic()))


def _apart(work: Work, arguments: Sequence[object], seconds: float, memory: int | None = None) -> Totals:
    try:
        with _server.fork(work, arguments, Bounds(seconds=seconds, memory=memory)) as child:
            return loaded(child.receive(seconds + SPARE, limits.WORKER_BYTES))
    except ProcessDied as died:
        raise told(died) from None


def _evaluate_alone(channel: Channel, profile: str, sent: Sequence[tuple[int, bytes]]) -> None:
    """In the one worker that is needed: this process, held to a worker's bounds."""
    channel.send(dumped(BlockSums(SealEvaluator(ring(profile))).evaluate([Chunk(*each) for each in sent])))


def _evaluate(channel: Channel, profile: str, sent: Sequence[tuple[int, bytes]], workers: int, seconds: float) -> None:
    chunks = [Chunk(*each) for each in sent]
    channel.send(dumped(evaluate_in_parallel(BlockSums(SealEvaluator(ring(profile))), chunks, workers, seconds)))


def _scan(
    channel: Channel,
    profile: str,
    wanted: Wanted,
    chunks: Sequence[ScanChunk],
    workers: int,
    seconds: float,
    packing: Packing | None,
) -> None:
    from cleave_shared.masking import mask_evaluator  # noqa: PLC0415 - see _server

    channel.send(dumped(_scanned(mask_evaluator(profile), profile, wanted, chunks, workers, seconds, packing)))
