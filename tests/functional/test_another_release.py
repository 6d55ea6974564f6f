"""Each side refuses another wire version, and names both releases and which side to upgrade."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pytest

from cleave_services.plain import service as plain_service
from cleave_services.plain.app import app as plain
from cleave_services.sensitive import service as sensitive_service
from cleave_services.sensitive.app import app as sensitive
from cleave_shared import wire
from cleave_shared.version import VERSION as RELEASE
from tests.functional.gateway import call

PATHS = [
    (app, each.path.replace("{set}", "0" * 32))
    for app, service in ((plain, plain_service), (sensitive, sensitive_service))
    for each in service.operations
    if each.path not in ("/v1/plain", "/v1/sensitive")  # they have no version
]


def framed(head: Any) -> bytes:
    text = json.dumps(head).encode()
    body = b"".join([bytes(32), struct.pack("<I", len(text)), text, struct.pack("<I", 0)])
    return b"CLV1" + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    ("head", "sender", "hint"),
    [
        ({"version": 2}, f"release before {RELEASE} (wire version 2)", "upgrade the client"),
        ({"version": 4, "release": "3.1.0"}, "release 3.1.0 (wire version 4)", "upgrade the service"),
        ({"version": 4}, f"release after {RELEASE} (wire version 4)", "upgrade the service"),
    ],
)
@pytest.mark.parametrize(("app", "path"), PATHS)
def test_a_service_names_both_releases(app: Any, path: str, head: dict[str, Any], sender: str, hint: str) -> None:
    answer = call(app, "POST", path, content=framed(head), headers={"content-type": wire.FRAMES_TYPE})
    this = f"this service has release {RELEASE} (wire version {wire.VERSION})"
    error = f"wire version is not {wire.VERSION}: the client has {sender}, {this}"
    expected = {"error": error, "hint": hint, "code": "wire"}
    assert (answer.status_code, answer.json()) == (422, expected)
