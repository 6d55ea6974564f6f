"""Sums of ciphertexts: of every position of a lane, or of the rows of each group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cleave_services import links as objects_of
from cleave_services.bodies import Large, Note
from cleave_services.links import TableLinks
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import WireError
from cleave_shared.messages import Bytes
from cleave_shared.requests import Lane, SumsRequest, SumsResponse
from cleave_shared.seal import seal_evaluator


def answer_sums(request: SumsRequest, note: Note, links: TableLinks | None) -> SumsResponse | Large:
    """Sums of the ciphertexts in objects, lane by lane.

    Raises WireError for a wrong link, object or ciphertext.
    """
    return sums(request, note, links, seal_evaluator(request.profile))


def sums(request: SumsRequest, note: Note, links: TableLinks | None, evaluator: Evaluator) -> SumsResponse | Large:
    """Like `answer_sums`, with any evaluator."""
    started = time.monotonic()
    contents = iter(objects_of.read(request.objects, links, request.result))
    read = time.monotonic() - started
    chunks: list[Chunk] = []
    first = 0
    for number, lane in enumerate(request.lanes):
        chunks += _chunks(number, lane, first, [next(contents) for _ in lane.objects])
        first += lane.stop - lane.start
    with workers.fair_share() as share:
        left = objects_of.seconds_left(limits.SENSITIVE_SECONDS, read)
        results = workers.evaluate(BlockSums(evaluator), chunks, share, left)
    files = (results.files[number] for number in range(first))
    timings = {"read": read, **results.seconds}
    note(lanes=len(request.lanes), objects=len(request.objects), chunks=len(chunks), sums=first, timings=timings)
    answer = SumsResponse(
        profile=request.profile,
        key_id=request.key_id,
        label=request.label,
        totals=[[next(files) for _ in range(lane.start, lane.stop)] for lane in request.lanes],
        timings=timings,
    )
    if links is None or (result := request.result) is None:
        return answer
    return Large(answer, lambda content: replace(answer, totals=[], stored=links.write(result, content)))


def _chunks(number: int, lane: Lane, first: int, contents: Sequence[Bytes]) -> Iterator[Chunk]:
    """The chunks to add up for a lane. Sums are numbered from `first`; chunks of one sum are consecutive. Raises
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
