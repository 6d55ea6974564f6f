"""Carriers that do to requests and answers what networks, proxies and broken services do."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cleave.deadline import Deadline
from cleave.transport.base import Carrier, Service
from cleave.transport.responses import Response
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError
from cleave_shared.requests import PlainResponse, SumsResponse, TypedColumn
from cleave_shared.wire import Envelope

Alter = Callable[[bytes], bytes]
MODELS: dict[Service, type[Envelope]] = {Service.SENSITIVE: SumsResponse, Service.PLAIN: PlainResponse}


class Faulty:
    """Hits the requests and answers of one service, or of both."""

    def __init__(self, inner: Carrier, fault: str, service: str, earlier: dict[Service, Response]) -> None:
        self.inner = inner
        self.fault = fault
        self.service = service
        self.earlier = earlier  # answers of another query
        self.hits = 0
        self._meeting = threading.Barrier(2, timeout=120)
        self._met: dict[int, Any] = {}
        self._lock = threading.Lock()

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        if self.service not in ("both", service.name.lower()):
            return self.inner.exchange(service, path, body, deadline)
        with self._lock:
            number = self.hits
            self.hits += 1
        if self.fault == "two requests exchanged":
            return self.inner.exchange(service, path, self._other(number, body), deadline)
        if alter := REQUESTS.get(self.fault):
            return self.inner.exchange(service, path, alter(body), deadline)
        answer = self.inner.exchange(service, path, body, deadline)
        if self.fault == "answers of two requests exchanged":
            return self._other(number, answer)
        if self.fault == "one answer given to two requests":
            return self._met.setdefault(0, answer) if self._other(number, answer) else answer
        if self.fault == "answer of an earlier query":
            return self.earlier[service]
        if self.fault == "answer of the other service":
            return self.earlier[Service.PLAIN if service == Service.SENSITIVE else Service.SENSITIVE]
        if self.fault in MADE:
            return remade(service, answer, MADE[self.fault])
        return ANSWERS[self.fault](service, answer)

    def _other(self, number: int, mine: Any) -> Any:
        """What another request, under way at the same time, brought; only the first two meet."""
        if number > 1:
            return mine
        with self._lock:
            self._met[number + 1] = mine
        self._meeting.wait()
        return self._met[(number ^ 1) + 1]

    def close(self) -> None:
        self.inner.close()


def digested(rest: bytes) -> bytes:
    return b"CLV1" + hashlib.sha256(rest).digest() + rest


def flipped(body: bytes, count: int = 1, draw: random.Random | None = None) -> bytes:
    """`body` with `count` of its bits flipped, each another."""
    draw = draw or random.Random(len(body))
    damaged = bytearray(body)
    for place in draw.sample(range(8 * len(body)), count):
        damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


def other_version(body: bytes) -> bytes:
    """Frames whose head says version 1, else whole."""
    (size,) = struct.unpack_from("<I", body, 68)
    head = json.dumps({**json.loads(body[72 : 72 + size]), "version": 1}).encode()
    return digested(body[36:68] + struct.pack("<I", len(head)) + head + body[72 + size :])


def as_json(service: Service, answer: Response) -> Response:
    model = wire.load(MODELS[service], answer.body, wire.FRAMES_TYPE)
    return Response(200, wire.JSON_TYPE, wire.dump_json(model))


def _body(alter: Alter) -> Callable[[Service, Response], Response]:
    return lambda _, answer: Response(answer.status, answer.content_type, alter(answer.body))


def _dropped(_service: Service, _answer: Response) -> Response:
    raise ServiceError("the service cut the connection", hint="its log tells")


ANSWERS: dict[str, Callable[[Service, Response], Response]] = {
    "no fault": lambda _, answer: answer,
    "answer cut short": _body(lambda body: body[: len(body) // 2]),
    "answer empty": _body(lambda _: b""),
    "answer with a byte more": _body(lambda body: body + b"\0"),
    "answer of frames that do not fit": _body(lambda body: digested(body[36:] + b"\0")),
    "answer of malformed JSON": lambda service, answer: Response(
        200, wire.JSON_TYPE, as_json(service, answer).body[:-1] + b"]"
    ),
    "answer in JSON without a digest": as_json,
    "answer of another version": _body(other_version),
    "answer of another content type": lambda _, answer: Response(200, "text/plain", answer.body),
    "one bit of the answer flipped": _body(flipped),
    "a name in the answer changed": _body(lambda body: body.replace(b"Canary-7f3a-1", b"Canary-7f3a-9")),
    "answer dropped": _dropped,
}
REQUESTS: dict[str, Alter] = {
    "request cut short": lambda body: body[: len(body) // 2],
    "one bit of the request flipped": flipped,
    "a filter in the request changed": lambda body: body.replace(b"> 0", b"> 9"),
    "request of another version": other_version,
    "request over the limit": lambda body: body + bytes(limits.MAX_BODY_BYTES),
}


def remade(service: Service, answer: Response, make: Callable[[Any], Envelope]) -> Response:
    """A wrong answer with a true digest, as the service itself would make it."""
    model = make(wire.load(MODELS[service], answer.body, wire.FRAMES_TYPE))
    return Response(200, wire.FRAMES_TYPE, wire.dump_frames(model, wire.answers(answer.body, wire.FRAMES_TYPE)))


def _with(**changes: Callable[[Any], Any]) -> Callable[[Any], Envelope]:
    def make(model: Any) -> Envelope:
        changed: Envelope = replace(model, **{name: change(model) for name, change in changes.items()})
        return changed

    return make


def _longer(columns: list[TypedColumn], value: str) -> list[TypedColumn]:
    return [TypedColumn(type=each.type, values=[*each.values, value]) for each in columns]


MADE: dict[str, Callable[[Any], Envelope]] = {
    "a group counted once too often": _with(counts=lambda m: [m.counts[0] + 1, *m.counts[1:]]),
    "a row counted in another group": _with(counts=lambda m: [m.counts[0] + 1, m.counts[1] - 1, *m.counts[2:]]),
    "a group left out": _with(
        counts=lambda m: m.counts[1:],
        keys=lambda m: [TypedColumn(type=each.type, values=each.values[1:]) for each in m.keys],
        aggregates=lambda m: [TypedColumn(type=each.type, values=each.values[1:]) for each in m.aggregates],
    ),
    "a group that is not there": _with(
        keys=lambda m: [TypedColumn(type=each.type, values=["WardCanary-ghost", *each.values[1:]]) for each in m.keys]
    ),
    "an extra group of no rows": _with(
        counts=lambda m: [*m.counts, 0],
        keys=lambda m: _longer(m.keys, "WardCanary-ghost"),
        aggregates=lambda m: _longer(m.aggregates, "1"),
    ),
    "one group told as two": _with(
        counts=lambda m: [m.counts[0] - 1, *m.counts[1:], 1],
        keys=lambda m: _longer(m.keys, m.keys[0].values[0]),
        aggregates=lambda m: _longer(m.aggregates, "1"),
    ),
    "two groups where none was asked for": _with(
        counts=lambda m: [m.counts[0] - 1, *m.counts[1:], 1],
        aggregates=lambda m: _longer(m.aggregates, "1"),
    ),
    "a key of another type": _with(keys=lambda m: [TypedColumn(type="BLOB", values=m.keys[0].values)]),
    "an aggregate of another type": _with(
        aggregates=lambda m: [TypedColumn(type="DOUBLE", values=each.values) for each in m.aggregates]
    ),
    "an aggregate that is no number": _with(
        aggregates=lambda m: [TypedColumn(type=c.type, values=["x"] * len(c.values)) for c in m.aggregates]
    ),
    "a key too many": _with(keys=lambda m: m.keys * 2),
    "an aggregate too few": _with(
        aggregates=lambda m: [TypedColumn(type=each.type, values=each.values[1:]) for each in m.aggregates]
    ),
    "rows of another table": _with(rows=lambda m: m.rows + 1),
    "schema of another table": _with(label=lambda _: "1" * 32),
    "an extra block": _with(totals=lambda m: [*m.totals, m.totals[0]]),
    "no total": _with(totals=lambda m: [[b""], *m.totals[1:]]),
    "the chunks of another request": _with(label=lambda _: "1" * 32),
}
OTHERS = (
    "answer of an earlier query",
    "answer of the other service",
    "answers of two requests exchanged",
    "one answer given to two requests",
    "two requests exchanged",
)
