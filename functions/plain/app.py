"""The plain service: the half of the table that may be seen, grouped and aggregated by DuckDB."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from functions import http
from functions.plain import engine
from shared.wire import PlainRequest, PlainResponse

app = http.create_app("Cleave plain service", "Groups and aggregates the columns that may be seen. Holds no key.")


@app.post("/v1/plain/aggregate", **http.documented(PlainRequest, PlainResponse))
async def aggregate(request: Request) -> Response:
    """Group the rows of a Parquet table; number every row's group; aggregate plain columns."""
    asked = await http.read(request, PlainRequest)
    answer = await run_in_threadpool(engine.aggregate, asked)
    http.note(request, rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return http.answer(request, answer)


handler = http.lambda_handler(app)
