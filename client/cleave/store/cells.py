"""The cells of a table: the combinations of its by columns, each with a number, and how many rows each has.

A segment's sealed index has the rows of each cell in it, and the runs of rows with equal plain by columns. Rows are
sorted by these, so a condition on them leaves some runs, and the blocks of the others need not be read. By columns of
other kinds order nothing and choose nothing: what is read must not depend on their values.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.sql.rejoin import Texts
from cleave.store.manifest import Segment
from cleave.store.sealed import BLOCK_ROWS
from cleave.table.duck import create_of_texts, identifier
from cleave.table.schema import Column
from cleave_shared.errors import CheckFailed

MOST_CELLS = 1 << 18  # of a table: what their keys and totals take of the memory is bounded by it


Blocks = tuple[int, int]  # the first of some blocks in a row, and the one after the last


@dataclass(frozen=True, slots=True)
class Index:
    """`rows` of each of `cells`; `runs` in the order of the rows: a cell of each, and its rows. Empty: one run."""

    cells: NDArray[np.int64]
    rows: NDArray[np.int64]
    runs: NDArray[np.int64]  # (runs, 2)

    def dump(self) -> bytes:
        fields = {"cells": self.cells.tolist(), "rows": self.rows.tolist(), "runs": self.runs.tolist()}
        return json.dumps(fields, separators=(",", ":")).encode()

    def blocks_of(self, selected: NDArray[np.bool_]) -> list[Blocks]:
        """The blocks that hold rows of runs whose cells are `selected`, in order; neighbours together.

        `selected`: by the number of a cell, and the same for all cells of a run.
        """
        if not len(self.runs):
            return [(0, -(-int(self.rows.sum()) // BLOCK_ROWS))] if selected[self.cells].any() else []
        ends = np.cumsum(self.runs[:, 1])
        nonempty = selected[self.runs[:, 0]] & (self.runs[:, 1] > 0)
        starts = (ends - self.runs[:, 1])[nonempty] // BLOCK_ROWS
        stops = (ends[nonempty] - 1) // BLOCK_ROWS + 1
        apart = starts[1:] > stops[:-1]
        firsts, lasts = np.append(True, apart)[: len(starts)], np.append(apart, True)[: len(stops)]
        return list(zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True))


def load_index(content: bytes, segment: Segment) -> Index:
    """Read what `Index.dump` wrote. Raises CheckFailed where it is not that of the segment."""
    fields = json.loads(content)
    cells, rows = (np.asarray(fields[name], np.int64) for name in ("cells", "rows"))
    runs = np.asarray(fields["runs"], np.int64).reshape(-1, 2)
    if int(rows.sum()) != segment.rows or len(cells) != len(rows) or (len(runs) and runs[:, 1].sum() != segment.rows):
        raise CheckFailed("stored", "a segment's index does not have the rows that the table's manifest says")
    return Index(cells, rows, runs)


@dataclass(slots=True)
class Cells:
    """`keys[c]` has DuckDB's text of the by columns' values of cell c. Numbers are given in random order, and given
    again once a cell has lost all its rows: then no segment has a total in it.
    """

    keys: list[Texts] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Sequence[Texts], rows: Sequence[int]) -> list[int]:
        """Count `rows` more rows of the cells of `keys`, new ones among them; their numbers."""
        numbers = {key: number for number, key in enumerate(self.keys)}
        fresh = [key for key in keys if key not in numbers]
        secrets.SystemRandom().shuffle(fresh)  # a number must not reveal a key's rank
        wanted = {*keys}
        free = [cell for cell, left in enumerate(self.rows) if not left and self.keys[cell] not in wanted]
        for key in fresh:
            if free:
                numbers[key] = free.pop()
                self.keys[numbers[key]] = key
            else:
                numbers[key] = len(self.keys)
                self.keys.append(key)
                self.rows.append(0)
        cells = [numbers[key] for key in keys]
        for number, more in zip(cells, rows, strict=True):
            self.rows[number] += more
        return cells

    def count(self, index: Index, times: int = 1) -> None:
        """Add the rows of a segment `times` times; -1: take them out."""
        for number, rows in zip(index.cells.tolist(), index.rows.tolist(), strict=True):
            self.rows[number] += times * rows

    def copy(self) -> Cells:
        """Return a copy."""
        return Cells(list(self.keys), list(self.rows))

    def create(self, connection: duckdb.DuckDBPyConnection, relation: str, number: str) -> None:
        """Make `relation` of the cells that have rows: their numbers, in column `number`."""
        filled = [cell for cell, rows in enumerate(self.rows) if rows]
        numbers, values = ("range(?)", len(self)) if len(filled) == len(self) else ("?::BIGINT[]", filled)
        connection.execute(f"CREATE TABLE {relation} AS SELECT unnest({numbers}) AS {identifier(number)}", [values])

    def extend(self, connection: duckdb.DuckDBPyConnection, relation: str, by: Sequence[tuple[int, Column]]) -> None:
        """Add the columns `by` (place in the keys, column) to `relation`, which `create` made of the same cells.

        Raises CheckFailed for a key that is not of its column's type.
        """
        columns = [
            (each.name, each.type, [key[place] for key, rows in zip(self.keys, self.rows, strict=True) if rows])
            for place, each in by
        ]
        try:
            create_of_texts(connection, "more", columns)
        except duckdb.Error as error:  # its message may quote values
            raise CheckFailed("stored", f"a cell's key is not of its type ({type(error).__name__})") from None
        connection.execute(  # DuckDB keeps the order that rows were put in
            f"CREATE TABLE extended AS FROM {relation} POSITIONAL JOIN more; DROP TABLE more; "
            f"DROP TABLE {relation}; ALTER TABLE extended RENAME TO {relation}"
        )

    def dump(self) -> bytes:
        return json.dumps({"keys": self.keys, "rows": self.rows}, ensure_ascii=False, separators=(",", ":")).encode()


def load_cells(content: bytes) -> Cells:
    """Read what `dump` wrote; it was sealed, so no one else wrote it."""
    fields = json.loads(content)
    return Cells([tuple(key) for key in fields["keys"]], fields["rows"])
