"""Both services in this process, past HTTP: from body to body it is the code that Lambda runs (cleave_services.bodies).

Import this only where they are needed: SEAL and DuckDB take 100 ms.
"""

from __future__ import annotations

from cleave.transport.base import Service, Transport
from cleave.transport.embedded import connect_embedded
from cleave.transport.responses import Response
from cleave_services.bodies import Reply, exchange
from cleave_services.plain.calls import aggregate
from cleave_services.sensitive.calls import answer_moments
from cleave_shared.wire import MomentsRequest, PlainRequest


def embedded_services() -> Transport:
    return connect_embedded({Service.SENSITIVE: _sensitive, Service.PLAIN: _plain})


def _sensitive(body: bytes, kind: str) -> Response:
    return _response(exchange(body, kind, MomentsRequest, answer_moments))


def _plain(body: bytes, kind: str) -> Response:
    return _response(exchange(body, kind, PlainRequest, aggregate))


def _response(reply: Reply) -> Response:
    return Response(reply.status, reply.kind, reply.content)
