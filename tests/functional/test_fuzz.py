"""A short, seeded form of `make fuzz`."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from aws.events import AGGREGATE
from cleave.ckks import job
from cleave.ckks.checks import GroupDrift
from cleave.ckks.secret_key import SecretKey
from cleave_shared import wire
from cleave_shared.errors import WireError
from tests.fuzz import campaign, truth
from tests.fuzz.mutate import Message, mutated
from tests.fuzz.truth import Answer

MESSAGES = 60
JSON = {"accept": wire.JSON_TYPE}


@pytest.fixture(scope="module")
def over_http() -> Iterator[campaign.Way]:
    with campaign.http() as way:
        yield way


@pytest.mark.parametrize(("way", "seed"), [(way, seed) for way in ("asgi", "lambda", "http") for seed in (7, 8)])
@pytest.mark.slow  # a campaign
def test_no_message_is_answered_wrongly(
    key: SecretKey, request: pytest.FixtureRequest, way: str, seed: int, printed_figures: list[str]
) -> None:
    carried = {"asgi": campaign.asgi, "lambda": campaign.lambda_}.get(way) or request.getfixturevalue("over_http")
    outcome = campaign.run(key, MESSAGES, seed, {way: carried})
    printed_figures.append(str(outcome))
    assert not outcome.faults, str(outcome)
    assert outcome.messages == MESSAGES
    assert outcome.figures[truth.RIGHT]


@pytest.mark.slow  # the campaign's own judge
def test_wrong_figures_would_be_seen(key: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of every plain answer is counted up by one; sums of ciphertexts are another job's, unchecked."""
    for name in ("check_envelope", "check_sentinels", "check_totals"):
        monkeypatch.setattr(job, name, lambda *_: None)
    monkeypatch.setattr(GroupDrift, "check", lambda *_: None)
    for message, other in zip(truth.seeds(key), truth.seeds(key, data=2), strict=True):
        right = campaign.asgi(message)
        assert truth.judged(message, right) == truth.RIGHT
        if "plain" in message.path:
            kind, content = wire.JSON_TYPE, campaign.asgi(replace(message, headers=message.headers | JSON)).body
            number = re.compile(rb'(?<=[\[:,"])\d+(?=[\],}".])')
            figures = content.find(b'"label"') + 1, content.find(b'"timings"')  # behind the name of the release
            for place in number.finditer(content, *figures):
                changed = content[: place.start()] + str(int(place[0]) + 1).encode() + content[place.end() :]
                with contextlib.suppress(WireError):
                    assert truth.WRONG in truth.judged(message, Answer(200, kind, changed)), place
        elif "moments" in message.path:
            assert truth.judged(message, campaign.asgi(other)).startswith(truth.WRONG)


def test_only_a_label_that_was_sent_has_to_come_back(key: SecretKey) -> None:
    message = next(each for each in truth.seeds(key) if (each.path, each.kind) == (AGGREGATE, wire.JSON_TYPE))
    head = json.loads(message.body)
    bare = replace(message, body=json.dumps({name: head[name] for name in head.keys() - {"label"}}).encode())
    answered = campaign.asgi(bare)
    assert truth.judged(bare, answered) == truth.RIGHT
    assert truth.WRONG in truth.judged(message, answered)


@pytest.mark.slow  # quick: the others
def test_messages_are_the_same_each_time_and_differ_from_each_other(key: SecretKey) -> None:
    valid = truth.seeds(key)
    one, two = ([mutated(r, r.choice(valid)) for _ in range(50)] for r in (Random(1), Random(1)))
    assert one == two
    assert len({(message.body, *message.headers.items(), message.path, message.method) for message in one}) > 45


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(500, "", b"{}"), "500"),
        (Answer(422, "", b'{"error": "Traceback (most recent call last)"}'), "quotes"),
        (Answer(422, "", b'{"detail": "x"}'), "without an error"),
        (Answer(200, "application/octet-stream", bytes(100)), "answered a body"),
    ],
)
def test_a_wrong_answer_would_be_seen(answer: Answer, fault: str) -> None:
    message = Message("POST", "/v1/plain/aggregate", {"content-type": "application/octet-stream"}, b"CLV1" + bytes(90))
    assert (campaign.fault_of(message, answer, 0.1) or "").find(fault) >= 0
