"""Answer from totals of cells: read here, or added up over several segments by the sensitive service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums
from cleave.ask.way import Disclosures, Lesson, Site, Use, Uses, WayContext, Work
from cleave.ask.ways.choosing import NO_PLAIN, Choosing, StoredWay
from cleave.sql.plan import Counting, Cut, LocalPlan, QueryPlan
from cleave.sql.planner import Planner
from cleave.sql.read import Statement
from cleave.sql.tally import Tally
from cleave.store.manifest import Measure
from cleave.store.rows import whole
from cleave.sums.cellwise import Selection, figures_of
from cleave.sums.needs import Available, CutSums, KeptTotals
from cleave.sums.stored import CellTotals, Stored
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.types import FLOATS
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.errors import QueryRefused

CELL_BYTES = 160  # to decrypt, decode and group a cell takes as long as so many bytes of totals


@dataclass(frozen=True)
class TotalsWay(StoredWay):
    """Groups of cells and sums of their totals; no total is read if only rows are counted."""

    needs: CutSums

    name = "totals"
    check = "stored"
    worth = 4

    @classmethod
    def of_part(cls, cut: Cut, available: Available) -> TotalsWay | None:
        sums = cut.sums()
        if sums is None or not isinstance(available, KeptTotals) or available.groups(sums.selecting):
            return None
        return cls(available.sums_for(sums))

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[AnswerPlan]:
        base = choosing.base
        if not isinstance(base, AnswerPlan):
            return
        if (whole := base.cut.whole()) is not None:
            if (inner := _inner(whole, base.named, choosing)) is not None:
                yield inner
        elif base.worth > 1 or base.name == cls.name:
            yield base

    @property
    def is_idle(self) -> bool:
        return not self.needs.totals

    @property
    def measures(self) -> Mapping[str, Sequence[Measure]]:
        return {self.needs.cut.table: self.needs.measures}

    def counted_by(self, counting: Counting) -> TotalsWay:
        """Return this way with each contributor's rows counted for a threshold."""
        return TotalsWay(replace(self.needs, cut=self.needs.cut.counted_by(counting)))

    def _cells(self, site: Site) -> CellTotals:
        return site.table(self.needs.cut.table).cells_by(self.needs.columns)

    def effort(self, site: Site) -> int:
        if self.is_idle and not self.needs.tells_cells_apart:
            return 0
        return CELL_BYTES * site.table(self.needs.cut.table).manifest.segments.most_cells

    def work(self, site: Site, *, pad: bool) -> Work:  # noqa: ARG002 - all totals are read in any case
        stored = site.table(self.needs.cut.table)
        if self.is_idle:
            return Work()
        cells, secret = self._cells(site), stored.secret_to_read
        objects, sums = cells.objects(self.needs.totals), self._sums(site)
        if not sums:
            return Work([whole(each) for each in (*secret, *objects)])
        return Work([whole(each) for each in secret], 1, objects, sums * limits.RESULT_BYTES)

    def _sums(self, site: Site) -> int:
        """Return how many ciphertexts the sensitive service is asked for."""
        return self._cells(site).ciphertexts(self.needs.totals) if site.services else 0

    def uses(self, site: Site) -> Uses:
        table = site.table(self.needs.cut.table).manifest.table
        used = self.needs.summed | {*self.needs.cut.selecting}
        return {(table, name): Use("answered from its totals") for name in sorted(used)}

    def disclosures(self, site: Site, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        texts: list[str] = []
        if not self.is_idle:
            text = "that totals are read, and which of the expressions that are kept they are of"
            texts.append(Lesson(text, "which of the stored totals are read"))
        if sums := self._sums(site):
            segments = counted(len(site.table(self.needs.cut.table).manifest.segments), "segment")
            text = (
                f"links to the totals of {segments}, of whose ciphertexts it makes {sums}: about how many cells there "
                "are; the key's id, the profile"
            )
            texts.append(Lesson(text, "which totals the service adds up; about how many cells there are"))
        if len(self._cells(site).contributors) > 1:
            texts.append("which segments are one contributor's")
        return Disclosures(sensitive=texts)

    def answer(self, setting: WayContext[Site]) -> GroupSums:
        stored, cells = setting.place.table(self.needs.cut.table), self._cells(setting.place)
        totals = cells.totals(self.needs.totals)
        if self.needs.tells_cells_apart:
            rows = cells.cells.rows
        else:  # as if all rows were in one cell: the list of cells is not read
            rows, totals = [stored.manifest.rows], {which: each.sum(keepdims=True) for which, each in totals.items()}
        selection = Selection(rows, cells.table, self.needs)
        figures = figures_of(self.needs, selection.sums(totals))
        tally = self._tally(stored) if self.needs.cut.counting else None
        return GroupSums(self.needs.cut, selection.keys, selection.counts, figures=figures, tally=tally)

    def _tally(self, stored: Stored) -> Tally:
        """Count the rows of each contributor by group."""
        each = stored.cells_by((CONTRIBUTOR,))
        parties = max(1, len(each.contributors))
        return Selection(each.cells.rows, each.table, self.needs).tally(len(each.cells) // parties)


def _inner(whole: LocalPlan, named: frozenset[str], choosing: Choosing) -> AnswerPlan | None:
    """Answer aggregates inside the statement from totals, if it has any over one table and their answer is exact.
    `named`: as in AnswerPlan.
    """
    site, sums_of = choosing.site, dict[str, KeptTotals]()

    def answered(table: str, select: Statement) -> QueryPlan | None:
        stored = site.tables.get(table.lower())
        if stored is None:
            return None
        sums = sums_of.setdefault(table.lower(), KeptTotals(stored.manifest.measures, stored.by, NO_PLAIN))
        with closing(Planner(select, site.schema_of(stored), table, {})) as planner:
            try:
                cut = planner.cut(sums, cloud_only=True)
            except QueryRefused:
                return None
        return cut if _is_exact(cut) and not sums.groups(cut.selecting) else None

    over_inner = choosing.planner.over_answers(whole, answered)
    if not over_inner.inner:
        return None
    totals = [TotalsWay(sums_of[each.table.lower()].sums_for(each)) for each in over_inner.inner.values()]
    rows = choosing.planned(over_inner, choosing.totals_of(site.stored)).ways
    return AnswerPlan(over_inner, (*totals, *rows), named=named)


def _is_exact(cut: QueryPlan) -> bool:
    """Check whether the answer is exactly DuckDB's own.

    A double from totals is correctly rounded, while DuckDB's has small errors. A comparison with doubles that DuckDB
    computed from the same rows would fail.
    """
    types = {each.type for each in cut.encrypted} | {each.type for each in cut.finals}
    return types.isdisjoint(FLOATS) and not (cut.asks_plain or cut.local)
