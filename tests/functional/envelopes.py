"""Small envelopes of both services, well-formed and made by hand."""

from __future__ import annotations

from cleave_shared import wire
from cleave_shared.wire import MomentsRequest, MomentsResponse, PlainRequest, PlainResponse

KEY_ID = "0" * 31 + "a"
SCHEMA = "0" * 31 + "b"

MOMENTS = MomentsRequest(
    profile="sum60-pack",
    key_id=KEY_ID,
    schema_hash=SCHEMA,
    chunk_range=(0, 1),
    blocks=[1],
    chunks=[bytes(range(256))],
)
TOTALS = MomentsResponse(
    profile="sum60-pack",
    key_id=KEY_ID,
    schema_hash=SCHEMA,
    chunk_range=(0, 1),
    totals=[b"\x00totals\xff"],
)
ROWS = PlainRequest(schema_hash=SCHEMA, rows=7, aggregates=["count(*)"])
COUNTS = PlainResponse(schema_hash=SCHEMA, rows=7, counts=[7], keys=[], aggregates=[])


def answering(request: wire.Envelope, answer: wire.Envelope) -> bytes:
    return wire.dump_frames(answer, wire.mark(wire.dump_frames(request), wire.FRAMES_TYPE))


TOTALS_FRAMES = answering(MOMENTS, TOTALS)
COUNTS_FRAMES = answering(ROWS, COUNTS)
