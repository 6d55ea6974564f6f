"""Small envelopes of both services, well-formed and made by hand."""

from __future__ import annotations

from cleave_shared import wire
from cleave_shared.chunks import joined
from cleave_shared.requests import Lane, PlainRequest, PlainResponse, SumsRequest, SumsResponse

KEY_ID = "0" * 31 + "a"
LABEL = "0" * 31 + "b"

MOMENTS = SumsRequest(
    profile="sum60-pack",
    key_id=KEY_ID,
    label=LABEL,
    lanes=[Lane(objects=[joined([bytes(range(256))])], stop=1)],
)
TOTALS = SumsResponse(
    profile="sum60-pack",
    key_id=KEY_ID,
    label=LABEL,
    totals=[[b"\x00totals\xff"]],
)
ROWS = PlainRequest(label=LABEL, rows=[7], aggregates=["count(*)"])
COUNTS = PlainResponse(label=LABEL, rows=7, counts=[7], keys=[], aggregates=[])


def answering(request: wire.Envelope, answer: wire.Envelope) -> bytes:
    return wire.dump_frames(answer, wire.mark(wire.dump_frames(request), wire.FRAMES_TYPE))


TOTALS_FRAMES = answering(MOMENTS, TOTALS)
COUNTS_FRAMES = answering(ROWS, COUNTS)
