"""The draft of an owner's put, append or rotation: segments that no manifest names yet (cleave.store.drafts)."""

from __future__ import annotations

from cleave.objects.locate import Stores
from cleave.sql.rejoin import Texts
from cleave.store.cells import Cells
from cleave.store.drafts import Draft, Drafts, Step
from cleave.store.index import load_index
from cleave.store.manifest import Count, Hex, Measure, Object, SealedColumn, Segment
from cleave.store.tables import Tables
from cleave.store.vault import Vault


class PutStep(Step):
    """`keys`: the cells that came with the segment, by number."""

    segment: Segment | None = None
    keys: tuple[tuple[Count, Texts], ...] = ()


class PutDraft(Draft):
    table_id: Hex
    measures: tuple[Measure, ...]
    sealed: tuple[SealedColumn, ...]
    secret: Object
    steps: tuple[PutStep, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(each.segment for each in self.steps if each.segment is not None)

    def objects(self) -> tuple[set[str], set[str]]:
        plain = {each.plain.name for each in self.segments if each.plain}
        every = {part.name for each in self.segments for part in each.parts()}
        return every - plain | {self.secret.name}, plain

    def count(self, cells: Cells, tables: Tables, vault: Vault) -> None:
        """Add its rows to `cells`, those of the table it adds to. Raises CheckFailed for an index that is damaged."""
        for step in self.steps:
            for number, key in step.keys:
                if number == len(cells):
                    cells.keys.append(key)
                    cells.rows.append(0)
                cells.keys[number] = key
            if step.segment is not None:
                index = load_index(tables.unseal(vault, "cells", step.segment.index), step.segment)
                for number, rows in zip(index.cells.tolist(), index.rows.tolist(), strict=True):
                    cells.rows[number] += rows


def put_drafts(tables: Tables, stores: Stores, name: str, version: int) -> Drafts[PutDraft, PutStep]:
    """The draft of the version `version` of table `name`."""
    return Drafts(stores, *tables.draft(name, version), PutDraft, PutStep)
