"""A stored table that is asked: its cells, its totals and its rows, each fetched when a question needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Options, Result, Usage
from cleave.sql.finish import finish
from cleave.sql.sets import regroup
from cleave.store import measures as of_measures
from cleave.store.cells import Cells, load_cells
from cleave.store.cellwise import NUMBER, Cellwise, Part, Selection
from cleave.store.chunks import split
from cleave.store.lanes import Integers, Lanes, plan_lanes
from cleave.store.manifest import Object, Segment, Totals
from cleave.store.opening import open_lane
from cleave.store.put import load_stored_schema
from cleave.store.rows import Rows
from cleave.store.segment import WINDOW, total_label
from cleave.store.tables import Opened, Tables
from cleave.suppress import suppress_small
from cleave.table.schema import Schema
from cleave.table.table import Table, no_table
from cleave_shared.errors import CheckFailed
from cleave_shared.params import Profile


class Stored:
    """One version of one table."""

    def __init__(self, tables: Tables, opened: Opened, key: SecretKey) -> None:
        self.manifest = opened.manifest
        self.schema: Schema = load_stored_schema(opened.manifest)
        self._tables = tables
        self._vault = opened.vault
        self._cipher = Cipher(key)
        self._key = key
        self._cells: Cells | None = None

    @property
    def profile(self) -> Profile:
        return self._key.profile

    @property
    def cells(self) -> Cells:
        if self._cells is None:
            self._cells = load_cells(self._tables.unseal(self._vault, self.manifest.cells))
        return self._cells

    def ask_cells(self, wanted: Cellwise, options: Options) -> Result:
        """Answer from totals."""
        cells = self.cells
        with self._cell_table() as table:
            selection = Selection(table, cells.rows, wanted)
        answered = regroup(wanted.plan, selection.groups, [])
        figures = selection.figures(self.totals(wanted.parts), self.manifest.measures, answered.members)
        groups, shown, suppressed = suppress_small(answered, figures, selection.counts, options.min_group)
        result = finish(wanted.plan, groups, shown)
        hides = options.min_group > 0
        usage = Usage(
            profile=self.manifest.profile,
            key_id=self._key.key_id,
            rows=None if hides else self.manifest.rows,
            selected_rows=None if hides else sum(selection.counts),
            groups=None if hides else len(selection.keys),
            lanes=0,
            blocks=0,
            chunks=0,
            sensitive_requests=0,
            requests=0,
            bytes_sent=0,
            bytes_received=0,
            min_group=options.min_group if hides else None,
            suppressed_groups=suppressed.small if hides else None,
            withheld_groups=suppressed.withheld if hides else None,
        )
        return self.counted(Result(result, {}, usage, {}))

    def counted(self, answer: Result) -> Result:
        """`answer` with what was read of the store, all of which passed its checks."""
        usage = replace(
            answer.usage,
            requests=self._tables.objects_read,
            bytes_received=self._tables.bytes_read,
            profile=self.manifest.profile,
            key_id=self._key.key_id,
        )
        return replace(answer, usage=usage, checks={"head": "passed", "stored": "passed", "sentinel": "passed"})

    @property
    def rows(self) -> Rows:
        return Rows(self._tables, self._vault, self._key, self.manifest, self.schema, self.cells)

    def columns(self) -> list[of_measures.Column]:
        """All totals that are kept."""
        return of_measures.columns_of(self.manifest.measures)

    def totals(self, parts: Sequence[Part]) -> dict[Part, Integers]:
        """Of every cell (cells,), over all segments."""
        found: dict[Part, Integers] = {part: np.zeros(len(self.cells), object) for part in parts}
        for segment in self.manifest.segments:
            for part, entries in self._segment_totals(segment, parts).items():
                found[part][: len(entries)] += entries
        return found

    def total_objects(self, parts: Sequence[Part]) -> list[Object]:
        """All that `totals` reads."""
        return [
            kept.lanes[lane]
            for segment in self.manifest.segments
            for kept in segment.totals
            for lane in self._total_lanes(kept, parts)[2]
        ]

    def _total_lanes(self, kept: Totals, parts: Sequence[Part]) -> tuple[list[of_measures.Column], Lanes, list[int]]:
        """The columns of some totals, how they lie, and the lanes that hold `parts`."""
        columns = of_measures.columns_of(self.manifest.measures[kept.first : kept.stop], kept.first)
        lanes = plan_lanes([column.total for column in columns], WINDOW, self._key.profile)
        if lanes.count != len(kept.lanes):
            raise CheckFailed("stored", "a segment's totals are not those of the table's measures")
        needed = [at for at, column in enumerate(columns) if (column.measure, column.part) in parts]
        return columns, lanes, sorted({lane for at in needed for lane in lanes.of(at)})

    def _segment_totals(self, segment: Segment, parts: Sequence[Part]) -> dict[Part, Integers]:
        found: dict[Part, Integers] = {}
        for kept in segment.totals:
            columns, lanes, wanted = self._total_lanes(kept, parts)
            label = total_label(segment.id, kept.first)
            planes = {
                lane: open_lane(self._cipher, lanes, label, lane, 0, split(self._tables.read(kept.lanes[lane])))
                for lane in wanted
            }
            for at, column in enumerate(columns):
                if (column.measure, column.part) in parts:
                    of = {lane: planes[lane][: segment.cells] for lane in lanes.of(at)}
                    found[column.measure, column.part] = (
                        lanes.decode(at, of, 1) if of else np.zeros(segment.cells, object)
                    )
        return found

    def _cell_table(self) -> Table:
        """The cells as rows: their numbers and their by columns' values."""
        table = no_table(self.manifest.table, self.schema, len(self.cells))
        by = [(place, self.schema.column(name)) for place, name in enumerate(self.manifest.by)]
        self.cells.create(table.connection, table.relation, NUMBER, by)
        return table
