"""Sums of stored ciphertexts, which are read by links: of every position of a lane, or of the rows of each group."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cleave_services.bodies import Large, Note
from cleave_services.links import Links
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_services.sensitive.scan import Part, Scanning, Wanted
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.rowsets import size
from cleave_shared.seal import ring, seal_evaluator
from cleave_shared.stored import Lane, ScanRequest, ScanResponse, SumsRequest, SumsResponse

_LEAST_SECONDS = 5.0  # for adding up, however long reading took


def answer_sums(request: SumsRequest, note: Note, table_set: str, links: Links) -> SumsResponse | Large:
    """Sums of the ciphertexts of stored objects, which are read by links.

    Raises WireError for a link, an object or a ciphertext that is not what it must be.
    """
    evaluator = seal_evaluator(request.profile)
    started = time.monotonic()
    objects = [each for lane in request.lanes for each in lane.objects]
    contents = iter(links.read(table_set, objects))
    taken = time.monotonic() - started
    chunks, first = [], 0
    for number, lane in enumerate(request.lanes):
        chunks += list(_chunks(number, lane, first, [next(contents) for _ in lane.objects]))
        first += lane.stop - lane.start
    with workers.fair_share() as share:
        left = max(_LEAST_SECONDS, limits.SENSITIVE_SECONDS - taken)
        totals = workers.evaluate(BlockSums(evaluator), chunks, share, left)
    sums = (totals.files[number] for number in range(first))
    timings = {"read": taken, **totals.seconds}
    note(lanes=len(request.lanes), objects=len(objects), chunks=len(chunks), sums=first, timings=timings)
    answer = SumsResponse(
        profile=request.profile,
        key_id=request.key_id,
        totals=[[next(sums) for _ in range(lane.start, lane.stop)] for lane in request.lanes],
        timings=timings,
    )
    if (result := request.result) is None:
        return answer
    return Large(
        answer,
        lambda content: answer.model_copy(update={"totals": [], "stored": links.write(table_set, result, content)}),
    )


def _chunks(number: int, lane: Lane, first: int, contents: list[bytes]) -> Iterator[Chunk]:
    """Return the chunks to add up for a lane, sums numbered from `first`, those of one sum together. Raises
    WireError.
    """
    files = []
    for content in contents:
        try:
            files.append(split(memoryview(content))[lane.start : lane.stop])
        except ValueError:
            raise WireError(f"lanes[{number}]: an object does not hold ciphertexts") from None
    for place in range(lane.stop - lane.start):
        terms = [each[place] for each in files if place < len(each)]
        if not terms:
            raise WireError(f"lanes[{number}]: no object has a ciphertext number {lane.start + place}")
        yield from (Chunk(first + place, blob) for blob in terms)


def answer_scan(request: ScanRequest, note: Note, table_set: str, links: Links) -> ScanResponse:
    """Sums of the rows of each group, of stored lanes, which are read by links.

    Raises WireError for a link, an object, a ciphertext or a row set that is not what it must be.
    """
    rows = ring(request.profile).degree - SENTINELS
    if len(request.numbers) != len(request.chunks) * size(rows, len(request.cuts)):
        raise WireError(f"numbers: not those of {len(request.chunks)} chunks of {rows} rows")
    started = time.monotonic()
    contents = iter(links.contents(table_set, [each for lane in request.lanes for each in lane]))
    lanes = tuple(tuple(Part(each.first, next(contents)) for each in lane) for lane in request.lanes)
    taken = time.monotonic() - started
    wanted = Wanted(tuple(map(tuple, request.cuts)), tuple(request.weights), request.label)
    scanning = Scanning(request.profile, wanted, lanes, tuple(request.chunks), request.numbers)
    with workers.fair_share() as share:
        left = max(_LEAST_SECONDS, limits.SENSITIVE_SECONDS - taken)
        totals = workers.evaluate(scanning, range(len(request.chunks)), share, left)
    timings = {**totals.seconds, "read": taken + totals.seconds.get("read", 0.0)}
    note(lanes=len(lanes), chunks=len(request.chunks), groups=len(request.cuts), timings=timings)
    if len(totals.files) != len(lanes) * wanted.results:
        raise WireError("cuts: a partial sum has no row")
    starts = range(0, len(lanes) * wanted.results, wanted.results)
    lists = [[totals.files[start + at] for at in range(wanted.results)] for start in starts]
    return ScanResponse(
        profile=request.profile,
        key_id=request.key_id,
        label=request.label,
        totals=lists,
        timings=timings,
    )
