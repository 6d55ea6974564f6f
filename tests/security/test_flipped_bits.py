"""Bits flipped anywhere, seeded and many times over: in bodies, and in all that TCP carries, headers included.

Every trial ends in the right answer or in an error.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.transport.base import Carrier, Service, Transport
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave.transport.responses import Response
from cleave.transport.retry import ONCE
from cleave_shared import wire
from cleave_shared.errors import ServiceError
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.cli.runner import Cli
from tests.security.canaries import QUESTION, canaries
from tests.security.faulty import flipped
from tests.security.ways import Record, recorded

TRIALS = 150
TCP_TRIALS = 15
HEAD = 500  # bytes in which half of all flips are tried: sizes, SQL, group numbers, HTTP headers


@dataclass(frozen=True)
class Question:
    """A request of a real query, and the frames it was answered with."""

    service: Service
    request: SumsRequest | PlainRequest
    answer: Response

    def ask(self, transport: Transport) -> SumsResponse | PlainResponse:
        if isinstance(self.request, PlainRequest):
            return transport.plain(self.request)
        return transport.sensitive(self.request)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> dict[str, Question]:
    record = Record()
    table = canaries().write(tmp_path_factory.mktemp("table"))
    assert Cli(recorded("embedded", record, "")).run("query", table, QUESTION, "--key", key_file).exit_code == 0
    models: dict[Service, type[SumsRequest | PlainRequest]]
    models = {Service.SENSITIVE: SumsRequest, Service.PLAIN: PlainRequest}
    return {
        each.service.name.lower(): Question(
            each.service, wire.load(models[each.service], each.request, wire.FRAMES_TYPE), each.answer
        )
        for each in record.exchanges
    }


class Flipping:
    """A carrier that alters every request before `inner` has it, or answers with what it is told."""

    def __init__(self, inner: Carrier, alter: Callable[[bytes], bytes], canned: Response | None) -> None:
        self.inner = inner
        self.alter = alter
        self.canned = canned

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        if self.canned:
            return Response(200, self.canned.content_type, self.alter(self.canned.body))
        return self.inner.exchange(service, path, self.alter(body), deadline)

    def close(self) -> None:
        """Nothing is open."""


def random_flip(seed: int) -> Callable[[bytes], bytes]:
    draw = random.Random(seed)

    def alter(body: bytes) -> bytes:
        bits = draw.choice([1, 1, 2, 8])
        if draw.random() < 0.5:
            return flipped(body[:HEAD], bits, draw) + body[HEAD:]
        return flipped(body, bits, draw)

    return alter


@pytest.mark.parametrize("side", ["request", "answer"])
@pytest.mark.parametrize("name", ["plain", "sensitive"])
def test_a_flipped_bit_in_a_body_is_found(name: str, side: str, questions: dict[str, Question]) -> None:
    question = questions[name]
    embedded = embedded_services()
    assert isinstance(embedded, Transport)
    canned = question.answer if side == "answer" else None
    sound = Transport(Flipping(embedded._carrier, lambda body: body, canned))
    question.ask(sound)
    for seed in range(TRIALS):
        transport = Transport(Flipping(embedded._carrier, random_flip(seed), canned))
        with pytest.raises(ServiceError) as caught:
            question.ask(transport)
        assert caught.value.hint, seed


class Wire:
    """A TCP proxy that flips one bit of a connection, or cuts it; `toward` the service or back to the client."""

    def __init__(self, target: tuple[str, int], toward: str, place: int, bit: int | None) -> None:
        self.target = target
        self.fault = toward, place, bit
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:
            return  # nobody came
        with client, socket.create_connection(self.target) as service:
            back = threading.Thread(target=self._pump, args=(service, client, "client"))
            back.start()
            self._pump(client, service, "service")
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket, toward: str) -> None:
        side, place, bit = self.fault
        passed = 0
        with contextlib.suppress(OSError):
            while part := bytearray(source.recv(1 << 16)):
                here = place - passed
                passed += len(part)
                if side == toward and 0 <= here < len(part):
                    if bit is None:
                        sink.sendall(part[:here])
                        break
                    part[here] ^= 1 << bit
                sink.sendall(part)
        for end in (source, sink):  # both ways end together: nobody waits for a half that will not come
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@contextlib.contextmanager
def faulty_wire(url: str, toward: str, place: int, bit: int | None) -> Iterator[Transport]:
    host, port = url.removeprefix("http://").split(":")
    proxy = Wire((host, int(port)), toward, place, bit)
    urls = read_endpoints(proxy.url, insecure_http=False)
    transport = connect_http(urls, policy=ONCE, timeout=httpx.Timeout(0.7))
    try:
        yield transport
    finally:
        transport.close()
        proxy.close()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("toward", ["service", "client"])
@pytest.mark.parametrize("name", ["plain", "sensitive"])
@pytest.mark.sampled(7)
def test_in_what_tcp_carries(name: str, toward: str, seed: int, questions: dict[str, Question], service: str) -> None:
    question = questions[name]
    right = wire.load(type_of(question), question.answer.body, wire.FRAMES_TYPE)
    body = wire.dump_frames(question.request) if toward == "service" else question.answer.body
    draw = random.Random(f"{name} {toward} {seed}")
    failed = 0
    for _ in range(TCP_TRIALS):
        place = draw.randrange(HEAD) if draw.random() < 0.7 else draw.randrange(len(body))
        with faulty_wire(service, toward, place, draw.randrange(8)) as transport:
            try:
                answer = question.ask(transport)
            except ServiceError:
                failed += 1
                continue
        assert replace(answer, timings={}) == replace(right, timings={}), place
    assert failed > TCP_TRIALS // 4


def type_of(question: Question) -> type[SumsResponse | PlainResponse]:
    return PlainResponse if question.service == Service.PLAIN else SumsResponse


@pytest.mark.parametrize("toward", ["service", "client"])
@pytest.mark.parametrize("name", ["plain", "sensitive"])
def test_a_connection_cut_half_way(name: str, toward: str, questions: dict[str, Question], service: str) -> None:
    body = wire.dump_frames(questions[name].request) if toward == "service" else questions[name].answer.body
    with faulty_wire(service, toward, len(body) // 2, None) as transport, pytest.raises(ServiceError) as caught:
        questions[name].ask(transport)
    assert caught.value.hint
