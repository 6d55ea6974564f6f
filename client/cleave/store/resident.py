"""Opened rows of stored tables that stay in memory for later queries of a session, in one DuckDB.

DuckDB knows how many rows a table of its own has, and so in which order to join. Of a stream it knows nothing.
"""

from __future__ import annotations

from cleave.table.table import Engine


class ResidentTables:
    """One DuckDB for all queries of a session, and the tables that stay in it. Close it after them."""

    def __init__(self, memory: int, most: int) -> None:
        """`memory`: bytes that a query may take; `most`: bytes of rows that stay besides."""
        self._memory = memory
        self._most = most
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """Raises InputError for too little memory."""
        if self._engine is None:
            self._engine = Engine(memory=self._memory)
        return self._engine

    def has_room(self, size: int) -> bool:
        return self.engine.resident + size <= self._most

    def take(self, size: int) -> None:
        """Let rows have `size` more bytes; below 0: fewer."""
        self.engine.resident += size

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
