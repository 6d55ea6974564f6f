"""A segment's sealed index: the rows of each cell, and the runs of rows with equal plain by columns.

Rows are sorted by the plain by columns, so a condition on these leaves some runs, and the blocks of the others need not
be read. By columns of other kinds order nothing and choose nothing: what is read must not depend on their values.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from cleave.store.manifest import Segment
from cleave.store.sealed import BLOCK_ROWS
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

Blocks = tuple[int, int]  # the first of some blocks in a row, and the one after the last


@dataclass(frozen=True, slots=True)
class Index:
    """`rows` of each of `cells`; `runs` in the order of the rows: a cell of each, and its rows. Empty: one run."""

    cells: NDArray[np.int64]
    rows: NDArray[np.int64]
    runs: NDArray[np.int64]  # (runs, 2)

    def blocks_of(self, selected: NDArray[np.bool_]) -> list[Blocks]:
        """The blocks that hold rows of runs whose cells are `selected`, in order; neighbours together.

        `selected`: by the number of a cell, and the same for all cells of a run.
        """
        if not len(self.runs):
            return [(0, -(-int(self.rows.sum()) // BLOCK_ROWS))] if selected[self.cells].any() else []
        stops = np.cumsum(self.runs[:, 1])
        kept = selected[self.runs[:, 0]] & (self.runs[:, 1] > 0)
        found: list[Blocks] = []
        for first, last in zip((stops - self.runs[:, 1])[kept], stops[kept] - 1, strict=True):
            start, stop = int(first) // BLOCK_ROWS, int(last) // BLOCK_ROWS + 1
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(stop, found[-1][1]))
            else:
                found.append((start, stop))
        return found


def load_index(content: bytes, segment: Segment) -> Index:
    """Parse an index that was sealed. Raises CheckFailed where it is not that of the segment."""
    found = json.loads(content)
    cells, rows = (np.asarray(found[name], np.int64) for name in ("cells", "rows"))
    runs = np.asarray(found["runs"], np.int64).reshape(-1, 2)
    if int(rows.sum()) != segment.rows or len(cells) != len(rows) or (len(runs) and runs[:, 1].sum() != segment.rows):
        raise CheckFailed("stored", "a segment's index does not have the rows that the table's manifest says")
    return Index(cells, rows, runs)
