"""Questions over the by columns: answered from the cells' totals, whatever the number of rows.

Where every column that WHERE, the keys and the filters read is a by column, a group is a set of cells, and each of its
moments the sum of theirs. The cells are a small table here; DuckDB selects and groups them as it would the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import Figure
from cleave.aggregates.group import EncryptedAggregate
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.rejoin import Members, Texts
from cleave.sql.split import Halves
from cleave.store.lanes import Integers
from cleave.store.manifest import NUMBER, Measure
from cleave.sums.kept import KeptTotals, SummedRows
from cleave.sums.sources import Part, Source
from cleave.table.duck import identifier
from cleave.table.table import Table


@dataclass(frozen=True)
class StoredPlan(QueryPlan):
    """A question over a stored table, cut.

    `sources[i]`: of argument i. `parts`: the totals that are needed, of `measures`, the table's when this was made.
    `over_cells`: groups and their rows follow from the cells; else from rows that are fetched, or the plain service.
    """

    sources: tuple[Source, ...] = ()
    parts: tuple[Part, ...] = ()
    measures: tuple[Measure, ...] = ()
    over_cells: bool = True
    scans: bool = False
    cloud_only: bool = False

    @property
    def fetches(self) -> bool:
        """Return whether rows are read and decrypted here."""
        return bool(self.local) or not (self.over_cells or self.asks_plain or self.scans)

    @property
    def fetched_columns(self) -> tuple[str, ...]:
        """Return the fetched columns of the rows that are fetched."""
        return tuple(dict.fromkeys([*self.selecting, *(name for each in self.local for name in each.columns)]))

    @property
    def filters(self) -> list[str]:
        """SQL over by columns."""
        return list(dict.fromkeys(source.filter for source in self.sources if source.filter is not None))

    def parts_by_filter(self) -> dict[str | None, list[Part]]:
        """By filter, the parts of measures whose rows are added up where it holds; none where all that is counted."""
        found: dict[str | None, dict[Part, None]] = {}
        for source in self.sources:
            of = {number for number, _ in source.terms}
            found.setdefault(source.filter, {}).update(dict.fromkeys(part for part in self.parts if part[0] in of))
        return {filter_: list(each) for filter_, each in found.items()}

    @property
    def tells_cells_apart(self) -> bool:
        """Return whether a query over cells needs anything but their totals; else all are in one group."""
        return bool(self.where or self.keys or self.filters)

    @property
    def cell_columns(self) -> frozenset[str]:
        """Return the columns that WHERE, the keys and the filters read, and may be by columns."""
        filtered = zip(self.arguments, self.sources, strict=True)
        return frozenset(
            (
                *self.selecting,
                *(name for each, source in filtered if source.filter is not None for name in each.columns),
            )
        )


def stored_plan(plan: QueryPlan, kept: KeptTotals | SummedRows, measures: Sequence[Measure]) -> StoredPlan:
    """`plan`, made with `kept`, and what of the totals, or of sums of the rows, of `measures` it needs."""
    sources = tuple(kept.sources[argument.sql] for argument in plan.arguments)
    parts: dict[Part, None] = {}
    for each in plan.encrypted:
        needed = sources[each.arguments[0]].needs(each.aggregate, measures)
        if isinstance(needed, str):  # the cutter asked before
            raise TypeError(needed)
        parts |= dict.fromkeys(needed)
    given = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return StoredPlan(
        **given,
        sources=sources,
        parts=tuple(parts),
        measures=tuple(measures),
        over_cells=isinstance(kept, KeptTotals) and not kept.groups(plan.selecting),
        scans=isinstance(kept, SummedRows),
    )


Sums = dict[Part | None, list[int]]  # of one argument: each part's total by group; None: the number of its values


def figures_of(
    plan: StoredPlan, sums: Sequence[Sums], measures: Sequence[Measure], members: Sequence[Members]
) -> list[list[Figure]]:
    """Return the figures of all that `members` says which groups it is made of, the encrypted aggregates; `sums` by
    argument.
    """
    figures = [_figure(plan, each, sums[each.arguments[0]], measures) for each in plan.encrypted]
    return [[figure(of) for figure in figures] for of in members]


def _figure(
    plan: StoredPlan, asked: EncryptedAggregate, sums: Sums, measures: Sequence[Measure]
) -> Callable[[Members], Figure]:
    """An aggregate's, of whichever groups taken together; `sums` are its argument's."""
    (place,) = asked.arguments
    source = plan.sources[place]
    facts = [source.facts(plan.arguments[place], measures)]
    moments = source.moments(asked.aggregate, measures)
    counts = sums[None]
    totals = [(part, entries) for part, entries in sums.items() if part is not None]

    def figure(members: Members) -> Figure:
        count = sum(counts[group] for group in members)
        total = {part: sum(entries[group] for group in members) for part, entries in totals}
        return asked.aggregate.finish(count, moments(total, count), facts)

    return figure


class Selection:
    """The cells a plan selects, by group.

    `cells`: as a table, with all columns that the plan reads of them; None where it tells none of them apart.
    """

    def __init__(self, cells: Table | None, rows: Sequence[int], plan: StoredPlan) -> None:
        self._plan = plan
        self._rows = np.asarray(rows, np.int64)
        self.cells: NDArray[np.int64] = np.flatnonzero(self._rows)
        self._kept: dict[str, NDArray[np.bool_]] = {}
        self._ends = np.array([0, len(self.cells)])
        self.keys: list[Texts] = [()]
        if cells is not None:
            self._select(cells)
        self.counts = self._sums(self._rows, None)

    def _select(self, cells: Table) -> None:
        plan = self._plan
        number = Argument(identifier(NUMBER), "BIGINT", 0, (), lower=0, upper=cells.rows, nullable=False)
        flags = [
            Argument(f"(({each}) IS TRUE)", "BOOLEAN", 0, (), lower=0, upper=1, nullable=False) for each in plan.filters
        ]
        halves = Halves(cells, replace(plan, arguments=(number, *flags), plain=(), plain_columns=(), local=()))
        numbers, *kept = halves.values()
        self.cells = numbers.values.astype(np.int64)
        self._kept = {each: flag.values.astype(bool) for each, flag in zip(plan.filters, kept, strict=True)}
        self._ends = np.concatenate([[0], np.cumsum(halves.counts)])
        self.keys = halves.keys
        halves.close()

    def figures(
        self, totals: Mapping[Part, Integers], measures: Sequence[Measure], members: Sequence[Members]
    ) -> list[list[Figure]]:
        """Return the figures of all that `members` says which groups it is made of, from the cells' totals of what is
        needed.
        """
        sums: list[Sums] = []
        for source in self._plan.sources:
            of = {number for number, _ in source.terms}
            found: Sums = {part: self._sums(totals[part], source.filter) for part in self._plan.parts if part[0] in of}
            counted = source.counted(measures)
            found[None] = self._sums(self._rows, source.filter) if counted is None else found[counted, "count"]
            sums.append(found)
        return figures_of(self._plan, sums, measures, members)

    def _sums(self, entries: Integers, filter_: str | None) -> list[int]:
        """Return the sums of `entries` (cells,) over every group's cells."""
        taken = entries[self.cells] if len(self.cells) else np.zeros(0, entries.dtype)
        if filter_ is not None:
            taken = np.where(self._kept[filter_], taken, 0)
        running = np.concatenate([np.zeros(1, entries.dtype), np.cumsum(taken)])
        return [int(running[stop] - running[start]) for start, stop in zip(self._ends, self._ends[1:], strict=False)]
