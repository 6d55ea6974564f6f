"""Sums of ciphertexts: POST /v1/sensitive/moments, and /v1/sensitive for a simple call. Holds no key."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from cleave_services import http
from cleave_services.sensitive import simple
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_services.sensitive.workers import evaluate_in_parallel, fair_share
from cleave_services.web import Request, Response
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring
from cleave_shared.wire import MomentsRequest, MomentsResponse

app = http.create_app("cleave-sensitive", "Sums of encrypted columns; holds no key.")
ring(SUM60_PACK.name)  # made while the function starts, so that no request waits for it and every worker inherits it


@app.operation("/v1/sensitive/moments", MomentsRequest, MomentsResponse)
async def post_moments(request: Request) -> Response:
    envelope = await http.read(request, MomentsRequest)
    result = await run_in_threadpool(moments, envelope, SealEvaluator(ring(envelope.profile)))
    http.note(
        request,
        blocks=len(envelope.blocks),
        chunks=len(envelope.chunks),
        timings=result.timings,
    )
    return http.answer(request, result)


@app.operation("/v1/sensitive", simple.SimpleRequest, simple.SimpleResponse)
async def post_simple(request: Request) -> Response:
    question = await http.read(request, simple.SimpleRequest)
    evaluator = SealEvaluator(ring(question.profile))
    result = await run_in_threadpool(simple.answer, question, evaluator)
    http.note(request, rows=result.rows, groups=len(result.counts), chunks=sum(map(len, question.data.values())))
    return http.answer(request, result)


def moments(request: MomentsRequest, evaluator: Evaluator) -> MomentsResponse:
    """The sum of every block of one request. Raises WireError for a chunk that is not a ciphertext."""
    blocks = [number for number, count in enumerate(request.blocks) for _ in range(count)]
    chunks = [Chunk(block, blob) for block, blob in zip(blocks, request.chunks, strict=True)]
    with fair_share() as workers:
        totals = evaluate_in_parallel(BlockSums(evaluator), chunks, workers)
    return MomentsResponse(
        profile=request.profile,
        key_id=request.key_id,
        schema_hash=request.schema_hash,
        chunk_range=request.chunk_range,
        totals=[totals.files[number] for number in range(len(request.blocks))],
        timings=totals.seconds,
    )


handler = http.lambda_handler(app)
