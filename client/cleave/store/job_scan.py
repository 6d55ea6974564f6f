"""A scan whose calls are a job: the same questions and the same sums, added up in the cloud (`cleave.store.job`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cleave.pipeline import Progress
from cleave.store.bounded import Bounded
from cleave.store.cellwise import StoredPlan
from cleave.store.job import LINK_SECONDS, Answer, Asked, Job
from cleave.store.machine import Machine
from cleave.store.manifest import Object
from cleave.store.reduced import sums_of
from cleave.store.remote import Remote
from cleave.store.s3 import Bucket
from cleave.store.scan import Call, Scan, ScanAnswer, request_of, select
from cleave.store.scanned import Sums, total_of, weights_of
from cleave.store.sources import Part
from cleave.store.storage import Storage
from cleave.store.stored import Stored
from cleave.transport.deadline import Deadline
from cleave_shared.errors import InputError
from cleave_shared.stored import Linked


def job_of(storage: Storage, folder: str, stored: Stored, machine: Machine, sql: str) -> Job:
    """The job that answers `sql` over this version. Raises InputError for a table that lies in a folder."""
    inside = storage.inside if isinstance(storage, Bounded) else storage
    if not isinstance(inside, Bucket):
        raise InputError(
            "a job reads and writes in S3", hint="leave --job out, or put the table into s3://bucket/prefix"
        )
    return Job(storage, folder, stored.vault, machine, stored.name_of_job(sql), inside.key)


def scan_by_job(
    remote: Remote, storage: Storage, stored: Stored, plan: StoredPlan, job: Job, progress: Progress, deadline: Deadline
) -> ScanAnswer:
    """`storage`: the sensitive one. Raises what `Job.run` raises, CheckFailed."""
    segments = stored.manifest.segments
    lanes = stored.row_lanes(segments[0])
    if any(stored.row_lanes(each).layout != lanes.layout for each in segments):
        raise InputError("a job adds up segments of one owner only", hint="ask this table without --job")
    selected = select(remote, stored, plan)
    found = Scan(stored, plan, selected)
    filters = list(found.wanted)
    rows = [count for filter_ in filters for count in selected.rows_of(filter_)]

    def linked(which: Object) -> Linked:
        """For as long as a job may take."""
        return Linked(link=storage.link(which.name, LINK_SECONDS), bytes=which.bytes, sha256=which.sha256)

    def calls() -> Iterator[Asked]:
        weights = weights_of(found.groups * len(filters))
        first = {filter_: place * found.groups for place, filter_ in enumerate(filters)}
        for call in found.calls():
            start = first[call.filter]
            groups = tuple(start + group for group in call.question.cut.groups)
            asked = replace(
                call.question,
                cut=replace(call.question.cut, groups=groups),
                weights=tuple(weights[group] for group in groups),
            )
            yield Asked(call.segment.id, asked, partial(request_of, Call(call.segment, None, asked), linked, stored))

    key = (stored.manifest.profile, stored.key_id)
    advance, done = progress.stage("scan", stored.manifest.rows, "rows"), 0

    def show(batches: int, of: int) -> None:
        nonlocal done
        now = stored.manifest.rows * batches // of
        advance(now - done)
        done = now

    sums: Sums = {}
    for answer in job.run(calls, rows, stored.manifest.window, key, deadline, show):
        for place, pieces in _sums(stored, answer).items():
            sums.setdefault(place, []).extend(pieces)
    totals: dict[tuple[str | None, Part], list[int]] = {}
    for number, filter_ in enumerate(filters):
        for part in found.wanted[filter_]:
            column = found.columns[part]
            totals[filter_, part] = [
                total_of(sums, lanes, column, number * found.groups + group)
                if rows[number * found.groups + group]
                else 0
                for group in range(found.groups)
            ]
    return ScanAnswer(selected.response, found.by_argument(totals))


def _sums(stored: Stored, answer: Answer) -> Sums:
    segments = {each.id: each for each in stored.manifest.segments}
    lanes = stored.row_lanes(next(iter(segments.values())))
    asked = [(stored.scanned(segments[segment]), question) for segment, question in answer.asked]
    return sums_of(answer.shape, stored.values_of(answer.files), asked, lanes, stored.modulus)
