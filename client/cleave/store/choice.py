"""Which way a question over a stored table goes: the quickest of the totals of its cells, rows that are fetched, and a
scan, by what each is estimated to take (cleave.store.works, cleave.model.cost).

In this order each tells a store or a service more than the one before, so a later one is taken where it is clearly
quicker. How many groups a scan has nobody knows before the plain service is asked: it is planned as if there were one,
and given up where there turn out to be more than it is the quickest way for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cleave.model.cost import Prices, Work
from cleave.model.ways import Cost, Way
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.uncut import Uncut
from cleave.store.cellwise import StoredPlan, stored_plan
from cleave.store.kept import KeptTotals
from cleave.store.rowwise import SummedRows
from cleave.store.scan import MOST_RESULTS
from cleave.store.stored import Stored
from cleave.store.works import LEAST_OF_A_SCAN, least_of_rows, work_of
from cleave.table.schema import Schema
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import QueryRefused

NO_PLAIN = "there is no plain service"
QUICKER = "fetching the rows that are selected is quicker than the totals of all cells"
TIMES, SECONDS = 1.2, 0.01  # what a way that tells more must be quicker by

Plan = StoredPlan | LocalPlan


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to answer a question, and what it takes."""

    plan: Plan
    work: Work
    cost: Cost

    @property
    def name(self) -> str:
        return name_of(self.plan)


def name_of(plan: Plan) -> str:
    if isinstance(plan, LocalPlan):
        return "rows"
    if not (plan.scans or plan.parts):
        return "rows" if plan.fetches else "totals" if plan.over_cells else "plain service"
    return ("scan" if plan.scans else "totals") + (" and rows" if plan.fetches else "")


@dataclass(frozen=True, slots=True)
class Chooser:
    """Of one version of the table `name`. `services`: there are some; `scan`: sums of rows may be asked for;
    `job`: by a job, whatever else there is.
    """

    stored: Stored
    name: str
    others: Mapping[str, Schema]
    prices: Prices
    services: bool
    scan: bool
    job: bool

    def chosen(self, sql: str, *, cloud_only: bool) -> Plan:
        """Raises QueryRefused, and what reading the list of cells and indexes may."""
        base = self._first(sql, cloud_only=cloud_only)
        others = list(self._others(base, sql, cloud_only=cloud_only))
        if not others:
            return base
        found = [self.candidate(base, pad=False)]
        for least, make in others:  # what cannot be quicker is not even planned, nor an index read for it
            if _is_worth(self.prices.of(least), _taken(found).cost) and (plan := make()):
                found.append(self.candidate(plan, pad=False))
        taken = _taken(found)
        rest = [each.cost for each in found if each is not taken]
        if rest and isinstance(taken.plan, StoredPlan) and taken.plan.scans and taken.plan.keys:
            return replace(taken.plan, most_groups=self._most_groups(taken.plan, min(each.seconds for each in rest)))
        return taken.plan

    def plans(self, sql: str) -> list[Plan]:
        """All that answer `sql`, what tells least first. Raises QueryRefused."""
        base = self._first(sql, cloud_only=False)
        made = (make() for _, make in self._others(base, sql, cloud_only=False))
        return [base, *(plan for plan in made if plan)]

    def _first(self, sql: str, *, cloud_only: bool) -> Plan:
        """From totals as far as they go, else over rows; by a scan where neither may be."""
        base = self._totals(sql, cloud_only=cloud_only)
        if base is None or (self.job and (isinstance(base, LocalPlan) or base.fetches)):
            return self._scanning(sql, cloud_only=cloud_only) or base or self._refused(sql)
        return base

    def _others(
        self, base: Plan, sql: str, *, cloud_only: bool
    ) -> Iterator[tuple[Work, Callable[[], StoredPlan | LocalPlan | None]]]:
        """What else may answer what `base` does: the least it takes, and what plans it."""
        if isinstance(base, StoredPlan) and (base.scans or not (base.fetches or base.parts)):
            return
        if isinstance(base, StoredPlan) and base.parts and not cloud_only:
            yield least_of_rows(self.stored), lambda: self._totals(sql, cloud_only=False, no_totals=QUICKER)
        if self.scan and self.services:
            yield LEAST_OF_A_SCAN, lambda: self._scanning(sql, cloud_only=cloud_only)

    def candidate(self, plan: Plan, *, pad: bool) -> Candidate:
        work = work_of(self.stored, plan, pad=pad, services=self.services)
        return Candidate(plan, work, self.prices.of(work))

    def _totals(self, sql: str, *, cloud_only: bool, no_totals: str = "") -> Plan | None:
        """None where `cloud_only` and rows are needed."""
        try:
            return self._planned(sql, cloud_only=cloud_only, no_totals=no_totals)
        except Uncut:
            if not cloud_only:
                raise
            return None

    def _planned(self, sql: str, *, cloud_only: bool, no_totals: str = "") -> Plan:
        manifest, schema = self.stored.manifest, self.stored.schema
        kept = KeptTotals(manifest, "" if self.services else NO_PLAIN, no_totals)
        plan = plan_query(sql, schema, self.name, cloud_only=cloud_only, others=self.others, kept=kept)
        return plan if isinstance(plan, LocalPlan) else stored_plan(plan, kept, manifest)

    def _refused(self, sql: str) -> Plan:
        """Raises QueryRefused, with what keeps totals from answering."""
        try:
            self._planned(sql, cloud_only=True)
        except Uncut as error:
            names = ", ".join(self.stored.manifest.by) or "no columns"
            over = f"totals are kept by {names}: counts, sums, means, variances over them need no rows"
            raise QueryRefused(f"the stored totals do not answer it: {error}", hint=over) from None
        raise TypeError("a question that was refused, and is not")

    def _scanning(self, sql: str, *, cloud_only: bool) -> StoredPlan | None:
        """By sums of rows; None where none are asked for, or may be."""
        if not (self.scan and self.services):
            return None
        kept = SummedRows(self.stored.manifest, self.stored.schema)
        try:
            plan = plan_query(sql, self.stored.schema, self.name, cloud_only=cloud_only, kept=kept)
        except QueryRefused:
            return None
        if not isinstance(plan, QueryPlan) or not plan.encrypted:
            return None
        return replace(stored_plan(plan, kept, self.stored.manifest), cloud_only=cloud_only)

    def _most_groups(self, plan: StoredPlan, other: float) -> int:
        """Up to how many groups a scan takes no more than `other` seconds."""
        few, many = 1, MOST_RESULTS
        while few < many:
            middle = (few + many + 1) // 2
            work = work_of(self.stored, plan, pad=False, services=self.services, groups=middle)
            if self.prices.of(work).seconds <= other:
                few = middle
            else:
                many = middle - 1
        return few

    def ways(self, plan: Plan, *, pad: bool) -> list[Way]:
        """The ways of the question that `plan` answers, the one it goes first."""
        mine = self.candidate(plan, pad=pad)
        cloud_only = isinstance(plan, StoredPlan) and plan.cloud_only
        others = [self.candidate(each, pad=pad) for each in self.plans(plan.sql)]
        others = [each for each in others if each.name != mine.name]
        found = [Way(mine.name, mine.cost, True, _why(mine, others, cloud_only=cloud_only))]
        found += [Way(each.name, each.cost, False, _why_not(mine, each, cloud_only=cloud_only)) for each in others]
        if not any(each.name.startswith("totals") for each in found):
            found.append(Way("totals", None, False, _no_totals(plan)))
        return found


def _taken(found: Sequence[Candidate]) -> Candidate:
    taken = found[0]
    for each in found[1:]:
        if _is_worth(each.cost, taken.cost):
            taken = each
    return taken


def _is_worth(later: Cost, earlier: Cost) -> bool:
    return earlier.seconds > max(TIMES * later.seconds, later.seconds + SECONDS)


def _why(mine: Candidate, others: Sequence[Candidate], *, cloud_only: bool) -> str:
    if cloud_only:
        return "no row is to be fetched"
    if not others:
        return "no other way answers it"
    if all(mine.cost.seconds <= each.cost.seconds for each in others):
        groups = mine.plan.most_groups if isinstance(mine.plan, StoredPlan) else None
        return "it is the quickest" + (f", for up to {groups:,} groups" if groups else "")
    return "it takes hardly longer, and tells less"


def _why_not(mine: Candidate, other: Candidate, *, cloud_only: bool) -> str:
    if cloud_only and "rows" in other.name:
        return "no row is to be fetched"
    return "it takes longer" if other.cost.seconds >= mine.cost.seconds else "it saves too little for what it tells"


def _no_totals(plan: Plan) -> str:
    if isinstance(plan, LocalPlan):
        return plan.reason
    return next((each.reason for each in plan.outputs if each.source == "local" and each.reason), "none are kept of it")
