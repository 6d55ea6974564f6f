"""Encrypted totals by group: POST /v1/sensitive/moments, and /v1/sensitive for a simple call. Holds no key."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from cleave_services import http
from cleave_services.sensitive import simple
from cleave_services.sensitive.evaluate import Chunk, Evaluator
from cleave_services.sensitive.workers import evaluate_in_parallel, fair_share
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.moments import FILTERED, rows_per_chunk, segments
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import SealEvaluator, ring
from cleave_shared.wire import GroupTotals, MomentsRequest, MomentsResponse

app = http.create_app("cleave-sensitive", "Totals of encrypted columns by group number; holds no key.")
ring(SUM60_PACK.name)  # made while the function starts, so that no request waits for it and every worker inherits it


@app.post("/v1/sensitive/moments", **http.documented(MomentsRequest, MomentsResponse))
async def post_moments(request: Request) -> Response:
    envelope = await http.read(request, MomentsRequest)
    result = await run_in_threadpool(moments, envelope, SealEvaluator(ring(envelope.profile)))
    http.note(
        request,
        rows=result.rows,
        groups=len(result.groups),
        chunks=len(envelope.chunks),
        timings=result.timings,
    )
    return http.answer(request, result)


@app.post("/v1/sensitive", **http.documented(simple.SimpleRequest, simple.SimpleResponse))
async def post_simple(request: Request) -> Response:
    question = await http.read(request, simple.SimpleRequest)
    evaluator = SealEvaluator(ring(question.profile))
    result = await run_in_threadpool(simple.answer, question, lambda each: moments(each, evaluator))
    http.note(request, rows=result.rows, groups=len(result.counts), chunks=sum(map(len, question.data.values())))
    return http.answer(request, result)


def moments(request: MomentsRequest, evaluator: Evaluator) -> MomentsResponse:
    """Every lane's total over every group of one request. Raises WireError if the envelope contradicts itself."""
    capacity = rows_per_chunk(evaluator.degree, request.lanes)
    counts: dict[int, int] = {}
    for group, rows in request.runs:
        if group != FILTERED:
            counts[group] = counts.get(group, 0) + rows
    if len(counts) >= limits.MAX_RESULTS:
        raise WireError(
            f"{len(counts)} groups in one request, at most {limits.MAX_RESULTS - 1} fit an answer",
            hint="send fewer chunks a request",
            status=413,
        )
    by_chunk = list(segments(request.runs, capacity))
    if len(by_chunk) != len(request.chunks):
        raise WireError(
            f"{request.rows} rows of {request.lanes} lanes fill {len(by_chunk)} chunks, {len(request.chunks)} were sent"
        )
    chunks = [
        Chunk(request.chunk_range[0] + place, groups, blob)
        for place, (groups, blob) in enumerate(zip(by_chunk, request.chunks, strict=True))
    ]
    with fair_share() as workers:
        totals = evaluate_in_parallel(evaluator, request.lanes, chunks, workers)
    return MomentsResponse(
        profile=request.profile,
        key_id=request.key_id,
        schema_hash=request.schema_hash,
        lanes=request.lanes,
        rows=request.rows,
        chunk_range=request.chunk_range,
        groups=[
            GroupTotals(group=group, rows=counts[group], totals=blob) for group, blob in sorted(totals.groups.items())
        ],
        sentinel=totals.sentinel,
        timings=totals.seconds,
    )


handler = http.lambda_handler(app)
