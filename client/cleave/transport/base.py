"""Transport to the two services. One interface for all carriers.

  pipeline -> Transport.sensitive(SumsRequest) -> SumsResponse
              Transport.plain(PlainRequest)    -> PlainResponse

A carrier (embedded, http, lambda) only moves bytes to a service and returns a `Response`. What they share is here:
frames, size limits, the deadline, counting, retries, and the meaning of an answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar

from cleave.deadline import Deadline
from cleave.transport import responses, retry
from cleave.transport.responses import Response
from cleave.transport.retry import Gate
from cleave_shared import limits, wire
from cleave_shared.errors import DISTRUST, ServiceError, WireError
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from cleave_shared.wire import Body, Envelope

_Answer = TypeVar("_Answer", bound=Envelope)

_log = logging.getLogger("cleave.transport")  # for `--verbose`: numbers and paths, no bodies

TOO_MANY = 429


class Service(Enum):
    """The two services. The value is the path of the endpoint for queries over files."""

    SENSITIVE = "/v1/sensitive/moments"
    PLAIN = "/v1/plain/aggregate"

    @property
    def label(self) -> str:
        return f"the {self.name.lower()} service"


class Carrier(Protocol):
    """Moves one body to a service and back: bytes, or an object if the services run in this process.

    `exchange` raises retry.Interrupted if another attempt may help, ServiceError if not. It waits until `deadline` at
    most.
    """

    def exchange(self, service: Service, path: str, body: Any, deadline: Deadline) -> Response: ...

    def close(self) -> None: ...


class Transport:
    """Calls of both services over a Carrier. `in_process`: the services run in this process.

    Thread-safe: calls can run at once. They raise ServiceError only. `requests` counts requests, `sent` and `received`
    count bytes of bodies, including repeated attempts. After a failed call nothing more is sent: all other calls, also
    running ones, fail with the same error.
    """

    def __init__(
        self,
        carrier: Carrier,
        policy: retry.Policy = retry.ONCE,
        deadline: Deadline | None = None,
        *,
        in_process: bool = False,
    ) -> None:
        self._carrier = carrier
        self._in_process = in_process
        self._policy = policy
        self._deadline = deadline or Deadline(limits.QUERY_SECONDS)
        self._budget = retry.Budget(policy.budget)
        self._gates = {service: Gate(self._deadline) for service in Service}
        self._lock = threading.Lock()
        self.requests = 0
        self.sent = 0
        self.received = 0

    def begin(self, deadline: Deadline | None = None) -> Transport:
        """A transport for one query, with its own counts and one deadline for all calls."""
        return Transport(self._carrier, self._policy, deadline, in_process=self._in_process)

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        return self.ask(Service.SENSITIVE, Service.SENSITIVE.value, request, SumsResponse)[0]

    def plain(self, request: PlainRequest) -> PlainResponse:
        return self.ask(Service.PLAIN, Service.PLAIN.value, request, PlainResponse)[0]

    def stop(self, reason: Exception | None = None) -> None:
        """End every running call with `reason`, at once. Call it before joining threads that may wait in one."""
        self._deadline.stop(reason)

    def close(self) -> None:
        self._carrier.close()

    def ask(self, service: Service, path: str, request: Envelope, model: type[_Answer]) -> tuple[_Answer, bytes]:
        """Send a request to a path of a service. Returns the answer, and the mark of the request."""
        body = wire.InProcessRequest(request) if self._in_process else wire.dump_frames(request)
        try:
            if len(body) > limits.MAX_BODY_BYTES:
                raise ServiceError(
                    f"a request to {service.label} takes {len(body):,} bytes, at most {limits.MAX_BODY_BYTES:,} fit",
                    hint="select fewer columns, or query a smaller table",
                )
            marked = wire.mark(body, wire.FRAMES_TYPE)
            try:
                return self._answer(service, path, body, model), marked
            except _Damaged:  # once only: do not feed more requests to what damages them
                if self._policy.attempts == 1 or not self._budget.take():
                    raise
                return self._answer(service, path, body, model), marked
        except ServiceError as error:
            self._deadline.stop(error)
            raise

    def _answer(self, service: Service, path: str, body: Body, model: type[_Answer]) -> _Answer:
        answer = retry.call(lambda: self._attempt(service, path, body), self._policy, self._budget, self._deadline)
        if answer.status != 200:
            error = responses.problem(service.label, answer)
            if responses.damaged_on_the_way(answer):
                raise _Damaged(error.message, hint=error.hint, status=answer.status)
            raise error
        responses.refuse_stray_error(service.label, answer)
        try:
            envelope = wire.load(model, answer.body, answer.content_type, own=self._in_process)
        except WireError as error:
            raise (_Damaged if error.code == "damaged" else ServiceError)(
                answer.named(f"{service.label} sent an answer that cannot be read: {responses.excerpt(error.message)}"),
                hint=error.hint or "is the endpoint a Cleave service of the same release?",
                status=answer.status,
            ) from None
        if wire.answers(answer.body, answer.content_type) != wire.mark(body, wire.FRAMES_TYPE):
            raise ServiceError(
                answer.named(f"{service.label} sent an answer that does not name this request"),
                hint=f"something on the way mixes answers up or rewrites them; {DISTRUST}",
                status=answer.status,
            )
        return envelope

    def _attempt(self, service: Service, path: str, body: Body) -> Response:
        gate = self._gates[service]
        queued = time.monotonic()
        age = gate.enter()
        begun = time.monotonic()
        try:
            self._deadline.check()
            with self._lock:
                self.requests += 1
                self.sent += len(body)
            try:
                answer = self._carrier.exchange(service, path, body, self._deadline)
            except retry.Interrupted as error:
                _log.info("%s: no answer after %.3f s", path, time.monotonic() - begun)
                if error.status == TOO_MANY:
                    gate.throttled(age)
                raise
            if answer.status == TOO_MANY:
                gate.throttled(age)
            elif answer.status == 200:
                gate.answered()
        finally:
            gate.leave()
        with self._lock:
            self.received += len(answer.body)
        _log.info(
            "%s: %d, %d bytes up, %d down, %.3f s after a wait of %.3f s",
            *(path, answer.status, len(body), len(answer.body), time.monotonic() - begun, begun - queued),
        )
        return answer


class _Damaged(ServiceError):  # noqa: N818 - named for what happened
    """The digest of a request or answer did not match."""


EmbeddedService = Callable[[str, Body, str], Response]
"""A service in this process: of a path, a body and its media type. It raises nothing that a client should see."""


def connect_embedded(services: Mapping[Service, EmbeddedService]) -> Transport:
    """Services in this process. Requests are the same but without frames; limits and answers are as over HTTP."""
    return Transport(_Embedded(services), in_process=True)


class _Embedded:
    def __init__(self, services: Mapping[Service, EmbeddedService]) -> None:
        self._services = services

    def exchange(self, service: Service, path: str, body: Body, deadline: Deadline) -> Response:
        # one thread per call: a service's work cannot be cancelled, but it limits its own time
        return deadline.call(lambda: self._services[service](path, body, wire.FRAMES_TYPE))

    def close(self) -> None:
        """Nothing to do: no connection is open between calls."""
