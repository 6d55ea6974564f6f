"""Questions over the by columns: answered from the cells' totals, whatever the number of rows.

Where every column that WHERE, the keys and the filters read is a by column, a group is a set of cells, and each of its
moments the sum of theirs. The cells are a small table here; DuckDB selects and groups them as it would the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Square
from cleave.split import Halves
from cleave.sql.dialect import FaithfulDuckDB, write
from cleave.sql.plan import Argument, EncryptedAggregate, QueryPlan
from cleave.sql.rejoin import Groups
from cleave.sql.sets import Members
from cleave.store import measures as of_measures
from cleave.store.lanes import Integers
from cleave.store.manifest import Manifest, Measure
from cleave.table.duck import identifier
from cleave.table.table import Table

NUMBER = "number of the cell"  # a column of the table of cells, beside the by columns
Part = tuple[int, str]  # of a measure: its number and count, sum or square


@dataclass(frozen=True, slots=True)
class Source:
    """What an argument of the query is made of: measure number `measure`, in the cells where `filter` holds."""

    measure: int
    filter: str | None  # SQL over by columns


@dataclass(frozen=True, slots=True)
class Cellwise:
    """A plan that the cells answer. `sources[i]`: of argument i."""

    plan: QueryPlan
    sources: tuple[Source, ...]
    parts: tuple[Part, ...]  # the totals that are needed


def over_cells(plan: QueryPlan, manifest: Manifest) -> Cellwise | str:
    """How the cells answer `plan`, or why they cannot."""
    by = {name.lower() for name in manifest.by}
    if others := [name for name in plan.selecting if name.lower() not in by]:
        return f"{others[0]!r} is not one of the columns the table is stored by"
    if plan.plain:
        return "a plain aggregate is computed from rows"
    if plan.local:
        return next((each.reason for each in plan.outputs if each.reason), "it is computed from single values")
    sources = []
    for argument in plan.arguments:
        source = _source(argument, manifest, by)
        if source is None:
            return f"no totals are kept of {argument.sql}"
        sources.append(source)
    parts: dict[Part, None] = {}
    for each in plan.encrypted:
        if len(each.arguments) != 1:
            return f"no totals are kept of two columns together, which {each.aggregate.names[0]} needs"
        source = sources[each.arguments[0]]
        measure = manifest.measures[source.measure]
        if measure.nullable:
            parts[source.measure, "count"] = None
        for moment in each.aggregate.moments:
            part = _PARTS.get(moment)
            if part is None or (part == "square" and not measure.square):
                return f"no totals are kept that {each.aggregate.names[0]} of {measure.name} needs"
            parts[source.measure, part] = None
    return Cellwise(plan, tuple(sources), tuple(parts))


_PARTS: Mapping[Moment, str] = {Sum(): "sum", Square(): "square"}


def _source(argument: Argument, manifest: Manifest, by: set[str]) -> Source | None:
    known = {measure.sql: number for number, measure in enumerate(manifest.measures)}
    if argument.sql in known:
        return Source(known[argument.sql], None)
    node = sqlglot.parse_one(f"SELECT {argument.sql}", read=FaithfulDuckDB).expressions[0]
    if not isinstance(node, exp.Case) or node.this or node.args.get("default") or len(node.args["ifs"]) != 1:
        return None
    (branch,) = node.args["ifs"]
    measure = known.get(write(branch.args["true"]))
    if measure is None or any(column.name.lower() not in by for column in branch.this.find_all(exp.Column)):
        return None
    return Source(measure, write(branch.this))


class Selection:
    """The cells a plan selects, by group."""

    def __init__(self, cells: Table, rows: Sequence[int], wanted: Cellwise) -> None:
        self._wanted = wanted
        filters = list(dict.fromkeys(source.filter for source in wanted.sources if source.filter is not None))
        number = Argument(identifier(NUMBER), "BIGINT", 0, (), lower=0, upper=cells.rows, nullable=False)
        flags = [
            Argument(f"(({each}) IS TRUE)", "BOOLEAN", 0, (), lower=0, upper=1, nullable=False) for each in filters
        ]
        halves = Halves(cells, replace(wanted.plan, arguments=(number, *flags), plain=(), plain_columns=()))
        numbers, *kept = halves.values()
        self.cells: NDArray[np.int64] = numbers.values.astype(np.int64)
        self._kept = {each: flag.values.astype(bool) for each, flag in zip(filters, kept, strict=True)}
        self._ends = np.concatenate([[0], np.cumsum(halves.counts)])
        self.keys = halves.keys
        self._rows = np.asarray(rows, object)
        self.counts = [int(total) for total in self._sums(self._rows, None)]
        halves.close()

    @property
    def groups(self) -> Groups:
        types = self._wanted.plan.key_types
        plain_types = tuple(each.type for each in self._wanted.plan.plain)
        return Groups(types, self.keys, self.counts, [()] * len(self.keys), plain_types)

    def figures(
        self, totals: Mapping[Part, Integers], measures: Sequence[Measure], members: Sequence[Members]
    ) -> list[list[Figure]]:
        """Of all that `members` says which groups it is made of, from the cells' totals of what is needed."""
        sums: dict[tuple[int, str], list[int]] = {}  # by argument and part
        for place, source in enumerate(self._wanted.sources):
            for measure, part in self._wanted.parts:
                if measure == source.measure:
                    sums[place, part] = self._sums(totals[measure, part], source.filter)
            if not measures[source.measure].nullable:
                sums[place, "count"] = self._sums(self._rows, source.filter)
        facts = [of_measures.facts(measures[source.measure]) for source in self._wanted.sources]
        return [
            [self._figure(each, of, sums, facts, measures) for each in self._wanted.plan.encrypted] for of in members
        ]

    def _figure(
        self,
        asked: EncryptedAggregate,
        members: Members,
        sums: Mapping[tuple[int, str], Sequence[int]],
        facts: Sequence[Facts],
        measures: Sequence[Measure],
    ) -> Figure:
        (place,) = asked.arguments
        measure = measures[self._wanted.sources[place].measure]
        total = {part: sum(entries[group] for group in members) for (at, part), entries in sums.items() if at == place}
        count = total["count"]
        moments = {
            moment: of_measures.reading(measure, _PARTS[moment]).estimate(
                Estimate(Fraction(total[_PARTS[moment]])), count
            )
            for moment in asked.aggregate.moments
        }
        return asked.aggregate.finish(count, moments, [facts[place]])

    def _sums(self, entries: Integers, filter_: str | None) -> list[int]:
        """Of `entries` (cells,) over every group's cells."""
        taken = entries[self.cells] if len(self.cells) else np.zeros(0, object)
        if filter_ is not None:
            taken = np.where(self._kept[filter_], taken, 0)
        running = np.concatenate([np.zeros(1, object), np.cumsum(taken)]) if len(taken) else np.zeros(1, object)
        return [
            cast(int, running[stop] - running[start]) for start, stop in zip(self._ends, self._ends[1:], strict=False)
        ]
