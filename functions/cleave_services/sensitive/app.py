"""Sums of ciphertexts: POST /v1/sensitive/moments, and /v1/sensitive for a simple call. Holds no key."""

from __future__ import annotations

from cleave_services import http
from cleave_services.sensitive import calls, simple
from cleave_services.web import Request, Response
from cleave_shared.params import SUM60_PACK
from cleave_shared.seal import ring
from cleave_shared.wire import MomentsRequest, MomentsResponse

app = http.create_app("cleave-sensitive", "Sums of encrypted columns; holds no key.")
ring(SUM60_PACK.name)  # made while the function starts, so that no request waits for it and every worker inherits it


@app.operation("/v1/sensitive/moments", MomentsRequest, MomentsResponse)
async def post_moments(request: Request) -> Response:
    return await http.respond(request, MomentsRequest, calls.answer_moments)


@app.operation("/v1/sensitive", simple.SimpleRequest, simple.SimpleResponse)
async def post_simple(request: Request) -> Response:
    return await http.respond(request, simple.SimpleRequest, calls.answer_simple)


handler = http.lambda_handler(app)
