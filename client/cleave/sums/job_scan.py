"""A scan whose calls are a job: the same questions and the same sums, added up in the cloud (`cleave.sums.job`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cleave.objects.bounded import Bounded
from cleave.objects.s3 import Bucket
from cleave.objects.storage import Storage
from cleave.processes.deadline import Deadline
from cleave.store.stored_lanes import SCAN_ROWS
from cleave.sums.cellwise import StoredPlan
from cleave.sums.job import LINK_SECONDS, Asked, Job
from cleave.sums.machine import Machine
from cleave.sums.remote import Remote
from cleave.sums.scan import Scan, ScanAnswer, request_of, select
from cleave.sums.scanned import weights_of
from cleave.sums.stored import Stored
from cleave.table.progress import Progress
from cleave_shared.errors import InputError


def job_of(storage: Storage, folder: str, stored: Stored, machine: Machine, sql: str) -> Job:
    """The job that answers `sql` over this version. Raises InputError for a table that lies in a folder."""
    inside = storage.inside if isinstance(storage, Bounded) else storage
    if not isinstance(inside, Bucket):
        raise InputError(
            "a job reads and writes in S3", hint="leave --job out, or put the table into s3://bucket/prefix"
        )
    return Job(storage, folder, stored.vault, machine, stored.name_of_job(sql), inside.key)


def scan_by_job(
    remote: Remote, stored: Stored, plan: StoredPlan, job: Job, progress: Progress, deadline: Deadline
) -> ScanAnswer:
    """Raises what `Job.run` raises, CheckFailed."""
    selected = select(remote, stored, plan)
    found, scanned = Scan(stored, plan, selected), stored.scanned()
    linked = partial(remote.linked, seconds=LINK_SECONDS)  # for as long as a job may take

    def calls() -> Iterator[Asked]:
        for call in found.calls(weights_of(len(found.rows))):
            yield Asked(call.segment.id, call.question, partial(request_of, call, linked, stored))

    key = (stored.manifest.profile, stored.manifest.table_id)
    advance, done = progress.stage("scan", stored.manifest.rows, "rows"), 0

    def show(batches: int, of: int) -> None:
        nonlocal done
        now = stored.manifest.rows * batches // of
        advance(now - done)
        done = now

    for answer in job.run(calls, found.rows, SCAN_ROWS, key, deadline, show):
        scanned.accept(answer.shape, answer.files, answer.asked)
    return ScanAnswer(selected.responses, selected.keys, found.sums(scanned))
