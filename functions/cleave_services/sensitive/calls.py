"""Sums of the ciphertexts of a request."""

from __future__ import annotations

from cleave_services.bodies import Note
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_shared.seal import seal_evaluator
from cleave_shared.wire import MomentsRequest, MomentsResponse


def answer_moments(request: MomentsRequest, note: Note) -> MomentsResponse:
    """The sum of every block of chunks."""
    answer = moments(request, seal_evaluator(request.profile))
    note(blocks=len(request.blocks), chunks=len(request.chunks), timings=answer.timings)
    return answer


def moments(request: MomentsRequest, evaluator: Evaluator) -> MomentsResponse:
    """Add up blocks by any scheme. Raises WireError for a chunk that is not a ciphertext."""
    blocks = [number for number, count in enumerate(request.blocks) for _ in range(count)]
    chunks = [Chunk(block, blob) for block, blob in zip(blocks, request.chunks, strict=True)]
    with workers.fair_share() as share:
        totals = workers.evaluate(BlockSums(evaluator), chunks, share)
    return MomentsResponse(
        profile=request.profile,
        key_id=request.key_id,
        schema_hash=request.schema_hash,
        chunk_range=request.chunk_range,
        totals=[totals.files[number] for number in range(len(request.blocks))],
        timings=totals.seconds,
    )
