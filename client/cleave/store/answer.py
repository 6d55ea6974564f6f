"""A question over a stored table, answered: groups of its cells, their totals, what the plain service says, and what is
computed from rows fetched for it, put together by group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cleave.aggregates.base import Figure
from cleave.pipeline import Options, Progress, Result, Usage, within
from cleave.split import Halves
from cleave.sql.finish import finish
from cleave.sql.finish.uncollected import uncollected
from cleave.sql.plan import QueryPlan
from cleave.sql.rejoin import Groups, Texts, merge, places_of, rejoin
from cleave.sql.sets import regroup
from cleave.store.cellwise import Selection, StoredPlan, Sums, figures_of
from cleave.store.lanes import Integers
from cleave.store.pruning import cells_of
from cleave.store.scan import ScanAnswer
from cleave.store.sources import Part
from cleave.store.stored import Stored
from cleave.suppress import suppress_small
from cleave.table.asked import limited
from cleave.table.table import Table
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed
from cleave_shared.wire import PlainResponse

AskPlain = Callable[[QueryPlan], Sequence[PlainResponse]]
AskScan = Callable[[StoredPlan], ScanAnswer]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the rows that a question selects tell: their groups, and what is computed here of each."""

    keys: list[Texts]
    counts: list[int]
    local: list[Texts]


def answer(
    stored: Stored,
    plan: StoredPlan,
    options: Options,
    deadline: Deadline,
    progress: Progress,
    seen: Callable[[Table | None], None],
    ask_plain: AskPlain,
    ask_scan: AskScan | None = None,
) -> Result:
    """`seen` is told the table that DuckDB is at work on. Raises CheckFailed where two sources tell of other groups."""
    selection = _selection(stored, plan) if plan.over_cells else None
    rows = _fetched(stored, plan, options, deadline, progress, seen) if plan.fetches else None
    scanned = ask_scan(plan) if ask_scan and plan.scans else None
    responses, totals = (scanned.responses, {}) if scanned else _asked(stored, plan, ask_plain)
    with uncollected():
        groups = _groups(plan, selection, rows, responses)
        answered = regroup(plan, groups, responses)
        answered = replace(answered, groups=replace(answered.groups, local=rows.local if rows else []))
        figures: list[list[Figure]] = [[] for _ in answered.members]
        if selection and plan.encrypted:
            figures = selection.figures(totals, stored.manifest.measures, answered.members)
        elif scanned and plan.encrypted:
            sums = _in_order(plan, groups, scanned)
            figures = figures_of(plan, sums, stored.manifest.measures, answered.members)
        kept, shown, suppressed = suppress_small(answered, figures, groups.counts, options.min_group)
        result = replace(finish(plan, kept, shown), scanned=scanned is not None)
    hides = options.min_group > 0
    usage = Usage(
        profile=stored.manifest.profile,
        key_id=None,
        rows=None if hides else stored.manifest.rows,
        selected_rows=None if hides else sum(groups.counts),
        groups=None if hides else len(groups.keys),
        lanes=0,
        blocks=0,
        chunks=0,
        sensitive_requests=0,
        requests=0,
        bytes_sent=0,
        bytes_received=0,
        min_group=options.min_group if hides else None,
        suppressed_groups=suppressed.small if hides else None,
        withheld_groups=suppressed.withheld if hides else None,
    )
    return stored.counted(Result(result, {}, usage, {}))


def _in_order(plan: StoredPlan, groups: Groups, scanned: ScanAnswer) -> list[Sums]:
    """A scan's sums by argument, in the order of `groups`. Raises CheckFailed where they are not of these groups."""
    places = places_of(plan.key_types, groups.keys, scanned.keys)
    if sorted(places) != list(range(len(scanned.keys))):
        raise CheckFailed("plain groups", "the groups that were scanned are not those of the answer")
    return [{part: [entries[place] for place in places] for part, entries in each.items()} for each in scanned.sums]


def _asked(
    stored: Stored, plan: StoredPlan, ask_plain: AskPlain
) -> tuple[Sequence[PlainResponse], Mapping[Part, Integers]]:
    """What the plain service says, and beside it the totals: of both halves at once, and both in before one is judged.

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


def _fetched(
    stored: Stored,
    plan: StoredPlan,
    options: Options,
    deadline: Deadline,
    progress: Progress,
    seen: Callable[[Table | None], None],
) -> _Rows:
    cells = None if options.pad else cells_of(stored, plan.where)
    ordered = not all(each.exact for each in plan.local)
    fetched = stored.rows.table(
        plan.fetched_columns, ordered=ordered, progress=progress, cells=cells, deadline=deadline
    )
    with fetched as table:
        seen(table)

        def grouped() -> _Rows:
            with limited(table.connection, deadline.left):
                halves = Halves(table, replace(plan, arguments=(), plain=(), plain_columns=()))
            return _Rows(halves.keys, halves.counts.tolist(), halves.local)

        try:
            deadline.check()
            return within(deadline, grouped)
        finally:
            seen(None)


def _groups(
    plan: StoredPlan, selection: Selection | None, rows: _Rows | None, responses: Sequence[PlainResponse]
) -> Groups:
    """The finest groups, which all that tell of them must tell alike."""
    if selection and rows:
        same = places_of(plan.key_types, selection.keys, rows.keys) == list(range(len(rows.keys)))
        if not same or selection.counts != rows.counts:
            raise CheckFailed("stored", "the rows of a segment are not those that are counted in its cells")
    known = selection or rows
    return rejoin(plan, responses, known.keys, known.counts) if known else merge(plan, responses)
