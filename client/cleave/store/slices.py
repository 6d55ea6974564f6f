"""A stream of rows cut into segments, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import TracebackType

import numpy as np

from cleave.store.measures import SEGMENT_ROWS
from cleave.table.batches import Batch
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.stream import Stream
from cleave.table.table import Table, no_table

MOST_BYTES = 96 << 20  # of a segment's rows, as Arrow has them: a pull holds them about six times
_SLICE = "slice"


class Slices:
    """The columns of `schema` of a stream, cut. A context manager; `next` may be called in a thread of its own."""

    def __init__(self, stream: Stream, schema: Schema) -> None:
        columns = [stream.schema.column(each.name) for each in schema.columns]
        self._batches: Iterator[Batch] = iter(stream.batches(columns))
        self._left: Batch | None = None
        self._table = no_table(stream.name, schema)
        selected = ", ".join(
            f"CAST({identifier(each.name)} AS {each.type}) AS {identifier(each.name)}" for each in schema.columns
        )
        self._view = f"SELECT {selected} FROM temp.main.{_SLICE}"

    def next(self, rows: int = SEGMENT_ROWS, most_bytes: int = MOST_BYTES) -> Batch | None:
        """The next `rows` rows, or fewer where they take `most_bytes` before. None where no row is left.

        Raises InputError.
        """
        found: list[Batch] = []
        taken = size = 0
        while taken < rows and size < most_bytes and (batch := self._left or next(self._batches, None)) is not None:
            first, self._left = batch.divided(rows - taken)
            found.append(first)
            taken += first.rows
            size += first.bytes
        if not found:
            return None
        return Batch(found[0].schema, [array for each in found for array in each.arrays], taken, size)

    def table(self, rows: Batch) -> Table:
        """These rows as a table that reads the arrays where they are; good until the next is asked for."""
        self._table.show({_SLICE: rows}, self._view)
        self._table.rows = rows.rows
        return self._table

    def __enter__(self) -> Slices:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)


def digest_of(table: Table) -> str:
    """Of the rows and their order: what tells whether a file is still the one that was read.

    DuckDB's hash of each row under SHA-256: made to find changes, not for what somebody forges.
    """
    names = ", ".join(identifier(each.name) for each in table.schema.columns)
    hashes = table.connection.execute(f"SELECT hash({names}) AS hash FROM {table.relation}").fetchnumpy()["hash"]
    return hashlib.sha256(np.ascontiguousarray(hashes, np.uint64).data).hexdigest()
