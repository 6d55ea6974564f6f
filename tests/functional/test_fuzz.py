"""A short, seeded form of `make fuzz`."""

from __future__ import annotations

from random import Random

import pytest

from cleave.ckks.secret_key import SecretKey
from tests.fuzz import campaign
from tests.fuzz.mutate import Message, mutated

MESSAGES = 120


@pytest.fixture(scope="module")
def ways():
    with campaign.http() as over_http:
        yield {"asgi": campaign.asgi, "lambda": campaign.lambda_, "http": over_http}


@pytest.mark.parametrize("way", ["asgi", "lambda", "http"])
def test_no_message_is_answered_wrongly(key: SecretKey, ways: dict[str, campaign.Way], way: str) -> None:
    outcome = campaign.run(key, MESSAGES, 7, {way: ways[way]})
    assert not outcome.faults, str(outcome)
    assert outcome.messages == MESSAGES


def test_messages_are_the_same_each_time_and_differ_from_each_other(key: SecretKey) -> None:
    valid = campaign.seeds(key)
    one, two = ([mutated(r, r.choice(valid)) for _ in range(50)] for r in (Random(1), Random(1)))
    assert one == two
    assert len({(message.body, *message.headers.items(), message.path, message.method) for message in one}) > 45


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (campaign.Answer(500, "", b"{}"), "500"),
        (campaign.Answer(422, "", b'{"error": "Traceback (most recent call last)"}'), "quotes"),
        (campaign.Answer(422, "", b'{"detail": "x"}'), "without an error"),
        (campaign.Answer(200, "application/octet-stream", bytes(100)), "answered a body"),
    ],
)
def test_a_wrong_answer_would_be_seen(answer: campaign.Answer, fault: str) -> None:
    message = Message("POST", "/v1/plain/aggregate", {"content-type": "application/octet-stream"}, b"CLV1" + bytes(90))
    assert (campaign.fault_of(message, answer, 0.1) or "").find(fault) >= 0
