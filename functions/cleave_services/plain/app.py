"""The plain service: the half of the table that may be seen, grouped and aggregated by DuckDB."""

from __future__ import annotations

from cleave_services import http
from cleave_services.plain import calls, contained, simple
from cleave_services.web import Request, Response
from cleave_shared.wire import PlainRequest, PlainResponse

app = http.create_app("cleave-plain", "Groups and aggregates the columns that may be seen; holds no key.")


@app.operation("/v1/plain/aggregate", PlainRequest, PlainResponse)
async def aggregate(request: Request) -> Response:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    return await http.respond(request, PlainRequest, calls.aggregate)


@app.operation("/v1/plain", simple.SimpleRequest, simple.SimpleResponse)
async def operate(request: Request) -> Response:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    return await http.respond(request, simple.SimpleRequest, calls.operate)


handler = http.lambda_handler(app, contained.prepare)
