"""Mutated messages about stored tables: the answers of `tests.fuzz.campaign`'s rules, and nothing of a link in any."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from cleave.ckks.secret_key import SecretKey
from cleave_services import links
from cleave_shared import wire
from cleave_shared.requests import Lane, PlainRequest, SumsRequest
from tests.campaign import FACTOR
from tests.functional.test_stored_services import AGGREGATE, SUMS, Store, encrypted, parquet
from tests.fuzz import campaign
from tests.fuzz.mutate import Message, mutated

MESSAGES = 25 * FACTOR


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("half", ["sensitive", "plain"])
@pytest.mark.slow  # a campaign
def test_whatever_a_message_is_turned_into(
    half: str, seed: int, key: SecretKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "canary4711")
    monkeypatch.setattr(links, "_own", links.Links([store.base]))
    request: wire.Envelope
    if half == "sensitive":
        objects, _ = encrypted(key, [2, 1])
        lane = Lane(objects=[store.put(each) for each in objects], stop=2)
        path, request = SUMS, SumsRequest(profile=key.profile.name, key_id=key.key_id, lanes=[lane, lane])
    else:
        table = store.put(parquet("SELECT i AS a, i % 3 AS b FROM range(50) r(i)", tmp_path))
        path = AGGREGATE
        request = PlainRequest(
            objects=[table], rows=[50], columns=["a", "b"], where="a > 3", keys=["b"], aggregates=["sum(a)"]
        )
    valid = [
        Message("POST", path, {"content-type": wire.FRAMES_TYPE}, wire.dump_frames(request)),
        Message("POST", path, {"content-type": wire.JSON_TYPE}, wire.dump_json(request)),
    ]
    assert [campaign.asgi(message).status for message in valid] == [200, 200]
    r, statuses = Random(f"{half} {seed}"), set()
    for number in range(MESSAGES):
        message = mutated(r, r.choice(valid))
        started = time.perf_counter()
        answer = campaign.asgi(message)
        fault = campaign.fault_of(message, answer, time.perf_counter() - started)
        assert fault is None, (number, fault)
        assert b"canary4711" not in answer.body or answer.status == 200, number
        statuses.add(answer.status)
    assert 422 in statuses
    assert [campaign.asgi(message).status for message in valid] == [200, 200]
    assert not (tmp_path / "canary4711" / "results").exists()
