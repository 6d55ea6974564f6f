"""What the sensitive service does with each request, its chunks spread over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleave_services.bodies import Note
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_shared.seal import seal_evaluator
from cleave_shared.wire import MomentsRequest, MomentsResponse

if TYPE_CHECKING:
    from cleave_services.sensitive import simple


def answer_moments(asked: MomentsRequest, note: Note) -> MomentsResponse:
    answer = moments(asked, seal_evaluator(asked.profile))
    note(blocks=len(asked.blocks), chunks=len(asked.chunks), timings=answer.timings)
    return answer


def answer_simple(asked: simple.SimpleRequest, note: Note) -> simple.SimpleResponse:
    from cleave_services.sensitive import simple  # noqa: PLC0415 - a client with this service in it asks no such call

    answer = simple.answer(asked, seal_evaluator(asked.profile))
    note(rows=answer.rows, chunks=sum(map(len, asked.data.values())))
    return answer


def moments(request: MomentsRequest, evaluator: Evaluator) -> MomentsResponse:
    """The sum of every block of one request. Raises WireError for a chunk that is not a ciphertext."""
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
