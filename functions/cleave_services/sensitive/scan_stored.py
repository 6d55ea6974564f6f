"""Scans of stored lanes: their ciphertexts are read by links, and the rows of each group added up."""

from __future__ import annotations

import time

from cleave_services.bodies import Note
from cleave_services.links import Links
from cleave_services.sensitive import workers
from cleave_services.sensitive.scan import Part, Scanning, Wanted
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.rowsets import size
from cleave_shared.seal import ring
from cleave_shared.stored import ScanRequest, ScanResponse

_LEAST_SECONDS = 5.0  # for adding up, however long reading took


def answer_scan(asked: ScanRequest, note: Note, table_set: str, links: Links) -> ScanResponse:
    """Sums of the rows of each group, of stored lanes, which are read by links.

    Raises WireError for a link, an object, a ciphertext or a row set that is not what it must be.
    """
    rows = ring(asked.profile).degree - SENTINELS
    if len(asked.numbers) != len(asked.chunks) * size(rows, len(asked.cuts)):
        raise WireError(f"numbers: not those of {len(asked.chunks)} chunks of {rows} rows")
    started = time.monotonic()
    contents = iter(links.contents(table_set, [each for lane in asked.lanes for each in lane]))
    lanes = tuple(tuple(Part(each.first, next(contents)) for each in lane) for lane in asked.lanes)
    taken = time.monotonic() - started
    wanted = Wanted(len(lanes), tuple(map(tuple, asked.cuts)), tuple(asked.weights), asked.label)
    scanning = Scanning(asked.profile, wanted, lanes, tuple(asked.chunks), asked.numbers)
    with workers.fair_share() as share:
        left = max(_LEAST_SECONDS, limits.SENSITIVE_SECONDS - taken)
        totals = workers.evaluate(scanning, range(len(asked.chunks)), share, left)
    timings = {**totals.seconds, "read": taken + totals.seconds.get("read", 0.0)}
    note(lanes=len(lanes), chunks=len(asked.chunks), groups=len(asked.cuts), timings=timings)
    if len(totals.files) != len(lanes) * wanted.results:
        raise WireError("cuts: a partial sum has no row")
    lists = [[totals.files[start + at] for at in range(wanted.results)] for start in _starts(wanted)]
    return ScanResponse(
        profile=asked.profile,
        key_id=asked.key_id,
        label=asked.label,
        totals=lists,
        timings=timings,
    )


def _starts(wanted: Wanted) -> range:
    """Numbers of the first result of each lane."""
    return range(0, wanted.lanes * wanted.results, wanted.results)
