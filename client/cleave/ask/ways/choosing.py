"""Means of planning that all ways share: the question is parsed once, and divided by the sums that are available."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cleave.ask.plan import AnswerPlan
from cleave.ask.way import Site, Way
from cleave.sql.plan import Cut
from cleave.sql.planner import Planner
from cleave.sql.refusals import Uncut
from cleave.sums.needs import Available, KeptTotals, NoSums, unreadable
from cleave.sums.stored import Stored
from cleave_shared.errors import QueryRefused

NO_PLAIN = "there is no plain service"
NO_TOTALS = "a reader has rows and no totals"
READ_HERE_ANYWAY = "the plain service runs in this process: its plain columns are read here in any case"
CONTRIBUTOR_UNKNOWN = "the plain half does not say which contributor a row is of"
FEWER_BYTES = "the rows that are selected are less to read than the totals of all cells"


class StoredWay(Way[Site]):
    """A way over stored tables, which makes its own plans."""

    @classmethod
    @abstractmethod
    def of_part(cls, cut: Cut, available: Available) -> StoredWay | None:
        """Return the way for its part of `cut`, which was divided by `available`; None if there is no such part."""

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[AnswerPlan]:  # noqa: ARG003 - it is a part of others' plans
        """Yield the plans in which this way is the main one."""
        return iter(())

    @classmethod
    def least(cls, choosing: Choosing) -> Iterator[int]:  # noqa: ARG003 - nothing
        """Yield lower limits of the bytes that such a plan reads, each closer than the last.

        The next limit, which takes more work, is only asked for if it can matter.
        """
        return iter((0,))


def ways_of(kinds: Sequence[type[StoredWay]], cut: Cut, available: Available) -> tuple[StoredWay, ...]:
    """Return the ways for all parts of `cut`, which was divided by `available`, with rows last."""
    ways = [way for kind in kinds if (way := kind.of_part(cut, available)) is not None]
    return tuple(sorted(ways, key=lambda each: each.stage == "rows"))


@dataclass
class Choosing:
    """One question over a site. `kinds` lists all ways; `cloud_only` forbids fetching rows."""

    site: Site
    planner: Planner
    kinds: Sequence[type[StoredWay]]
    cloud_only: bool

    def planned(self, cut: Cut, available: Available) -> AnswerPlan:
        """Return the plan for `cut`, which was divided by `available`."""
        return AnswerPlan(
            cut, ways_of(self.kinds, cut, available), named=frozenset(self.site.named), cloud_only=self.cloud_only
        )

    @cached_property
    def base(self) -> AnswerPlan | Uncut:
        """Return the plan that uses totals and the plain service as far as they go.

        If it needs rows and none may be fetched, return the reason instead. Raises QueryRefused if the question cannot
        be answered at all.
        """
        try:
            return self.by_sums(self.totals_of(self.site.stored), cloud_only=self.cloud_only)
        except Uncut as error:
            if not self.cloud_only:
                raise
            return error

    def by_sums(self, available: Available, *, cloud_only: bool = False) -> AnswerPlan:
        """Return the plan that uses `available`, and rows for the rest unless `cloud_only`. Raises QueryRefused."""
        return self.planned(self.planner.plan(available, cloud_only=cloud_only), available)

    def totals_of(self, stored: Stored) -> Available:
        if not stored.tables.has_totals:
            return NoSums(NO_TOTALS)
        return KeptTotals(stored.manifest.measures, stored.by, self._no_plain(stored))

    def _no_plain(self, stored: Stored) -> str:
        """Return why the plain service is not asked; "" if it is."""
        site = self.site
        if not site.services:
            return NO_PLAIN
        if site.names_contributor(stored):
            return CONTRIBUTOR_UNKNOWN
        if not (site.remote or self.cloud_only) and stored.manifest.segments.plain <= site.fetch_limit:
            return READ_HERE_ANYWAY
        return unreadable(stored.manifest)


def not_by_totals(error: Uncut, by: Sequence[str], answers: str = KeptTotals.answers, more: str = "") -> QueryRefused:
    """`answers`: what totals answer; `more`: what others would."""
    over = f"totals are kept by {', '.join(by) or 'no columns'}: {answers} over them need no rows{more}"
    return QueryRefused(f"the stored totals do not answer it: {error}", hint=over)
