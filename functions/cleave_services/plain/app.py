"""The plain service: the half of the table that may be seen, grouped and aggregated by DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from cleave_services import http
from cleave_services.plain import contained, engine, simple
from cleave_services.web import Request, Response
from cleave_shared.wire import PlainRequest, PlainResponse

Asked = TypeVar("Asked", bound=BaseModel)
Answered = TypeVar("Answered", bound=BaseModel)

app = http.create_app("cleave-plain", "Groups and aggregates the columns that may be seen; holds no key.")


@app.operation("/v1/plain/aggregate", PlainRequest, PlainResponse)
async def aggregate(request: Request) -> Response:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    asked = await http.read(request, PlainRequest)
    answer = await _contained(request, engine.aggregate, asked, PlainResponse)
    http.note(request, rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return http.answer(request, answer)


@app.operation("/v1/plain", simple.SimpleRequest, simple.SimpleResponse)
async def operate(request: Request) -> Response:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    asked = await http.read(request, simple.SimpleRequest)
    answer = await _contained(request, simple.answer, asked, simple.SimpleResponse)
    groups = next(iter(answer.groups.values())) if answer.groups else [None]
    http.note(request, rows=answer.rows, groups=len(groups))
    return http.answer(request, answer)


async def _contained(
    request: Request, work: Callable[[Asked], Answered], asked: Asked, kind: type[Answered]
) -> Answered:
    try:
        return await run_in_threadpool(contained.run, work, asked, kind)
    finally:
        http.note(request, peak_worker_kb=contained.peak_kb())


handler = http.lambda_handler(app, contained.prepare)
