"""Plain columns as they were decoded of Parquet, kept in memory for later queries of a session.

To decode one takes three times as long as to open a sealed one, so sealed ones are not kept. What is kept owns its
memory, and is never part of another library's. No request is saved by it: how much was decoded may depend on values.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from cleave.store.sealed import Block

_Key = tuple[str, str]  # of an object, which never changes, and a column


class Decoded:
    """Blocks of columns in up to `limit` bytes; those that were used least recently go first. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._columns: dict[_Key, Sequence[Block]] = {}  # the one used least recently comes first
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: _Key) -> Sequence[Block] | None:
        with self._lock:
            found = self._columns.pop(key, None)
            if found is not None:
                self._columns[key] = found
            return found

    def keep(self, key: _Key, column: Sequence[Block]) -> None:
        size = _bytes_of(column)
        with self._lock:
            if size > self._limit or key in self._columns:
                return
            self._columns[key] = column
            self._bytes += size
            while self._bytes > self._limit:
                self._bytes -= _bytes_of(self._columns.pop(next(iter(self._columns))))


def _bytes_of(column: Sequence[Block]) -> int:
    return sum(
        each.data.nbytes
        + (each.bitmap.nbytes if each.bitmap else 0)
        + (0 if each.lengths is None else each.lengths.nbytes)
        for each in column
    )
