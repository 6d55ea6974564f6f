"""Sums that a cut question over a stored table needs, and which of them exist.

Each class answers questions without the table's rows. `KeptTotals` has totals of every cell. `SummedRows` has sums of
rows that plain columns select: the plain service finds the groups, and the sensitive service adds up their positions
among the rows of `put --scan`. `NoSums` answers nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from cleave.aggregates.group import Aggregate
from cleave.sql.bounds import Types
from cleave.sql.judge import HasSums
from cleave.sql.nodes import ColumnRef, Node, write
from cleave.sql.plan import Argument, FigureSource, QueryPlan
from cleave.sql.read import canonical, spellings
from cleave.store.lanes import columns_of_rows
from cleave.store.manifest import Manifest, Measure
from cleave.store.schemas import half_of
from cleave.sums.combination import Combination, TotalOf, combination_of, filtered, filtered_spellings
from cleave.sums.pairs import AggregateOperand, Pair, Pairs
from cleave.table.schema import Schema
from cleave_shared import limits


@dataclass(frozen=True)
class CutSums:
    """Sums that `cut` needs. `operands`: what its encrypted aggregates are of, without repetitions; `places[i]` is the
    index of aggregate i's. `totals`: the totals they are made of. `measures`: the table's measures when this was made.
    """

    cut: QueryPlan
    operands: tuple[AggregateOperand, ...]
    places: tuple[int, ...]
    totals: tuple[TotalOf, ...]
    measures: tuple[Measure, ...]

    @property
    def filters(self) -> list[str]:
        """SQL over by columns; in a scan, over plain columns."""
        return list(dict.fromkeys(each.filter for each in self.operands if each.filter is not None))

    @property
    def tells_cells_apart(self) -> bool:
        """True if the question distinguishes cells. Otherwise all of them are one group."""
        return bool(self.cut.where or self.cut.keys or self.filters)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that WHERE and keys read, and those of each argument with a filter."""
        filtering = (
            name
            for each, place in zip(self.cut.encrypted, self.places, strict=True)
            if self.operands[place].filter is not None
            for argument in each.arguments
            for name in self.cut.arguments[argument].columns
        )
        return frozenset((*self.cut.selecting, *filtering))

    @property
    def summed(self) -> set[str]:
        return {self.measures[number].name for each in self.operands for number in each.numbers}


class Available(HasSums):
    """Sums that a table has. `operands`: by the SQL of arguments, what each requested aggregate is of."""

    # reasons: for several arguments, for an argument, for its aggregate
    words: tuple[str, str, str]

    def __init__(self, measures: Sequence[Measure], columns: Collection[str], totals: Set[TotalOf] | None) -> None:
        """`columns`: columns that filters may read. `totals`: existing totals; None: all."""
        self._measures = measures
        self._columns = {name.lower() for name in columns}
        self._totals = totals
        self._texts = tuple(each.sql for each in measures)
        self._by_sql = self._with_totals(spellings(self._texts))
        self.operands: dict[tuple[str, ...], AggregateOperand] = {}

    @cached_property
    def _by_condition(self) -> dict[str, dict[str, int]]:
        return {each: self._with_totals(of) for each, of in filtered_spellings(self._texts).items()}

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._measures)

    def _with_totals(self, by_sql: Mapping[str, int]) -> dict[str, int]:
        totals = self._totals
        return {spelled: at for spelled, at in by_sql.items() if totals is None or (at, "sum") in totals}

    def sums_for(self, cut: QueryPlan) -> CutSums:
        """The sums for `cut`, which must have been cut with this object."""
        read = [self.operands[tuple(cut.arguments[at].sql for at in each.arguments)] for each in cut.encrypted]
        totals: dict[TotalOf, None] = {}
        for encrypted, operand in zip(cut.encrypted, read, strict=True):
            needed = operand.needs(encrypted.aggregate, self._measures)
            if isinstance(needed, str):  # the cutter has checked this
                raise TypeError(needed)
            totals |= dict.fromkeys(needed)
        places = {each: at for at, each in enumerate(dict.fromkeys(read))}
        return CutSums(cut, tuple(places), tuple(places[each] for each in read), tuple(totals), tuple(self._measures))

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        several, unknown, more = self.words
        name, (node, argument) = aggregate.names[0], arguments[0]
        operand: AggregateOperand | None
        if len(arguments) > 1:
            operand = self._pair(*(node for node, _ in arguments))
            if operand is None:
                return several.format(name)
        else:
            operand = self._combination(node, argument, types)
            if operand is None:
                return unknown.format(argument.sql)
        totals = operand.needs(aggregate, self._measures)
        if isinstance(totals, str):
            return several.format(name) if len(arguments) > 1 else more.format(name, argument.sql, totals)
        if self._totals is not None and not self._totals >= {*totals}:
            return more.format(name, argument.sql, "")
        self.operands[tuple(each.sql for _, each in arguments)] = operand
        return ""

    def _pair(self, *nodes: Node) -> Pair | None:
        """The pair of two columns, where a filter over columns that it may read holds. None for anything else."""
        pair = self._pairs.of(*nodes)
        taken = [filtered(each) for each in nodes] if pair is None else []
        if pair is not None or None in taken:
            return pair
        values, conditions = zip(*filter(None, taken), strict=True)
        pair = self._pairs.of(*values)
        may_filter = conditions[0] == conditions[1] and self._may_filter(conditions[0])
        return replace(pair, filter=write(conditions[0])) if pair and may_filter else None

    def _combination(
        self,
        node: Node,
        argument: Argument,  # noqa: ARG002 - see KeptTotals
        types: Types,
    ) -> Combination | None:
        value = combination_of(node, self._by_sql, self._measures, types)
        taken = None if value else filtered(node)
        if taken is None:
            return value
        if measures := self._by_condition.get(canonical(taken[1])):  # in the same rows
            value = combination_of(taken[0], measures, self._measures, types)
        if value is not None:
            return value
        value = combination_of(taken[0], self._by_sql, self._measures, types)
        return replace(value, filter=write(taken[1])) if value and self._may_filter(taken[1]) else None

    def _may_filter(self, node: Node) -> bool:
        return all(column.name.lower() in self._columns for column in node.find(ColumnRef))


class KeptTotals(Available):
    """Totals of `measures` by the columns `by`.

    `no_plain`: why the plain service cannot answer; "" if it can.
    """

    counts: FigureSource = "encrypted"
    words = (
        "no totals are kept of two columns together, which {} needs",
        "no totals are kept of {}",
        "no totals are kept that {} of {} needs: {}",
    )
    way_on = "; `cleave derive --products` keeps "  # follows a reason that products would remove
    answers = "counts, sums, means, variances"
    more = ""  # what other totals would answer

    def __init__(self, measures: Sequence[Measure], by: Sequence[str], no_plain: str) -> None:
        super().__init__(measures, by, None)
        self._no_plain = no_plain

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        reason = super().aggregate(aggregate, arguments, types)
        nodes = [node for node, _ in arguments]
        if not reason or not self.way_on or not self._pairs.may_be_kept(nodes):
            return reason
        spelled = self._pairs.product_in(nodes[0]) if len(nodes) == 1 else ""
        return f"{reason}{self.way_on}{f'those of {spelled}' if spelled else 'them'}"

    def groups(self, selecting: Sequence[str]) -> str:
        others = [name for name in selecting if not self.is_kept(name)]
        return f"{others[0]!r} is not one of the columns the table is stored by" if others else ""

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - whatever they are
        return self._no_plain

    def is_kept(self, column: str) -> bool:
        return column.lower() in self._columns

    def _combination(self, node: Node, argument: Argument, types: Types) -> Combination | None:
        if (
            argument.counted
            and self._may_filter(node)
            and not combination_of(node, self._by_sql, self._measures, types)
        ):
            # the rows of cells in which the argument is not NULL
            return Combination(filter=f"({argument.sql}) IS NOT NULL")
        return super()._combination(node, argument, types)


class ReleasedSums(KeptTotals):
    """Totals that an owner released to an analyst."""

    words = (
        "products of columns are in no release, and {} needs them",
        "no totals are released of {}",
        "no totals are released that {} of {} needs: {}",
    )
    way_on = ""


class SummedRows(Available):
    """Sums of rows of the table of `manifest`."""

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

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - the plain service is queried in any case
        return ""

    def is_kept(self, column: str) -> bool:  # noqa: ARG002 - nothing is known of rows here
        return False

    def _may_filter(self, node: Node) -> bool:
        return node.has(ColumnRef) and super()._may_filter(node)


class NoSums(Available):
    """No sums: the rows are read for every answer. `why`: the reason."""

    counts: Final = "local"

    def __init__(self, why: str) -> None:
        super().__init__((), (), frozenset())
        self._why = why

    def groups(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - whatever they are
        return self._why

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - as above
        return self._why

    def is_kept(self, column: str) -> bool:  # noqa: ARG002 - as above
        return False


def unreadable(manifest: Manifest) -> str:
    """Why the plain service cannot read the plain half; "" if it can."""
    segments = manifest.segments
    if not segments or segments.halves != len(segments):
        return "the table has no plain half"
    if segments.halves > limits.MAX_PLAIN_OBJECTS or segments.plain > limits.MAX_LINKED_BYTES:
        return "the plain half is larger than the plain service reads for one query"
    return ""


def _why_not(manifest: Manifest) -> str:
    """Why services cannot add up the table's rows; "" if they can."""
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
