"""Sums over a stored table: groups of its cells, their totals, what the plain service says, and what is computed from
rows fetched for it; all of them by group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cleave.ask.session import within
from cleave.ask.source import GroupSums, Question, Usage
from cleave.ask.works import Fetch
from cleave.sql.rejoin import places_of
from cleave.sql.split import Halves
from cleave.store.lanes import Integers
from cleave.store.reading import read_whole
from cleave.sums.cellwise import Selection, StoredPlan, figures_of
from cleave.sums.scan import CALLS_UNDER_WAY, ScanAnswer, scan
from cleave.sums.sources import Part
from cleave.sums.stored import Stored
from cleave.table.running import limited
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, InputError, QueryRefused
from cleave_shared.requests import PlainResponse

if TYPE_CHECKING:
    from cleave.sums.job import Job


def stored_sums(
    stored: Stored,
    plan: StoredPlan,
    question: Question,
    fetched: Sequence[Fetch],
    seen: Callable[[Table | None], None],
    job: Job | None = None,
    side_by_side: int = CALLS_UNDER_WAY,
) -> GroupSums:
    """`fetched`: rows of the table that are read, if any. `seen` is given the table that DuckDB is at work on.

    `job` makes the calls of a scan; without one, `side_by_side` are under way at once. Raises CheckFailed where two
    sources report other groups.
    """
    rows, failure = None, None
    with question.clock.stage("rows"):
        try:
            rows = _grouped(fetched[0], plan, question, seen) if fetched else None
        except (InputError, QueryRefused) as error:  # which may depend on values: what is asked beside does not
            failure = error
    scanned: ScanAnswer | None = None
    totals: Mapping[Part, Integers] = {}
    with question.clock.stage("ask"):
        if plan.scans:
            progress, deadline = question.progress, question.deadline
            scanned = job.scan(stored, plan, progress, deadline) if job else scan(stored, plan, progress, side_by_side)
            responses: Sequence[PlainResponse] = scanned.responses
        else:
            responses, totals = stored.answers(plan)
    if failure is not None:
        raise failure
    selection = None
    if plan.over_cells:
        cells = stored.cell_table(plan.cell_columns) if plan.tells_cells_apart else None
        selection = Selection(cells, stored.cells.rows, plan)
    summed = selection or scanned
    places: Sequence[int] = ()
    if rows and summed:
        places = places_of(plan.key_types, rows.keys, summed.keys)
        same = sorted(places) == list(range(len(summed.keys)))
        if not same or [summed.counts[place] for place in places] != rows.counts.tolist():
            check = "stored" if selection else "plain groups"
            raise CheckFailed(check, "the rows that were read are not those that were summed")
    measures = stored.manifest.measures
    sums = selection.sums(totals, measures) if selection else scanned.sums if scanned else []
    if places:  # the order of the rows' groups
        sums = [each.of_groups(places) for each in sums]
    grouped = rows or summed
    return GroupSums(
        plan=plan,
        keys=grouped.keys if grouped else None,
        counts=rows.counts.tolist() if rows else summed.counts if summed else [],
        responses=responses,
        local=rows.local if rows else [],
        figures=figures_of(plan, sums, measures),
        usage=usage_of(stored),
        checks=checks_of(stored),
        scanned=plan.scans,
    )


def usage_of(stored: Stored) -> Usage:
    """Return the counts of reads and requests so far."""
    transport = stored.remote.transport if stored.remote else None  # None, too, where nothing was asked
    return Usage(
        profile=stored.manifest.profile,
        key_id=stored.tables.key.key_id,
        rows=stored.manifest.rows,
        sensitive_requests=stored.remote.sums_asked if stored.remote else 0,
        requests=transport.requests if transport else 0,
        bytes_sent=transport.sent if transport else 0,
        bytes_received=transport.received if transport else 0,
        objects_read=stored.tables.objects_read,
        bytes_read=stored.tables.bytes_read,
    )


def checks_of(stored: Stored) -> dict[str, str]:
    """The checks that all that was read of the store passed."""
    summed = stored.remote is not None and stored.remote.sums_asked
    return dict.fromkeys(("head", "stored", "sentinel"), "passed") | {"totals": "passed" if summed else "not needed"}


def _grouped(fetch: Fetch, plan: StoredPlan, question: Question, seen: Callable[[Table | None], None]) -> Halves:
    deadline = question.deadline
    reading = fetch.reading(question.progress, question.deadline)
    with read_whole([reading]), fetch.stored.rows.open(reading) as table:
        seen(table)

        def grouped() -> Halves:
            with limited(table.connection, deadline.left):
                return Halves(table, replace(plan, arguments=(), plain=(), plain_columns=()))

        try:
            deadline.check()
            return within(deadline, grouped)
        finally:
            seen(None)
