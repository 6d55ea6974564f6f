"""Questions over the by columns: answered from the cells' totals, whatever the number of rows.

Where every column that WHERE, the keys and the filters read is a by column, a group is a set of cells, and each of its
moments the sum of theirs. The cells are a small table here; DuckDB selects and groups them as it would the rows.

Two classes decide what a stored table can answer without its rows. `KeptTotals` has totals of every cell. `SummedRows`
has sums of rows that plain columns select, which services make of the rows of `put --scan`: the plain service knows the
groups, and the sensitive one adds up the positions it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import HIDDEN, Figure
from cleave.aggregates.group import Aggregate, EncryptedAggregate
from cleave.sql.judge import Types
from cleave.sql.nodes import Column, Node, write
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.read import spellings
from cleave.sql.rejoin import Members, Texts
from cleave.sql.split import Halves
from cleave.store.lanes import Integers, columns_of_rows
from cleave.store.manifest import NUMBER, Manifest, Measure
from cleave.store.schemas import half_of
from cleave.sums.sources import Part, Source, filtered, source_of
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave_shared import limits


@dataclass(frozen=True)
class StoredPlan(QueryPlan):
    """A question over a stored table, cut.

    `sources[i]`: of argument i. `parts`: the totals that are needed, of `measures`, the table's when this was made.
    `over_cells`: groups and their rows follow from the cells; else from rows that are fetched, or the plain service.
    `whose`: each contributor has cells of its own.
    """

    sources: tuple[Source, ...] = ()
    parts: tuple[Part, ...] = ()
    measures: tuple[Measure, ...] = ()
    over_cells: bool = True
    scans: bool = False
    whose: bool = False
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


def stored_plan(
    plan: QueryPlan, sums: KeptTotals | SummedRows, measures: Sequence[Measure], *, whose: bool = False
) -> StoredPlan:
    """Add to `plan`, which was cut by `sums`, the totals of `measures`, or the sums of rows, that it needs."""
    sources = tuple(sums.sources[argument.sql] for argument in plan.arguments)
    parts: dict[Part, None] = {}
    for each in plan.encrypted:
        needed = sources[each.arguments[0]].needs(each.aggregate, measures)
        if isinstance(needed, str):  # the cutter asked before
            raise TypeError(needed)
        parts |= dict.fromkeys(needed)
    given = {each.name: getattr(plan, each.name) for each in fields(plan)}
    return StoredPlan(
        **given,
        sources=sources,
        parts=tuple(parts),
        measures=tuple(measures),
        over_cells=isinstance(sums, KeptTotals) and not sums.groups(plan.selecting),
        scans=isinstance(sums, SummedRows),
        whose=whose,
    )


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one argument by group: each part's total, and how many values. `withheld`: of how many cells of the group
    a total is not known; empty where all are.
    """

    totals: dict[Part, list[int]]
    counts: list[int]
    withheld: list[int] = field(default_factory=list)

    def of_groups(self, places: Sequence[int]) -> Sums:
        """Return the sums of the groups at `places`, in their order."""
        totals = {part: [entries[place] for place in places] for part, entries in self.totals.items()}
        withheld = [self.withheld[place] for place in places] if self.withheld else []
        return Sums(totals, [self.counts[place] for place in places], withheld)


def figures_of(
    plan: StoredPlan, sums: Sequence[Sums], measures: Sequence[Measure]
) -> Callable[[Sequence[Members], Sequence[int]], list[list[Figure]]]:
    """Return the encrypted aggregates of groups that are put together, by their members; `sums` by argument."""
    figures = [_figure(plan, each, sums[each.arguments[0]], measures) for each in plan.encrypted]
    return lambda members, _: [[figure(of) for figure in figures] for of in members]


def _figure(
    plan: StoredPlan, encrypted: EncryptedAggregate, sums: Sums, measures: Sequence[Measure]
) -> Callable[[Members], Figure]:
    """An aggregate's, of whichever groups taken together; `sums` are its argument's."""
    (place,) = encrypted.arguments
    source = plan.sources[place]
    facts = [source.facts(plan.arguments[place], measures)]
    moments = source.moments(encrypted.aggregate, measures)
    counts, totals = sums.counts, sums.totals.items()
    withheld = sums.withheld if source.needs(encrypted.aggregate, measures) else []

    def figure(members: Members) -> Figure:
        if withheld and any(withheld[group] for group in members):
            return HIDDEN
        count = sum(counts[group] for group in members)
        total = {part: sum(entries[group] for group in members) for part, entries in totals}
        return encrypted.aggregate.finish(count, moments(total, count), facts)

    return figure


class Selection:
    """The cells a plan selects, by group.

    `cells`: as a table, with all columns that the plan reads of them; None where it tells none of them apart.
    """

    def __init__(self, cells: Table | None, rows: Sequence[int], plan: StoredPlan) -> None:
        self._plan = plan
        self._rows = np.asarray(rows, np.int64)
        self.cells: NDArray[np.int64] = np.flatnonzero(self._rows)
        self._flags: dict[str, NDArray[np.bool_]] = {}
        self._ends = np.array([0, len(self.cells)])
        self.keys: list[Texts] = [()]
        if cells is not None:
            self._select(cells)

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each group."""
        return self._sums(self._rows, None)

    def _select(self, cells: Table) -> None:
        plan = self._plan
        number = Argument(identifier(NUMBER), "BIGINT", 0, (), lower=0, upper=cells.rows, nullable=False)
        flags = [
            Argument(f"(({each}) IS TRUE)", "BOOLEAN", 0, (), lower=0, upper=1, nullable=False) for each in plan.filters
        ]
        halves = Halves(cells, replace(plan, arguments=(number, *flags), plain=(), plain_columns=(), local=()))
        numbers, *flagged = halves.values()
        self.cells = numbers.values.astype(np.int64)
        self._flags = {each: flag.values.astype(bool) for each, flag in zip(plan.filters, flagged, strict=True)}
        self._ends = np.concatenate([[0], np.cumsum(halves.counts)])
        self.keys = halves.keys
        halves.close()

    def sums(
        self,
        totals: Mapping[Part, Integers],
        measures: Sequence[Measure],
        withheld: Mapping[int, NDArray[np.bool_]] = MappingProxyType({}),
    ) -> list[Sums]:
        """Return the sums by argument, from the cells' totals of `measures` that the plan needs.

        `withheld`: by measure, the cells whose totals are not known (cells,).
        """
        sums: list[Sums] = []
        for source in self._plan.sources:
            of = {number for number, _ in source.terms}
            summed = {part: self._sums(totals[part], source.filter) for part in self._plan.parts if part[0] in of}
            counted = source.counted(measures)
            counts = self._sums(self._rows, source.filter) if counted is None else summed[counted, "count"]
            unknown = [withheld[number] for number in of if number in withheld]
            cells = self._sums(np.logical_or.reduce(unknown).astype(np.int64), source.filter) if unknown else []
            sums.append(Sums(summed, counts, cells))
        return sums

    def _sums(self, entries: Integers, filter_: str | None) -> list[int]:
        """Return the sums of `entries` (cells,) over every group's cells."""
        taken = entries[self.cells] if len(self.cells) else np.zeros(0, entries.dtype)
        if filter_ is not None:
            taken = np.where(self._flags[filter_], taken, 0)
        running = np.concatenate([np.zeros(1, entries.dtype), np.cumsum(taken)])
        return [int(running[stop] - running[start]) for start, stop in zip(self._ends, self._ends[1:], strict=False)]


class _SumsOf:
    """`sources`: by its SQL, what each argument is made of that was asked about. `columns`: those that filters read."""

    # why not: for several arguments, an argument, an aggregate of it
    words: tuple[str, str, str]

    def __init__(self, measures: Sequence[Measure], columns: Collection[str], parts: Set[Part] | None) -> None:
        """`parts`: that there are; None: all."""
        self._measures = measures
        self._columns = {name.lower() for name in columns}
        self._parts = parts
        by_sql = spellings([each.sql for each in measures])
        self._by_sql = {spelled: at for spelled, at in by_sql.items() if parts is None or (at, "sum") in parts}
        self.sources: dict[str, Source] = {}

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        several, unknown, more = self.words
        name, (node, argument) = aggregate.names[0], arguments[0]
        if len(arguments) != 1:
            return several.format(name)
        source = self._source(node, argument, types)
        if source is None:
            return unknown.format(argument.sql)
        parts = source.needs(aggregate, self._measures)
        if isinstance(parts, str):
            return more.format(name, argument.sql, parts)
        if self._parts is not None and not self._parts >= {*parts}:
            return more.format(name, argument.sql, "")
        self.sources[argument.sql] = source
        return ""

    def _source(self, node: Node, argument: Argument, types: Types) -> Source | None:  # noqa: ARG002 - see KeptTotals
        value = source_of(node, self._by_sql, self._measures, types)
        taken = None if value else filtered(node)
        if taken is None:
            return value
        value = source_of(taken[0], self._by_sql, self._measures, types)
        return replace(value, filter=write(taken[1])) if value and self._may_filter(taken[1]) else None

    def _may_filter(self, node: Node) -> bool:
        return all(column.name.lower() in self._columns for column in node.find(Column))


class KeptTotals(_SumsOf):
    """Totals of `measures` by the columns `by`.

    `no_plain`: why the plain service cannot be asked, "" where it can.
    `no_totals`: why totals are not to be used, though they are kept.
    """

    counts: Final = "encrypted"
    words = (
        "no totals are kept of two columns together, which {} needs",
        "no totals are kept of {}",
        "no totals are kept that {} of {} needs: {}",
    )

    def __init__(self, measures: Sequence[Measure], by: Sequence[str], no_plain: str, no_totals: str = "") -> None:
        super().__init__(measures, by, None)
        self._no_totals = no_totals
        self._no_plain = no_plain

    def groups(self, selecting: Sequence[str]) -> str:
        others = [name for name in selecting if not self.is_kept(name)]
        return f"{others[0]!r} is not one of the columns the table is stored by" if others else ""

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - whatever they are
        return self._no_plain

    def is_kept(self, column: str) -> bool:
        return column.lower() in self._columns

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        why = super().aggregate(aggregate, arguments, types)
        needs = [] if why else self.sources[arguments[0][1].sql].needs(aggregate, self._measures)
        return why or (self._no_totals if needs else "")

    def _source(self, node: Node, argument: Argument, types: Types) -> Source | None:
        if argument.counted and self._may_filter(node) and not source_of(node, self._by_sql, self._measures, types):
            return Source(filter=f"({argument.sql}) IS NOT NULL")  # the rows of the cells where it is there
        return super()._source(node, argument, types)


class SummedRows(_SumsOf):
    """Summed rows of the table of `manifest`."""

    counts: Final = "plain"
    words = (
        "rows hold no products of two columns, which {} needs",
        "rows do not hold {}, only columns and what was derived when the table was stored",
        "rows hold sums and counts, and {} of {} needs more",
    )

    def __init__(self, manifest: Manifest, schema: Schema) -> None:
        plain = [each.name for each in schema.columns if half_of(each) == "plain"]
        super().__init__(manifest.measures, plain, {(each.measure, each.part) for each in columns_of_rows(manifest)})
        self._why_not = _why_not(manifest)

    def groups(self, selecting: Sequence[str]) -> str:
        others = [name for name in selecting if name.lower() not in self._columns]
        if others:
            return f"{others[0]!r} is not plain, and services select rows by plain columns"
        return self._why_not

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - the plain service is asked in any case
        return ""

    def is_kept(self, column: str) -> bool:  # noqa: ARG002 - of rows nothing is known here
        return False

    def _may_filter(self, node: Node) -> bool:
        return node.has(Column) and super()._may_filter(node)


def too_much(manifest: Manifest) -> str:
    """Why the plain service cannot read the plain half, "" where it can."""
    held = [each.plain for each in manifest.segments if each.plain is not None]
    if not held or len(held) != len(manifest.segments):
        return "the table has no plain half"
    if len(held) > limits.MAX_PLAIN_OBJECTS or sum(each.bytes for each in held) > limits.MAX_LINKED_BYTES:
        return "the plain half is larger than the plain service reads for one query"
    return ""


def _why_not(manifest: Manifest) -> str:
    """Why services cannot add up rows of a table; "" where they can."""
    if not manifest.scanned:
        return "it was stored without --scan"
    if not manifest.segments:
        return "it has no rows"
    if any(each.plain is None for each in manifest.segments):
        return "it has no plain half"
    if any(each.plain.bytes > limits.MAX_LINKED_BYTES for each in manifest.segments if each.plain):
        return (
            f"the plain columns of a segment are larger than {limits.MAX_LINKED_BYTES:,} bytes, which a service reads"
        )
    return ""
