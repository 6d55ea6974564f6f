"""Read a stored table's rows, or just the columns of them that a question reads, into DuckDB in this process.

Ranges of blocks are read and opened by threads, one segment ahead of what DuckDB takes in. Sealed columns and the plain
half have the same order, so row meets row without a join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.store.columns import Opened, blocks_of, plain_column, read_columns, value_of
from cleave.store.index import Blocks, Index, load_index
from cleave.store.manifest import Manifest, Object, Segment
from cleave.store.names import ROW
from cleave.store.sealed import BLOCK_ROWS, Block, Place, cut, open_blocks
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Table, no_table
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from cleave.pipeline import Progress

Selected = NDArray[np.bool_]  # by the number of the cell, and the same for all cells of equal plain by columns
PULL_SECONDS = 7 * 24 * 3600.0  # for all of a table, where the caller gives no time
_READERS = 8  # requests to the store at once; what they read is opened by the same threads
_AHEAD = 2  # segments that are read at once
_OPENED = "opened"


@dataclass(frozen=True, slots=True)
class Needed:
    """What has to be read for some columns."""

    sealed: tuple[int, ...]  # numbers among the manifest's sealed columns
    plain: tuple[Column, ...]
    ordered: bool  # whether rows must come as they were put, and are stored otherwise


@dataclass(frozen=True, slots=True)
class Read:
    """One request: `bytes` of an object, all or a part."""

    object: Object
    bytes: int


@dataclass(frozen=True, slots=True)
class _Range:
    """Blocks of one sealed column of a segment, in bytes `start`..`stop` of its object."""

    column: int
    blocks: Blocks
    sizes: list[int]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Coming:
    """A segment under way: its opened blocks by column and range, and its plain half."""

    segment: Segment
    blocks: list[Blocks]
    opened: list[list[Future[list[Block]]]]
    plain: Future[bytes] | None


class Rows:
    """Reads rows of one version of a table. `cells` below: the rows of the selected cells at least; None: all."""

    def __init__(self, tables: Tables, vault: Vault, manifest: Manifest, schema: Schema) -> None:
        self._tables = tables
        self._vault = vault
        self._manifest = manifest
        self._schema = schema
        self._indexes: dict[str, Index] = {}

    def needed(self, names: Collection[str], *, ordered: bool = False) -> Needed:
        places = {each.name: place for place, each in enumerate(self._manifest.sealed)}
        wanted = [column for column in self._schema.columns if column.name in names]
        ordered = ordered and ROW in places
        sealed = [places[each.name] for each in wanted if each.kind is not Kind.PLAIN]
        return Needed(
            sealed=(*sealed, *([places[ROW]] if ordered else [])),
            plain=tuple(each for each in wanted if each.kind is Kind.PLAIN),
            ordered=ordered,
        )

    def reads(self, needed: Needed, cells: Selected | None = None) -> list[Read]:
        """All that `table` reads, one request each. Reads the segments' indexes where `cells` are given."""
        found = []
        for segment in self._manifest.segments:
            if cells is not None:
                found.append(Read(segment.index, segment.index.bytes))
            blocks = self._blocks(segment, cells)
            for column in needed.sealed if blocks else ():
                which = segment.columns[column].object
                found += [Read(which, each.stop - each.start) for each in self._ranges(segment, column, blocks)]
            if needed.plain and blocks and segment.plain is not None:
                found.append(Read(segment.plain, segment.plain.bytes))
        return found

    def table(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
        cells: Selected | None = None,
        deadline: Deadline | None = None,
    ) -> Table:
        """The columns `names` of the rows of `segments` (None: all), in the order they were put if `ordered`.

        Raises CheckFailed, StoreError, and what `deadline` raises.
        """
        needed = self.needed(names, ordered=ordered)
        table = no_table(self._manifest.table, self._schema.only(names))
        try:
            filling = _Filling(table, self._manifest, needed)
            with closing(self._coming(needed, segments, cells, progress, deadline)) as coming:
                for each, wait in coming:
                    filling.append(each, wait)
            filling.end()
        except BaseException:
            table.__exit__(None, None, None)
            raise
        return table

    def tables(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
        deadline: Deadline | None = None,
    ) -> Generator[Table, None, None]:
        """The same, a table for each segment, while the next is read. Each is closed when the next is taken."""
        needed = self.needed(names, ordered=ordered)
        with closing(self._coming(needed, segments, None, progress, deadline)) as coming:
            for each, wait in coming:
                with no_table(self._manifest.table, self._schema.only(names)) as table:
                    filling = _Filling(table, self._manifest, needed)
                    filling.append(each, wait)
                    filling.end()
                    yield table

    def index(self, segment: Segment) -> Index:
        if segment.id not in self._indexes:
            content = self._tables.unseal(self._vault, "cells", segment.index)
            self._indexes[segment.id] = load_index(content, segment)
        return self._indexes[segment.id]

    def open_all(self, segment: Segment, column: int) -> list[Block]:
        """Read the whole object of a sealed column, compare its digest, and open every block.

        Raises CheckFailed, StoreError.
        """
        which, place = segment.columns[column].object, self._place(segment, column)
        content = self._tables.read(which)
        sizes = place.sizes(segment.columns[column].lengths)
        return open_blocks(self._vault.key_of("rows", which.name), place, 0, cut(content, sizes))

    def _coming(
        self,
        needed: Needed,
        segments: Sequence[Segment] | None,
        cells: Selected | None,
        progress: Progress | None,
        deadline: Deadline | None,
    ) -> Generator[tuple[_Coming, Deadline], None, None]:
        wanted = list(self._manifest.segments if segments is None else segments)
        advance = progress.stage("fetch and open", sum(each.rows for each in wanted), "rows") if progress else None
        deadline = deadline or Deadline(PULL_SECONDS)
        pool = ThreadPoolExecutor(_READERS, "rows")
        try:
            under_way: deque[_Coming] = deque()
            for segment in [*wanted, *[None] * _AHEAD]:
                if segment is not None:
                    under_way.append(self._begin(pool, needed, segment, self._blocks(segment, cells)))
                if under_way and (segment is None or len(under_way) > _AHEAD):
                    each = under_way.popleft()
                    yield each, deadline
                    if advance:
                        advance(each.segment.rows)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # a wait for the store ends by itself

    def _begin(self, pool: ThreadPoolExecutor, needed: Needed, segment: Segment, blocks: list[Blocks]) -> _Coming:
        opened = [
            [pool.submit(self._opened, segment, each) for each in self._ranges(segment, column, blocks)]
            for column in needed.sealed
        ]
        plain = None
        if needed.plain and blocks:
            if segment.plain is None:
                raise _apart()
            plain = pool.submit(self._tables.read, segment.plain, plain=True)
        return _Coming(segment, blocks, opened, plain)

    def _blocks(self, segment: Segment, cells: Selected | None) -> list[Blocks]:
        """The blocks that are read of a segment."""
        if cells is not None:
            return self.index(segment).blocks_of(cells)
        return [(0, -(-segment.rows // BLOCK_ROWS))] if segment.rows else []

    def _place(self, segment: Segment, column: int) -> Place:
        which = segment.columns[column].object
        return Place(self._manifest.table_id, which.name[-32:], segment.id, self._manifest.sealed[column], segment.rows)

    def _ranges(self, segment: Segment, column: int, blocks: Sequence[Blocks]) -> list[_Range]:
        sizes = self._place(segment, column).sizes(segment.columns[column].lengths)
        if sum(sizes) != segment.columns[column].object.bytes:
            raise _apart()
        ends = np.cumsum([0, *sizes]).tolist()
        return [_Range(column, (first, stop), sizes[first:stop], ends[first], ends[stop]) for first, stop in blocks]

    def _opened(self, segment: Segment, wanted: _Range) -> list[Block]:
        """Read and open a range. Runs in one of the threads."""
        which = segment.columns[wanted.column].object
        key, place = self._vault.key_of("rows", which.name), self._place(segment, wanted.column)

        def opened(content: bytes) -> list[Block]:
            return open_blocks(key, place, wanted.blocks[0], cut(content, wanted.sizes))

        return self._tables.read_range(which, wanted.start, wanted.stop, opened)


class _Filling:
    """Makes the relation of `table` of segments' blocks, in the order they are appended, plain columns among them."""

    def __init__(self, table: Table, manifest: Manifest, needed: Needed) -> None:
        self._table = table
        self._ordered = needed.ordered
        self._plain = [plain_column(each) for each in needed.plain]
        self._sealed = [manifest.sealed[number] for number in needed.sealed]
        if needed.ordered:
            self._sealed[-1] = self._sealed[-1].model_copy(update={"type": "BIGINT", "width": 8})
        columns = [*self._plain, *self._sealed]
        self._opened = Opened(columns, table.connection) if columns else None
        self._before = 0  # rows of the segments before

    def append(self, coming: _Coming, deadline: Deadline) -> None:
        """Raises CheckFailed where parts of a segment do not belong together, and what reading raises."""
        numbers = [number for first, stop in coming.blocks for number in range(first, stop)]
        columns = [[block for part in parts for block in deadline.result(part)] for parts in coming.opened]
        if coming.plain is not None:
            source = self._table.source_of(deadline.result(coming.plain))
            values = read_columns(self._table.connection, self._plain, source)
            if any(each.rows != coming.segment.rows for each in values):
                raise _apart()
            columns = [*(blocks_of(each, numbers) for each in values), *columns]
        if self._opened is not None:
            for blocks in zip(*columns, strict=True):
                self._opened.append(self._numbered(blocks))
        rows = coming.segment.rows
        self._table.rows += sum(min(stop * BLOCK_ROWS, rows) - first * BLOCK_ROWS for first, stop in coming.blocks)
        self._before += rows

    def end(self) -> None:
        """Define the relation over all that was appended."""
        table = self._table
        if self._opened is None or not table.schema.columns:
            table.connection.execute(f"CREATE TABLE {table.relation} AS SELECT NULL FROM range({table.rows})")
            return
        held = {each.name: each for each in self._opened.columns}
        names = [(held[each.name], identifier(each.name)) for each in table.schema.columns]
        selected = ", ".join(f"{value_of(column, name)} AS {name}" for column, name in names)
        if not self._ordered:
            table.show({_OPENED: self._opened}, f"SELECT {selected} FROM temp.main.{_OPENED}")
            return
        table.connection.register(_OPENED, self._opened)
        statement = f"SELECT {selected} FROM {_OPENED} ORDER BY {identifier(ROW)}"
        table.connection.execute(f"CREATE TABLE {table.relation} AS {statement}")
        table.connection.unregister(_OPENED)

    def _numbered(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """With row numbers that go on from segment to segment."""
        if not self._ordered:
            return blocks
        numbers = np.frombuffer(blocks[-1].data, np.int32).astype(np.int64) + self._before
        return [*blocks[:-1], Block(blocks[-1].rows, None, memoryview(numbers.tobytes()), None)]


def _apart() -> CheckFailed:
    return CheckFailed("stored", "a segment's parts do not have the same rows")
