"""What every service answers, refuses and logs, on an application that does nothing else."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
from fastapi import FastAPI, Response

from aws.events import http_event, rest_event
from cleave_services import http
from cleave_services.bodies import Note
from cleave_services.operations import ServiceHandler
from cleave_shared import limits, wire
from cleave_shared.errors import InputError, ServiceError, WireError
from cleave_shared.messages import Blob, Item, Message
from tests.functional.gateway import CANARY, CONTEXT, call

FRAMES = {"content-type": wire.FRAMES_TYPE}
JSON = {"content-type": wire.JSON_TYPE}


@dataclass(frozen=True, kw_only=True)
class Letter(Item):
    text: str = ""
    size: int = 0
    enclosed: Blob = b""


@dataclass(frozen=True, kw_only=True)
class Parcel(Letter):
    stamps: list[Stamp] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Stamp(Message):
    value: int


def post_letter(request: Letter, note: Note, links: None) -> Parcel:
    """Send a letter back."""
    note(rows=request.size, timings={"read": 0.5})
    if request.text == "value error":
        raise ValueError(CANARY)
    if request.text == "memory":
        raise MemoryError(CANARY)
    if request.text == "service":
        raise ServiceError("a worker died", hint="try again", status=500)
    if request.text == "input":
        raise InputError("no such column")
    # a letter's own fields: stamps are for the document
    return Letter(text="x" * request.size + '"' * (request.text == "quote"), enclosed=b"\0\xff")  # type: ignore[return-value]


@pytest.fixture
def app() -> FastAPI:
    operations = {"/v1/letter": "tests.functional.test_http:post_letter"}
    made = http.create_app(ServiceHandler("post-office", "Sends every letter back.", operations))

    @made.get("/v1/sets/{set}")
    async def get_set(set: str) -> Response:  # noqa: A002 - the path's own name
        return Response(set)

    @made.get("/v1/{name}/number")
    async def number(name: str, size: int) -> str:
        return name * size

    return made


def frames(letter: Letter) -> bytes:
    return wire.dump_frames(letter)


def test_json_is_answered_in_json(app: FastAPI) -> None:
    response = call(app, "POST", "/v1/letter", json={"size": 2, "enclosed": "AP8="})
    assert (response.status_code, response.headers["content-type"]) == (200, wire.JSON_TYPE)
    assert response.json() == {"text": "xx", "size": 0, "enclosed": "AP8="}


@pytest.mark.parametrize(
    ("sent", "accept", "expected"),
    [
        (wire.FRAMES_TYPE, None, wire.FRAMES_TYPE),
        (wire.FRAMES_TYPE, "*/*", wire.FRAMES_TYPE),
        (wire.FRAMES_TYPE, wire.JSON_TYPE, wire.JSON_TYPE),
        (wire.JSON_TYPE, "*/*", wire.JSON_TYPE),
        (wire.JSON_TYPE, wire.FRAMES_TYPE, wire.FRAMES_TYPE),
        ("Application/JSON; charset=utf-8", None, wire.JSON_TYPE),
    ],
)
def test_the_answers_form_follows_accept_then_the_request(
    app: FastAPI, sent: str, accept: str | None, expected: str
) -> None:
    body = frames(Letter(size=1)) if sent == wire.FRAMES_TYPE else wire.dump_json(Letter(size=1))
    headers = {"content-type": sent} | ({"accept": accept} if accept else {})
    response = call(app, "POST", "/v1/letter", content=body, headers=headers)
    assert response.headers["content-type"] == expected
    assert wire.load(Letter, response.content, expected) == Letter(text="x", enclosed=b"\0\xff")


@pytest.mark.parametrize("content_type", [None, "text/plain", "multipart/form-data", ""])
def test_other_content_types_are_415(app: FastAPI, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    response = call(app, "POST", "/v1/letter", content=b"{}", headers=headers)
    assert response.status_code == 415
    assert wire.JSON_TYPE in response.json()["error"]


def chunked(size: int) -> AsyncIterator[bytes]:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(size // 100):
            yield b" " * 100

    return parts()


@pytest.mark.parametrize("headers", [JSON, FRAMES])
@pytest.mark.parametrize("claimed", ["honest", "absent", "lying", "nonsense"])
def test_a_body_over_the_limit_is_413_before_it_is_parsed(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], claimed: str
) -> None:
    monkeypatch.setattr(limits, "MAX_JSON_BYTES", 1500 if headers is JSON else 10)
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1500 if headers is FRAMES else 10)
    monkeypatch.setattr(wire, "load", None)
    length = {"honest": "2000", "absent": None, "lying": "5", "nonsense": "-1"}[claimed]
    sent = headers if length is None else headers | {"content-length": length}
    response = call(app, "POST", "/v1/letter", content=chunked(2000), headers=sent)
    assert response.status_code == 413
    hint = "send fewer rows per request"
    assert response.json() == {"error": "the request is over 1,500 bytes", "hint": hint, "code": "too_large"}


def test_a_body_at_the_limit_passes(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    body = wire.dump_json(Letter())
    monkeypatch.setattr(limits, "MAX_JSON_BYTES", len(body))
    response = call(app, "POST", "/v1/letter", content=body + b" ", headers=JSON)
    assert response.json()["error"].startswith("the request is over")


def test_an_answer_over_the_limit_is_413(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes count twice: a proxy integration returns the body as a JSON string."""
    whole = len(wire.dump_json(Letter(text="x" * 500, enclosed=b"\0\xff")))
    monkeypatch.setattr(limits, "MAX_JSON_BYTES", whole + 10)  # it has ten quotes
    assert call(app, "POST", "/v1/letter", json={"size": 500}).status_code == 200
    for letter in ({"size": 501}, {"size": 500, "text": "quote"}):
        response = call(app, "POST", "/v1/letter", json=letter)
        assert response.status_code == 413
        assert response.json()["hint"] == "request fewer groups at a time"
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 500)
    response = call(app, "POST", "/v1/letter", content=frames(Letter(size=500)), headers=FRAMES)
    assert (response.status_code, response.headers["content-type"]) == (413, wire.JSON_TYPE)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[]", "body: "),
        (b"null", "body: "),
        (b'{"size": "%b"}' % CANARY.encode(), "size: "),
        (b'{"text": ["%b"]}' % CANARY.encode(), "text: "),
        (b'{"text": "\\ud800"}', "the body holds half a surrogate pair"),
        (b'{"enclosed": "%b!"}' % CANARY.encode(), "enclosed: is not base64"),
        (b'{"enclosed": 0}', "enclosed: must be base64 text"),
        (b'{"enclosed": "\xc3\xa9"}', "enclosed: is not base64"),
        (b'{"other": "%b"}' % CANARY.encode(), "other: Extra inputs are not permitted"),
        (b'{"\\uD83d": 1}', "the body holds half a surrogate pair"),
        (b'{"size": %b}' % (b"9" * 5000), "the body is not JSON"),
    ],
)
def test_what_is_not_an_envelope_is_422_without_its_values(app: FastAPI, body: bytes, error: str) -> None:
    response = call(app, "POST", "/v1/letter", content=body, headers=JSON)
    assert response.status_code == 422
    assert response.json()["error"].startswith(error)
    assert "canary" not in response.text


@pytest.mark.parametrize("cut", [0, 3, 4, 7, 9, 20, -1])
def test_damaged_frames_are_422(app: FastAPI, cut: int) -> None:
    whole = frames(Letter(enclosed=b"1234"))
    for body in (whole[:cut], whole + b"x", b"CLV2" + whole[4:], b"CLV1" + b"\xff" * 20):
        response = call(app, "POST", "/v1/letter", content=body, headers=FRAMES)
        assert response.status_code == 422
        assert any(found in response.json()["error"] for found in ("not a Cleave frame", "its digest says"))


def digested(rest: bytes) -> bytes:
    """Frames of which only the digest is sure to be right."""
    return b"CLV1" + hashlib.sha256(rest).digest() + rest


@pytest.mark.parametrize("cut", [0, 31, 33, 36, 40, -1])
def test_frames_that_do_not_fit_together_are_422(app: FastAPI, cut: int) -> None:
    whole = frames(Letter(enclosed=b"1234"))[36:]
    assert call(app, "POST", "/v1/letter", content=digested(whole), headers=FRAMES).status_code == 200
    for rest in (whole[:cut], whole + b"x", wire.NO_MARK + b"\xff" * 20):
        response = call(app, "POST", "/v1/letter", content=digested(rest), headers=FRAMES)
        assert response.status_code == 422
        assert "not a Cleave frame" in response.json()["error"]


def test_any_flipped_bit_is_found(app: FastAPI) -> None:
    whole = frames(Letter(text="north", enclosed=b"1234"))
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            wire.load(Letter, bytes(damaged), wire.FRAMES_TYPE)


@pytest.mark.parametrize("kind", [wire.JSON_TYPE, wire.FRAMES_TYPE])
def test_an_answer_in_frames_names_its_request(app: FastAPI, kind: str) -> None:
    bodies = [frames(Letter(size=n)) if kind == wire.FRAMES_TYPE else wire.dump_json(Letter(size=n)) for n in (1, 2)]
    for body in bodies:
        headers = {"content-type": kind, "accept": wire.FRAMES_TYPE}
        answer = call(app, "POST", "/v1/letter", content=body, headers=headers).content
        assert [wire.mark(each, kind) == wire.answers(answer, wire.FRAMES_TYPE) for each in bodies] == [
            each is body for each in bodies
        ]


def test_escaped_characters_beyond_the_first_plane_are_text(app: FastAPI) -> None:
    response = call(app, "POST", "/v1/letter", content=rb'{"text": "\ud83d\ude00"}', headers=JSON)
    assert response.status_code == 200


def test_long_names_make_no_long_errors(app: FastAPI) -> None:
    response = call(app, "POST", "/v1/letter", json={"n" * 100_000: 1})
    assert response.status_code == 422
    assert len(response.content) < 2000


@pytest.mark.parametrize(
    ("text", "status", "problem"),
    [
        ("value error", 500, {"error": "internal error: ValueError", "hint": None, "code": "failed"}),
        ("memory", 500, {"error": "internal error: MemoryError", "hint": None, "code": "failed"}),
        ("service", 500, {"error": "a worker died", "hint": "try again", "code": "service"}),
        ("input", 422, {"error": "no such column", "hint": None, "code": "input"}),
    ],
)
def test_errors_become_problems(
    app: FastAPI, lines: list[str], text: str, status: int, problem: dict[str, str | None]
) -> None:
    response = call(app, "POST", "/v1/letter", json={"text": text})
    assert (response.status_code, response.json()) == (status, problem)
    assert CANARY not in str(lines)
    assert "Traceback" not in str(lines)


def test_unknown_paths_and_methods(app: FastAPI) -> None:
    assert call(app, "GET", f"/{CANARY}").status_code == 404
    refused = call(app, "GET", "/v1/letter")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert wire.validate(wire.Problem, refused.json()).error


def test_parameters_that_fastapi_checks_are_not_echoed(app: FastAPI) -> None:
    response = call(app, "GET", f"/v1/a/number?size={CANARY}")
    assert response.status_code == 422
    assert response.json()["error"].startswith("query.size: ")
    assert CANARY not in response.text


def test_the_log_is_one_line_of_numbers(app: FastAPI, lines: list[str]) -> None:
    response = call(
        app, "POST", "/v1/letter", json={"text": CANARY, "size": 3}, headers={"x-amzn-requestid": "1-67891233-abcdef"}
    )
    (line,) = [json.loads(text) for text in lines if text.startswith("{")]
    assert line.pop("seconds") > 0
    assert line.pop("peak_kb") > 1000
    assert line.pop("peak_worker_kb") >= 0
    assert line == {
        "request_id": "1-67891233-abcdef",
        "status": 200,
        "route": "/v1/letter",
        "bytes_in": len(response.request.content),
        "bytes_out": len(response.content),
        "rows": 3,
        "timings": {"read": 0.5},
    }
    assert response.headers["x-request-id"] == "1-67891233-abcdef"
    assert CANARY not in str(lines)


def test_on_lambda_a_line_has_metrics(app: FastAPI, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "a-function")
    for text in ("fine", "input"):
        call(app, "POST", "/v1/letter", json={"text": text, "size": 3})
    served, refused = (json.loads(text) for text in lines if text.startswith("{"))
    assert (served["refused"], refused["refused"]) == (0, 1)
    (metrics,) = served["_aws"]["CloudWatchMetrics"]
    assert metrics["Dimensions"] == [["function"]]
    assert served["function"] == "a-function"
    assert [each["Name"] for each in metrics["Metrics"]] == ["seconds", "refused"]
    assert all(isinstance(served[each["Name"]], int | float) for each in metrics["Metrics"])


@pytest.mark.parametrize("table_set", ["0123456789abcdef" * 2, CANARY, "A" * 32])
def test_the_log_names_a_table_by_a_set_alone(app: FastAPI, lines: list[str], table_set: str) -> None:
    call(app, "GET", f"/v1/sets/{table_set}")
    (line,) = [json.loads(text) for text in lines if text.startswith("{")]
    assert line["route"] == "/v1/sets/{set}"
    assert line.get("set") == (table_set if table_set.startswith("0") else None)


@pytest.mark.parametrize("sent", ["", "a b", "x" * 200, 'a"}\\n{"'])
def test_a_request_id_that_does_not_look_like_one_is_replaced(app: FastAPI, sent: str) -> None:
    response = call(app, "GET", "/v1/health", headers={"x-amzn-requestid": sent})
    assert response.headers["x-request-id"] != sent
    assert len(response.headers["x-request-id"]) == 32


def test_unknown_paths_are_not_logged(app: FastAPI, lines: list[str]) -> None:
    call(app, "GET", f"/v1/{CANARY}?{CANARY}")
    call(app, "GET", f"/v1/{CANARY}/number?size=1")
    logged = [json.loads(text) for text in lines if text.startswith("{")]
    assert [line["route"] for line in logged] == [None, "/v1/{name}/number"]
    assert CANARY not in str(logged)  # httpx, here the client, does log the address


def test_embedded_services_are_silent(app: FastAPI, capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("cleave.service")
    logger.handlers, logger.propagate = [logging.NullHandler()], True
    call(app, "POST", "/v1/letter", json={"text": "value error"})
    assert capfd.readouterr() == ("", "")


def test_health_and_openapi(app: FastAPI) -> None:
    assert call(app, "GET", "/v1/health").json() == {"service": "post-office", "version": wire.VERSION}
    document = call(app, "GET", "/openapi.json").json()
    operation = document["paths"]["/v1/letter"]["post"]
    assert set(operation["requestBody"]["content"]) == {wire.JSON_TYPE, wire.FRAMES_TYPE}
    schemas = document["components"]["schemas"]
    assert operation["requestBody"]["content"][wire.JSON_TYPE]["schema"] == {"$ref": "#/components/schemas/Letter"}
    assert set(schemas["Letter"]["properties"]) == {each.name for each in fields(Letter)}
    assert schemas["Parcel"]["properties"]["stamps"]["items"] == {"$ref": "#/components/schemas/Stamp"}
    assert {"Stamp", "Health", "Problem"} < set(schemas)
    assert set(operation["responses"]["200"]["content"]) == {wire.JSON_TYPE, wire.FRAMES_TYPE}
    assert {"413", "415", "422"} < set(operation["responses"])


def test_preflight_is_open_and_without_credentials(app: FastAPI) -> None:
    headers = {
        "origin": "https://example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,authorization,x-amz-date",
    }
    response = call(app, "OPTIONS", "/v1/letter", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"
    assert "authorization" in response.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in response.headers
    failed = call(app, "POST", "/v1/letter", json={"text": "value error"}, headers={"origin": "https://example.org"})
    assert (failed.status_code, failed.headers["access-control-allow-origin"]) == (500, "*")


# --- Lambda ---------------------------------------------------------------------------------------------------------

Event = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(("event", "stage"), [(rest_event, "v1"), (http_event, "$default"), (http_event, "v1")])
def test_lambda_answers_json_as_text_and_frames_as_base64(app: FastAPI, event: Event, stage: str) -> None:
    handler = http.lambda_handler(app)
    answered = handler(event("/v1/letter", b'{"size": 3}', wire.JSON_TYPE, stage), CONTEXT)
    assert (answered["statusCode"], answered["isBase64Encoded"]) == (200, False)
    assert json.loads(answered["body"])["text"] == "xxx"
    assert answered["headers"]["x-request-id"] == CONTEXT.aws_request_id

    answered = handler(event("/v1/letter", frames(Letter(size=3)), wire.FRAMES_TYPE, stage), CONTEXT)
    assert (answered["statusCode"], answered["isBase64Encoded"]) == (200, True)
    assert answered["headers"]["content-type"] == wire.FRAMES_TYPE
    letter = wire.load(Letter, base64.b64decode(answered["body"]), wire.FRAMES_TYPE)
    assert letter == Letter(text="xxx", enclosed=b"\0\xff")


@pytest.mark.parametrize("event", [rest_event, http_event])
def test_lambda_fails_without_traceback(app: FastAPI, event: Event, capfd: pytest.CaptureFixture[str]) -> None:
    handler = http.lambda_handler(app)
    answered = handler(event("/v1/letter", b'{"text": "value error"}', wire.JSON_TYPE), CONTEXT)
    assert answered["statusCode"] == 500
    assert json.loads(answered["body"]) == {"error": "internal error: ValueError", "hint": None, "code": "failed"}
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert json.loads(line)["error"] == "ValueError"
    assert json.loads(line)["request_id"] == CONTEXT.aws_request_id
    assert CANARY not in out + err


def test_a_warm_process_answers_again_and_leaves_no_event_loop(app: FastAPI) -> None:
    handler = http.lambda_handler(app)
    for size in (1, 2, 3):
        answered = handler(rest_event("/v1/letter", b'{"size": %d}' % size, wire.JSON_TYPE), None)
        assert json.loads(answered["body"])["text"] == "x" * size
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_an_answer_has_the_status_of_the_errors_code(app: FastAPI) -> None:
    @app.get("/v1/large")
    async def large() -> None:
        raise WireError("the part is too large", code="too_large")

    @app.get("/v1/dead")
    async def dead() -> None:
        raise ServiceError("nothing arrived")

    assert call(app, "GET", "/v1/large").status_code == 413
    assert call(app, "GET", "/v1/dead").status_code == 500
    assert call(app, "GET", "/v1/large").json()["code"] == "too_large"
