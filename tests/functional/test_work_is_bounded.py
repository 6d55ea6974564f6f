"""What a small body must not set in motion: one blob named often, a packed body, answers that no one can return."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from aws import many_chunks
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive
from cleave_shared import chunks, limits, seal, wire
from cleave_shared.params import SUM60_PACK
from cleave_shared.requests import Lane
from cleave_shared.seal import ring
from tests.functional.gateway import call
from tests.fuzz.mutate import Message, joined, parts

PATH = "/v1/sensitive/moments"
FRAMES = {"content-type": wire.FRAMES_TYPE}


def message(key: SecretKey, count: int = 2) -> Message:
    return Message("POST", PATH, FRAMES, wire.dump_frames(many_chunks.request(key, count)))


def ask(body: bytes) -> tuple[int, str]:
    answer = call(sensitive, "POST", PATH, content=body, headers=FRAMES)
    return answer.status_code, answer.json()["error"] if answer.status_code != 200 else ""


def test_each_frame_is_named_once(key: SecretKey) -> None:
    head, blobs = parts(message(key))
    tree = json.loads(head)
    tree["lanes"][0]["objects"] = [0, 0]
    status, error = ask(joined(message(key), json.dumps(tree).encode(), blobs[:1]).body)
    assert (status, error.split("; ")[0]) == (422, "lanes.0.objects.1.inline: names a frame a second time")


def test_each_frame_is_named(key: SecretKey) -> None:
    head, blobs = parts(message(key))
    assert ask(joined(message(key), head, [*blobs, b"more"]).body) == (422, "the body holds a frame that nothing names")


def test_a_frame_named_thirty_thousand_times_costs_nothing(key: SecretKey) -> None:
    head, blobs = parts(message(key))
    tree = json.loads(head) | {"lanes": [{"objects": [0] * 64, "stop": 1}] * 500}
    status, _ = ask(joined(message(key), json.dumps(tree).encode(), blobs[:1]).body)
    assert status == 422


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "GZIP"])
@pytest.mark.parametrize(
    ("app", "path"), [(plain, "/v1/plain"), (sensitive, "/v1/sensitive"), (plain, "/v1/plain/aggregate")]
)
def test_packed_bodies_are_refused(app, path: str, encoding: str) -> None:
    body = gzip.compress(b'{"data": {"x": [1]}, "operation": "sum"}')
    answer = call(
        app, "POST", path, content=body, headers={"content-type": wire.JSON_TYPE, "content-encoding": encoding}
    )
    assert answer.status_code == 415
    assert "encoding" in answer.json()["error"]


def test_identity_is_no_encoding() -> None:
    headers = {"content-type": wire.JSON_TYPE, "content-encoding": "identity"}
    assert call(
        plain, "POST", "/v1/plain", content=b'{"data": {"x": [1]}, "operation": "sum"}', headers=headers
    ).is_success


def negated(blob: bytes) -> bytes:
    of = ring(SUM60_PACK.name)
    ciphertext = of.ciphertext(blob)
    of.evaluator.negate_inplace(ciphertext)
    return seal.save(ciphertext)


def without_second_polynomial(key: SecretKey, blob: bytes) -> bytes:
    of = ring(SUM60_PACK.name)
    polynomials = of._polynomials(of.ciphertext(blob)).copy()
    polynomials[1] = 0
    return of._ciphertext_file(polynomials, ntt_form=True)


def in_coefficient_form(blob: bytes) -> bytes:
    of = ring(SUM60_PACK.name)
    return of.truncated(of.ciphertext(blob), 8192)


@pytest.mark.parametrize("kind", ["transparent", "cancelling", "of two forms"])
def test_ciphertexts_that_do_not_go_together_are_refused(key: SecretKey, kind: str) -> None:
    request = many_chunks.request(key, 2)
    (blob,) = Cipher(key).encrypt(np.ones((1, 8192), np.int64))
    pair = {
        "transparent": [blob, without_second_polynomial(key, blob)],
        "cancelling": [blob, negated(blob)],
        "of two forms": [blob, in_coefficient_form(blob)],
    }[kind]
    status, error = ask(
        wire.dump_frames(replace(request, lanes=[Lane(objects=[chunks.joined([each]) for each in pair], stop=1)]))
    )
    assert status == 422, error
    assert "cipher" in error


def test_the_size_of_an_answer_is_checked_before_work(key: SecretKey) -> None:
    asked = {
        "data": {f"c{i}": ["AAAA"] for i in range(40)},
        "operation": "sum",
        "profile": SUM60_PACK.name,
        "rows": 3,
    }
    answer = call(sensitive, "POST", "/v1/sensitive", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (413, "an answer of 40 ciphertexts, at most 33 fit")
    many = asked | {"data": {"x": ["AAAA"] * (limits.MAX_REQUEST_CHUNKS + 1)}}
    assert "at most 64 in one request" in call(sensitive, "POST", "/v1/sensitive", json=many).json()["error"]
