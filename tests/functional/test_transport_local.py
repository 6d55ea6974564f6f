"""The real services, embedded and behind `cleave serve`: the same answers and the same errors."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from aws.serving import ROOT, SERVE, served
from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.transport.base import Service, Transport
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave_services.links import Links
from cleave_services.operations import ServiceHandler
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest
from tests.functional.envelopes import MOMENTS, ROWS


@pytest.fixture(params=["embedded", "served"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    if request.param == "embedded":
        transport = embedded_services()
    else:
        base = request.getfixturevalue("service")
        transport = connect_http(read_endpoints(base, insecure_http=False))
    yield transport
    transport.close()


def test_the_plain_service_answers(transport: Transport) -> None:
    answer = transport.plain(ROWS)
    assert (answer.rows, answer.counts) == (7, [7])
    assert answer.aggregates[0].values == ["7"]
    assert transport.sent > 0
    assert transport.received > 0


def test_a_refused_request_says_why_and_keeps_its_status(transport: Transport) -> None:
    with pytest.raises(ServiceError, match=r"the sensitive service answered 422: .*profile") as caught:
        transport.sensitive(replace(MOMENTS, profile="no-such"))
    assert caught.value.status == 422


def test_a_chunk_that_is_no_ciphertext_is_refused(transport: Transport) -> None:
    with pytest.raises(ServiceError, match="the sensitive service answered 422"):
        transport.sensitive(MOMENTS)


def test_several_calls_at_once(transport: Transport) -> None:
    with ThreadPoolExecutor(6) as pool:
        requests = [replace(ROWS, rows=[rows]) for rows in range(1, 25)]
        answers = list(pool.map(transport.plain, requests))
    assert [answer.counts for answer in answers] == [[rows] for rows in range(1, 25)]


def test_an_oversize_request_is_refused_before_it_is_sent(transport: Transport) -> None:
    with pytest.raises(ServiceError, match="at most 4,400,000 fit"):
        transport.plain(replace(ROWS, objects=[bytes(limits.MAX_BODY_BYTES)]))
    assert transport.sent == 0


BODIES = {
    "an answer": wire.dump_frames(ROWS),
    "refused": wire.dump_frames(replace(MOMENTS, profile="no-such")),
    "no ciphertext": wire.dump_frames(MOMENTS),
    "no expression": wire.dump_frames(replace(ROWS, aggregates=["getenv('HOME')"])),
    "no envelope": b"CLV1 nonsense",
    "nothing": b"",
    "damaged": wire.dump_frames(ROWS)[:-1] + b"?",
    "too large": bytes(limits.MAX_BODY_BYTES + 1),
}


@pytest.mark.parametrize("half", Service)
@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_answered_alike_within_the_process_and_over_http(service: str, half: Service, name: str) -> None:
    carrier = embedded_services()._carrier  # type: ignore[attr-defined]
    embedded = carrier.exchange(half, half.value, BODIES[name], Deadline(120))
    headers = {"content-type": wire.FRAMES_TYPE, "accept": wire.FRAMES_TYPE}
    served_ = httpx.post(service + half.value, content=BODIES[name], headers=headers, trust_env=False, timeout=120)
    assert (embedded.status, embedded.content_type) == (served_.status_code, served_.headers["content-type"])
    if embedded.status == 200:  # but for its timings
        answers = [wire.load(PlainResponse, each, wire.FRAMES_TYPE) for each in (embedded.body, served_.content)]
        assert len({wire.dump_json(replace(each, timings={})) for each in answers}) == 1
    else:
        assert embedded.body == served_.content


@pytest.mark.parametrize("request_", [ROWS, replace(ROWS, objects=[b"PAR1?"]), MOMENTS])
def test_a_request_that_stays_in_the_process_is_answered_as_its_frame_is(
    request_: PlainRequest | SumsRequest,
) -> None:
    service = Service.PLAIN if isinstance(request_, PlainRequest) else Service.SENSITIVE
    bodies = wire.InProcessRequest(request_), wire.dump_frames(request_)
    assert len(bodies[0]) == len(bodies[1])
    carrier = embedded_services()._carrier  # type: ignore[attr-defined]
    loose, framed = (carrier.exchange(service, service.value, body, Deadline(120)) for body in bodies)
    assert (loose.status, loose.content_type) == (framed.status, framed.content_type)
    if loose.status == 200:
        assert wire.answers(loose.body, wire.FRAMES_TYPE) == bodies[0].mark != wire.InProcessRequest(request_).mark
    else:
        assert loose.body == framed.body


def test_services_in_the_process_are_handed_requests_as_they_lie() -> None:
    transport = embedded_services()
    handed: list[object] = []
    carry = transport._carrier.exchange  # type: ignore[attr-defined]
    transport._carrier.exchange = lambda *of: handed.append(of[2]) or carry(*of)  # type: ignore[attr-defined]
    assert transport.begin().plain(ROWS).counts == [7]
    assert [type(each) for each in handed] == [wire.InProcessRequest]


def test_a_defect_of_a_service_is_told_by_its_class_alone() -> None:
    broken = ServiceHandler("broken", "", {"/v1/plain/aggregate": "tests.functional.test_transport_local:fail"})
    reply = broken.call("/v1/plain/aggregate", wire.dump_frames(ROWS), wire.FRAMES_TYPE, lambda: Links([]))
    assert (reply.status, wire.load(wire.Problem, reply.content, reply.kind).error) == (
        500,
        "internal error: LookupError",
    )


def fail(request: PlainRequest, note: object, links: object) -> PlainResponse:
    raise LookupError("a value")


def test_services_within_the_process_do_without_a_web_framework() -> None:
    code = (
        "import sys; from cleave.local.embedded import embedded_services; embedded_services(); "
        "print([name for name in ('fastapi', 'starlette', 'mangum', 'anyio', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_each_service_shows_its_own_openapi(service: str) -> None:
    with httpx.Client(base_url=service, trust_env=False) as client:
        for name, path in (("sensitive", Service.SENSITIVE.value), ("plain", Service.PLAIN.value)):
            document = client.get(f"/{name}/openapi.json").json()
            assert path in document["paths"]
            assert client.get(f"/{name}/v1/health").status_code == 200
            # the server that the document names answers
            asked = client.post(f"/{name}{path}", content=b"{}", headers={"content-type": "application/json"})
            assert asked.status_code == 422
        assert client.get("/v1/elsewhere").status_code == 404


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.sampled(2)
def test_serve_stops_cleanly_on_a_signal(number: signal.Signals) -> None:
    with served() as (base, process):
        assert httpx.get(f"{base}/v1/health", trust_env=False, timeout=120).status_code == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0
    assert out == ""
    assert '"status": 200' in err  # one line of log a request
    assert "Traceback" not in err


def test_a_port_that_is_taken(service: str) -> None:
    port = service.rpartition(":")[2]
    done = subprocess.run([*SERVE, "--port", port], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 3
    assert f"port {port} cannot be listened on (Address already in use)\n" in done.stderr
    assert "hint: " in done.stderr
