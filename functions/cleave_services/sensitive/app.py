"""Sums of ciphertexts: POST /v1/sensitive/moments, .../tables/{set}/sums of stored ones, and /v1/sensitive for a simple
call. Holds no key.
"""

from __future__ import annotations

from functools import partial

from cleave_services import http, links
from cleave_services.sensitive import calls, scan_stored, simple, stored
from cleave_services.web import Request, Response
from cleave_shared.masking import mask_evaluator
from cleave_shared.params import SUM60_PACK
from cleave_shared.scan import ScanRequest, ScanResponse
from cleave_shared.stored import SumsRequest, SumsResponse
from cleave_shared.wire import MomentsRequest, MomentsResponse

app = http.create_app("cleave-sensitive", "Sums of encrypted columns; holds no key.")
# and the ring, made while the function starts, so that no request waits for it and every worker inherits it
mask_evaluator(SUM60_PACK.name)


@app.operation("/v1/sensitive/moments", MomentsRequest, MomentsResponse)
async def post_moments(request: Request) -> Response:
    return await http.respond(request, MomentsRequest, calls.answer_moments)


@app.operation("/v1/sensitive/tables/{set}/sums", SumsRequest, SumsResponse)
async def post_sums(request: Request) -> Response:
    """Sums of the ciphertexts of stored objects, which are read by links."""
    work = partial(stored.answer_sums, table_set=request.path_params["set"], links=links.own())
    return await http.respond(request, SumsRequest, work)


@app.operation("/v1/sensitive/tables/{set}/scan", ScanRequest, ScanResponse)
async def post_scan(request: Request) -> Response:
    """Sums of the rows of each group, of stored lanes, which are read by links."""
    work = partial(scan_stored.answer_scan, table_set=request.path_params["set"], links=links.own())
    return await http.respond(request, ScanRequest, work)


@app.operation("/v1/sensitive", simple.SimpleRequest, simple.SimpleResponse)
async def post_simple(request: Request) -> Response:
    return await http.respond(request, simple.SimpleRequest, calls.answer_simple)


handler = http.lambda_handler(app)
