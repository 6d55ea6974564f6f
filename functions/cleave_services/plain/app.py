"""The plain service: the half of the table that may be seen, grouped and aggregated by DuckDB."""

from __future__ import annotations

from functools import partial

from cleave_services import http, links
from cleave_services.plain import calls, contained, simple
from cleave_services.web import Request, Response
from cleave_shared.scan import SelectRequest, SelectResponse
from cleave_shared.stored import StoredPlainRequest, StoredPlainResponse
from cleave_shared.wire import PlainRequest, PlainResponse

app = http.create_app("cleave-plain", "Groups and aggregates the columns that may be seen; holds no key.")


@app.operation("/v1/plain/aggregate", PlainRequest, PlainResponse)
async def aggregate(request: Request) -> Response:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    return await http.respond(request, PlainRequest, calls.aggregate)


@app.operation("/v1/plain/tables/{set}/aggregate", StoredPlainRequest, StoredPlainResponse)
async def aggregate_stored(request: Request) -> Response:
    """The same over stored Parquet objects, which are read by links."""
    work = partial(calls.aggregate_stored, table_set=request.path_params["set"], links=links.own())
    return await http.respond(request, StoredPlainRequest, work)


@app.operation("/v1/plain/tables/{set}/select", SelectRequest, SelectResponse)
async def select_stored(request: Request) -> Response:
    """The same, with the group of every row."""
    work = partial(calls.select_stored, table_set=request.path_params["set"], links=links.own())
    return await http.respond(request, SelectRequest, work)


@app.operation("/v1/plain", simple.SimpleRequest, simple.SimpleResponse)
async def operate(request: Request) -> Response:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    return await http.respond(request, simple.SimpleRequest, calls.operate)


handler = http.lambda_handler(app, contained.prepare)
