"""Scans of stored lanes: their ciphertexts are read by links, and the rows of each group added up."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cleave_services.bodies import Note
from cleave_services.links import KEYS, Links
from cleave_services.sensitive import apart
from cleave_services.sensitive.pack import Packing
from cleave_services.sensitive.scan import ScanChunk, Wanted
from cleave_services.sensitive.workers import fair_share
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import WireError
from cleave_shared.masking import mask_evaluator
from cleave_shared.moments import SENTINELS
from cleave_shared.packing import PACKING_KEY, SENTINEL_FACTOR
from cleave_shared.rowsets import Numbers, size, unpack
from cleave_shared.scan import ScanObject, ScanRequest, ScanResponse

_LEAST_SECONDS = 5.0  # for adding up, however long reading took


def answer_scan(asked: ScanRequest, note: Note, table_set: str, links: Links) -> ScanResponse:
    """Raises WireError for a link, an object, a ciphertext or a row set that is not what it must be."""
    evaluator = mask_evaluator(asked.profile)
    rows = evaluator.degree - SENTINELS
    numbers = _numbers(asked, rows)
    started = time.monotonic()
    contents = iter(links.read(table_set, [each for lane in asked.lanes for each in lane]))
    lanes = [
        _files(number, lane, [next(contents) for _ in lane], asked.chunks) for number, lane in enumerate(asked.lanes)
    ]
    packing = None
    if (pack := asked.pack) is not None:
        (key,) = links.read(table_set, [pack.key], kind=KEYS, what=PACKING_KEY)
        packing = Packing(key, pack.levels, pack.shift)
    taken = time.monotonic() - started
    chunks = [
        ScanChunk(place, number, numbers[place], tuple(lane[place] for lane in lanes))
        for place, number in enumerate(asked.chunks)
    ]
    factor, checks = (SENTINEL_FACTOR, tuple(asked.pack.checks)) if asked.pack else (1, ())
    wanted = Wanted(len(lanes), tuple(map(tuple, asked.cuts)), tuple(asked.weights), asked.label, factor, checks)
    with fair_share() as workers:
        left = max(_LEAST_SECONDS, limits.SENSITIVE_SECONDS - taken)
        totals = apart.masked_sums(evaluator, asked.profile, wanted, chunks, workers, left, packing)
    timings = {"read": taken, **totals.seconds}
    note(lanes=len(lanes), chunks=len(chunks), groups=len(asked.cuts), timings=timings)
    if packing:
        lists = [[totals.files[at] for at in range(len(totals.files))]]
    elif len(totals.files) == len(lanes) * wanted.results:
        lists = [[totals.files[start + at] for at in range(wanted.results)] for start in _starts(wanted)]
    else:
        raise WireError("cuts: a partial sum has no row")
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


def _numbers(asked: ScanRequest, rows: int) -> list[Numbers]:
    """The groups of the rows of each chunk. Raises WireError."""
    groups, chunks = len(asked.cuts), len(asked.chunks)
    each = size(rows, groups)
    if len(asked.numbers) != chunks * each:
        raise WireError(f"numbers: not those of {chunks} chunks of {rows} rows")
    return [unpack(asked.numbers[place * each : (place + 1) * each], rows, groups) for place in range(chunks)]


def _files(number: int, objects: Sequence[ScanObject], contents: Sequence[bytes], chunks: Sequence[int]) -> list[bytes]:
    """A lane's ciphertexts of `chunks`. Raises WireError."""
    found: dict[int, bytes] = {}
    for each, content in zip(objects, contents, strict=True):
        try:
            found.update(enumerate(split(content), each.first))
        except ValueError:
            raise WireError(f"lanes[{number}]: an object does not hold ciphertexts") from None
    try:
        return [found[chunk] for chunk in chunks]
    except KeyError as missing:
        raise WireError(f"lanes[{number}]: no object has chunk {missing.args[0]}") from None
