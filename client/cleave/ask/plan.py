"""The plan of a question: how it was divided, and a way to answer each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cleave.ask.threshold import NO_THRESHOLD, Threshold
from cleave.ask.way import Cost, Way, Work
from cleave.sql.plan import Cut, Output, QueryPlan
from cleave.table.privacy import Privacy

if TYPE_CHECKING:
    from cleave.sql.read import Statement


@dataclass(frozen=True)
class AnswerPlan:
    """How to answer a question. It is what `describe` describes and what `ask` runs.

    `cut` is the question divided into parts, or one that DuckDB answers here as a whole, and `ways` has a way for each
    part. `assumed` holds, by table name in lower case, a digest of what the plan assumes about that stored table or
    release. `named` holds the columns that the question names, in lower case. `cloud_only` forbids fetching rows. The
    ways count what `threshold` requires. `pad`: see Options.
    """

    cut: Cut
    ways: tuple[Way[Any], ...]
    assumed: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    named: frozenset[str] = frozenset()
    cloud_only: bool = False
    threshold: Threshold = NO_THRESHOLD
    pad: bool = False

    @property
    def cut_up(self) -> QueryPlan:
        """Return the divided question. Raises TypeError if DuckDB answers the question as a whole."""
        cut = self.cut.sums()
        if cut is None:
            raise TypeError("a question that was not cut")
        return cut

    @property
    def name(self) -> str:
        names = dict.fromkeys(each.name for each in self.ways if not each.is_idle)
        return " and ".join(names) or self.ways[0].name

    @property
    def statement(self) -> Statement:
        return self.cut.statement

    @property
    def table(self) -> str:
        return self.cut.table

    @property
    def outputs(self) -> Sequence[Output]:
        return self.cut.outputs

    @property
    def types(self) -> Sequence[str]:
        """Return DuckDB's types of the outputs."""
        return self.cut.types

    @property
    def sends_nothing(self) -> bool:
        """Return whether nothing is sent, so that neither a key nor a transport is needed."""
        return self.cut.sends_nothing

    @property
    def left_out(self) -> str:
        """Return what the threshold leaves out of the answer, as text; "" for nothing."""
        if not self.threshold.least:
            return ""
        privacy = Privacy(self.cut.counting.entity if self.cut.counting else ())
        people = f" ({', '.join(privacy.entity)})" if privacy.entity else ""
        few = f"fewer than {self.threshold.least} {privacy.counted}{people}"
        return f"groups, and figures, of {few} are left out (rules P2 and A1)"

    @property
    def scanned(self) -> bool:
        return any(each.scanned for each in self.ways)

    @property
    def fetches(self) -> bool:
        """Return whether the plan fetches rows."""
        return any(each.stage == "rows" and not each.is_idle for each in self.ways)

    @property
    def worth(self) -> int:
        return max(each.worth for each in self.ways)

    def work(self, place: Any, *, pad: bool = False) -> Work:
        """Return what the plan reads and asks in `place`, which its ways are over."""
        return sum((each.work(place, pad=pad) for each in self.ways), Work())

    def fetched(self, place: Any, *, pad: bool = False) -> int:
        """Return how many bytes of rows are fetched."""
        return sum(each.work(place, pad=pad).bytes for each in self.ways if each.stage == "rows")


@dataclass(frozen=True, slots=True)
class Considered:
    """A plan that was compared with others, by the names of its ways.

    `reason` says why it is `taken` or not. `cost` is None if the plan cannot answer the question, and `reason` then
    says why not.
    """

    name: str
    cost: Cost | None
    taken: bool
    reason: str
