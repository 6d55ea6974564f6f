"""Seal the columns of a segment's rows and write them, each in a thread: AES-GCM and DuckDB let go of the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable

from cleave.objects.storage import Storage
from cleave.store.columns import read_column
from cleave.store.manifest import Sealed, SealedColumn, described, new_id
from cleave.store.sealed import Place, seal_column
from cleave.table.table import Table
from cleave_shared.dataclass import dataclass

THREADS = min(4, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Target:
    """Where the columns of `segment` are written, and the key of each object by its name."""

    store: Storage
    folder: str
    table_id: str
    segment: str
    key_of: Callable[[str], bytes]

    def write(self, table: Table, column: SealedColumn) -> Sealed:
        """Seal and write `column` of the rows of `table`. Raises StoreError."""
        with table.beside() as rows:
            values = read_column(rows.connection, column, rows.relation)
        name = f"{self.folder}/{new_id()}"
        place = Place(self.table_id, name[-32:], self.segment, column, values.rows)
        blocks = seal_column(self.key_of(name), place, values)
        content = b"".join(blocks)
        self.store.write(name, content)
        return Sealed(object=described(name, content), lengths=() if column.width else tuple(map(len, blocks)))
