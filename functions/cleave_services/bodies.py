"""Bodies of requests and answers, over HTTP or within one process.

Errors contain names of fields and rules, never values. Of an unexpected error, only the class is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cleave_shared import limits, wire
from cleave_shared.errors import CleaveError, Code, WireError
from cleave_shared.exhaustion import exhausted
from cleave_shared.messages import Message

_LONGEST_ERROR = 1000


class Note(Protocol):
    """Adds numbers to the request's log line."""

    def __call__(self, **numbers: float | Mapping[str, float]) -> None: ...


@dataclass(frozen=True, slots=True)
class Large:
    """An answer that can be stored elsewhere if it is too large to return."""

    answer: Message
    put: Callable[[bytes], Message]  # gets the answer's frames; its result is returned instead


@dataclass(frozen=True, slots=True)
class Received:
    """A request. `mark`: for its answer."""

    request: Any
    mark: bytes

    def answer(self, answer: Message | Large, kind: str) -> ServiceAnswer:
        """Raises WireError (413) above Lambda's limit, which the caller would see as a bare 502."""
        if isinstance(answer, Large):
            try:
                return self.answer(answer.answer, kind)
            except WireError:
                return self.answer(answer.put(self.frames(answer.answer)), kind)
        if kind == wire.FRAMES_TYPE:
            content, limit = self.frames(answer), limits.MAX_BODY_BYTES
            size = len(content)
        else:
            content, limit = wire.dump_json(answer), limits.MAX_JSON_BYTES
            # Lambda returns the body as a JSON string; each of these characters takes two bytes in it
            size = len(content) + content.count(b'"') + content.count(b"\\")
        if size > limit:
            raise _too_large("answer", limit, "request fewer groups at a time")
        return ServiceAnswer(200, kind, content)

    def frames(self, answer: Message) -> bytes:
        return wire.dump_frames(answer, self.mark)


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    status: int
    kind: str  # media type
    content: bytes


def limit_of(kind: str) -> int:
    """Maximum bytes of a request, by media type. Raises WireError (415) for other types."""
    if kind not in (wire.JSON_TYPE, wire.FRAMES_TYPE):
        raise WireError(f"content type must be {wire.JSON_TYPE} or {wire.FRAMES_TYPE}", code="media_type")
    return limits.MAX_BODY_BYTES if kind == wire.FRAMES_TYPE else limits.MAX_JSON_BYTES


def check_size(size: int, limit: int) -> None:
    """Raises WireError (413)."""
    if size > limit:
        raise _too_large("request", limit, "send fewer rows per request")


def load(content: wire.Body, kind: str, model: type[Message]) -> Received:
    """The request in a body, of this wire version. Raises WireError: 415, 413 or 422."""
    check_size(len(content), limit_of(kind))
    return parse(content, kind, model)


def parse(content: wire.Body, kind: str, model: type[Message]) -> Received:
    """Like `load`, for a body of any size."""
    head, blobs = wire.parse(content, kind)
    mark = wire.mark(content, kind)
    version = wire.version_of(head) if issubclass(model, wire.Envelope) else wire.VERSION
    if version != wire.VERSION:
        raise wire.skewed("client", head, version)
    own = isinstance(content, wire.InProcessRequest)
    return Received(wire.validate(model, head, blobs, own=own), mark)


def refusal(error: Exception) -> ServiceAnswer:
    """The answer that reports an error."""
    if not isinstance(error, MemoryError):  # a MemoryError comes from the service's own limit
        error = exhausted(error) or error
    if not isinstance(error, CleaveError):
        return problem(500, f"internal error: {type(error).__name__}", code="failed")
    return problem(_STATUSES.get(error.code, 422), error.message, error.hint, error.code)


_STATUSES: Final[dict[Code, int]] = {  # 422: all other codes
    "event": 400,
    "too_large": 413,
    "media_type": 415,
    **dict.fromkeys(("failed", "settings", "service", "process_died", "exhausted"), 500),
}


def problem(status: int, error: str, hint: str | None = None, code: str | None = None) -> ServiceAnswer:
    # field names come from the sender: any length, perhaps not Unicode
    text = error[:_LONGEST_ERROR].encode(errors="replace").decode()
    return ServiceAnswer(status, wire.JSON_TYPE, wire.dump_json(wire.Problem(error=text, hint=hint, code=code)))


def _too_large(what: str, limit: int, hint: str) -> WireError:
    return WireError(f"the {what} is over {limit:,} bytes", hint=hint, code="too_large")
