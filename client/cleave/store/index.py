"""A segment's sealed index: where its cells' rows lie, and each ciphertext of them; what is read for some of the cells.

Rows of a cell lie one after the other, so those of a few cells lie in a few ciphertexts of every lane.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.store.chunks import Entry, cut, damaged, offsets, split
from cleave.store.manifest import Object, Segment
from cleave.store.stored_lanes import OBJECT_CHUNKS
from cleave_shared.dataclass import dataclass

# Ciphertexts that are read along with what lies on both sides of them: 0.3 MB, as long as one more request takes.
_GAP = 4
# Of an object's ciphertexts: a request for it all reads at most so many times what is needed.
_WHOLE = 0.75


@dataclass(frozen=True, slots=True)
class Part:
    """Ciphertexts `numbers` of a lane, which lie in one object: in its bytes `start`..`stop`, None: all of it is read.

    `files` has the entries of every ciphertext in these bytes, the first of which is number `first`.
    """

    lane: int
    object: Object
    numbers: tuple[int, ...]
    first: int
    start: int = 0
    stop: int | None = None
    files: tuple[Entry, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.object.bytes if self.stop is None else self.stop - self.start

    def taken(self, content: bytes) -> list[bytes]:
        """Its ciphertexts. Raises CheckFailed for bytes of a range that are not what was written."""
        files = split(content) if self.stop is None else cut(content, self.files)
        if self.numbers[-1] - self.first >= len(files):
            raise damaged()
        return [files[number - self.first] for number in self.numbers]


@dataclass(frozen=True, slots=True)
class Index:
    """`cells` in the order of their rows; `rows` of each; `chunks` by lane: None where it was written without."""

    cells: NDArray[np.int64]
    rows: NDArray[np.int64]
    chunks: tuple[tuple[Entry, ...], ...] | None

    def rows_of(self, selected: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Which rows of the segment are of selected cells, in order."""
        return np.flatnonzero(np.repeat(selected[self.cells], self.rows))

    def numbers_of(self, selected: NDArray[np.bool_], capacity: int) -> NDArray[np.int64]:
        """The ciphertexts, `capacity` rows each, that hold rows of selected cells."""
        stops = np.cumsum(self.rows)
        kept = selected[self.cells] & (self.rows > 0)
        firsts, lasts = (stops - self.rows)[kept] // capacity, (stops[kept] - 1) // capacity
        marks = np.zeros(1 - (-int(self.rows.sum()) // capacity) + 1, np.int64)
        np.add.at(marks, firsts, 1)
        np.add.at(marks, lasts + 1, -1)
        return np.flatnonzero(np.cumsum(marks) > 0)


def load_index(content: bytes, segment: Segment) -> Index:
    """Of an index that was sealed. Raises CheckFailed where it is not that of the segment."""
    found = json.loads(content)
    cells, rows = (np.asarray(found[name], np.int64) for name in ("cells", "rows"))
    chunks = found.get("chunks")
    if int(rows.sum()) != segment.rows or len(cells) != len(rows) or (chunks and len(chunks) != len(segment.lanes)):
        raise damaged()
    lanes = tuple(tuple((size, known) for size, known in lane) for lane in chunks) if chunks else None
    return Index(cells, rows, lanes)


def parts_of(
    segment: Segment, lanes: Sequence[int], numbers: NDArray[np.int64], index: Index | None = None
) -> list[Part]:
    """What is read for ciphertexts `numbers` of each of `lanes`: whole objects unless `index` tells what lies where."""
    found = []
    for lane in lanes:
        entries = index.chunks[lane] if index and index.chunks else None
        for place, which in enumerate(segment.lanes[lane]):
            first = place * OBJECT_CHUNKS
            mine = numbers[(numbers >= first) & (numbers < first + OBJECT_CHUNKS)].tolist()
            if not mine:
                continue
            if entries is None or len(mine) > _WHOLE * len(entries[first : first + OBJECT_CHUNKS]):
                found.append(Part(lane, which, tuple(mine), first))
            else:
                found += _ranges(lane, which, mine, first, entries[first : first + OBJECT_CHUNKS])
    return found


def _ranges(lane: int, which: Object, numbers: Sequence[int], first: int, entries: Sequence[Entry]) -> list[Part]:
    ends = offsets(entries)
    breaks = [at for at in range(1, len(numbers)) if numbers[at] - numbers[at - 1] > _GAP + 1]
    found = []
    for start, stop in zip([0, *breaks], [*breaks, len(numbers)], strict=True):
        run = numbers[start:stop]
        low, high = run[0] - first, run[-1] - first + 1
        found.append(Part(lane, which, tuple(run), run[0], ends[low], ends[high], tuple(entries[low:high])))
    return found
