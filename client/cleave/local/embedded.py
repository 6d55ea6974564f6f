"""Both services in this process, past HTTP: from body to body it is the code that Lambda runs (cleave_services.bodies).

Import this only where they are needed: SEAL and DuckDB take 100 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from cleave.transport.base import Service, Transport
from cleave.transport.embedded import Call, connect_embedded
from cleave.transport.responses import Response
from cleave_services.bodies import Asked, Work, exchange, problem
from cleave_services.plain import calls as plain
from cleave_services.sensitive import calls as sensitive
from cleave_shared.wire import Body, MomentsRequest, PlainRequest


def embedded_services(stores: Sequence[str] = ()) -> Transport:
    """`stores`: URLs, with a slash at their end, of the folders and buckets in which stored tables may be read."""
    if stores:
        from cleave_services.links import Links  # noqa: PLC0415 - as in `call`

        Links(stores)  # what is no place of a store is told now
    return connect_embedded(
        {
            Service.SENSITIVE: _service(Service.SENSITIVE, MomentsRequest, sensitive.answer_moments, stores),
            Service.PLAIN: _service(Service.PLAIN, PlainRequest, plain.aggregate, stores),
        }
    )


def _service(service: Service, model: type[Asked], work: Work[Asked], stores: Sequence[str]) -> Call:
    def call(path: str, body: Body, kind: str) -> Response:
        if path == service.value:
            reply = exchange(body, kind, model, work)
        else:
            from cleave.local.of_tables import work_of  # noqa: PLC0415 - see there

            found = work_of(service, path, stores)
            reply = exchange(body, kind, *found) if found else problem(404, "Not Found")
        return Response(reply.status, reply.kind, reply.content)

    return call
