"""Answer aggregates over plain columns: the plain service computes them from links to the plain half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums
from cleave.ask.way import AS_SQL, GROUPED, Disclosures, Lesson, Site, Use, Uses, WayContext, Work, values_of
from cleave.ask.ways.choosing import Choosing, StoredWay
from cleave.sql.plan import Cut, QueryPlan
from cleave.sums.needs import Available, KeptTotals
from cleave.sums.stored import Stored

SELECTED = Lesson(
    "WHERE, keys, filters and aggregates over plain columns, and which of its rows are in which group", GROUPED
)


@dataclass(frozen=True)
class PlainWay(StoredWay):
    cut: QueryPlan

    name = "plain service"

    @classmethod
    def of_part(cls, cut: Cut, available: Available) -> PlainWay | None:
        sums = cut.sums()
        return cls(sums) if sums is not None and isinstance(available, KeptTotals) and sums.asks_plain else None

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[AnswerPlan]:
        if isinstance(choosing.base, AnswerPlan) and choosing.base.name == cls.name:
            yield choosing.base

    def work(self, site: Site, *, pad: bool) -> Work:  # noqa: ARG002 - all of the plain half is read in any case
        return plain_work(site.table(self.cut.table))

    def uses(self, site: Site) -> Uses:
        return plain_uses(site.table(self.cut.table), self.cut.plain_columns)

    def disclosures(self, site: Site, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        return Disclosures([linked(self.cut.plain_columns), AS_SQL], queried=True)

    def answer(self, setting: WayContext[Site]) -> GroupSums:
        return GroupSums(self.cut, responses=setting.place.table(self.cut.table).services.aggregate(self.cut))


def plain_work(stored: Stored, requests: int = 1) -> Work:
    return Work((), requests, [each.plain for each in stored.manifest.segments if each.plain])


def plain_uses(stored: Stored, columns: Sequence[str]) -> Uses:
    return {(stored.manifest.table, name): Use("read by the plain service") for name in columns}


def linked(columns: Sequence[str]) -> str:
    return Lesson(f"links to the plain columns; it reads {', '.join(columns) or 'none'}", values_of(columns))
