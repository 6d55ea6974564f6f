"""Steps of a job, passed by a state machine (defined in cleave_shared.jobs).

It is a separate function with the sensitive service's code and more time; only the state machine invokes it. Questions
and answers are in the store, behind links that the client signed; only numbers and digests are returned. The state
machine stores error texts, so they name places and rules, never links or values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cleave_services import bodies, links
from cleave_services.bodies import Note, Received
from cleave_services.links import TableLinks
from cleave_services.log import log, log_to_stderr
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk
from cleave_services.sensitive.scan import answer_scan
from cleave_shared import limits, wire
from cleave_shared.errors import CleaveError, WireError
from cleave_shared.jobs import Answered, CallStep, Reduced, ReduceRequest, ReduceStep
from cleave_shared.messages import Message
from cleave_shared.requests import Linked, ScanRequest, ScanResponse
from cleave_shared.seal import seal_evaluator

_Step = TypeAdapter[CallStep | ReduceStep](CallStep | ReduceStep)
_KINDS: dict[str, type[ScanResponse | Reduced]] = {"scan": ScanResponse, "reduced": Reduced}


class Failed(Exception):  # noqa: N818 - named for what happened
    """A step has no answer. The state machine stores the text."""


def handler(event: Any, _context: Any) -> dict[str, Any]:
    """Run one step. Raises Failed, and otherwise only the runtime's own errors."""
    log_to_stderr()
    started = time.perf_counter()
    line: dict[str, Any] = {}
    try:
        step = _Step.validate_python(event)
        line |= {"step": step.step, "number": step.number}
        own, note = links.own().below(step.set), line.update
        line["set"] = step.set
        return asdict(_call(step, own, note) if isinstance(step, CallStep) else _reduce(step, own, note))
    except CleaveError as error:
        line["error"] = type(error).__name__
        raise Failed(error.message) from None
    except ValidationError as error:
        line["error"] = type(error).__name__
        raise Failed(f"not a step of a job: {wire.describe(error)}") from None
    except Exception as error:  # noqa: BLE001 - its message may quote values
        line["error"] = type(error).__name__
        raise Failed(f"internal error: {type(error).__name__}") from None
    finally:
        log(line | {"seconds": round(time.perf_counter() - started, 6)})


def _call(step: CallStep, own: TableLinks, note: Note) -> Answered:
    received = _received(step, own, ScanRequest)
    return _written(step, own, received.frames(answer_scan(received.request, note, own)))


def _reduce(step: ReduceStep, own: TableLinks, note: Note) -> Answered:
    received = _received(step, own, ReduceRequest)
    request: ReduceRequest = received.request
    wanted = _linked(step.parts, request.answers)
    needed: dict[int, set[int]] = {}
    for terms in request.sums:
        for number, place in terms:
            needed.setdefault(number, set()).add(place)
    blobs_of: dict[tuple[int, int], bytes] = {}
    for number, blobs in zip(needed, _answers(own, request, [wanted[each] for each in needed]), strict=True):
        if (last := max(needed[number])) >= len(blobs):
            raise WireError(f"sums: step {number} answered {len(blobs)} ciphertexts, number {last} is needed")
        blobs_of |= {(number, place): blobs[place] for place in needed[number]}
    chunks = [Chunk(at, blobs_of[term]) for at, terms in enumerate(request.sums) for term in terms]
    with workers.fair_share() as share:
        totals = workers.evaluate(BlockSums(seal_evaluator(request.profile)), chunks, share)
    note(steps=len(wanted), chunks=len(chunks), sums=len(request.sums), timings=totals.seconds)
    answer = Reduced(
        profile=request.profile, key_id=request.key_id, totals=[[totals.files[at] for at in range(len(request.sums))]]
    )
    return _written(step, own, received.frames(answer))


def _received(step: CallStep | ReduceStep, own: TableLinks, model: type[Message]) -> Received:
    (content,) = own.read([step.question], kind=links.RESULTS)
    return bodies.parse(content, wire.FRAMES_TYPE, model)


def _linked(parts: Sequence[Answered | None], answers: Sequence[Sequence[str]]) -> list[Linked]:
    """The answers as objects, by number of the step. Raises WireError unless every step answered once, through one of
    its links in `answers`.
    """
    by_number = {part.number: part for part in parts if part is not None}
    if len(parts) != len(answers) or set(by_number) != set(range(len(answers))):
        raise WireError(f"parts: {len(by_number)} of {len(answers)} steps answered, {len(parts)} are named")
    wanted = []
    for number, links_of in enumerate(answers):
        part = by_number[number]
        if part.attempt >= len(links_of):
            raise WireError(f"parts: step {number} answered by link {part.attempt}, it has {len(links_of)}")
        wanted.append(Linked(link=links_of[part.attempt], bytes=part.bytes, sha256=part.sha256))
    return wanted


def _answers(own: TableLinks, request: ReduceRequest, wanted: Sequence[Linked]) -> Iterator[list[bytes]]:
    """The ciphertexts of each answer, with a few answers in memory at a time."""
    model = _KINDS[request.kind]
    left = iter(wanted)
    while some := list(islice(left, limits.LINK_READS)):
        for content in own.read(some, kind=links.RESULTS):
            answer = wire.load(model, content, wire.FRAMES_TYPE)
            if (answer.profile, answer.key_id) != (request.profile, request.key_id):
                raise WireError("an answer is of another key's ciphertexts")
            yield [blob for each in answer.totals for blob in each]


def _written(step: CallStep | ReduceStep, own: TableLinks, content: bytes) -> Answered:
    """Write an answer to the first unused link: earlier attempts may have used theirs."""
    for attempt, link in enumerate(step.results):
        try:
            written = own.write(link, content)
        except WireError:
            if attempt + 1 == len(step.results):
                raise
        else:
            return Answered(number=step.number, attempt=attempt, bytes=written.bytes, sha256=written.sha256)
    raise AssertionError
