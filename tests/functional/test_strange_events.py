"""Events that are no HTTP request, or have a field of a wrong type: a clean 4xx, never an exception."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aws.events import http_event, rest_event
from cleave_services.plain.app import handler as plain
from cleave_services.sensitive.app import handler as sensitive
from cleave_shared import wire
from tests.functional.gateway import CANARY, CONTEXT

BODY = json.dumps({"data": {"x": [1]}, "operation": "sum"}).encode()
REFUSED = json.dumps({"data": {"x": [1]}, "operation": "none"}).encode()  # 422 before anything is computed
WRONG: list[Any] = [None, 5, 1.5, True, CANARY, [], {}, [CANARY], {"a": 5}, {"a": [5]}, {"a": None}]
HANDLERS = [plain, sensitive]


def refused(handler: Callable[[Any, Any], dict[str, Any]], event: object) -> str:
    reply = handler(event, CONTEXT)
    assert 400 <= reply["statusCode"] < 500, reply
    assert not reply["isBase64Encoded"]
    assert json.loads(reply["body"]).keys() == {"error", "hint", "code"}
    assert CANARY not in reply["body"]
    return str(json.loads(reply["body"])["error"])


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_is_no_http_request_is_refused(handler: Callable[[Any, Any], dict[str, Any]]) -> None:
    strange: list[Any] = [{}, [], None, 5, "x", b"x", {"body": 5}, {"body": BODY.decode()}, {"requestContext": {}}]
    strange += [{"requestContext": {"elb": {}}}, {"Records": [{"cf": {}}]}, {"version": "2.0", "requestContext": {}}]
    for event in strange:
        assert refused(handler, event)


def fields(event: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in event.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from fields(value, (*path, name))


def changed(event: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    name, *rest = path
    return event | {name: changed(event[name], tuple(rest), value) if rest else value}


def test_a_wrong_type_in_any_field_is_answered() -> None:
    """Where the field is not read the answer is that to the event as it was: figures for one value of each field."""
    for make in (http_event, rest_event):
        sound, refusing = (make("/v1/plain", body, wire.JSON_TYPE) for body in (BODY, REFUSED))
        for number, path in enumerate(fields(sound)):
            for value in WRONG:
                assert refused(plain, changed(refusing, path, value)), (path, value)
            event = changed(sound, path, WRONG[number % len(WRONG)])
            assert plain(event, CONTEXT)["statusCode"] == 200 or refused(plain, event), path


def test_a_body_that_cannot_be_decoded_is_400() -> None:
    event = http_event("/v1/plain", BODY, wire.JSON_TYPE)
    for bad in ({"body": "\ud800"}, {"isBase64Encoded": True, "body": "x"}, {"isBase64Encoded": "yes"}, {"body": 5}):
        assert refused(plain, event | bad)
    packed = event | {"isBase64Encoded": True, "body": base64.b64encode(BODY).decode()}
    assert plain(packed, CONTEXT)["statusCode"] == 200


def test_a_refused_event_leaves_its_line_of_log(capfd: pytest.CaptureFixture[str]) -> None:
    plain({"body": CANARY}, CONTEXT)
    line = json.loads(capfd.readouterr().err)
    assert (line["status"], line["error"]) == (400, "WireError")
