"""Rows on their way from one DuckDB to another, a few thousand at a time, by Arrow's C interface (nanoarrow).

DuckDB's own stream hands out 131,072 rows at once, whatever their size; where it can be told so, it hands out 2,048
(one of its vectors), so that rows with long texts do not fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import nanoarrow
from nanoarrow.c_array_stream import CArrayStream

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray
    from nanoarrow.c_schema import CSchema

BATCH_ROWS = 2048
_BYTES = 32 << 20  # handed on together, as are
_MOST_TOGETHER = 64  # vectors: DuckDB takes more than 122,880 rows at half the price of fewer


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive rows; DuckDB reads it where it is registered."""

    schema: CSchema
    arrays: Sequence[CArray]
    rows: int
    bytes: int

    def divided(self, rows: int) -> tuple[Batch, Batch | None]:
        """The first `rows` rows, and the others; None where there are none. Nothing is copied."""
        if rows >= self.rows:
            return self, None
        first, rest, left = [], [], rows
        for array in self.arrays:
            taken = min(array.length, left)
            left -= taken
            first += [array[:taken]] if taken else []
            rest += [array[taken:]] if taken < array.length else []
        size = self.bytes * rows // self.rows
        return Batch(self.schema, first, rows, size), Batch(self.schema, rest, self.rows - rows, self.bytes - size)

    @property
    def failure(self) -> None:
        """Nothing fails where nothing is read."""
        return

    @property
    def named(self) -> int:
        """Any scan of it is free."""
        return 0

    def hold(self, most: int | None) -> int | None:
        """Their bytes, None where these are over `most`: they are held already."""
        return self.bytes if most is None or self.bytes <= most else None

    def close(self) -> None:
        """Nothing is under way."""

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return CArrayStream.from_c_arrays(
            list(self.arrays), self.schema, move=False, validate=False
        ).__arrow_c_stream__()


def joined(parts: Sequence[Batch]) -> Batch:
    """All of `parts`, one at least, as one."""
    arrays = [array for each in parts for array in each.arrays]
    return Batch(parts[0].schema, arrays, sum(each.rows for each in parts), sum(each.bytes for each in parts))


def batches(connection: duckdb.DuckDBPyConnection, sql: str, together: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of a SELECT, in order; nothing but a few batches is held at any time.

    Raises duckdb.Error, or nanoarrow's error with DuckDB's message: both may quote values.
    """
    stream = nanoarrow.c_array_stream(_capsule(connection.sql(sql), together))
    schema = stream.get_schema()
    held: list[CArray] = []
    rows = size = 0
    for array in stream:
        held.append(array)
        rows += array.length
        size += bytes_of(array)
        if size >= _BYTES or len(held) >= _MOST_TOGETHER:
            yield Batch(schema, held, rows, size)
            held, rows, size = [], 0, 0
    if held:
        yield Batch(schema, held, rows, size)


def _capsule(relation: Any, rows: int) -> Any:
    """The relation's stream. That its batches can be made small is not part of DuckDB's public interface: `tests` see
    to it that the pinned release does it, and with another one memory is bounded by 131,072 rows.
    """
    submit = getattr(relation, "_submit", None)
    return relation if submit is None else submit("stream", rows).arrow_capsule()


def bytes_of(array: CArray) -> int:
    """Bytes of the buffers of an array of columns. nanoarrow does not know the width of narrow decimals."""
    total = 0
    for place in range(array.n_children):
        child = array.child(place)
        kind, _, described = child.schema.format.partition(":")
        if kind == "d":
            bits = int(described.split(",")[2]) if described.count(",") > 1 else 128
            total += child.length * bits // 8
        else:
            view = child.view()
            total += sum(int(view.buffer(number).size_bytes) for number in range(view.n_buffers))
    return total
