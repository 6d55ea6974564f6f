"""Both services in this process, without HTTP. From body to body it is the code that Lambda runs.

Imports for an operation happen at its first call, because SEAL and DuckDB take 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.transport.base import EmbeddedService, Transport
    from cleave_services.links import Links
    from cleave_services.operations import ServiceHandler
    from cleave_shared.wire import Body


def prepare_embedded() -> None:
    """Start the services' processes in the background, before an embedded service gets a request.

    Call it early, if possible while this process has one thread. Shared imports are done once, before the processes are
    forked.
    """
    from cleave_services.plain import calls, contained  # noqa: F401, PLC0415 - DuckDB and pydantic take 100 ms

    contained.prepare(ahead=False)
    from cleave_services.sensitive import calls as _sums  # noqa: F401, PLC0415 - as above

    _prepare_workers()


def _prepare_workers() -> None:
    """Let a fork server fork the processes for sums and ciphertexts, because this process has threads."""
    from cleave.ckks import encryptors  # noqa: PLC0415 - as above
    from cleave_services.sensitive import workers  # noqa: PLC0415 - SEAL and numpy take 60 ms

    encryptors.fork_from(workers.prepare())


def embedded_services(stores: Sequence[str] = ()) -> Transport:
    """Both services. `stores`: URLs, ending with a slash, of the folders and buckets from which stored tables may be
    read.
    """
    from cleave.transport.base import Service, connect_embedded  # noqa: PLC0415 - --help does not need it
    from cleave.transport.responses import Response  # noqa: PLC0415 - as above
    from cleave_services.plain import service as plain  # noqa: PLC0415
    from cleave_services.sensitive import service as sensitive  # noqa: PLC0415

    def links() -> Links:
        from cleave_services.links import Links  # noqa: PLC0415 - questions over files need no links

        return Links(stores)

    def service(application: ServiceHandler, prepare: Callable[[], None] = lambda: None) -> EmbeddedService:
        def call(path: str, body: Body, kind: str) -> Response:
            prepare()
            reply = application.call(path, body, kind, links)
            return Response(reply.status, reply.kind, reply.content)

        return call

    if stores:
        links()  # an invalid store is reported now
    return connect_embedded({Service.SENSITIVE: service(sensitive, _prepare_workers), Service.PLAIN: service(plain)})
