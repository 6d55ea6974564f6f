"""Parquet files in memory of the plain and the sealed columns of whole segments, for DuckDB to read by itself.

The plain columns' pages are copied as they are, and opened blocks become pages beside them: nothing is decoded. So
DuckDB reads just what a statement needs, by several threads, and knows how many rows there are before it orders joins.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cleave.store.manifest import SealedColumn, Segment
from cleave.store.pages import page_column, pages_of
from cleave.store.parquet import MAGIC, Chunk, Footer, footer_of, layout_of
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock
from cleave.table.table import MemoryFile

_BLOCKS = 2  # of a row group where no plain columns say otherwise


class Assembly:
    """One file of the columns of consecutive segments: plain ones as `footer` describes them, and `sealed`.

    Several threads may write to it: those that an error leaves behind too, for it is open until they are done.
    """

    def __init__(self, file: MemoryFile, footer: Footer, sealed: Sequence[SealedColumn]) -> None:
        self.file = file
        self._elements = footer.elements
        self._sealed = [page_column(each) for each in sealed]
        self._groups: list[tuple[int, Sequence[Chunk]]] = []
        self._lock = threading.Lock()
        self._end = 0
        self._write([MAGIC], len(MAGIC))

    def fits(self, footer: Footer) -> bool:
        """Check whether another segment's plain columns are stored as those here: DuckDB tells where NULL may be."""
        return _layouts(self._elements) == _layouts(footer.elements)

    def copy(self, footer: Footer, content: bytes) -> list[list[Chunk]]:
        """Copy the plain columns out of the file of a segment: the chunks of each row group."""
        view = memoryview(content)
        groups = [list(each.chunks.values()) for each in footer.groups]
        every = [each for group in groups for each in group]
        place = self._write([view[each.start : each.start + each.bytes] for each in every], _sum(every))
        copied = []
        for group in groups:
            copied.append([replace(each, start=place + _sum(group[:number])) for number, each in enumerate(group)])
            place += _sum(group)
        return copied

    def add(self, place: int, blocks: Sequence[ColumnBlock], rows: Sequence[int]) -> list[Chunk]:
        """Write all blocks of a segment of sealed column number `place`, in row groups of so many `rows`."""
        column, chunks = self._sealed[place], []
        pages = pages_of(column, blocks, rows)
        start = self._write([buffer for each in pages for buffer in each.buffers], sum(each.size for each in pages))
        for each in pages:
            chunks.append(each.chunk(column, start))
            start += each.size
        return chunks

    def join(self, rows: Sequence[int], plain: Sequence[Sequence[Chunk]], sealed: Sequence[Sequence[Chunk]]) -> None:
        """Append the columns of a segment to the file, in row groups of the sizes in `rows`."""
        for place, count in enumerate(rows):
            self._groups.append((count, [*plain[place], *(each[place] for each in sealed)]))

    def finish(self) -> None:
        """Write the end of the file."""
        elements = [*self._elements.values(), *(each.element for each in self._sealed)]
        footer = footer_of(elements, self._groups)
        self._write([footer], len(footer))

    def _write(self, buffers: Sequence[Any], size: int) -> int:
        """Write `buffers`, of `size` bytes in total, to the end of the file, and return where they start."""
        with self._lock:
            start = self._end
            self._end += size
        self.file.write_at(start, buffers)
        return start


def group_rows(segment: Segment) -> list[int]:
    """Rows of each row group of a segment without plain columns."""
    most = _BLOCKS * BLOCK_ROWS
    return [min(most, segment.rows - first) for first in range(0, segment.rows, most)]


def _layouts(elements: Mapping[str, bytes]) -> list[list[bytes | None]]:
    return [layout_of(each) for each in elements.values()]


def _sum(chunks: Sequence[Chunk]) -> int:
    return sum(each.bytes for each in chunks)
