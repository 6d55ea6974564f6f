"""How the client reaches the two services: one protocol, whatever carries the envelopes.

    pipeline -> Transport.sensitive(MomentsRequest) -> MomentsResponse
                Transport.plain(PlainRequest)       -> PlainResponse

A carrier (embedded, http, lambda) only moves bytes to a service and brings a `Response` back. Everything they share is
here: frames, size limits, counting, retries, and what an answer means.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import Protocol, TypeVar

from cleave.transport import responses, retry
from cleave.transport.responses import Response
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError, WireError
from cleave_shared.wire import Envelope, MomentsRequest, MomentsResponse, PlainRequest, PlainResponse

Reply = TypeVar("Reply", bound=Envelope)


class Service(Enum):
    """The services by name; the value is the path of the one endpoint that a query asks."""

    SENSITIVE = "/v1/sensitive/moments"
    PLAIN = "/v1/plain/aggregate"

    @property
    def label(self) -> str:
        return f"the {self.name.lower()} service"


class Transport(Protocol):
    """Thread-safe: several calls may be under way at once. Both calls raise ServiceError and nothing else.

    `requests` counts what was asked, `sent` and `received` the bytes of bodies, repeated attempts included.
    """

    requests: int
    sent: int
    received: int

    def sensitive(self, request: MomentsRequest) -> MomentsResponse: ...

    def plain(self, request: PlainRequest) -> PlainResponse: ...

    def close(self) -> None: ...


class Carrier(Protocol):
    """Moves one body to a service and back.

    `exchange` raises retry.Interrupted where another attempt may help, ServiceError where it cannot.
    """

    def exchange(self, service: Service, body: bytes) -> Response: ...

    def close(self) -> None: ...


class EnvelopeTransport:
    """The Transport over a Carrier."""

    def __init__(self, carrier: Carrier, policy: retry.Policy = retry.ONCE) -> None:
        self._carrier = carrier
        self._policy = policy
        self._lock = threading.Lock()
        self.requests = 0
        self.sent = 0
        self.received = 0

    def sensitive(self, request: MomentsRequest) -> MomentsResponse:
        return self._ask(Service.SENSITIVE, request, MomentsResponse)

    def plain(self, request: PlainRequest) -> PlainResponse:
        return self._ask(Service.PLAIN, request, PlainResponse)

    def close(self) -> None:
        self._carrier.close()

    def _ask(self, service: Service, request: Envelope, model: type[Reply]) -> Reply:
        body = wire.dump_frames(request)
        if len(body) > limits.MAX_BODY_BYTES:
            raise ServiceError(
                f"a request to {service.label} takes {len(body):,} bytes, at most {limits.MAX_BODY_BYTES:,} fit",
                hint="ask about fewer columns at once, or about a smaller table",
            )
        answer = retry.call(lambda: self._attempt(service, body), self._policy)
        if answer.status != 200:
            raise responses.problem(service.label, answer.status, answer.body)
        responses.refuse_stray_error(service.label, answer.body)
        try:
            envelope = wire.load(model, answer.body, answer.content_type)
        except WireError as error:
            raise ServiceError(
                f"{service.label} sent an answer that cannot be read: {responses.excerpt(error.message)}",
                hint=error.hint or "is the endpoint a Cleave service of the same release?",
                status=answer.status,
            ) from None
        if wire.answers(answer.body, answer.content_type) != wire.mark(body, wire.FRAMES_TYPE):
            raise ServiceError(
                f"{service.label} sent an answer that does not name this request",
                hint="something on the way mixes answers up or rewrites them; nothing of this answer can be trusted",
                status=answer.status,
            )
        return envelope

    def _attempt(self, service: Service, body: bytes) -> Response:
        with self._lock:
            self.requests += 1
            self.sent += len(body)
        answer = self._carrier.exchange(service, body)
        with self._lock:
            self.received += len(answer.body)
        return answer
