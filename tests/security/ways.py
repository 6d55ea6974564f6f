"""The three ways to the services, with every body that passes kept: in this process, over HTTP, as Lambda functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.transport import responses
from cleave.transport.base import Carrier, Service, Transport
from cleave.transport.connect import Target, connect
from cleave.transport.lambda_ import Functions
from cleave_services.plain.app import handler as plain
from cleave_services.sensitive.app import handler as sensitive


@dataclass(frozen=True)
class Exchange:
    """`request` and `answer`: bodies. `raw`: all that went in and out besides, as events and headers."""

    service: Service
    request: bytes
    answer: responses.Response


@dataclass
class Record:
    exchanges: list[Exchange] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)  # Lambda events and replies

    def requests(self, service: Service) -> list[bytes]:
        return [each.request for each in self.exchanges if each.service == service]

    def everything(self) -> bytes:
        return b"\n".join([*self.raw, *(part for each in self.exchanges for part in (each.request, each.answer.body))])


class Recording:
    """A carrier that keeps what another carries."""

    def __init__(self, inner: Carrier, record: Record) -> None:
        self.inner = inner
        self.record = record

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> responses.Response:
        answer = self.inner.exchange(service, path, body, deadline)
        self.record.exchanges.append(Exchange(service, body, answer))
        return answer

    def close(self) -> None:
        self.inner.close()


class LambdaHere:
    """What posts to Lambda's API, as far as it goes: the real handlers behind it."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def post(
        self, _label: str, url: str, body: bytes, headers: Mapping[str, str], _deadline: Deadline
    ) -> tuple[responses.Response, Mapping[str, str]]:
        self.record.raw += [url.encode(), body, json.dumps(dict(headers)).encode()]
        handler = {"sensitive": sensitive, "plain": plain}[url.split("/")[-2]]
        reply = json.dumps(handler(json.loads(body), SimpleNamespace(aws_request_id="5ca1ab1e"))).encode()
        self.record.raw.append(reply)
        return responses.Response(200, "application/json", reply), {}

    def close(self) -> None:
        """Nothing is open."""


def unsigned(_url: str, _body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
    return headers


def recorded(way: str, record: Record, url: str) -> Callable[[], Transport]:
    """What `create_cli` takes for the embedded services; `url` is that of `cleave serve`."""

    def open_transport() -> Transport:
        if way == "lambda":
            names = {Service.SENSITIVE: "sensitive", Service.PLAIN: "plain"}
            return Transport(Recording(Functions(LambdaHere(record), "https://lambda", unsigned, names), record))
        transport = embedded_services() if way == "embedded" else connect(Target(endpoint=url), embedded_services)
        assert isinstance(transport, Transport)
        return Transport(Recording(transport._carrier, record), transport._policy)

    return open_transport


WAYS = ("embedded", "http", "lambda")
