"""Answer with sums of selected rows: the plain service groups them, and the sensitive one adds up
(cleave.sums.scan).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums
from cleave.ask.way import Disclosures, Lesson, Site, Use, Uses, WayContext, Work
from cleave.ask.ways.choosing import Choosing, StoredWay
from cleave.ask.ways.plain import SELECTED, linked, plain_uses, plain_work
from cleave.sql.plan import Cut
from cleave.store.manifest import Measure
from cleave.store.rows import whole
from cleave.sums.cellwise import figures_of
from cleave.sums.needs import Available, CutSums, SummedRows
from cleave.sums.scan import answer_of_scan, lanes_of_totals, most_groups, plain_columns, scan
from cleave.sums.stored import Stored
from cleave.table.duck import identifier
from cleave.text.quantities import counted, sized
from cleave_shared.errors import QueryRefused

SCANNED = Lesson(
    "which measures are added up, and which positions of the rows' ciphertexts, whose order is secret and random, are "
    "in one group together, of this query and of others: sets of positions intersect (--no-scan has rows fetched "
    "instead)",
    "which measures are added up, and which shuffled rows belong together",
)


@dataclass(frozen=True)
class ScanWay(StoredWay):
    needs: CutSums

    name = "scan"
    rank = 1  # it tells the sensitive service which rows are in one group together
    scanned = True

    @classmethod
    def of_part(cls, cut: Cut, available: Available) -> ScanWay | None:
        sums = cut.sums()
        return cls(available.sums_for(sums)) if sums is not None and isinstance(available, SummedRows) else None

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[AnswerPlan]:
        site, stored = choosing.site, choosing.site.stored
        if not (site.scan and site.services) or site.names_contributor(stored):
            return
        sums = SummedRows(stored.manifest, stored.schema)
        try:
            cut = choosing.planner.cut(sums, cloud_only=choosing.cloud_only)
        except QueryRefused:
            return
        if cut.encrypted and (len(stored.runs) < 2 or all(each.decomposable for each in cut.plain)):
            yield choosing.planned(cut, sums)

    @property
    def measures(self) -> Mapping[str, Sequence[Measure]]:
        return {self.needs.cut.table: self.needs.measures}

    def _stored(self, site: Site) -> Stored:
        return site.table(self.needs.cut.table)

    def work(self, site: Site, *, pad: bool) -> Work:  # noqa: ARG002 - all rows are linked in any case
        stored = self._stored(site)
        scans = [each.scan for each in stored.manifest.segments if each.scan]
        lanes = lanes_of_totals(stored, self.needs)
        objects = [each for scan_ in scans for lane in lanes for each in scan_.lanes[lane]]
        answer = answer_of_scan(stored, self.needs, groups_of(stored, self.needs) or 1)
        orders = [whole(each) for each in (*stored.secret_to_read, *(scan_.order for scan_ in scans))]
        return Work(orders, answer.calls, objects, answer.bytes) + plain_work(stored, answer.selects)

    def uses(self, site: Site) -> Uses:
        stored = self._stored(site)
        summed = {(stored.manifest.table, name): Use("rows added up by the service") for name in self.needs.summed}
        return {**plain_uses(stored, plain_columns(stored, self.needs)), **summed}

    def disclosures(self, site: Site, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        columns = plain_columns(self._stored(site), self.needs)
        return Disclosures([linked(columns), SELECTED], [SCANNED], queried=True)

    def answer(self, setting: WayContext[Site]) -> GroupSums:
        stored, question = self._stored(setting.place), setting.question
        if setting.job:
            result = setting.job.scan(stored, self.needs, question.progress, question.deadline)
        else:
            result = scan(stored, self.needs, question.progress, setting.side_by_side)
        figures = figures_of(self.needs, result.sums)
        return GroupSums(self.needs.cut, result.keys, result.counts, result.responses, figures=figures, scanned=True)

    def bound(self, site: Site) -> str:
        stored = self._stored(site)
        groups = groups_of(stored, self.needs)
        if groups is None:
            most = most_groups(stored, self.needs)
            return f"it answers up to {most:,} groups, {sized(answer_of_scan(stored, self.needs, most).bytes)}"
        answer = answer_of_scan(stored, self.needs, groups)
        if reason := answer.excess:
            return f"too large where there are {groups:,} groups: {reason}"
        calls = f"{counted(answer.selects, 'request')} and {counted(answer.calls, 'call')}"
        return f"its answer is at most {sized(answer.bytes)} in {calls}"


def groups_of(stored: Stored, needs: CutSums) -> int | None:
    """Return the largest possible number of groups; None if it is unknown until the plain service has counted them."""
    if not needs.cut.keys:
        return 1
    by = {identifier(each).lower() for each in stored.by}
    cells = stored.manifest.segments.most_cells or 1  # without reading their list
    return max(1, cells) if {each.lower() for each in needs.cut.keys} <= by else None
