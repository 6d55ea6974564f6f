"""The plain service: the half of the table that may be seen, grouped and aggregated by DuckDB."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from cleave_services import http
from cleave_services.plain import contained, engine, simple
from cleave_services.web import Request, Response
from cleave_shared.wire import PlainRequest, PlainResponse

app = http.create_app("cleave-plain", "Groups and aggregates the columns that may be seen; holds no key.")


@app.operation("/v1/plain/aggregate", PlainRequest, PlainResponse)
async def aggregate(request: Request) -> Response:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    asked = await http.read(request, PlainRequest)
    answer = await run_in_threadpool(contained.run, engine.aggregate, asked, PlainResponse)
    http.note(request, rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return http.answer(request, answer)


@app.operation("/v1/plain", simple.SimpleRequest, simple.SimpleResponse)
async def operate(request: Request) -> Response:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    asked = await http.read(request, simple.SimpleRequest)
    answer = await run_in_threadpool(contained.run, simple.answer, asked, simple.SimpleResponse)
    groups = next(iter(answer.groups.values())) if answer.groups else [None]
    http.note(request, rows=answer.rows, groups=len(groups))
    return http.answer(request, answer)


handler = http.lambda_handler(app)
