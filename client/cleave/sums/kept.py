"""What a stored table answers without its rows: groups of cells, and aggregates whose totals are kept of every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cleave.aggregates.base import Aggregate
from cleave.sql.canonical import spellings
from cleave.sql.kept import Types
from cleave.sql.nodes import Column, Node
from cleave.sql.plan import Argument
from cleave.sql.read import expression_of
from cleave.sql.write import write
from cleave.store.manifest import Manifest
from cleave.sums.sources import Source, filtered, source_of
from cleave_shared import limits


class KeptTotals:
    """Of the table of `manifest`. `sources`: by its SQL, what each argument is made of that it was asked about.

    `no_plain`: why the plain service cannot be asked, "" where it can.
    `no_totals`: why totals are not to be used, though they are kept.
    """

    counts: Final = "encrypted"

    def __init__(self, manifest: Manifest, no_plain: str = "", no_totals: str = "") -> None:
        self._no_totals = no_totals
        self._by = {name.lower() for name in manifest.by}
        self._measures = manifest.measures
        self._known = spellings([each.sql for each in manifest.measures])
        self._no_plain = no_plain or _too_much(manifest)
        self.sources: dict[str, Source] = {}

    def groups(self, selecting: Sequence[str]) -> str:
        others = [name for name in selecting if not self.is_kept(name)]
        return f"{others[0]!r} is not one of the columns the table is stored by" if others else ""

    def plain(self, selecting: Sequence[str]) -> str:  # noqa: ARG002 - whatever they are
        return self._no_plain

    def is_kept(self, column: str) -> bool:
        return column.lower() in self._by

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[Argument], types: Types) -> str:
        if len(arguments) != 1:
            return f"no totals are kept of two columns together, which {aggregate.names[0]} needs"
        (argument,) = arguments
        source = self._source(argument, types)
        if source is None:
            return f"no totals are kept of {argument.sql}"
        parts = source.needs(aggregate, self._measures)
        if isinstance(parts, str):
            return f"no totals are kept that {aggregate.names[0]} of {argument.sql} needs: {parts}"
        if parts and self._no_totals:
            return self._no_totals
        self.sources[argument.sql] = source
        return ""

    def _source(self, argument: Argument, types: Types) -> Source | None:
        node = expression_of(argument.sql)
        value = source_of(node, self._known, self._measures, types)
        if value is None and argument.counted and self._is_by(node):  # the rows of the cells where it is there
            return Source(filter=f"({argument.sql}) IS NOT NULL")
        taken = None if value else filtered(node)
        if taken is None:
            return value
        value = source_of(taken[0], self._known, self._measures, types)
        return replace(value, filter=write(taken[1])) if value and self._is_by(taken[1]) else None

    def _is_by(self, node: Node) -> bool:
        return all(self.is_kept(column.name) for column in node.find(Column))


def _too_much(manifest: Manifest) -> str:
    """Why the plain service cannot read the plain half, "" where it can."""
    held = [each.plain for each in manifest.segments if each.plain is not None]
    if not held or len(held) != len(manifest.segments):
        return "the table has no plain half"
    if len(held) > limits.MAX_PLAIN_OBJECTS or sum(each.bytes for each in held) > limits.MAX_LINKED_BYTES:
        return "the plain half is larger than the plain service reads for one question"
    return ""
