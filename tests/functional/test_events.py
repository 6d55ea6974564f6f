"""The shipped events: complete, answered as their names promise, and without a secret."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aws.events import MOMENTS, make_events
from aws.make_events import KEY_NAME, write_events
from cleave.ckks.secret_key import SecretKey
from cleave_services.plain.app import handler as plain
from cleave_services.sensitive.app import handler as sensitive
from cleave_shared import wire

EVENTS = Path(__file__).parents[2] / "events"
NAMES = sorted(path.stem for path in EVENTS.glob("*.json") if path.name != KEY_NAME)
SECRET = re.compile(r"AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|secret|passphrase|private|token|signature=", re.IGNORECASE)


def shipped(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text("utf-8"))
    return event


def test_the_shipped_events_are_those_that_make_events_writes(key: SecretKey) -> None:
    assert sorted(make_events(key)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_event_has_the_outcome_it_stands_for(name: str, key: SecretKey) -> None:
    handler = sensitive if name.startswith("sensitive") else plain
    reply = handler(shipped(name), SimpleNamespace(aws_request_id="test"))
    assert reply["statusCode"] == make_events(key)[name].status


@pytest.mark.parametrize("name", NAMES)
def test_no_event_names_a_secret(name: str) -> None:
    assert not SECRET.search((EVENTS / f"{name}.json").read_text("utf-8"))


def test_no_event_holds_bytes_of_the_key_it_was_made_with(tmp_path: Path) -> None:
    key = write_events(tmp_path)
    secret = key.secret + key.derive("anything")
    windows = [
        secret[at : at + 24] for at in range(64, len(secret) - 24, 24)
    ]  # past SEAL's header, common to all files
    for name in NAMES:
        event = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        body = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
        everything = body + json.dumps(event).encode()
        assert not any(window in everything for window in windows), name
        assert not any(base64.b64encode(window) in everything for window in windows), name


def test_the_sensitive_event_holds_a_ciphertext_and_no_group() -> None:
    event = shipped("sensitive-moments")
    assert event["path"] == MOMENTS
    request = wire.load(wire.MomentsRequest, base64.b64decode(event["body"]), wire.FRAMES_TYPE)
    assert request.blocks == [1]
    assert [len(chunk) for chunk in request.chunks] == [pytest.approx(8 * 8192, rel=0.01)]
