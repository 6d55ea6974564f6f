"""A stored table in use: its cells, totals and rows. Each is fetched when a question first needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

import duckdb
import numpy as np

from cleave.ckks.cipher import Cipher
from cleave.store.cells import Cells
from cleave.store.contributors import contributors_in, only, segments_of, with_contributor
from cleave.store.lanes import Integers, Lanes, columns_of_rows, row_lanes
from cleave.store.manifest import NUMBER, Object, Segment
from cleave.store.reader import Objects, Opened
from cleave.store.rows import ResidentTables, Rows, SelectedCells
from cleave.store.schemas import load_stored_schema
from cleave.sums.combination import TotalOf
from cleave.sums.remote import Remote, divided
from cleave.sums.totals import TotalsReader
from cleave.table.duck import identifier
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.schema import Schema
from cleave.table.table import Table, no_table
from cleave_shared import limits
from cleave_shared.params import PROFILES, Profile


class CellTable:
    """The cells of a table as rows of a DuckDB table, made at first use. Close it after use."""

    def __init__(self, name: str, schema: Schema, by: Sequence[str]) -> None:
        self._name = name
        self._schema = schema
        self._by = by
        self._table: Table | None = None
        self._columns: set[str] = set()  # by columns that the table has now

    def read(self, cells: Cells, names: Collection[str]) -> Table:
        """The table of `cells`: their numbers, the by columns `names`, and all by columns of earlier calls.

        Raises CheckFailed.
        """
        if self._table is None:
            self._table = no_table(self._name, self._schema, len(cells))
            cells.create(self._table.connection, self._table.relation, NUMBER)
        table = self._table
        more = [
            (place, self._schema.column(name))
            for place, name in enumerate(self._by)
            if name in names and name not in self._columns
        ]
        if more:
            cells.extend(table.connection, table.relation, more)
            self._columns |= {column.name for _, column in more}
        return table

    def close(self) -> None:
        table, self._table, self._columns = self._table, None, set()
        if table is not None:
            table.__exit__(None, None, None)


class CellTotals:
    """Cells of one table version, and their totals, which are cached. Close it after use.

    `contributors`: each has cells of its own, one contributor after the other. None: the cells are of all rows.
    """

    def __init__(
        self, stored: Stored, cells: Callable[[], Cells], by: Sequence[str], contributors: Sequence[str] = ()
    ) -> None:
        manifest = stored.manifest
        self.contributors = contributors
        self._stored = stored
        self._cells = cells
        self._most_cells = manifest.segments.most_cells
        self._decrypted: dict[TotalOf, Integers] = {}
        # the newest conditions and their cells
        self._selected: tuple[tuple[str, ...], SelectedCells | None] | None = None
        self._cell_table = CellTable(manifest.table, stored.whole_schema, by)
        segments: list[Sequence[Segment]] = [segments_of(manifest, each) for each in contributors]
        segments = segments or [manifest.segments]
        self._readers = [TotalsReader(stored.tables, stored.opened, each, lambda: stored.cipher) for each in segments]

    @cached_property
    def cells(self) -> Cells:
        return self._cells()

    def table(self, names: Collection[str]) -> Table:
        """The cells as rows, with the by columns `names`. It is cached, and closed with this object. Raises
        CheckFailed.
        """
        return self._cell_table.read(self.cells, names)

    def selected(self, conditions: tuple[str, ...], names: Collection[str]) -> SelectedCells | None:
        """The cells for which all `conditions`, over the by columns `names`, may be true; None means all cells.

        Raises CheckFailed.
        """
        if self._selected is None or self._selected[0] != conditions:
            flags = np.ones(len(self.cells), np.bool_)
            table = self.table(names)
            for condition in conditions:
                with suppress(duckdb.Error):  # then no cell is excluded
                    statement = (
                        f"SELECT {identifier(NUMBER)} AS number FROM {table.relation} WHERE ({condition}) IS TRUE"
                    )
                    numbers = table.connection.execute(statement).fetchnumpy()["number"]
                    true = np.zeros(len(flags), np.bool_)
                    true[numbers.astype(np.int64)] = True
                    flags &= true
            self._selected = conditions, None if flags.all() else SelectedCells(flags, self.contributors)
        return self._selected[1]

    def objects(self, wanted: Sequence[TotalOf]) -> list[Object]:
        """All objects that these totals are read from."""
        return [each for reader in self._readers for each in reader.objects(wanted)]

    def ciphertexts(self, wanted: Sequence[TotalOf]) -> int:
        """Number of ciphertexts that the sensitive service would return."""
        return sum(reader.sums(wanted) for reader in self._readers)

    def totals(self, wanted: Sequence[TotalOf]) -> dict[TotalOf, Integers]:
        """Totals of each cell that may have rows (cells,), over all segments. The sensitive service adds them up if
        there is one; otherwise all are read here.
        """
        if unknown := [which for which in wanted if which not in self._decrypted]:
            cells = len(self.cells) // len(self._readers) if self.contributors else self._most_cells
            read = [each.read(unknown, cells, self._stored.remote) for each in self._readers]
            for which in unknown:
                self._decrypted[which] = _compact(np.concatenate([each[which] for each in read]))
        return {which: self._decrypted[which] for which in wanted}

    def close(self) -> None:
        self._cell_table.close()


class Stored:
    """One version of one table, or `contributor`'s part of it.

    What a question reads (cells, totals, indexes) is cached for the next. Close it if a question used its cells. A
    table with contributors has one more by column, CONTRIBUTOR, in `by` and `whole_schema`.
    """

    def __init__(
        self,
        tables: Objects,
        opened: Opened,
        contributor: str | None = None,
        session: ResidentTables | None = None,
    ) -> None:
        """`session`: where its rows are opened and may stay in memory."""
        cells: Cells | None = None
        if contributor is not None:
            opened, cells = only(tables, opened, contributor)
        self.opened = opened
        self.manifest = opened.manifest
        self.schema: Schema = load_stored_schema(opened.manifest)
        self.whole_schema = with_contributor(opened.manifest, self.schema)
        self.tables = tables
        self.vault = opened.vault
        self.remote: Remote | None = None  # the services, for the current question
        self._has_contributors = self.whole_schema is not self.schema
        self._session = session
        self._of_all = CellTotals(self, lambda: cells or tables.cells(opened), opened.manifest.by)

    @property
    def by(self) -> tuple[str, ...]:
        return (*self.manifest.by, CONTRIBUTOR) if self._has_contributors else self.manifest.by

    def schema_of(self, named: Collection[str]) -> Schema:
        """The columns that a question with the names `named` may read. A star alone does not include the
        contributor.
        """
        return self.whole_schema if CONTRIBUTOR in named else self.schema

    def cells_by(self, names: Collection[str] = ()) -> CellTotals:
        """The cells for a question about the by columns `names`. Each contributor has separate cells only if `names`
        includes CONTRIBUTOR.
        """
        return self._of_each if self._has_contributors and CONTRIBUTOR in names else self._of_all

    @cached_property
    def _of_each(self) -> CellTotals:
        names = contributors_in(self.manifest)
        return CellTotals(self, lambda: self._cells_of(names), self.by, names)

    def _cells_of(self, contributors: Sequence[str]) -> Cells:
        every, cells = Cells([], []), self.cells
        for name in contributors:
            mine = Cells([(*key, name) for key in cells.keys], [0] * len(cells))
            for segment in segments_of(self.manifest, name):
                mine.count(self.rows.index(segment))
            every.keys += mine.keys
            every.rows += mine.rows
        return every

    @property
    def cells(self) -> Cells:
        return self._of_all.cells

    def totals(self, wanted: Sequence[TotalOf]) -> dict[TotalOf, Integers]:
        """Totals of `cells`."""
        return self._of_all.totals(wanted)

    @property
    def services(self) -> Remote:
        """The services. Raises TypeError if the plan has none."""
        if self.remote is None:
            raise TypeError("a plan that asks the services, where there are none")
        return self.remote

    @property
    def profile(self) -> Profile:
        return PROFILES[self.manifest.profile]

    @cached_property
    def cipher(self) -> Cipher:
        return Cipher(self.tables.secret(self.manifest))

    @property
    def secret_to_read(self) -> list[Object]:
        """The object of the table's CKKS secret, unless it was read already."""
        return [] if "cipher" in self.__dict__ else [self.manifest.secret]

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.tables, self.opened, self._session)

    @cached_property
    def row_columns(self) -> dict[TotalOf, int]:
        """Index of each column of the rows for scans, by measure and part."""
        return {(each.measure, each.part): at for at, each in enumerate(columns_of_rows(self.manifest))}

    @cached_property
    def row_lanes(self) -> Lanes:
        """Lanes of the rows for scans in their ciphertexts."""
        return row_lanes(self.manifest, self.profile)

    @cached_property
    def runs(self) -> list[Sequence[Segment]]:
        """The segments, grouped as the plain service reads them in one request of a scan. Raises StoreError."""
        segments = iter(self.manifest.segments)
        plain = [each.plain for each in self.manifest.segments if each.plain is not None]
        return [list(islice(segments, len(run))) for run in divided(plain, limits.MAX_PLAIN_OBJECTS)]

    def stop(self) -> None:
        if self.remote is not None:
            self.remote.stop()

    def close(self) -> None:
        self._of_all.close()
        if "_of_each" in self.__dict__:
            self._of_each.close()
        if "rows" in self.__dict__:
            self.rows.close()


def _compact(totals: Integers) -> Integers:
    """`totals` in 8 bytes each if their sum fits. None of them is negative."""
    return totals.astype(np.int64) if int(totals.sum()) < 1 << 62 else totals
