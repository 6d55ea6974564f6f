"""Aggregates over plain columns: the plain service computes them from links to the plain half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cleave.ask.plan import Plan
from cleave.ask.question import GroupSums
from cleave.ask.ways.base import Disclosures, Lesson, Setting, Site, Use, Uses, Work
from cleave.ask.ways.choosing import Choosing, StoredWay
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sums.needs import Available, KeptTotals
from cleave.sums.stored import Stored

_GROUPED = "the SQL over plain columns, and which rows are in which group"
SELECTED = Lesson(
    "WHERE, keys, filters and aggregates over plain columns, and which of its rows are in which group", _GROUPED
)
AS_SQL = Lesson("WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group", _GROUPED)
_MOST_WORDS = 8  # of the names of columns in a short sentence


@dataclass(frozen=True)
class Plain(StoredWay):
    cut: QueryPlan

    name = "plain service"

    @classmethod
    def of_part(cls, cut: QueryPlan | LocalPlan, available: Available) -> Plain | None:
        if isinstance(available, KeptTotals) and isinstance(cut, QueryPlan) and cut.asks_plain:
            return cls(cut)
        return None

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[Plan]:
        if isinstance(choosing.base, Plan) and choosing.base.name == cls.name:
            yield choosing.base

    def work(self, site: Site, *, pad: bool) -> Work:  # noqa: ARG002 - all of the plain half is read in any case
        return plain_work(site.table(self.cut.table))

    def uses(self, site: Site) -> Uses:
        return plain_uses(site.table(self.cut.table), self.cut.plain_columns)

    def disclosures(self, site: Site, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        return Disclosures([linked(self.cut.plain_columns), AS_SQL], queried=True)

    def answer(self, setting: Setting[Site]) -> GroupSums:
        return GroupSums(self.cut, responses=setting.place.table(self.cut.table).services.aggregate(self.cut))


def plain_work(stored: Stored, requests: int = 1) -> Work:
    return Work((), requests, [each.plain for each in stored.manifest.segments if each.plain])


def plain_uses(stored: Stored, columns: Sequence[str]) -> Uses:
    return {(stored.manifest.table, name): Use("read by the plain service") for name in columns}


def linked(columns: Sequence[str]) -> str:
    return Lesson(f"links to the plain columns; it reads {', '.join(columns) or 'none'}", values_of(columns))


def values_of(columns: Sequence[str]) -> str:
    """Name the columns of which a service reads values; of many, say how many they are."""
    names = ", ".join(columns)
    if len(names.split()) > _MOST_WORDS:
        names = f"{len(columns)} plain columns"
    return f"the values of {names}" if columns else "no value: it reads no column"
