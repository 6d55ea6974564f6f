"""Make a request so large that the sensitive service starts a second worker."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aws.events import GUARD, MOMENTS, TABLE, moments_request, rest_event
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_shared import wire
from cleave_shared.chunks import joined
from cleave_shared.requests import Lane, SumsRequest, SumsResponse

CHUNKS = 56  # two processes and more; a body holds 66
TOTAL = CHUNKS * sum(map(sum, TABLE.values()))


def request(key: SecretKey, chunks: int = CHUNKS) -> SumsRequest:
    """Return a request that repeats the example's one chunk `chunks` times."""
    example = moments_request(key)
    return replace(example, lanes=[Lane(objects=example.lanes[0].objects * chunks, stop=1)])


def damaged(request: SumsRequest, place: int, by: bytes = b"no ciphertext") -> SumsRequest:
    objects = [*request.objects[:place], joined([by]), *request.objects[place + 1 :]]
    return replace(request, lanes=[Lane(objects=objects, stop=1)])


def event(key: SecretKey, chunks: int = CHUNKS) -> dict[str, Any]:
    return event_of(request(key, chunks))


def event_of(request: SumsRequest) -> dict[str, Any]:
    return rest_event(MOMENTS, wire.dump_frames(request), wire.FRAMES_TYPE)


def total(key: SecretKey, reply: Mapping[str, Any]) -> int:
    return total_of(key, answer_of(reply))


def answer_of(reply: Mapping[str, Any]) -> SumsResponse:
    return wire.load(SumsResponse, base64.b64decode(reply["body"]), wire.FRAMES_TYPE)


def total_of(key: SecretKey, answer: SumsResponse) -> int:
    return round(int(Cipher(key).decrypt(answer.totals[0])[0, : sum(map(len, TABLE.values()))].sum()) / (1 << GUARD))
