"""A service: its operations by path, and everything between the head of a request and its answer.

Whatever carries requests, this is the code: Lambda's events (`cleave_services.events`), ASGI (`cleave_services.asgi`,
for `cleave serve`), or a call within one process. A web framework would take longer to import than a request to answer.
"""

from __future__ import annotations

import re
import resource
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cleave_services import bodies
from cleave_services.bodies import Reply
from cleave_services.log import log
from cleave_services.operations import DOCUMENT, HEALTH, Health, Operation
from cleave_shared import wire
from cleave_shared.errors import WireError
from cleave_shared.stored import SET

if TYPE_CHECKING:
    from cleave_services.links import Links

_REQUEST_ID = re.compile(r"[\w=.:-]{1,128}")
_ANYONE = {"access-control-allow-origin": "*"}


class Service:
    """`operations`: targets by path. `prepare` is called before the first request of a process that serves many."""

    def __init__(
        self,
        name: str,
        description: str,
        operations: Mapping[str, str],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.description = description
        self.operations = [Operation(path, target) for path, target in operations.items()]
        self._prepare = prepare

    def start(self) -> None:
        """Import and prepare all that a request may need."""
        for operation in self.operations:
            _ = operation.models
        self._prepare()

    def find(self, path: str) -> tuple[Operation, dict[str, str]]:
        """The operation, and the set in its path. Raises WireError (404)."""
        for operation in self.operations:
            if match := operation.pattern.fullmatch(path):
                return operation, match.groupdict()
        raise WireError("Not Found", status=404)

    def call(self, path: str, body: wire.Body, kind: str, links: Callable[[], Links]) -> Reply:
        """One POST answered in its own media type. Raises nothing; nothing is logged."""
        try:
            operation, named = self.find(path)
            return _answered(operation, named, body, kind, kind, _forget, links)
        except Exception as error:  # noqa: BLE001 - its message may quote values
            return bodies.refusal(error)

    def openapi(self) -> dict[str, Any]:
        from cleave_services.openapi import document  # noqa: PLC0415 - rarely read

        return document(self.name, self.description, self.operations)


class Exchange:
    """One request, from its head to its answer and its line of log.

    `headers` have names in lower case. First `most`, then `answer`, or `refuse` in place of either.
    """

    def __init__(
        self, service: Service, method: str, path: str, headers: Mapping[str, str], request_id: str | None = None
    ) -> None:
        self._service, self._method, self._path, self._headers = service, method, path, headers
        self._started = time.perf_counter()
        self._operation: Operation | None = None
        self._named: dict[str, str] = {}
        self._facts: dict[str, Any] = {}
        sent = (request_id, headers.get("x-amzn-requestid"))  # AWS's own id where there is one; one sent along
        self._id = next((each for each in sent if each and _REQUEST_ID.fullmatch(each)), uuid.uuid4().hex)
        self._kind = wire.media_type(headers.get("content-type", ""))

    def most(self) -> int:
        """The bytes that the body may have; 0: it is not read.

        Raises WireError: 404, 405; 415 for a content type that is neither JSON nor frames and for any content encoding,
        since what unpacks has no size one can see; 413 for an announced length over the limit.
        """
        if self._is_preflight:
            return 0
        if self._path in (HEALTH, DOCUMENT):
            if self._method != "GET":
                raise WireError("Method Not Allowed", status=405)
            return 0
        self._operation, self._named = self._service.find(self._path)
        if self._method != "POST":
            raise WireError("Method Not Allowed", status=405)
        if self._headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise WireError("a content encoding is not accepted", hint="send the body as it is", status=415)
        limit = bodies.limit_of(self._kind)
        announced = self._headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 20:
            bodies.check_size(int(announced), limit)
        return limit

    def answer(self, body: bytes) -> Reply:
        """After `most`. Raises nothing: who carries requests would log a traceback, whose text may quote values."""
        try:
            if self._is_preflight:
                asked = self._headers.get("access-control-request-headers")
                more = {"access-control-allow-headers": asked} if asked else {}
                reply = Reply(200, "text/plain", b"OK", {"access-control-allow-methods": "GET, POST", **more})
            elif self._path == HEALTH:
                health = Health(service=self._service.name, version=wire.VERSION)
                reply = Reply(200, wire.JSON_TYPE, wire.dump_json(health))
            elif self._path == DOCUMENT:
                reply = Reply(200, wire.JSON_TYPE, _json(self._service.openapi()))
            else:
                reply = self._operated(body)
        except Exception as error:  # noqa: BLE001 - see above
            return self.refuse(error, len(body))
        return self._finished(reply, len(body))

    def refuse(self, error: Exception, received: int = 0) -> Reply:
        """`received`: bytes of the body."""
        self._facts["error"] = type(error).__name__
        reply = bodies.refusal(error)
        if reply.status == 405:
            reply = Reply(405, reply.kind, reply.content, {"allow": "POST" if self._operation else "GET"})
        return self._finished(reply, received)

    def note(self, **numbers: float | Mapping[str, float]) -> None:
        """Add numbers (rows, groups, chunks, timings in seconds) to the line of log."""
        self._facts |= numbers

    @property
    def _is_preflight(self) -> bool:
        return self._method == "OPTIONS" and {"origin", "access-control-request-method"} <= self._headers.keys()

    def _operated(self, body: bytes) -> Reply:
        if self._operation is None:
            raise WireError("Not Found", status=404)
        accepted = self._headers.get("accept", "").lower()
        kind = next((each for each in (wire.JSON_TYPE, wire.FRAMES_TYPE) if each in accepted), self._kind)
        return _answered(self._operation, self._named, body, self._kind, kind, self.note, _own_links)

    def _finished(self, reply: Reply, received: int) -> Reply:
        used = [resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        route = self._operation.path if self._operation else self._path if self._path in (HEALTH, DOCUMENT) else None
        line = {
            "request_id": self._id,
            "status": reply.status,
            "bytes_in": received,
            "bytes_out": len(reply.content),
            "route": route,
            **{name: each for name, each in self._named.items() if re.fullmatch(SET, each)},
            "seconds": round(time.perf_counter() - self._started, 6),
            "peak_kb": used[0],
            "peak_worker_kb": used[1],
        }
        log(line | self._facts)
        headers = {"x-request-id": self._id, **(_ANYONE if "origin" in self._headers else {}), **reply.headers}
        return Reply(reply.status, reply.kind, reply.content, headers)


def _answered(
    operation: Operation,
    named: Mapping[str, str],
    body: wire.Body,
    kind: str,
    accepted: str,
    note: bodies.Note,
    links: Callable[[], Links],
) -> Reply:
    """Raises what reading, working and answering raise."""
    asked, mark = bodies.load(body, kind, operation.models[0])
    of_table = {"table_set": named["set"], "links": links()} if named else {}
    return bodies.dump(operation.work(asked, note, **of_table), mark, accepted)


def _own_links() -> Links:
    from cleave_services import links  # noqa: PLC0415 - most processes with a service in them read by no link

    return links.own()


def _json(content: Any) -> bytes:
    import json  # noqa: PLC0415 - for a document that is rarely read

    return json.dumps(content).encode()


def _forget(**_numbers: float | Mapping[str, float]) -> None:
    pass
