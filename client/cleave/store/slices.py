"""A stream of rows cut into tables of a segment's rows, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import TracebackType

import numpy as np

from cleave.store.measures import SEGMENT_ROWS
from cleave.store.names import ROW
from cleave.table.batches import Batch
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.stream import Stream
from cleave.table.table import Table, no_table

MOST_BYTES = 96 << 20  # of a segment's rows, as Arrow has them: a pull holds them about six times
_SLICE, _REST, _BATCH = "slice", "rest", "batch"


def numbered(table: Table) -> Table:
    """The rows of `table`, numbered from 0 in their order in the column ROW, as another relation beside it."""
    table.connection.execute(
        f"CREATE OR REPLACE TABLE {_SLICE} AS "
        f"SELECT *, row_number() OVER () - 1 AS {identifier(ROW)} FROM {table.relation}"
    )
    return table.of_rows(_SLICE, table.rows)


class Slices:
    """The columns of `schema` of a stream, cut. A context manager; a table is good until the next is asked for."""

    def __init__(self, stream: Stream, schema: Schema) -> None:
        self._columns = schema.columns
        self._batches: Iterator[Batch] = iter(
            stream.batches([stream.schema.column(each.name) for each in schema.columns])
        )
        self._table = no_table(stream.name, schema)
        self._left = 0  # rows that a batch had more than a slice could take
        self._count = 0

    def next(self, rows: int = SEGMENT_ROWS, most_bytes: int = MOST_BYTES) -> Table | None:
        """The next `rows` rows, or fewer where they take `most_bytes` before, numbered from 0 in the column ROW.

        None where no row is left; of a stream without rows one table without rows. Raises InputError.
        """
        connection = self._table.connection
        connection.execute(f"DROP TABLE IF EXISTS {_SLICE}")
        described = ", ".join(f"{identifier(each.name)} {each.type}" for each in self._columns)
        connection.execute(f"CREATE TABLE {_SLICE} ({described}, {identifier(ROW)} BIGINT)")
        taken = min(self._left, rows)
        size = 0
        if self._left:
            self._insert(f"(SELECT * FROM {_REST} LIMIT {taken})", 0)
            self._keep(f"(SELECT * FROM {_REST} OFFSET {taken})")
            self._left -= taken
        connection.execute("BEGIN")  # small pieces would be copied once more each otherwise
        while taken < rows and size < most_bytes and (batch := next(self._batches, None)) is not None:
            more = min(batch.rows, rows - taken)
            connection.register(_BATCH, batch)
            self._insert(_BATCH if more == batch.rows else f"(SELECT * FROM {_BATCH} LIMIT {more})", taken)
            if more < batch.rows:
                self._keep(f"(SELECT * FROM {_BATCH} OFFSET {more})")
                self._left = batch.rows - more
            connection.unregister(_BATCH)
            taken += more
            size += batch.bytes
        connection.execute("COMMIT")
        self._count += 1
        return self._table.of_rows(_SLICE, taken) if taken or self._count == 1 else None

    def digest(self, table: Table) -> str:
        """Of the rows of a slice and their order: what tells whether a file is still the one that was read.

        DuckDB's hash of each row under SHA-256: made to find changes, not for what somebody forges.
        """
        names = ", ".join(identifier(each.name) for each in self._columns)
        sql = f"SELECT hash({names}) AS hash FROM {table.relation} ORDER BY {identifier(ROW)}"
        hashes = table.connection.execute(sql).fetchnumpy()["hash"]
        return hashlib.sha256(np.ascontiguousarray(hashes, np.uint64).tobytes()).hexdigest()

    def __enter__(self) -> Slices:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)

    def _insert(self, source: str, start: int) -> None:
        self._table.connection.execute(
            f"INSERT INTO {_SLICE} SELECT *, row_number() OVER () - 1 + {start} FROM {source}"
        )

    def _keep(self, source: str) -> None:
        self._table.connection.execute(f"CREATE OR REPLACE TABLE {_REST} AS SELECT * FROM {source}")
