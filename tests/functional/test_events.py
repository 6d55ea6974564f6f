"""The shipped events: complete, answered as their names promise, and without a secret."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aws.events import MOMENTS, TABLE, decrypt_totals, make_events
from aws.make_events import KEY_NAME, read_key, write_events
from cleave.ckks.secret_key import SecretKey
from cleave_services.plain.app import handler as plain
from cleave_services.sensitive.app import handler as sensitive
from cleave_shared import requests, wire
from cleave_shared.errors import KeyFileError

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
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


def test_the_key_beside_the_events_decrypts_their_answer(tmp_path: Path) -> None:
    write_events(tmp_path)
    assert (tmp_path / KEY_NAME).stat().st_mode & 0o777 == 0o600
    ignored = subprocess.run(
        ["git", "check-ignore", str(Path("events", KEY_NAME))], capture_output=True, cwd=ROOT, check=False
    )
    assert ignored.returncode == 0
    event = json.loads((tmp_path / "sensitive-moments.json").read_text("utf-8"))
    reply = sensitive(event, SimpleNamespace(aws_request_id="test"))
    assert decrypt_totals(read_key(tmp_path), reply) == {ward: sum(ages) for ward, ages in TABLE.items()}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cleave_key": 3}', '{"throwaway_ckks_key": 1, "secret": 3}'])
def test_what_is_no_key_of_the_events_is_named(tmp_path: Path, content: str) -> None:
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_key(tmp_path)
    (tmp_path / KEY_NAME).write_text(content)
    with pytest.raises(KeyFileError, match="not a key of"):
        read_key(tmp_path)


def test_the_sensitive_event_holds_a_ciphertext_and_no_group() -> None:
    event = shipped("sensitive-moments")
    assert event["path"] == MOMENTS
    request = wire.load(requests.SumsRequest, base64.b64decode(event["body"]), wire.FRAMES_TYPE)
    assert [lane.stop for lane in request.lanes] == [1]
    assert [len(each) for each in request.objects] == [pytest.approx(8 * 8192, rel=0.01)]


def make(*arguments: str) -> str:
    done = subprocess.run(["make", *arguments], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120)
    return done.stdout


def test_making_events_leaves_the_tracked_ones_alone() -> None:
    (command,) = [line for line in make("--dry-run", "events").splitlines() if "aws.make_events" in line]
    folder = command.split()[-1]
    assert folder == "build/events"
    ignored = subprocess.run(["git", "check-ignore", f"{folder}/x.json"], capture_output=True, cwd=ROOT, check=False)
    assert ignored.returncode == 0


@pytest.mark.parametrize(("target", "command"), [("local-api", "start-api"), ("local-lambda", "start-lambda")])
def test_sam_local_is_started_with_the_flags_it_needs(target: str, command: str) -> None:
    said = make("--dry-run", target, "LAMBDA_IMAGE=cleave-lambda-stand-in:python3.13", "LOCAL_PORT=3456")
    (line,) = [line for line in said.replace("\\\n", " ").splitlines() if f"sam local {command}" in line]
    for flag in (
        "--port 3456",
        "--warm-containers LAZY",
        "--skip-pull-image",
        "--invoke-image cleave-lambda-stand-in",
    ):
        assert flag in " ".join(line.split())
    real = make("--dry-run", target, "LAMBDA_IMAGE=public.ecr.aws/lambda/python:3.13-x86_64").replace("\\\n", " ")
    assert "--invoke-image" not in real
    assert "docker pull" in real
