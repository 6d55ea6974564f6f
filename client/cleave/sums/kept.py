"""Decide what a stored table can answer without its rows: groups, and aggregates that follow from sums of its measures.

`KeptTotals` has totals of every cell. `SummedRows` has sums of rows that plain columns select, which services make of
the rows of `put --scan`: the plain service knows the groups, and the sensitive one adds up the positions it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from typing import Final

from cleave.aggregates.group import Aggregate
from cleave.sql.judge import Types
from cleave.sql.nodes import Column, Node
from cleave.sql.plan import Argument
from cleave.sql.read import expression_of, spellings
from cleave.sql.write import write
from cleave.store.lanes import columns_of_rows
from cleave.store.manifest import Manifest, Measure
from cleave.store.schemas import half_of
from cleave.sums.sources import Part, Source, filtered, source_of
from cleave.table.schema import Schema
from cleave_shared import limits


class _SumsOf:
    """`sources`: by its SQL, what each argument is made of that was asked about. `columns`: those that filters read."""

    # why not: for several arguments, an argument, an aggregate of it
    words: tuple[str, str, str]

    def __init__(self, measures: Sequence[Measure], columns: Collection[str], parts: Set[Part] | None) -> None:
        """`parts`: that there are; None: all."""
        self._measures = measures
        self._columns = {name.lower() for name in columns}
        self._parts = parts
        known = spellings([each.sql for each in measures])
        self._known = {spelled: at for spelled, at in known.items() if parts is None or (at, "sum") in parts}
        self.sources: dict[str, Source] = {}

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[Argument], types: Types) -> str:
        several, unknown, more = self.words
        name, argument = aggregate.names[0], arguments[0]
        if len(arguments) != 1:
            return several.format(name)
        source = self._source(argument, types)
        if source is None:
            return unknown.format(argument.sql)
        parts = source.needs(aggregate, self._measures)
        if isinstance(parts, str):
            return more.format(name, argument.sql, parts)
        if self._parts is not None and not self._parts >= {*parts}:
            return more.format(name, argument.sql, "")
        self.sources[argument.sql] = source
        return ""

    def _source(self, argument: Argument, types: Types) -> Source | None:
        node = expression_of(argument.sql)
        value = source_of(node, self._known, self._measures, types)
        taken = None if value else filtered(node)
        if taken is None:
            return value
        value = source_of(taken[0], self._known, self._measures, types)
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

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[Argument], types: Types) -> str:
        why = super().aggregate(aggregate, arguments, types)
        needs = [] if why else self.sources[arguments[0].sql].needs(aggregate, self._measures)
        return why or (self._no_totals if needs else "")

    def _source(self, argument: Argument, types: Types) -> Source | None:
        node = expression_of(argument.sql)
        if argument.counted and self._may_filter(node) and not source_of(node, self._known, self._measures, types):
            return Source(filter=f"({argument.sql}) IS NOT NULL")  # the rows of the cells where it is there
        return super()._source(argument, types)


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
