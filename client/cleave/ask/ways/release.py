"""Answer from the totals of a release that an owner sealed for an analyst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.ask.question import GroupSums
from cleave.ask.way import WayContext
from cleave.ask.ways.opened_release import OpenedRelease, ReleaseWay
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.release import ReleaseHead
from cleave.sql.plan import QueryPlan
from cleave.store.cells import Cells
from cleave.store.lanes import Integers
from cleave.store.measures import of_bounds, unscaled
from cleave.store.schemas import measured
from cleave.sums.cellwise import Selection, figures_of
from cleave.sums.combination import TotalOf
from cleave.sums.needs import CutSums, KeptTotals, ReleasedSums
from cleave.text.quantities import counted

TOTALS_ALONE = "a release holds only totals, no rows"


class OpenedExact(OpenedRelease):
    """One exact release, opened."""

    def __init__(self, head: ReleaseHead, totals: ExactTotals) -> None:
        """Raises ValueError as `OpenedRelease`, and for other SQL, bounds or scales than the schema gives a measure."""
        super().__init__(head, totals, Cells(list(totals.keys), list(totals.rows)))
        own = {
            name: of_bounds(unscaled(name, argument, derived=derived is not None))
            for name, argument, derived in measured(self.schema)
        }
        if any(own.get(each.name) != each for each in totals.measures):
            raise ValueError("measures")
        self.totals = totals
        self.rows = sum(totals.rows)
        self.withheld: dict[TotalOf, NDArray[np.bool_]] = {}
        for number, shown in enumerate(totals.shown):
            for part, least in (("count", 1), ("sum", 1), ("square", 2)):
                if min(shown, default=least) < least:
                    self.withheld[number, part] = np.array(shown, np.int64) < least

    @property
    def sums(self) -> KeptTotals:
        return ReleasedSums(self.totals.measures, self.by, TOTALS_ALONE)

    def way(self, sums: KeptTotals, cut: QueryPlan) -> ExactWay:
        return ExactWay(sums.sums_for(cut))

    def totals_of(self, wanted: Sequence[TotalOf]) -> dict[TotalOf, Integers]:
        """Return the totals of each part, of shape (parts,); each part counts as a cell."""
        totals = {"count": self.totals.counts, "sum": self.totals.sums, "square": self.totals.squares}
        return {(measure, which): np.array(totals[which][measure], object) for measure, which in wanted}

    def warnings(self, needs: CutSums, selection: Selection) -> list[str]:
        """Say which totals an answer lacks."""
        return [
            f"incomplete: the {what} of {name} are withheld in {counted(missing, 'part')} of the release"
            for name, what, missing in self._missing(needs, selection)
        ]

    def _missing(self, needs: CutSums, selection: Selection) -> list[tuple[str, str, int]]:
        """Return the names of measures with withheld totals, which totals these are, and in how many parts they are
        withheld.
        """
        missing: list[tuple[str, str, int]] = []
        for number in sorted({number for number, _ in needs.totals}):
            name, before = self.totals.measures[number].name, 0
            for what, which in (("totals", ("count", "sum")), ("squares", ("square",))):
                wanted = [(number, each) for each in which if (number, each) in needs.totals]
                unknown = [self.withheld[each] for each in wanted if each in self.withheld]
                parts = int(np.logical_or.reduce(unknown)[selection.cells].sum()) if unknown else 0
                if parts > before:  # squares are withheld wherever totals are
                    missing.append((name, what, parts))
                    before = parts
        return missing

    def note(self, needs: CutSums, selection: Selection) -> str:
        """Say when the parts of an answer were published, and for how many of them its totals are known."""
        as_of = np.array(self.totals.as_of, np.int64)[selection.cells]
        names = [
            f"{counted(int(count), 'part')} of {self.totals.times[place][1]} (release {self.totals.times[place][0]})"
            for place, count in zip(*np.unique(as_of, return_counts=True), strict=True)
        ]
        parts = len(selection.cells)
        totals = [
            (f"{name} is" if what == "totals" else f"the {what} of {name} are")
            + f" known over {parts - missing:,} of {counted(parts, 'part')}"
            for name, what, missing in self._missing(needs, selection)
        ]
        smaller = f"fewer than {self.head.least} {self.totals.counted} per cell may be missing"
        return "; ".join([f"release {self.head.number}: {', '.join(names) or 'no parts'}", *totals, smaller])


@dataclass(frozen=True)
class ExactWay(ReleaseWay[OpenedExact]):
    name = "release"

    def answer(self, context: WayContext[OpenedExact]) -> GroupSums:
        release = context.place
        selection = Selection(release.cells.rows, release.table, self.needs)
        sums = selection.sums(release.totals_of(self.needs.totals), release.withheld)
        return GroupSums(
            self.needs.cut,
            selection.keys,
            selection.counts,
            figures=figures_of(self.needs, sums),
            warnings=release.warnings(self.needs, selection),
            note=release.note(self.needs, selection),
        )
