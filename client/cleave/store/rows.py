"""Read a stored table's rows, or just the columns of them that a question reads, into DuckDB in this process.

Ranges of blocks are fetched in parallel, opened by threads, and handed to DuckDB as Arrow arrays while it reads them:
nothing of them is kept after a scan. Sealed columns and the plain half have the same order, so row meets row without a
join.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.processes.deadline import Deadline
from cleave.store.cells import Blocks, Index
from cleave.store.columns import Batches, plain_column, read_columns, value_of
from cleave.store.manifest import ROW, Object, SealedColumn, Segment
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import BLOCK_ROWS, Block, Place, Values, cut, open_blocks
from cleave.store.tables import Tables
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Engine, Table
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray

    from cleave.store.columns import Make
    from cleave.table.progress import Progress

Selected = NDArray[np.bool_]  # by the number of the cell, and the same for all cells of equal plain by columns
PULL_SECONDS = 7 * 24 * 3600.0  # for all of a table, where the caller gives no time
_READERS = 8  # requests at once to a store elsewhere; what they read is opened by the same threads
_FETCHED_BYTES = 128 << 20  # of sealed bytes on their way, or waiting to be opened, besides those of one segment
_TOGETHER = 4  # blocks of each column that one thread opens at a time


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
    """Blocks of one sealed column of a segment, from byte `start` of its object."""

    column: int
    blocks: Blocks
    sizes: list[int]
    start: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive blocks of a segment, before which the table has `before` rows in segments of the same reading."""

    segment: Segment
    before: int
    blocks: Blocks

    @property
    def rows(self) -> int:
        first, stop = self.blocks
        return min(stop * BLOCK_ROWS, self.segment.rows) - first * BLOCK_ROWS


@dataclass(frozen=True, slots=True)
class _Coming:
    """A run under way: its sealed bytes by column, and the values of the segment's plain columns."""

    run: _Run
    ranges: list[_Range]
    sealed: list[Future[bytes]]
    plain: Future[list[Values]] | None


class Rows:
    """Reads rows of one version of a table. `cells` below: the rows of the selected cells at least; None: all."""

    def __init__(self, tables: Tables, opened: Opened, memory: int | None = None) -> None:
        """`memory`: bytes that a question over them may take; None: as DuckDB decides."""
        self._tables = tables
        self._version = opened
        self._vault = opened.vault
        self._manifest = opened.manifest
        self._schema = load_stored_schema(opened.manifest)
        self._memory = memory
        self._indexes: dict[str, Index] = {}
        self._engine: Engine | None = None

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
                found += [Read(which, each.bytes) for each in self._ranges(segment, column, blocks)]
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
        into: Table | None = None,
    ) -> Table:
        """The columns `names` of the rows of `segments` (None: all), in the order they were put if `ordered`.

        They are read when DuckDB reads the relation, at once if `ordered`; what is wrong with them is raised when the
        table is closed. Raises CheckFailed, StoreError, and what `deadline` raises; QueryRefused where they do not fit
        in memory.

        `into`: a table whose relation is still to be made, and which its maker closes; else one in a database of its
        own.
        """
        needed = self.needed(names, ordered=ordered)
        runs = list(self._runs(self._manifest.segments if segments is None else segments, cells))
        rows = sum(each.rows for each in runs)
        table = into or self.new_table(self._schema.only(names))
        table.rows = rows
        plain, sealed = self._columns(needed)
        try:
            if not table.schema.columns:
                table.connection.execute(f"CREATE TABLE {table.relation} AS SELECT NULL FROM range({rows})")
                return table
            deadline = deadline or Deadline(PULL_SECONDS)

            def batches(make: Make) -> Generator[CArray, None, None]:
                yield from self._batches(table, needed, plain, runs, make, progress, deadline)

            opened = Batches([*plain, *sealed], table.connection, batches)
            held = {each.name: each for each in opened.columns}
            values = [(held[each.name], identifier(each.name)) for each in table.schema.columns]
            selected = f"SELECT {', '.join(f'{value_of(column, name)} AS {name}' for column, name in values)}"
            stream = f"opened_{table.relation}"
            if needed.ordered:
                table.fill(stream, opened, f"{selected} FROM {stream} ORDER BY {identifier(ROW)}")
            else:
                table.show(stream, opened, f"{selected} FROM temp.main.{stream}")
        except BaseException:
            if into is None:
                table.__exit__(None, None, None)
            raise
        return table

    def tables(
        self, names: Collection[str], *, ordered: bool = False, segments: Sequence[Segment] | None = None
    ) -> Generator[Table, None, None]:
        """The same, a table for each segment. Each is closed when the next is taken."""
        for each in self._manifest.segments if segments is None else segments:
            with self.table(names, ordered=ordered, segments=[each]) as table:
                yield table

    def new_table(self, schema: Schema) -> Table:
        """A table beside those that are read, whose relation is still to be made."""
        self._engine = self._engine or Engine(memory=self._memory)
        return self._engine.table(self._manifest.table, schema)

    def close(self) -> None:
        """Close what tables were opened in."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def index(self, segment: Segment) -> Index:
        if segment.id not in self._indexes:
            self._indexes[segment.id] = self._tables.index(self._version, segment)
        return self._indexes[segment.id]

    def open_all(self, segment: Segment, column: int) -> list[Block]:
        """Read the whole object of a sealed column, compare its digest, and open every block.

        Raises CheckFailed, StoreError.
        """
        which, place = segment.columns[column].object, self._place(segment, column)
        content = self._tables.read(which)
        sizes = place.sizes(segment.columns[column].lengths)
        return open_blocks(self._vault.key_of("rows", which.name), place, 0, cut(content, sizes))

    def _columns(self, needed: Needed) -> tuple[list[SealedColumn], list[SealedColumn]]:
        """The columns that are opened: plain ones, then sealed ones, row numbers of the whole table last."""
        sealed = [self._manifest.sealed[number] for number in needed.sealed]
        if needed.ordered:
            sealed[-1] = sealed[-1].model_copy(update={"type": "BIGINT", "width": 8})
        return [plain_column(each) for each in needed.plain], sealed

    def _runs(self, segments: Sequence[Segment], cells: Selected | None) -> Iterator[_Run]:
        before = 0
        for segment in segments:
            for blocks in self._blocks(segment, cells):
                yield _Run(segment, before, blocks)
            before += segment.rows

    def _batches(
        self,
        table: Table,
        needed: Needed,
        plain: list[SealedColumn],
        runs: Sequence[_Run],
        make: Make,
        progress: Progress | None,
        deadline: Deadline,
    ) -> Generator[CArray, None, None]:
        """The rows of `runs`, in order, a batch for each block. One scan of DuckDB's takes them as it reads."""
        rows = sum(each.rows for each in runs)
        advance = progress.stage("fetch and open", rows, "rows") if progress else lambda _: None
        threads = _READERS if self._tables.is_elsewhere else len(os.sched_getaffinity(0))
        pool = ThreadPoolExecutor(threads, "rows")
        opening: deque[Future[list[CArray]]] = deque()
        try:
            pieces = self._pieces(pool, table, needed, plain, runs)
            while True:
                while len(opening) <= threads and (piece := next(pieces, None)) is not None:
                    opening.append(pool.submit(self._made, needed, *piece, make))
                if not opening:
                    return
                for batch in deadline.result(opening.popleft()):
                    yield batch
                    advance(batch.length)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # a wait for the store ends by itself

    def _pieces(
        self, pool: ThreadPoolExecutor, table: Table, needed: Needed, plain: list[SealedColumn], runs: Sequence[_Run]
    ) -> Iterator[tuple[_Coming, Blocks]]:
        """A few blocks at a time, of runs that are fetched from here on, while those after them are."""
        left, coming, size = deque(runs), deque[tuple[_Coming, int]](), 0
        most = _FETCHED_BYTES if self._tables.is_elsewhere else 0
        values: dict[str, Future[list[Values]]] = {}
        while left or coming:
            while left and (not coming or size < most):
                begun = self._begin(pool, table, needed, plain, left.popleft(), values)
                taken = sum(each.bytes for each in begun.ranges)
                coming.append((begun, taken))
                size += taken
            each, taken = coming.popleft()
            first, stop = each.run.blocks
            for start in range(first, stop, _TOGETHER):
                yield each, (start, min(start + _TOGETHER, stop))
            size -= taken

    def _begin(
        self,
        pool: ThreadPoolExecutor,
        table: Table,
        needed: Needed,
        plain: list[SealedColumn],
        run: _Run,
        values: dict[str, Future[list[Values]]],
    ) -> _Coming:
        """Fetch a run. `values`: of the plain columns of the segment of the run before, which may be the same."""
        segment = run.segment
        if plain and segment.id not in values:
            if segment.plain is None:
                raise _apart()
            values.clear()
            values[segment.id] = pool.submit(self._plain_values, table, plain, segment, segment.plain)
        ranges = [each for column in needed.sealed for each in self._ranges(segment, column, [run.blocks])]
        sealed = [pool.submit(self._fetched, segment, each) for each in ranges]
        return _Coming(run, ranges, sealed, values.get(segment.id))

    def _plain_values(self, table: Table, columns: list[SealedColumn], segment: Segment, which: Object) -> list[Values]:
        """Read and parse the plain half of a segment. Runs in one of the threads."""
        content = self._tables.read(which, plain=True)
        with table.engine.taking, table.connection.cursor() as cursor:
            found = read_columns(cursor, columns, table.source_of(content), SEGMENT_ROWS)
        if any(each.rows != segment.rows for each in found):
            raise _apart()
        return found

    def _fetched(self, segment: Segment, wanted: _Range, *, again: bool = False) -> bytes:
        which = segment.columns[wanted.column].object
        return self._tables.read_blocks(which, wanted.start, wanted.blocks[0], wanted.sizes, again=again)

    def _made(self, needed: Needed, coming: _Coming, blocks: Blocks, make: Make) -> list[CArray]:
        """Open some blocks of every column. Runs in one of the threads."""
        run, (first, stop) = coming.run, blocks
        plain = [] if coming.plain is None else coming.plain.result()
        columns = [each.blocks(range(first, stop)) for each in plain]
        for wanted, sealed in zip(coming.ranges, coming.sealed, strict=True):
            columns.append(self._opened(run.segment, wanted, sealed.result(), blocks))
        if needed.ordered:
            columns[-1] = [_numbered(each, run.before) for each in columns[-1]]
        return [make(each) for each in zip(*columns, strict=True)]

    def _opened(self, segment: Segment, wanted: _Range, content: bytes, blocks: Blocks) -> list[Block]:
        """Open some blocks of a range. Where one is damaged they are read once more: a bit may have flipped."""
        which, place = segment.columns[wanted.column].object, self._place(segment, wanted.column)
        key, (first, stop) = self._vault.key_of("rows", which.name), blocks
        before, after = first - wanted.blocks[0], stop - wanted.blocks[0]
        start = sum(wanted.sizes[:before])
        part = _Range(wanted.column, blocks, wanted.sizes[before:after], wanted.start + start)
        try:
            return open_blocks(key, place, first, cut(memoryview(content)[start : start + part.bytes], part.sizes))
        except CheckFailed:
            return open_blocks(key, place, first, cut(self._fetched(segment, part, again=True), part.sizes))

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
        return [_Range(column, (first, stop), sizes[first:stop], ends[first]) for first, stop in blocks]


def _numbered(block: Block, before: int) -> Block:
    """Row numbers of a segment that go on from those of the segments before."""
    numbers = np.frombuffer(block.data, np.int32).astype(np.int64) + before
    return Block(block.rows, None, memoryview(numbers.tobytes()), None)


def _apart() -> CheckFailed:
    return CheckFailed("stored", "a segment's parts do not have the same rows")
