"""Which way a question over a stored table goes: a rule of bytes that `plan` states (docs/stored.md).

Totals of cells where they answer, unless they take over four times the bytes of the rows; else rows, up to a limit of
bytes; else a scan where the table has one; else the question is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cleave.ask.works import Cost, Way, Work, cost_of, groups_of, least_of_rows, rows_work, work_of
from cleave.sql.plan import LocalPlan
from cleave.sql.planner import Planner
from cleave.sql.read import Statement
from cleave.sql.refusals import Uncut
from cleave.sums.cellwise import KeptTotals, StoredPlan, SummedRows, stored_plan, too_much
from cleave.sums.scan import answer_of_scan, most_groups, too_large
from cleave.sums.stored import Stored
from cleave.table.schema import Schema
from cleave.table.types import FLOATS
from cleave.text.quantities import counted, sized
from cleave_shared.errors import QueryRefused

NO_PLAIN = "there is no plain service"
WHOSE = "the plain half does not say which contributor a row is of"
FEWER_BYTES = "the rows that are selected are less to read than the totals of all cells"
TOTALS_BYTES = 4  # times the bytes of the rows: totals that take more are not read
FETCH_LIMIT = 1_000_000_000  # bytes of rows that are fetched for one question, where nothing else is said

Plan = StoredPlan | LocalPlan


def name_of(plan: Plan) -> str:
    if isinstance(plan, LocalPlan):
        return ("totals and rows" if any(plan.reads.values()) else "totals") if plan.inner else "rows"
    if not (plan.scans or plan.parts):
        return "rows" if plan.fetches else "totals" if plan.over_cells else "plain service"
    return ("scan" if plan.scans else "totals") + (" and rows" if plan.fetches else "")


@dataclass(frozen=True, slots=True)
class Chooser:
    """The ways of questions over one version of the table `name`, which may name `others`.

    `tables`: those that are stored, by name in lower case. `services`: there are some; `scan`: sums of rows may be
    asked for; `job`: by a job, whatever else there is. `fetch_limit`: bytes of rows that may be fetched.
    """

    name: str
    tables: Mapping[str, Stored]
    others: Mapping[str, Schema]
    services: bool
    elsewhere: bool
    scan: bool
    job: bool
    fetch_limit: int = FETCH_LIMIT

    @property
    def stored(self) -> Stored:
        return self.tables[self.name.lower()]

    def chosen(self, statement: Statement, *, cloud_only: bool) -> Plan:
        """Raises QueryRefused, and what reading the list of cells and indexes may."""
        with closing(self._planner(statement)) as planner:
            base = self._totals(planner, cloud_only=cloud_only)
            if isinstance(base, LocalPlan):
                inner, most = self._over_totals(base, planner), TOTALS_BYTES * self.work(base).bytes
                if self.work(inner).bytes <= most or self._fetched(base) > self.fetch_limit:
                    base = inner
            if base is None or (self.job and (isinstance(base, LocalPlan) or base.fetches)):
                base = self._scanning(planner, cloud_only=cloud_only) or base or self._refused(planner)
            elif not cloud_only and (rows := self._fewer_bytes(base, planner)):
                return rows
            if self._fetched(base) <= self.fetch_limit:
                return base
            scan = self._scanning(planner, cloud_only=cloud_only)
        if scan is None or self._fetched(scan) > self.fetch_limit:
            how = "ask for less: a scan of it fetches rows as well" if scan else how_to_scan(self.services, self.scan)
            raise over_limit(self._fetched(base), self.fetch_limit, how)
        return scan

    def _fetched(self, plan: Plan) -> int:
        """Bytes of rows that are fetched."""
        return rows_work(self.tables, plan, pad=False).bytes

    def plans(self, statement: Statement) -> list[Plan]:
        """All that answer `statement`, what reveals least first, whatever they read. Raises QueryRefused."""
        with closing(self._planner(statement)) as planner:
            plans = [base := self._planned(planner, cloud_only=False)]
            if isinstance(base, LocalPlan) and (inner := self._over_totals(base, planner)).inner:
                plans.insert(0, inner)
            if isinstance(base, StoredPlan) and not (base.fetches or base.parts):
                return plans
            if isinstance(base, StoredPlan) and base.parts:
                plans.append(self._planned(planner, cloud_only=False, no_totals=FEWER_BYTES))
            if scan := self._scanning(planner, cloud_only=False):
                plans.append(scan)
            return plans

    def cost(self, plan: Plan, *, pad: bool = False) -> Cost:
        bucket = self.stored.tables.places[0].startswith("s3://")
        return cost_of(self.work(plan, pad=pad), bucket=bucket, elsewhere=self.elsewhere)

    def work(self, plan: Plan, *, pad: bool = False) -> Work:
        return work_of(self.tables, plan, pad=pad, services=self.services)

    def _planner(self, statement: Statement) -> Planner:
        return Planner(statement, self.stored.schema, self.name, self.others)

    def _fewer_bytes(self, base: Plan, planner: Planner) -> Plan | None:
        """Rows in place of totals that take over four times their bytes. None: totals are read."""
        if not (isinstance(base, StoredPlan) and base.parts):
            return None
        most = self.work(base).bytes // TOTALS_BYTES
        if most < least_of_rows(self.stored):  # not even the indexes are read
            return None
        rows = self._planned(planner, cloud_only=False, no_totals=FEWER_BYTES)
        fetched = self._fetched(rows)
        return rows if fetched < most and fetched <= self.fetch_limit else None

    def _totals(self, planner: Planner, *, cloud_only: bool) -> Plan | None:
        """None where `cloud_only` and rows are needed."""
        try:
            return self._planned(planner, cloud_only=cloud_only)
        except Uncut:
            if not cloud_only:
                raise
            return None

    def _planned(self, planner: Planner, *, cloud_only: bool, no_totals: str = "") -> Plan:
        manifest = self.stored.manifest
        no_plain = (WHOSE if self.stored.parties else too_much(manifest)) if self.services else NO_PLAIN
        sums = KeptTotals(manifest.measures, manifest.by, no_plain, no_totals)
        plan = planner.plan(sums, cloud_only=cloud_only)
        if isinstance(plan, LocalPlan):
            return plan
        return stored_plan(plan, sums, manifest.measures, whose=bool(self.stored.parties))

    def _over_totals(self, plan: LocalPlan, planner: Planner) -> LocalPlan:
        """`plan` with aggregates over one table, inside the statement, from totals where their answer is exact."""

        def answered(table: str, select: Statement) -> StoredPlan | None:
            stored = self.tables.get(table.lower())
            if stored is None:
                return None
            measures = stored.manifest.measures
            sums = KeptTotals(measures, stored.manifest.by, NO_PLAIN)
            with closing(Planner(select, stored.schema, table, {})) as inner:
                try:
                    cut = inner.cut(sums, cloud_only=True)
                    inner_plan = stored_plan(cut, sums, measures, whose=bool(stored.parties))
                except QueryRefused:
                    return None
            return inner_plan if _is_exact(inner_plan) else None

        return planner.over_answers(plan, answered)

    def _refused(self, planner: Planner) -> Plan:
        """Raises QueryRefused, with what keeps totals from answering."""
        try:
            self._planned(planner, cloud_only=True)
        except Uncut as error:
            raise not_by_totals(error, self.stored.manifest.by) from None
        raise TypeError("a query that was refused, and is not")

    def _scanning(self, planner: Planner, *, cloud_only: bool) -> StoredPlan | None:
        """By sums of rows; None where none are asked for, or may be."""
        if not (self.scan and self.services) or self.stored.parties:
            return None
        sums = SummedRows(self.stored.manifest, self.stored.schema)
        try:
            cut = planner.cut(sums, cloud_only=cloud_only)
        except QueryRefused:
            return None
        if not cut.encrypted:
            return None
        if not all(each.decomposable for each in cut.plain) and len(self.stored.runs) > 1:
            return None
        plan = stored_plan(cut, sums, self.stored.manifest.measures, whose=bool(self.stored.parties))
        return replace(plan, cloud_only=cloud_only)

    def ways(self, plan: Plan, *, pad: bool) -> list[Way]:
        """The ways of the question that `plan` answers, the one it goes first."""
        cloud_only = isinstance(plan, StoredPlan) and plan.cloud_only
        mine = name_of(plan)
        others = [each for each in self.plans(plan.statement) if name_of(each) != mine]
        ways = [Way(mine, self.cost(plan, pad=pad), True, self._why(plan, others, cloud_only=cloud_only))]
        ways += [
            Way(name_of(each), self.cost(each, pad=pad), False, self._why_not(plan, each, cloud_only=cloud_only))
            for each in others
        ]
        if not any(each.name.startswith("totals") for each in ways):
            ways.append(Way("totals", None, False, _no_totals(plan)))
        return ways

    def _why(self, plan: Plan, others: list[Plan], *, cloud_only: bool) -> str:
        name = name_of(plan)
        if isinstance(plan, StoredPlan) and plan.scans:
            why = "no rows may be fetched" if cloud_only else "a job scans" if self.job else self._over_the_limit()
            return f"{why}; {self._bound(plan)}"
        if cloud_only:
            return "no rows may be fetched"
        if not others:
            return "no other way answers it"
        if name.startswith("totals"):
            return f"they answer it and take at most {TOTALS_BYTES} times the bytes of the rows"
        if any(name_of(each).startswith("totals") for each in others):
            return f"totals take over {TOTALS_BYTES} times the bytes of the rows"
        return f"totals do not answer it, and the rows are within the limit of {sized(self.fetch_limit)}"

    def _why_not(self, plan: Plan, other: Plan, *, cloud_only: bool) -> str:
        name = name_of(other)
        if isinstance(other, StoredPlan) and other.scans:
            return f"{name_of(plan)} answer it; {self._bound(other)}"
        if "rows" in name:
            if cloud_only:
                return "no rows may be fetched"
            if self._fetched(other) > self.fetch_limit:
                return self._over_the_limit()
            return "a job scans" if self.job else "totals answer it"
        return f"they take over {TOTALS_BYTES} times the bytes of the rows"

    def _over_the_limit(self) -> str:
        return f"the rows are more than the limit of {sized(self.fetch_limit)} (--fetch-limit)"

    def _bound(self, scan: StoredPlan) -> str:
        """Return the most that a scan may answer, and which part of it is too large."""
        groups = groups_of(self.stored, scan)
        if groups is None:
            most = most_groups(self.stored, scan)
            return f"it answers up to {most:,} groups, {sized(answer_of_scan(self.stored, scan, most).bytes)}"
        answer = answer_of_scan(self.stored, scan, groups)
        if reason := too_large(answer):
            return f"too large where there are {groups:,} groups: {reason}"
        calls = f"{counted(answer.selects, 'request')} and {counted(answer.calls, 'call')}"
        return f"its answer is at most {sized(answer.bytes)} in {calls}"


def over_limit(fetched: int, limit: int, how: str) -> QueryRefused:
    """Refuse to fetch `fetched` bytes of rows; `how` to do without."""
    return QueryRefused(
        f"it would fetch {sized(fetched)} of rows, and the limit is {sized(limit)}",
        hint=f"raise --fetch-limit (fetch_limit= in Python) to {fetched}, or {how}",
    )


def how_to_scan(services: bool, scan: bool) -> str:
    if not services:
        return "name services that scan (--endpoint) for a table of `cleave put --scan`"
    if not scan:
        return "leave --no-scan out, for a table of `cleave put --scan`"
    return "ask for sums, means or variances of a table that was put with --scan: services add up its rows"


def not_by_totals(error: Uncut, by: Sequence[str]) -> QueryRefused:
    over = f"totals are kept by {', '.join(by) or 'no columns'}: counts, sums, means, variances over them need no rows"
    return QueryRefused(f"the stored totals do not answer it: {error}", hint=over)


def _is_exact(plan: StoredPlan) -> bool:
    """Check whether its answer is DuckDB's own to the last digit.

    A double from totals is correctly rounded, where DuckDB's is off by a little: beside doubles that DuckDB computes of
    the same rows a comparison of the two would fail.
    """
    types = {each.type for each in plan.encrypted} | {each.type for each in plan.finals}
    return types.isdisjoint(FLOATS) and not (plan.asks_plain or plan.fetches)


def _no_totals(plan: Plan) -> str:
    if isinstance(plan, LocalPlan):
        return plan.reason
    return next((each.reason for each in plan.outputs if each.source == "local" and each.reason), "none are kept of it")
