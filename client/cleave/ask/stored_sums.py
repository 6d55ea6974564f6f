"""Sums over a stored table: groups of its cells, their totals, what the plain service says, and what is computed from
rows fetched for it; all of them by group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cleave.ask.session import within
from cleave.ask.source import GroupSums, Question, Usage
from cleave.ask.works import Fetch
from cleave.sql.plan import QueryPlan
from cleave.sql.rejoin import Groups, places_of
from cleave.sql.split import Halves
from cleave.store.lanes import Integers
from cleave.store.reading import read_whole
from cleave.sums.cellwise import Selection, StoredPlan, Sums, figures_of
from cleave.sums.scan import ScanAnswer
from cleave.sums.sources import Part
from cleave.sums.stored import Stored
from cleave.table.table import Table, limited
from cleave_shared.errors import CheckFailed, InputError, QueryRefused
from cleave_shared.wire import PlainResponse

AskPlain = Callable[[QueryPlan], Sequence[PlainResponse]]
AskScan = Callable[[StoredPlan], ScanAnswer]


def stored_sums(
    stored: Stored,
    plan: StoredPlan,
    question: Question,
    fetched: Sequence[Fetch],
    seen: Callable[[Table | None], None],
    ask_plain: AskPlain,
    ask_scan: AskScan | None = None,
) -> GroupSums:
    """`fetched`: rows of the table that are read, if any. `seen` is given the table that DuckDB is at work on.

    Raises CheckFailed where two sources report other groups.
    """
    selection = _selection(stored, plan) if plan.over_cells else None
    rows, failure = None, None
    with question.clock.stage("rows"):
        try:
            rows = _grouped(fetched[0], plan, question, seen) if fetched else None
        except (InputError, QueryRefused) as error:  # which may depend on values: what is asked beside does not
            failure = error
    with question.clock.stage("ask"):
        scanned = ask_scan(plan) if ask_scan and plan.scans else None
        responses, totals = (scanned.responses, {}) if scanned else _answers(stored, plan, ask_plain)
    if failure is not None:
        raise failure
    if selection and rows:
        same = places_of(plan.key_types, selection.keys, rows.keys) == list(range(len(rows.keys)))
        if not same or selection.counts != rows.counts.tolist():
            raise CheckFailed("stored", "the rows of a segment are not those that are counted in its cells")
    counts = selection.counts if selection else rows.counts.tolist() if rows else []
    grouped = selection or rows

    def figures(members: Sequence[tuple[int, ...]], groups: Groups) -> Sequence[object]:
        measures = stored.manifest.measures
        if selection and plan.encrypted:
            return selection.figures(totals, measures, members)
        if scanned and plan.encrypted:
            return figures_of(plan, _in_order(plan, groups, scanned), measures, members)
        return [()] * len(members)

    return GroupSums(
        plan=plan,
        keys=grouped.keys if grouped else None,
        counts=counts,
        responses=responses,
        local=rows.local if rows else [],
        figures=figures,
        usage=usage_of(stored),
        checks=checks_of(stored),
        scanned=scanned is not None,
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


def _in_order(plan: StoredPlan, groups: Groups, scanned: ScanAnswer) -> list[Sums]:
    """A scan's sums by argument, in the order of `groups`. Raises CheckFailed where they are not of these groups."""
    places = places_of(plan.key_types, groups.keys, scanned.keys)
    if sorted(places) != list(range(len(scanned.keys))):
        raise CheckFailed("plain groups", "the groups that were scanned are not those of the answer")
    return [{part: [entries[place] for place in places] for part, entries in each.items()} for each in scanned.sums]


def _answers(
    stored: Stored, plan: StoredPlan, ask_plain: AskPlain
) -> tuple[Sequence[PlainResponse], Mapping[Part, Integers]]:
    """Return the plain service's answer, and the totals: of both halves at once, and both in before one is judged.

    Nothing forks meanwhile: rows were fetched before.
    """
    with ThreadPoolExecutor(1, "plain") as pool:
        plain = pool.submit(ask_plain, plan) if plan.asks_plain else None
        try:
            totals = stored.totals(plan.parts) if plan.over_cells and plan.encrypted else {}
        except CheckFailed:
            raise
        except BaseException:
            stored.stop()  # else the other half would be waited for
            raise
        return plain.result() if plain else [], totals


def _selection(stored: Stored, plan: StoredPlan) -> Selection:
    return Selection(stored.cell_table(plan.cell_columns) if plan.tells_cells_apart else None, stored.cells.rows, plan)


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
