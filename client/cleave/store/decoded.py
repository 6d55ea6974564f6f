"""Plain columns as DuckDB decoded them, kept in memory for later questions of a session.

To decode a column of a Parquet file takes three times as long as to open a sealed one, so sealed ones are not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.store.columns import PlainColumn


class DecodedColumns:
    """Columns of objects, which never change, in up to `limit` bytes. Thread-safe.

    Where there is no room the objects that were used least recently go first, but none that the question under way
    used: of a table too large to be kept whole a part stays.
    """

    def __init__(self) -> None:
        self.limit = 0
        self._objects: dict[str, dict[str, PlainColumn]] = {}  # the one used least recently comes first
        self._used: set[str] = set()  # by the question under way
        self._bytes = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin another question."""
        with self._lock:
            self._used.clear()

    def get(self, name: str) -> dict[str, PlainColumn]:
        """The columns of the object `name` that are kept, by name."""
        with self._lock:
            self._used.add(name)
            if name in self._objects:
                self._objects[name] = self._objects.pop(name)
            return dict(self._objects.get(name, {}))

    def keep(self, name: str, columns: Mapping[str, PlainColumn]) -> None:
        """Keep columns of the object `name` if there is room."""
        with self._lock:
            new = {each: columns[each] for each in columns.keys() - self._objects.get(name, {}).keys()}
            size = sum(each.bytes for each in new.values())
            if size > self.limit:
                return
            while self._bytes + size > self.limit:
                unused = next((each for each in self._objects if each not in self._used), None)
                if unused is None:
                    return
                self._bytes -= sum(each.bytes for each in self._objects.pop(unused).values())
            self._objects.setdefault(name, {}).update(new)
            self._bytes += size
