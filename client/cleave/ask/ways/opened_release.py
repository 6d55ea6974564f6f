"""A release that its analyst has opened, exact or noisy: its cells, and what an answer from it reads and shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from cleave.ask.way import Disclosures, Use, Uses, Way, Work
from cleave.releases.release import ReleasedTotals, ReleaseHead
from cleave.sql.plan import QueryPlan
from cleave.store.cells import Cells
from cleave.store.rows import whole
from cleave.store.schemas import read_stored_schema
from cleave.sums.needs import CutSums, KeptTotals
from cleave.sums.stored import CellTable
from cleave.table.schema import Schema
from cleave.table.table import Table


class OpenedRelease(ABC):
    """`rows`: that are released; None if nobody but the owner knows. `no_threshold`: why no answer has a threshold."""

    rows: int | None = None
    no_threshold: ClassVar[str] = ""

    def __init__(self, head: ReleaseHead, totals: ReleasedTotals, cells: Cells) -> None:
        """Raises ValueError for a schema that is no TOML, and for by columns or measures that are not the schema's."""
        self.head = head
        self.table_name = totals.table
        self.by = totals.by
        self.schema: Schema = read_stored_schema(totals.schema_toml, totals.table)
        columns = {each.name: (each.type, each.decimals) for each in self.schema.columns}
        stored = [each for each in totals.measures if not each.derived]
        if not columns.keys() >= {*totals.by} or len({*totals.by}) < len(totals.by):
            raise ValueError("by")
        if any(columns.get(each.name) != (each.type, each.decimals) for each in stored):
            raise ValueError("measures")
        self.cells = cells
        self._cell_table = CellTable(totals.table, self.schema, totals.by)

    @property
    @abstractmethod
    def sums(self) -> KeptTotals:
        """The sums that it has."""

    @abstractmethod
    def way(self, sums: KeptTotals, cut: QueryPlan) -> Way[Self]:
        """The way to answer `cut`, which was cut by `sums`."""

    def shown(self, cut: QueryPlan) -> QueryPlan:
        """`cut` with the source of its figures."""
        return cut

    def table(self, names: Collection[str]) -> Table:
        return self._cell_table.read(self.cells, names)

    def close(self) -> None:
        self._cell_table.close()


R = TypeVar("R", bound=OpenedRelease)


@dataclass(frozen=True)
class ReleaseWay(Way[R]):
    needs: CutSums

    def work(self, place: R, *, pad: bool) -> Work:  # noqa: ARG002 - it is read whole
        return Work([whole(place.head.totals)])

    def uses(self, place: R) -> Uses:
        used = [*self.needs.summed, *self.needs.cut.selecting]
        return {(place.table_name, name): Use(f"answered from the {self.name}") for name in used}

    def disclosures(self, place: R, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        return Disclosures(sensitive=["that a release is read, when, and under whose credentials"])
