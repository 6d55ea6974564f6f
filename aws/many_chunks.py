"""A request large enough that the sensitive service starts a second worker."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from aws.events import GUARD, MOMENTS, TABLE, moments_request, rest_event
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_shared import wire

CHUNKS = 56  # two processes and more; a body holds 66
TOTAL = CHUNKS * sum(map(sum, TABLE.values()))


def request(key: SecretKey, chunks: int = CHUNKS) -> wire.MomentsRequest:
    """The one chunk of the example `chunks` times over."""
    example = moments_request(key)
    return example.model_copy(
        update={"blocks": [chunks], "chunk_range": (0, chunks), "chunks": example.chunks * chunks}
    )


def damaged(request: wire.MomentsRequest, place: int, by: bytes = b"no ciphertext") -> wire.MomentsRequest:
    chunks = [*request.chunks[:place], by, *request.chunks[place + 1 :]]
    return request.model_copy(update={"chunks": chunks})


def event(key: SecretKey, chunks: int = CHUNKS) -> dict[str, Any]:
    return event_of(request(key, chunks))


def event_of(request: wire.MomentsRequest) -> dict[str, Any]:
    return rest_event(MOMENTS, wire.dump_frames(request), wire.FRAMES_TYPE)


def total(key: SecretKey, reply: Mapping[str, Any]) -> int:
    return total_of(key, answer_of(reply))


def answer_of(reply: Mapping[str, Any]) -> wire.MomentsResponse:
    return wire.load(wire.MomentsResponse, base64.b64decode(reply["body"]), wire.FRAMES_TYPE)


def total_of(key: SecretKey, answer: wire.MomentsResponse) -> int:
    return round(int(Cipher(key).decrypt(answer.totals)[0, : sum(map(len, TABLE.values()))].sum()) / (1 << GUARD))
