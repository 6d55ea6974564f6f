"""Both services in this process, past HTTP: from body to body it is the code that Lambda runs.

What an operation needs is imported when it is first asked: SEAL and DuckDB take 100 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleave.transport.base import Service, Transport
from cleave.transport.embedded import Call, connect_embedded
from cleave.transport.responses import Response
from cleave_services.operations import Service as Application
from cleave_services.plain.service import service as plain
from cleave_services.sensitive.service import service as sensitive
from cleave_shared.wire import Body

if TYPE_CHECKING:
    from cleave_services.links import Links


def embedded_services(stores: Sequence[str] = ()) -> Transport:
    """`stores`: URLs, with a slash at their end, of the folders and buckets in which stored tables may be read."""

    def links() -> Links:
        from cleave_services.links import Links  # noqa: PLC0415 - a question over files reads by none

        return Links(stores)

    def service(application: Application) -> Call:
        def call(path: str, body: Body, kind: str) -> Response:
            reply = application.call(path, body, kind, links)
            return Response(reply.status, reply.kind, reply.content)

        return call

    if stores:
        links()  # what is no place of a store is told now
    return connect_embedded({Service.SENSITIVE: service(sensitive), Service.PLAIN: service(plain)})
