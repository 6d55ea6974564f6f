"""A stored table that is asked: its cells, its totals and its rows, each fetched when a question needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import islice

import numpy as np

from cleave.ckks.cipher import Cipher
from cleave.store.cells import Cells
from cleave.store.contributors import CONTRIBUTOR, only, parties, party_of, with_contributor
from cleave.store.lanes import Integers, Lanes, columns_of_rows, row_lanes
from cleave.store.manifest import NUMBER, Object, Segment
from cleave.store.reader import Opened
from cleave.store.rows import ResidentTables, Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.sums.cellwise import StoredPlan
from cleave.sums.remote import Remote, divided
from cleave.sums.sources import Part
from cleave.sums.totals import TotalsReader
from cleave.table.schema import Schema
from cleave.table.table import Table, no_table
from cleave_shared import limits
from cleave_shared.errors import CheckFailed
from cleave_shared.params import PROFILES, Profile
from cleave_shared.requests import PlainResponse


class CellTable:
    """The cells of a table as rows of a DuckDB table, made when they are first wanted. To be closed."""

    def __init__(self, name: str, schema: Schema, by: Sequence[str]) -> None:
        self._name = name
        self._schema = schema
        self._by = by
        self._table: Table | None = None
        self._columns: set[str] = set()  # of by columns, those that it has

    def of(self, cells: Cells, names: Collection[str]) -> Table:
        """The numbers of `cells`, and the values of the by columns `names` and of those wanted before.

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


class Stored:
    """One version of one table, or what of it is one `contributor`'s.

    What a question made it read is kept for the next: cells, totals, indexes. To be closed once a question was asked of
    its cells.
    """

    def __init__(
        self,
        tables: Tables,
        opened: Opened,
        contributor: str | None = None,
        session: ResidentTables | None = None,
        *,
        apart: bool = False,
    ) -> None:
        """`session`: where its rows are opened and may stay.

        `apart`: as if it were stored by contributor too, which is then one of its columns.
        """
        self._cells: Cells | None = None
        if contributor is not None:
            opened, self._cells = only(tables, opened, contributor)
        self.opened = opened
        self.manifest = opened.manifest
        self.schema: Schema = load_stored_schema(opened.manifest)
        self.parties: Sequence[str] = ()  # whose rows are told apart
        if apart:
            self.schema = with_contributor(self.manifest, self.schema)
            self.manifest = self.manifest.model_copy(update={"by": (*self.manifest.by, CONTRIBUTOR)})
            self.parties = parties(self.manifest)
        self.tables = tables
        self.vault = opened.vault
        self._session = session
        self._decrypted: dict[Part, Integers] = {}  # totals that were read and decrypted
        self._cell_table = CellTable(opened.manifest.table, self.schema, self.manifest.by)
        self.remote: Remote | None = None  # the services, for the question under way

    @property
    def services(self) -> Remote:
        """The services of a plan that asks them."""
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

    @property
    def by_contributor(self) -> Stored:
        """The table for a question that names the contributor of each row; the same where it has no contributors."""
        return self if with_contributor(self.manifest, self.schema) is self.schema else self._apart

    @cached_property
    def _apart(self) -> Stored:
        return Stored(self.tables, self.opened, None, self._session, apart=True)

    @cached_property
    def readers(self) -> Sequence[TotalsReader]:
        """Its totals, as they are stored: of all cells, or of those of each party."""
        every = [self.manifest.segments]
        if self.parties:
            every = [tuple(each for each in every[0] if party_of(each) == party) for party in self.parties]
        of = [replace(self.opened, manifest=self.manifest.model_copy(update={"segments": each})) for each in every]
        return [TotalsReader(self.tables, each, lambda: self.cipher) for each in of]

    def objects(self, parts: Sequence[Part]) -> list[Object]:
        """All that stands behind totals."""
        return [each for reader in self.readers for each in reader.objects(parts)]

    def ciphertexts(self, parts: Sequence[Part]) -> int:
        """How many the sensitive service is asked for, where there is one."""
        return sum(reader.sums(parts) for reader in self.readers)

    @property
    def cells(self) -> Cells:
        if self._cells is None:
            self._cells = self.tables.cells(self.opened)
            if self.parties:
                self._cells = self._of_parties(self._cells)
        return self._cells

    def _of_parties(self, cells: Cells) -> Cells:
        """The cells of each party, one after the other."""
        every = Cells([], [])
        for party in self.parties:
            mine = Cells([(*key, party) for key in cells.keys], [0] * len(cells))
            for segment in self.manifest.segments:
                if party_of(segment) == party:
                    mine.count(self.rows.index(segment))
            every.keys += mine.keys
            every.rows += mine.rows
        return every

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.tables, self.opened, self._session, self.parties)

    @cached_property
    def row_columns(self) -> dict[Part, int]:
        """The columns of the rows for scans, by what they hold."""
        return {(each.measure, each.part): at for at, each in enumerate(columns_of_rows(self.manifest))}

    @cached_property
    def row_lanes(self) -> Lanes:
        """Where the rows for scans are in their ciphertexts."""
        return row_lanes(self.manifest, self.profile)

    @cached_property
    def runs(self) -> list[Sequence[Segment]]:
        """The segments by request of the plain service in a scan: as many as it reads for one. Raises StoreError."""
        segments = iter(self.manifest.segments)
        plain = [each.plain for each in self.manifest.segments if each.plain is not None]
        return [list(islice(segments, len(run))) for run in divided(plain, limits.MAX_PLAIN_OBJECTS)]

    def stop(self) -> None:
        """End every wait for a service."""
        if self.remote is not None:
            self.remote.stop()
        if "_apart" in self.__dict__:
            self._apart.stop()

    def answers(self, plan: StoredPlan) -> tuple[Sequence[PlainResponse], Mapping[Part, Integers]]:
        """Return the plain service's answer, and the totals: of both halves at once, and both in before one is judged.

        Nothing forks meanwhile: rows were fetched before.
        """
        with ThreadPoolExecutor(1, "plain") as pool:
            plain = pool.submit(self.services.aggregate, plan) if plan.asks_plain else None
            try:
                totals = self.totals(plan.parts) if plan.over_cells and plan.encrypted else {}
            except CheckFailed:
                raise
            except BaseException:
                self.stop()  # else the other half would be waited for
                raise
            return plain.result() if plain else [], totals

    def totals(self, parts: Sequence[Part]) -> dict[Part, Integers]:
        """Return the totals of every cell (cells,), over all segments: added up by the sensitive service where
        `remote` is there to ask it, else all read here.
        """
        if unknown := [part for part in parts if part not in self._decrypted]:
            cells = len(self.cells) // len(self.readers) if self.readers else 0
            read = [each.read(unknown, cells, self.remote) for each in self.readers]
            of = {part: [np.zeros(0, object), *(each[part] for each in read)] for part in unknown}
            self._decrypted |= {part: _compact(np.concatenate(entries)) for part, entries in of.items()}
        return {part: self._decrypted[part] for part in parts}

    def cell_table(self, names: Collection[str]) -> Table:
        """The cells as rows, with the by columns `names`. It is kept, and closed with this. Raises CheckFailed."""
        return self._cell_table.of(self.cells, names)

    def close(self) -> None:
        self._cell_table.close()
        if "rows" in self.__dict__:
            self.rows.close()
        if "_apart" in self.__dict__:
            self._apart.close()


def _compact(totals: Integers) -> Integers:
    """`totals`, none of which is negative, in 8 bytes each where the sum of any of them fits."""
    return totals.astype(np.int64) if int(totals.sum()) < 1 << 62 else totals
