"""What the services answer of a stored table's rows without giving them out: sums of rows that plain columns select.

Where WHERE, the keys and the filters read plain columns, the plain service knows the groups, and the sensitive one adds
up the positions it is given. The rows of `put --scan` hold the values of encrypted columns, their squares, and the
columns that the schema derives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cleave.aggregates.base import Aggregate
from cleave.sql.canonical import spellings
from cleave.sql.kept import Types
from cleave.sql.nodes import Column
from cleave.sql.plan import Argument
from cleave.sql.read import expression_of
from cleave.sql.write import write
from cleave.store.halves import half_of
from cleave.store.manifest import Manifest
from cleave.store.stored_lanes import columns_of_rows
from cleave.sums.sources import Part, Source, filtered, source_of
from cleave.table.schema import Schema
from cleave_shared import limits


class SummedRows:
    """Of the table of `manifest`. `sources`: by its SQL, what each argument is made of that it was asked about."""

    counts: Final = "plain"

    def __init__(self, manifest: Manifest, schema: Schema) -> None:
        self._measures = manifest.measures
        self._rows = {(each.measure, each.part) for each in columns_of_rows(manifest)}
        self._known = {
            spelling: number
            for spelling, number in spellings([each.sql for each in manifest.measures]).items()
            if (number, "sum") in self._rows
        }
        self._plain = {each.name.lower() for each in schema.columns if half_of(each) == "plain"}
        self._why_not = _why_not(manifest)
        self.sources: dict[str, Source] = {}

    def groups(self, selecting: Sequence[str]) -> str:
        others = [name for name in selecting if name.lower() not in self._plain]
        if others:
            return f"{others[0]!r} is not plain, and services select rows by plain columns"
        return self._why_not

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - the plain service is asked in any case
        return ""

    def is_kept(self, column: str) -> bool:  # noqa: ARG002 - of rows nothing is known here
        return False

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[Argument], types: Types) -> str:
        if len(arguments) != 1:
            return f"rows hold no products of two columns, which {aggregate.names[0]} needs"
        (argument,) = arguments
        source = self._source(argument, types)
        if source is None:
            return f"rows do not hold {argument.sql}, only columns and what was derived when the table was stored"
        parts = source.needs(aggregate, self._measures)
        if isinstance(parts, str) or not self._rows.issuperset(parts):
            return f"rows hold sums and counts, and {aggregate.names[0]} of {argument.sql} needs more"
        self.sources[argument.sql] = source
        return ""

    def _source(self, argument: Argument, types: Types) -> Source | None:
        node = expression_of(argument.sql)
        value = source_of(node, self._known, self._measures, types)
        taken = None if value else filtered(node)
        if taken is None:
            return value
        value = source_of(taken[0], self._known, self._measures, types)
        columns = [column.name.lower() for column in taken[1].find(Column)]
        if value is None or not columns or not self._plain.issuperset(columns):
            return None
        return replace(value, filter=write(taken[1]))


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


def parts_of(plan_sources: Sequence[Source], parts: Sequence[Part]) -> dict[str | None, list[Part]]:
    """By filter, the parts of measures whose rows are added up where it holds."""
    found: dict[str | None, dict[Part, None]] = {}
    for source in plan_sources:
        of = {number for number, _ in source.terms}
        found.setdefault(source.filter, {}).update(dict.fromkeys(part for part in parts if part[0] in of))
    return {filter_: list(each) for filter_, each in found.items()}
