"""Choose how to answer a question over a stored table, by a fixed rule that `plan` prints (docs/stored.md). Describe
what the chosen plan reads, and what each store learns.

The cost of a plan is the bytes of all objects that it reads, here or in a service. A plan that uses totals counts a
quarter of its bytes, and a quarter of 160 bytes for each cell. Rows larger than the fetch limit are never fetched. A
scan is chosen only where no other way can answer. The choice depends only on the schema and on counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cleave.ask.describe import UNASKED, Description, Leakage, Requests, description
from cleave.ask.joining import Joinable, counted_join
from cleave.ask.plan import AnswerPlan, Considered
from cleave.ask.threshold import NO_THRESHOLD, Threshold
from cleave.ask.way import Lesson, Site
from cleave.ask.ways.choosing import Choosing, StoredWay, not_by_totals
from cleave.ask.ways.plain import PlainWay
from cleave.ask.ways.rows import RowsWay
from cleave.ask.ways.scan import ScanWay
from cleave.ask.ways.totals import TotalsWay
from cleave.disclosure.counting import counting_of, why_rows
from cleave.finish.result import FAULTS_ONLY
from cleave.objects.locate import scheme_of
from cleave.sql.plan import Counting
from cleave.sql.planner import Planner
from cleave.sql.read import Statement
from cleave.sql.refusals import Uncut
from cleave.store.contributors import party_of
from cleave.sums.needs import NoSums
from cleave.text.quantities import sized
from cleave_shared.errors import QueryRefused

WAYS: Sequence[type[StoredWay]] = (TotalsWay, PlainWay, RowsWay, ScanWay)  # what reveals least comes first
FETCH_LIMIT = 1_000_000_000  # default of --fetch-limit: bytes of rows for one question
_NO_TOTALS = "none are kept of it"
_BY_CONTRIBUTOR = "a minimum group size counts the rows of each contributor"
_NOT_BY_JOBS = 2  # rank of plans that fetch rows, if a job can scan instead
_SILENT = Lesson(
    "neither the query nor any name or value; when it was read, and under whose credentials",
    "no query, name or value; when, and under whose credentials",
)
_WHEN = "when the query ran, and under whose credentials"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A plan in the comparison: the least `rank`, then the least `size`, wins.

    `barrier` says why the plan may not be chosen; "" if it may.
    """

    plan: AnswerPlan
    barrier: str
    rank: int
    size: int

    @property
    def key(self) -> tuple[int, int]:
        return self.rank, self.size

    def beside(self, rival: _Candidate | None) -> str:
        """Explain why this candidate was chosen over `rival`, or the other way round."""
        if rival is None:
            reason = "no other way answers it"
        elif self.barrier or rival.barrier:
            reason = self.barrier or rival.barrier
        elif self.rank == rival.rank:
            reason = f"counts as {sized(self.size)}, {rival.plan.name} as {sized(rival.size)}"
        elif max(self.rank, rival.rank) == _NOT_BY_JOBS:
            reason = "a job scans"
        else:
            others = f"{rival.plan.name} answer it without one"
            reason = "it answers without a scan" if self.rank < rival.rank else others
        return reason


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses between the ways to answer a question over one version of the tables of `site`, under a threshold."""

    site: Site
    threshold: Threshold = NO_THRESHOLD

    def chosen(self, statement: Statement, *, cloud_only: bool) -> AnswerPlan:
        """Return the plan to use.

        Raises QueryRefused, and any error of reading the cell list or the indexes.
        """
        with closing(self._planner(statement)) as planner:
            choosing = Choosing(self.site, planner, WAYS, cloud_only)
            barred: list[_Candidate] = []
            best: _Candidate | None = None
            for kind in WAYS:
                if cloud_only and kind.stage == "rows":
                    continue
                if best is not None and any(best.key <= (kind.rank, size) for size in kind.least(choosing)):
                    continue  # whatever such a plan is
                for candidate in self._candidates(kind, choosing):
                    if candidate.barrier:
                        barred.append(candidate)
                    elif best is None or candidate.key < best.key:
                        best = candidate
            if best is None:
                raise self._refused(choosing, barred)
        return self._under(best.plan)

    def _under(self, plan: AnswerPlan) -> AnswerPlan:
        """Return the plan that answers the same question under the threshold: from cells if these tell how many people,
        or rows with a value, each group has, else from rows.

        Raises QueryRefused, and any error of reading the indexes.
        """
        plan = replace(plan, threshold=self.threshold)
        if not self.threshold.least:
            return plan
        if (whole := plan.cut.whole()) is not None:
            cut = counted_join(whole, self._joinable())
            return replace(plan, cut=cut, ways=(RowsWay(cut),))
        stored = self.site.table(plan.table)
        counting = counting_of(plan.cut_up, stored.whole_schema, party_of(stored.manifest))
        if counting is None and not plan.cut_up.local:
            return plan  # the groups' numbers of rows are enough
        return self._counted(plan, counting or Counting())

    def _joinable(self) -> dict[str, Joinable]:
        site = self.site
        tables = {name.lower(): Joinable(schema) for name, schema in site.others.items()}
        return tables | {
            name: Joinable(each.whole_schema, party_of(each.manifest)) for name, each in site.tables.items()
        }

    def _counted(self, plan: AnswerPlan, counting: Counting) -> AnswerPlan:
        """Return `plan` from cells if these have what `counting` counts, else from rows."""
        by_cells = [way for way in plan.ways if isinstance(way, TotalsWay)]
        why = why_rows(plan.cut_up, counting)
        if not why and len(by_cells) == len(plan.ways):
            counting = replace(counting, reason=_BY_CONTRIBUTOR)
            ways = tuple(way.counted_by(counting) for way in by_cells)
            return replace(plan, cut=plan.cut_up.counted_by(counting), ways=ways)
        if not why:
            why = (
                (plan.cut.reason or _NO_TOTALS) if plan.fetches else _BY_CONTRIBUTOR
            )  # the plain service knows no contributor
        counting = replace(counting, reason=why)
        if plan.cloud_only:
            raise QueryRefused(f"{why}: only this machine reads rows", hint="leave --cloud-only out")
        with closing(self._planner(plan.statement)) as planner:
            cut = planner.cut(NoSums(why), cloud_only=False, apart=True).counted_by(counting)
        rows = replace(plan, cut=cut, ways=(RowsWay(cut),))
        if self._candidate(rows, pad=False).barrier:
            raise over_limit(rows.fetched(self.site), self.site.fetch_limit, "ask without a minimum group size")
        return rows

    def plans(self, statement: Statement) -> list[AnswerPlan]:
        """Return every plan that can answer `statement`, the one that reveals least first, however much it reads.

        Raises QueryRefused.
        """
        with closing(self._planner(statement)) as planner:
            choosing = Choosing(self.site, planner, WAYS, cloud_only=False)
            plans = [each for kind in WAYS for each in kind.plans(choosing)]
        counted: list[AnswerPlan] = []  # several ways may count by the same rows
        for each in map(self._under, plans):
            if each not in counted:
                counted.append(each)
        return counted

    def considered(self, plan: AnswerPlan, *, pad: bool) -> list[Considered]:
        """Return the ways to answer the question of `plan`, with `plan` first, and why each is chosen or not."""
        if (sums := plan.cut.sums()) is not None and sums.counting is not None:
            return self._counting(plan, sums.counting, pad=pad)
        with closing(self._planner(plan.statement)) as planner:
            choosing = Choosing(self.site, planner, WAYS, plan.cloud_only)
            every = [each for kind in WAYS for each in self._candidates(kind, choosing, pad=pad)]
        mine = self._candidate(plan, pad=pad)
        others = [each for each in every if each.plan.name != plan.name]
        rival = min(others, key=lambda each: (each.rank > mine.rank, bool(each.barrier), each.key), default=None)
        considered = [self._considered(mine, rival, pad=pad, taken=True)]
        considered += [self._considered(each, mine, pad=pad, taken=False) for each in others]
        if not any(each.name.startswith(TotalsWay.name) for each in considered):
            considered.append(Considered(TotalsWay.name, None, False, plan.cut.reason or _NO_TOTALS))
        return considered

    def _counting(self, plan: AnswerPlan, counting: Counting, *, pad: bool) -> list[Considered]:
        """List the ways under a threshold, which leaves no choice."""
        why = counting.reason
        taken = replace(self._considered(self._candidate(plan, pad=pad), None, pad=pad, taken=True), reason=why)
        others = [] if plan.name == TotalsWay.name else [Considered(TotalsWay.name, None, False, why)]
        return [taken, *others]

    def _considered(self, each: _Candidate, rival: _Candidate | None, *, pad: bool, taken: bool) -> Considered:
        paid = scheme_of(self.site.stored.tables.places[0]).is_remote
        cost = each.plan.work(self.site, pad=pad).cost(bucket=paid, remote=self.site.remote)
        bounds = [bound for way in each.plan.ways if (bound := way.bound(self.site))]
        return Considered(each.plan.name, cost, taken, "; ".join([each.beside(rival), *bounds]))

    def _planner(self, statement: Statement) -> Planner:
        return Planner(statement, self.site.schema_of(self.site.stored), self.site.name, self.site.others)

    def _candidates(self, kind: type[StoredWay], choosing: Choosing, *, pad: bool = False) -> Iterator[_Candidate]:
        return (self._candidate(each, pad=pad) for each in kind.plans(choosing))

    def _candidate(self, plan: AnswerPlan, *, pad: bool) -> _Candidate:
        work = [(each, each.work(self.site, pad=pad).bytes) for each in plan.ways]
        barrier = ""
        if plan.cloud_only and plan.fetches:
            barrier = "no rows may be fetched"
        elif sum(size for each, size in work if each.stage == "rows") > self.site.fetch_limit:
            barrier = f"the rows are more than the limit of {sized(self.site.fetch_limit)} (--fetch-limit)"
        rank = max(each.rank for each in plan.ways)
        if self.site.job and plan.fetches and not rank:
            rank = _NOT_BY_JOBS
        size = sum(size + each.effort(self.site) for each, size in work)
        return _Candidate(plan, barrier, rank, size // plan.worth)

    def _refused(self, choosing: Choosing, barred: Sequence[_Candidate]) -> QueryRefused:
        if isinstance(choosing.base, Uncut):
            if not self.site.stored.tables.has_totals:
                return QueryRefused(f"{choosing.base}: only this machine reads rows", hint="leave --cloud-only out")
            return not_by_totals(choosing.base, self.site.stored.by)
        scans = any(each.rank for each in barred)
        how = "ask for less: a scan of it fetches rows as well" if scans else how_to_scan(self.site)
        return over_limit(barred[0].plan.fetched(self.site), self.site.fetch_limit, how)


def describe_stored(
    site: Site, plan: AnswerPlan, considered: Sequence[Considered] = (), *, pad: bool = False
) -> Description:
    """Describe a plan over stored tables.

    This reads the cell lists and, if rows of only some cells would be fetched, the indexes that locate them.
    """
    tables = list(site.tables.values())
    work = plan.work(site, pad=pad)
    fetched = {each.object.name for each in work.reads}
    read = [(each.object, each.bytes) for each in work.reads]
    read += [(each, each.bytes) for each in work.linked if each.name not in fetched]
    halves = {each.object.name for each in work.reads if each.is_plain}
    if work.linked:
        halves |= {each.plain.name for table in tables for each in table.manifest.segments if each.plain}
    plain = [size for which, size in read if which.name in halves]
    sensitive = [size for which, size in read if which.name not in halves]
    disclosed = [each.disclosures(site, pad=pad) for each in plan.ways]
    to_plain = [text for each in disclosed for text in each.plain]
    to_sensitive = [text for each in disclosed for text in each.sensitive]
    when = _WHEN if any(each.queried for each in disclosed) else _SILENT

    def shown(table: str, column: str) -> str:
        return f"{table}.{column}" if len(tables) > 1 else column

    return description(
        ", ".join(each.manifest.table for each in tables),
        sum(each.manifest.rows for each in tables),
        [
            replace(column, name=shown(each.manifest.table, column.name))
            for each in tables
            for column in site.schema_of(each).columns
        ],
        plan.cut,
        {shown(*column): use for way in plan.ways for column, use in way.uses(site).items()},
        "not read",
        profile=site.stored.profile,
        lanes=len(sensitive),
        plain=Requests(len(plain), 0, sum(plain)),
        sensitive=Requests(len(sensitive), 0, sum(sensitive)),
        leakage=Leakage(
            (*to_plain, when) if to_plain else (UNASKED,),
            (*(to_sensitive or ["that the table's head and what is sealed of it are read"]), _SILENT),
        ),
        places=site.stored.tables.places,
        ways=tuple(considered),
        dollars=next((each.cost.dollars for each in considered if each.taken and each.cost), 0.0),
        trust=f"sums are {FAULTS_ONLY}" if plan.scanned else "",
    )


def over_limit(fetched: int, limit: int, how: str) -> QueryRefused:
    """Return the refusal to fetch `fetched` bytes of rows; `how` tells the user how to avoid it."""
    return QueryRefused(
        f"it would fetch {sized(fetched)} of rows, and the limit is {sized(limit)}",
        hint=f"raise --fetch-limit (fetch_limit= in Python) to {fetched}, or {how}",
    )


def how_to_scan(site: Site) -> str:
    if not site.services:
        return "name services that scan (--endpoint) for a table of `cleave put --scan`"
    if not site.scan:
        return "leave --no-scan out, for a table of `cleave put --scan`"
    return "ask for sums, means or variances of a table that was put with --scan: services add up its rows"
