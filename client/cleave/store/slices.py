"""Cuts a stream of rows into segments, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from cleave.store.manifest import ROW
from cleave.store.measures import SEGMENT_ROWS
from cleave.table.batches import RowBatch, batches, joined
from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave.table.stream import Stream
from cleave.table.table import StreamView, Table, no_table, portable
from cleave.table.types import FLOATS

MOST_BYTES = 96 << 20  # of a segment's rows in Arrow; a pull needs about six times as much
_SLICE = "slice"


class Slices:
    """The columns of `schema` of a stream, in slices. A context manager; `next` may be called in a separate thread."""

    def __init__(self, stream: Stream, schema: Schema) -> None:
        columns = [stream.schema.column(each.name) for each in schema.columns]
        self._batches: Iterator[RowBatch] = iter(stream.batches(columns))
        self._left: RowBatch | None = None
        self._table = no_table(stream.name, schema)

    def next(self, rows: int = SEGMENT_ROWS, most_bytes: int = MOST_BYTES) -> RowBatch | None:
        """The next `rows` rows, or fewer if they reach `most_bytes` earlier. None at the end.

        Raises InputError.
        """
        parts: list[RowBatch] = []
        taken = size = 0
        while taken < rows and size < most_bytes and (batch := self._left or next(self._batches, None)) is not None:
            first, self._left = batch.divided(rows - taken)
            parts.append(first)
            taken += first.rows
            size += first.bytes
        return joined(parts) if parts else None

    def table(self, rows: RowBatch) -> Table:
        """A table that reads the arrays of `rows` without a copy; valid until the next call."""
        expose(self._table, rows)
        return self._table

    def __enter__(self) -> Slices:
        return self

    def __exit__(self, *_: object) -> None:
        self._table.__exit__()


def expose(table: Table, rows: RowBatch) -> None:
    """Let `table` be these rows of its columns, and of ROW if they have it. The arrays are not copied."""
    # not * REPLACE: DuckDB would compare every column with every other
    columns = ((identifier(name), table.schema.find(name)) for name in rows.names)
    selected = (f"CAST({name} AS {each.type}) AS {identifier(each.name)}" if each else name for name, each in columns)
    sql = f"SELECT {', '.join(selected)} FROM temp.main.{_SLICE}"
    table.expose(StreamView({_SLICE: rows}, sql, sql))
    table.rows = rows.rows


def sort(table: Table, by: Sequence[Column]) -> None:
    """Sort the rows of `table` by the columns `by`, stably, with their original numbers in ROW."""
    number = identifier(ROW)
    order = ", ".join([*(f"{identifier(each.name)} NULLS LAST" for each in by), number])
    rows = f"(SELECT *, row_number() OVER () - 1 AS {number} FROM {table.relation})"
    selected = ", ".join([*map(portable, table.schema.columns), number])
    expose(table, joined(list(batches(table.connection, f"SELECT {selected} FROM {rows} ORDER BY {order}"))))


def digest_of(table: Table) -> str:
    """A digest of the rows and their order, to recognise a changed file.

    It is SHA-256 of DuckDB's hash of each row: it finds changes, but does not resist forgery. Values that DuckDB treats
    as equal but stores differently change it too: 0.0 and -0.0, NaNs, intervals of a month and of 30 days.
    """
    hashed = f"hash({', '.join(identifier(each.name) for each in table.schema.columns)})"
    for place, column in enumerate(table.schema.columns):
        name = identifier(column.name)
        if column.type in FLOATS:
            unlike = f"({name} = 0 AND signbit({name})) OR isnan({name})"
            hashed = (
                f"xor({hashed}, CASE WHEN {unlike} THEN hash(concat({place}, ' ', CAST({name} AS BIT))) ELSE 0 END)"
            )
        elif column.type == "INTERVAL":
            hashed = f"xor({hashed}, hash(concat({place}, ' ', {name})))"
    hashes = table.connection.execute(f"SELECT {hashed} AS hash FROM {table.relation}").fetchnumpy()["hash"]
    return hashlib.sha256(np.ascontiguousarray(hashes, np.uint64).data).hexdigest()
