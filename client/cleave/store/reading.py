"""Reads rows of a stored table into DuckDB. Its requests depend on the schema and on counts only.

Plain columns alone are read by DuckDB itself, from the segments' Parquet files, all of which are fetched and checked
before. Beside sealed columns DuckDB decodes one segment's file at a time, and hands its Arrow arrays back as they are.

How many rows DuckDB scans depends on values. With LIMIT, EXISTS, a join whose other side is empty, or an expression
that fails, it stops early or does not begin. Then `finish` sends the other requests, so that the store sees each one
once. Their results are not decrypted.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cleave.deadline import Deadline, Stopped
from cleave.store.cells import Blocks
from cleave.store.columns import RecordBatches, plain_blocks, plain_column, value_of
from cleave.store.contributors import contributor_in
from cleave.store.manifest import MARK, ROW, Manifest, Object, Sealed, SealedColumn, Segment, is_content
from cleave.store.reader import Objects, Opened
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock, ColumnPlace, cut, damaged, open_blocks
from cleave.table.duck import identifier
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.progress import Progress
from cleave.table.schema import Column, Schema
from cleave.table.table import Engine, HeldFile, MemoryFile, StreamView, Table, no_rows, read_parquet
from cleave_shared.errors import CheckFailed, CleaveError, ServiceError

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray

    from cleave.store.columns import PlainBlock

_READERS = 8  # requests at once to a store elsewhere; what they read is opened by the same threads
_FETCHED_BYTES = 128 << 20  # most sealed bytes requested or not yet opened; one segment may exceed this
_MOST_FILES = 16  # of one table that DuckDB reads itself, in at most _FETCHED_BYTES
_OPENING_BYTES = 128 << 20  # most sealed bytes opened at a time; one piece may exceed this
_TOGETHER = 4  # blocks of each column that one thread opens at a time
MARKS = SealedColumn(name=MARK, id="0" * 32, type="BOOLEAN", width=1, nullable=False)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Needed:
    """What must be read for some columns."""

    sealed: tuple[int, ...]  # indexes in the manifest's sealed columns; the one after the last: the marks
    plain: tuple[Column, ...]
    contributor: bool  # True if the contributor's name is read, which the manifest has for each segment
    ordered: bool  # True if rows must be sorted back into the file's order


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Consecutive blocks of a sealed column of a segment, starting at byte `start` of its object."""

    column: int
    blocks: Blocks
    sizes: list[int]
    start: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive blocks of a segment. `before`: rows of the earlier segments of the same reading."""

    segment: Segment
    before: int
    blocks: Blocks

    @property
    def rows(self) -> int:
        first, stop = self.blocks
        return min(stop * BLOCK_ROWS, self.segment.rows) - first * BLOCK_ROWS


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A run whose requests were sent: its sealed bytes by column, and the blocks of the segment's plain columns."""

    run: Run
    ranges: list[BlockRange]
    sealed: list[Future[bytes]]
    plain: Future[Sequence[PlainBlock]] | None

    def sealed_bytes(self, blocks: Blocks) -> int:
        """Stored bytes of some blocks of every sealed column."""
        first, stop = blocks
        return sum(sum(each.sizes[first - each.blocks[0] : stop - each.blocks[0]]) for each in self.ranges)


class Reading:
    """The rows of `runs`, with the columns of `schema`. `once`: a second scan is an error; `finish` counts on that."""

    def __init__(
        self,
        tables: Objects,
        opened: Opened,
        schema: Schema,
        needed: Needed,
        runs: Sequence[Run],
        progress: Progress | None,
        deadline: Deadline,
        *,
        once: bool = False,
    ) -> None:
        self.schema = schema
        self._tables = tables
        self._manifest = opened.manifest
        self._has_readers = bool(opened.manifest.readers) or not tables.has_totals
        self._vault = opened.vault
        self._needed = needed
        self._runs = runs
        self.progress = progress
        self.deadline = deadline
        self.once = once
        self._plain = [plain_column(each) for each in needed.plain]
        self._threads = _READERS if tables.is_elsewhere else len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Future[object]] = {}
        self._requested: set[Hashable] = set()  # requests that ended
        self._scanned = self._finished = False

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self._runs)

    def expose(self, table: Table, *, now: bool = False) -> None:
        """Create the relation of `table`. It is a view that reads rows when DuckDB scans it. If rows must be sorted, or
        `now`, it is a table, which can be scanned again, like a view of files.
        """
        table.rows = self.rows
        if not table.schema.columns:
            table.connection.execute(f"CREATE TABLE {table.relation} AS SELECT NULL FROM range({self.rows})")
            return
        if (files := self._files(table.engine)) is not None:
            for file in files.values():
                table.at_end(file.close)
            table.expose(self._view_of(files))
            return
        opened = self._stream(table)
        by_name = {each.name: each for each in opened.columns}
        values = [(by_name[each.name], identifier(each.name)) for each in table.schema.columns]
        selected = f"SELECT {', '.join(f'{value_of(column, name)} AS {name}' for column, name in values)}"
        stream = f"opened_{table.relation}"
        if self._needed.ordered or now:
            order = f" ORDER BY {identifier(ROW)}" if self._needed.ordered else ""
            table.fill({stream: opened}, f"{selected} FROM {stream}{order}")
        else:
            sql = f"{selected} FROM temp.main.{stream}"
            table.expose(StreamView({stream: opened}, sql, sql, no_rows(table.schema.columns, self.rows)))

    def write(self, table: Table, most: int) -> MemoryFile:
        """Return a file of the rows, of at most `most` bytes, written by the DuckDB of `table`. Intervals are text.

        Raises CheckFailed and StoreError when `table` is closed, and the errors of `Table.write`.
        """
        order = f" ORDER BY {identifier(ROW)}" if self._needed.ordered else ""
        selected = ", ".join(identifier(each.name) for each in table.schema.columns)
        return table.write({"opened": self._stream(table)}, f"SELECT {selected} FROM opened{order}", most)

    def _stream(self, table: Table) -> RecordBatches:
        contributor = [plain_column(self.schema.column(CONTRIBUTOR))] if self._needed.contributor else []
        columns = [*self._plain, *contributor, *self._sealed()]
        return RecordBatches(columns, table.connection, partial(self._batches, table))

    def _files(self, engine: Engine) -> dict[str, HeldFile] | None:
        """Fetch the plain columns' files; return them by segment. None if other columns are read too, or if there are
        more files than DuckDB may read now. Raises CheckFailed, StoreError.
        """
        segments = {run.segment.id: run.segment for run in self._runs}
        size = sum(plain_of(each).bytes for each in segments.values()) if self._needed.plain else 0
        others = self._needed.sealed or self._needed.contributor
        if others or not 0 < len(segments) <= _MOST_FILES or size > _FETCHED_BYTES:
            return None
        try:  # before the requests, which are made once
            files = {id_: HeldFile(engine) for id_ in segments}
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            return None
        advance = self.progress.stage("fetch", self.rows, "rows") if self.progress else lambda _: None
        pool = ThreadPoolExecutor(self._threads, "rows")
        try:
            contents = {
                id_: self._submit(pool, id_, partial(self._tables.read, plain_of(each), plain=True))
                for id_, each in segments.items()
            }
            for id_, file in files.items():
                file.write(self.deadline.result(contents.pop(id_)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        advance(self.rows)
        return files

    def _view_of(self, files: Mapping[str, HeldFile]) -> StreamView:
        typed = [(identifier(each.name), each.type) for each in self._needed.plain]
        columns = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in typed)
        if all(run.rows == run.segment.rows for run in self._runs):
            sql = f"SELECT {columns} FROM {read_parquet(list(files.values()))}"
            return StreamView({}, sql, sql)
        parts = [
            f"SELECT {columns} FROM {read_parquet([files[run.segment.id]])} "
            f"WHERE file_row_number >= {BLOCK_ROWS * run.blocks[0]} AND file_row_number < {BLOCK_ROWS * run.blocks[1]}"
            for run in self._runs
        ]
        sql = " UNION ALL ".join(parts)
        return StreamView(
            {}, sql, f"SELECT * FROM ({sql}) QUALIFY row_number() OVER () > 0"
        )  # one part after the other

    def skip(self) -> None:
        """Make no requests: the rows are in memory already."""
        self._finished = True

    def finish(self) -> None:
        """Wait for requests under way, then send those that DuckDB did not trigger, and discard their answers.

        So the requests do not depend on values. Raises CheckFailed, StoreError, and what the deadline raises.
        """
        if self._finished:
            return
        self._finished = True
        with self._lock:
            under_way = list(self._under_way.values())
        for future in under_way:
            try:
                self.deadline.result(future)
            except Stopped:
                if not future.cancelled():
                    raise
        self.deadline.check()
        left = {key: work for run in self._runs for key, work in self._requests(run) if key not in self._requested}
        pool = ThreadPoolExecutor(self._threads, "rows")
        try:
            for request in [self._submit(pool, key, partial(_discarded, work)) for key, work in left.items()]:
                self.deadline.result(request)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _sealed(self) -> list[SealedColumn]:
        """The sealed columns to decrypt; row numbers of the whole table are last."""
        sealed = [column_of(self._manifest, number) for number in self._needed.sealed]
        if self._needed.ordered:
            sealed[-1] = sealed[-1].model_copy(update={"type": "BIGINT", "width": 8})
        return sealed

    def _requests(self, run: Run) -> Iterator[tuple[Hashable, Callable[[], object]]]:
        segment = run.segment
        for column in self._needed.sealed:
            for each in ranges_of(self._manifest, segment, column, [run.blocks]):
                yield (segment.id, column, run.blocks), partial(self._fetched, segment, each)
        if self._plain:
            yield segment.id, partial(self._tables.read, plain_of(segment), plain=True)

    def _submit(self, pool: ThreadPoolExecutor, key: Hashable, work: Callable[[], T]) -> Future[T]:
        """Send a request in a thread. Its result is only in the returned future."""
        future = pool.submit(work)
        with self._lock:
            self._under_way[key] = future  # type: ignore[assignment] # of anything
        future.add_done_callback(partial(self._ended, key))
        return future

    def _ended(self, key: Hashable, future: Future[T]) -> None:
        with self._lock:
            self._under_way.pop(key, None)
            if not future.cancelled():
                self._requested.add(key)

    def _batches(self, table: Table, stream: RecordBatches) -> Generator[CArray, None, None]:
        """The rows of the runs, in order, in a batch for each block. One scan of DuckDB consumes them."""
        if self.once and self._scanned:
            raise TypeError("a second scan of rows that can be scanned once")
        self._scanned = True
        progress = self.progress
        advance = progress.stage("fetch and open", self.rows, "rows") if progress else lambda _: None
        pool = ThreadPoolExecutor(self._threads, "rows")
        opening: deque[Future[list[CArray]]] = deque()
        sizes: deque[int] = deque()
        try:
            pieces = self._pieces(pool, table)
            while True:
                while (
                    len(opening) <= self._threads
                    and sum(sizes) < _OPENING_BYTES
                    and (piece := next(pieces, None)) is not None
                ):
                    opening.append(pool.submit(self._opened, *piece, stream))
                    sizes.append(piece[0].sealed_bytes(piece[1]))
                    piece = None  # frees its sealed bytes before the next piece
                if not opening:
                    return
                for batch in self.deadline.result(opening.popleft()):
                    yield batch
                    advance(batch.length)
                sizes.popleft()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # requests to the store have time limits

    def _pieces(self, pool: ThreadPoolExecutor, table: Table) -> Iterator[tuple[_Fetch, Blocks]]:
        """Fetch the runs, and yield a few blocks at a time while later runs are fetched."""
        left, coming, size = deque(self._runs), deque[tuple[_Fetch, int]](), 0
        most = _FETCHED_BYTES if self._tables.is_elsewhere else 0
        values: dict[str, Future[Sequence[PlainBlock]]] = {}
        while left or coming:
            while left and (not coming or size < most):
                fetch = self._begin(pool, table, left.popleft(), values)
                taken = sum(each.bytes for each in fetch.ranges)
                coming.append((fetch, taken))
                size += taken
            each, taken = coming.popleft()
            first, stop = each.run.blocks
            for start in range(first, stop, _TOGETHER):
                yield each, (start, min(start + _TOGETHER, stop))
            size -= taken

    def _begin(
        self, pool: ThreadPoolExecutor, table: Table, run: Run, values: dict[str, Future[Sequence[PlainBlock]]]
    ) -> _Fetch:
        """Fetch a run. `values`: plain columns by segment, of the previous run, whose segment may be the same."""
        segment, needed = run.segment, self._needed.sealed
        if self._plain and segment.id not in values:
            values.clear()
            work = partial(self._tables.read, plain_of(segment), plain=True)
            content = self._submit(pool, segment.id, work)
            values[segment.id] = pool.submit(self._plain_blocks, table, segment, content)
        ranges = [each for column in needed for each in ranges_of(self._manifest, segment, column, [run.blocks])]
        sealed = [
            self._submit(pool, (segment.id, each.column, run.blocks), partial(self._fetched, segment, each))
            for each in ranges
        ]
        return _Fetch(run, ranges, sealed, values.get(segment.id))

    def _plain_blocks(self, table: Table, segment: Segment, content: Future[bytes]) -> Sequence[PlainBlock]:
        """The blocks of a segment's plain columns. Runs in a thread of the pool."""
        rows = [min(BLOCK_ROWS, segment.rows - first) for first in range(0, segment.rows, BLOCK_ROWS)]
        parquet = content.result()
        with table.engine.taking, closing(table.connection.cursor()) as cursor:
            blocks = plain_blocks(cursor, self._plain, table.source_of(parquet), rows)
        if [sum(each[0].length for each in block) for block in blocks] != rows:
            raise unequal()
        return blocks

    def _fetched(self, segment: Segment, wanted: BlockRange, *, again: bool = False) -> bytes:
        """The sealed blocks of a range.

        Readers of some columns could seal other values under their keys. So if the table has readers, and the range is
        the whole object, its digest is compared too. Raises CheckFailed.
        """
        which = stored_of(segment, wanted.column).object
        content = self._tables.read_blocks(which, wanted.start, wanted.blocks[0], wanted.sizes, again=again)
        if not self._has_readers or len(content) != which.bytes or is_content(content, which):
            return content
        if again:
            raise damaged()
        return self._fetched(segment, wanted, again=True)

    def _opened(self, coming: _Fetch, blocks: Blocks, stream: RecordBatches) -> list[CArray]:
        """Decrypt some blocks of every column. Runs in a thread of the pool."""
        run, (first, stop) = coming.run, blocks
        columns = []
        if self._needed.contributor:
            rows = [min(BLOCK_ROWS, run.segment.rows - number * BLOCK_ROWS) for number in range(first, stop)]
            columns.append([_repeated(contributor_in(run.segment), each) for each in rows])
        fetched = {each.column: (each, sealed) for each, sealed in zip(coming.ranges, coming.sealed, strict=True)}
        for number in self._needed.sealed:
            if number in fetched:
                wanted, sealed = fetched[number]
                columns.append(self._blocks(run.segment, wanted, sealed.result(), blocks))
            else:  # the marks of a segment that has none
                columns.append([_unmarked(run.segment, each) for each in range(first, stop)])
        if self._needed.ordered:
            columns[-1] = [_numbered(each, run.before) for each in columns[-1]]
        opened = [[column[place] for column in columns] for place in range(stop - first)]
        if coming.plain is None:
            return [stream.make(each) for each in opened]
        plain = coming.plain.result()[first:stop]
        return [batch for beside, each in zip(plain, opened, strict=True) for batch in stream.make_beside(beside, each)]

    def _blocks(self, segment: Segment, wanted: BlockRange, content: bytes, blocks: Blocks) -> list[ColumnBlock]:
        """Decrypt some blocks of a range. Damaged ones are read once more, as a bit may have flipped."""
        place = place_of(self._manifest, segment, wanted.column)
        stored, (first, stop) = stored_of(segment, wanted.column), blocks
        key = self._vault.key_in_column(place.column, stored.object.name)
        before, after = first - wanted.blocks[0], stop - wanted.blocks[0]
        start = sum(wanted.sizes[:before])
        part = BlockRange(wanted.column, blocks, wanted.sizes[before:after], wanted.start + start)
        try:
            return open_blocks(key, place, first, cut(memoryview(content)[start : start + part.bytes], part.sizes))
        except CheckFailed:
            return open_blocks(key, place, first, cut(self._fetched(segment, part, again=True), part.sizes))


@contextmanager
def read_whole(readings: Sequence[Reading]) -> Iterator[None]:
    """Finish `readings` after the block, even if it fails, because a failure may depend on values."""
    try:
        yield
    except (ServiceError, CheckFailed):  # the deadline passed, or the store failed
        raise
    except Exception:
        with suppress(CleaveError):
            for each in readings:
                each.finish()
        raise
    for each in readings:
        each.finish()


def column_of(manifest: Manifest, number: int) -> SealedColumn:
    """A sealed column by its index; the index after the last: the marks."""
    return manifest.sealed[number] if number < len(manifest.sealed) else MARKS


def stored_of(segment: Segment, number: int) -> Sealed:
    """The object of a sealed column. Raises CheckFailed if the segment has no marks and they are asked for."""
    stored = segment.columns[number] if number < len(segment.columns) else segment.marks
    if stored is None:
        raise unequal()
    return stored


def place_of(manifest: Manifest, segment: Segment, column: int) -> ColumnPlace:
    which = stored_of(segment, column).object
    return ColumnPlace(manifest.table_id, which.name[-32:], segment.id, column_of(manifest, column), segment.rows)


def ranges_of(manifest: Manifest, segment: Segment, column: int, blocks: Sequence[Blocks]) -> list[BlockRange]:
    """The ranges of `blocks` in a sealed column; none for the marks of a segment without marks. Raises CheckFailed."""
    if column == len(manifest.sealed) and segment.marks is None:
        return []
    stored = stored_of(segment, column)
    sizes = place_of(manifest, segment, column).sizes(stored.lengths)
    if sum(sizes) != stored.object.bytes:
        raise unequal()
    ends = np.cumsum([0, *sizes]).tolist()
    return [BlockRange(column, (first, stop), sizes[first:stop], ends[first]) for first, stop in blocks]


def plain_of(segment: Segment) -> Object:
    """The plain half of a segment, for a table with plain columns. Raises CheckFailed if it is missing."""
    if segment.plain is None:
        raise unequal()
    return segment.plain


def unequal() -> CheckFailed:
    return CheckFailed("stored", "a segment's parts do not have the same rows")


def _discarded(work: Callable[[], object]) -> None:
    work()


def _repeated(text: str, rows: int) -> ColumnBlock:
    content = text.encode()
    return ColumnBlock(rows, None, memoryview(content * rows), np.full(rows, len(content), np.uint32))


def _unmarked(segment: Segment, block: int) -> ColumnBlock:
    rows = min(BLOCK_ROWS, segment.rows - block * BLOCK_ROWS)
    return ColumnBlock(rows, None, memoryview(bytes(rows)), None)


def _numbered(block: ColumnBlock, before: int) -> ColumnBlock:
    """Row numbers of the whole table, from those of a segment. `before`: rows of earlier segments."""
    numbers = np.frombuffer(block.data, np.int32).astype(np.int64) + before
    return ColumnBlock(block.rows, None, memoryview(numbers.tobytes()), None)
