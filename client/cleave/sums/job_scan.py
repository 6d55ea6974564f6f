"""A scan whose calls are a job: the same questions and the same sums, added up in the cloud (`cleave.sums.job`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cleave.objects.bounded import Bounded
from cleave.objects.s3 import Bucket
from cleave.objects.storage import Storage
from cleave.processes.deadline import Deadline
from cleave.store.lanes import Lanes
from cleave.store.manifest import Object
from cleave.store.stored_lanes import SCAN_ROWS
from cleave.sums.cellwise import StoredPlan
from cleave.sums.job import LINK_SECONDS, Answer, Asked, Job
from cleave.sums.machine import Machine
from cleave.sums.reduced import sums_of
from cleave.sums.remote import Remote
from cleave.sums.scan import Call, Scan, ScanAnswer, request_of, select
from cleave.sums.scanned import Sums, total_of, weights_of
from cleave.sums.stored import Stored
from cleave.table.progress import Progress
from cleave_shared.errors import CheckFailed, InputError
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
    layouts = _Layouts(stored)
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
            request = partial(request_of, Call(call.segment, None, asked), linked, stored)
            yield Asked(call.segment.id, asked, request, layouts.number[call.segment.id])

    key = (stored.manifest.profile, stored.manifest.table_id)
    advance, done = progress.stage("scan", stored.manifest.rows, "rows"), 0

    def show(batches: int, of: int) -> None:
        nonlocal done
        now = stored.manifest.rows * batches // of
        advance(now - done)
        done = now

    for answer in job.run(calls, rows, SCAN_ROWS, key, deadline, show):
        layouts.add(answer)
    totals = {
        (filter_, part): [
            layouts.total(found.columns[part], group, rows[group])
            for group in range(place * found.groups, (place + 1) * found.groups)
        ]
        for place, filter_ in enumerate(filters)
        for part in found.wanted[filter_]
    }
    return ScanAnswer(selected.responses, selected.keys, found.by_argument(totals))


class _Layouts:
    """The sums of a job, of segments whose rows lie in lanes in one way or another: the owner's and contributors'.

    `number`: of the layout of each segment.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._segments = {each.id: each for each in stored.manifest.segments}
        self._lanes: list[Lanes] = []
        self.number: dict[str, int] = {}
        for name in self._segments:
            lanes = stored.row_lanes
            same = (at for at, each in enumerate(self._lanes) if each.layout == lanes.layout)
            self.number[name] = at = next(same, len(self._lanes))
            if at == len(self._lanes):
                self._lanes.append(lanes)
        self._sums: list[Sums] = [{} for _ in self._lanes]

    def add(self, answer: Answer) -> None:
        """Raises CheckFailed for what does not decrypt to sums of what was asked."""
        stored = self._stored
        asked = [
            (stored.scanned(self._segments[segment]), self.number[segment], question)
            for segment, question in answer.asked
        ]
        found = sums_of(answer.shape, stored.values_of(answer.files), asked, self._lanes, stored.modulus)
        for known, sums in zip(self._sums, found, strict=True):
            for place, pieces in sums.items():
                known.setdefault(place, []).extend(pieces)

    def total(self, column: int, group: int, rows: int) -> int:
        """Of `column` over the `rows` rows of a group. Raises CheckFailed for sums of more rows, or of fewer."""
        total = counted = 0
        for lanes, sums in zip(self._lanes, self._sums, strict=True):
            parts = lanes.of(column)
            if not parts:
                return 0
            if (parts[0], group) in sums:
                total += total_of(sums, lanes, column, group)
                counted += sum(each for each, _ in sums[parts[0], group])
        if counted != rows:
            raise CheckFailed("envelope", "the answer to a job is not of all rows of a group")
        return total
