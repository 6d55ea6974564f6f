"""Both services in this process, past HTTP: from body to body it is the code that Lambda runs.

What an operation needs is imported when it is first called: SEAL and DuckDB take 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.transport.base import Call, Transport
    from cleave_services.links import Links
    from cleave_services.operations import Service as Application
    from cleave_shared.wire import Body


def prepare_embedded() -> None:
    """Get the services' processes ready in the background, before an embedded service gets a request.

    Best while this process has one thread, else early. All that the services need, most of which the client needs as
    well, is imported once, before their processes are forked.
    """
    from cleave_services.plain import calls, contained  # noqa: F401, PLC0415 - DuckDB and pydantic take 100 ms

    contained.prepare(ahead=False)
    from cleave_services.sensitive import calls as _sums  # noqa: F401, PLC0415 - as above

    _prepare_workers()


def _prepare_workers() -> None:
    """Have sums and ciphertexts made by children of a fork server: nothing is forked beside this process's threads."""
    from cleave.ckks import encryptors  # noqa: PLC0415 - as above
    from cleave_services.sensitive import workers  # noqa: PLC0415 - SEAL and numpy take 60 ms

    encryptors.fork_from(workers.prepare())


def embedded_services(stores: Sequence[str] = ()) -> Transport:
    """`stores`: URLs, with a slash at their end, of the folders and buckets in which stored tables may be read."""
    from cleave.transport.base import Service, connect_embedded  # noqa: PLC0415 - what --help does without
    from cleave.transport.responses import Response  # noqa: PLC0415 - as above
    from cleave_services.plain.service import service as plain  # noqa: PLC0415
    from cleave_services.sensitive.service import service as sensitive  # noqa: PLC0415

    def links() -> Links:
        from cleave_services.links import Links  # noqa: PLC0415 - a question over files reads by none

        return Links(stores)

    def service(application: Application, prepare: Callable[[], None] = lambda: None) -> Call:
        def call(path: str, body: Body, kind: str) -> Response:
            prepare()
            reply = application.call(path, body, kind, links)
            return Response(reply.status, reply.kind, reply.content)

        return call

    if stores:
        links()  # what is no place of a store is reported now
    return connect_embedded({Service.SENSITIVE: service(sensitive, _prepare_workers), Service.PLAIN: service(plain)})
