"""Reads columns of a stored table's rows into DuckDB in this process (cleave.store.reading does the work).

Sealed columns and the plain half have the same order of rows, so no join is needed to put them together. Columns that
a session reads completely a second time stay in memory.
"""

from __future__ import annotations

import errno
import itertools
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cleave.deadline import Deadline
from cleave.store.cells import Blocks, Index, index_of, numbers_in
from cleave.store.columns import is_text, opened_width
from cleave.store.contributors import contributor_in, with_contributor
from cleave.store.manifest import MARK, ROW, Object, Segment, SegmentPage
from cleave.store.paged import read_pages
from cleave.store.reader import Objects, Opened
from cleave.store.reading import Needed, Reading, Run, place_of, ranges_of, stored_of
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock, cut, open_blocks
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.progress import Progress
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Engine, MemoryFile, Table, no_table
from cleave_shared.errors import QueryRefused

_UNPACKED = 4  # assumed bytes in memory for each stored byte of plain columns
PULL_SECONDS = 7 * 24 * 3600.0  # to read a whole table, if the caller sets no deadline


@dataclass(frozen=True, slots=True)
class SelectedCells:
    """`flags`: by cell number, equal for all cells with the same plain by columns. If `contributors` have cells of
    their own, the flags of each contributor's cells follow those of the one before.
    """

    flags: NDArray[np.bool_]
    contributors: Sequence[str] = ()

    def in_segment(self, segment: Segment) -> NDArray[np.bool_]:
        if not self.contributors:
            return self.flags
        cells = len(self.flags) // len(self.contributors)
        start = self.contributors.index(contributor_in(segment)) * cells
        return self.flags[start : start + cells]

    def in_page(self, page: SegmentPage | None) -> bool:
        """True if segments of a page may have rows of these cells. None: it is not stored yet."""
        if page is None or page.cells is None:
            return True
        flags = self.flags.reshape(max(1, len(self.contributors)), -1)
        return bool(flags[:, numbers_in(page.cells)].any())


@dataclass(frozen=True, slots=True)
class Read:
    """A request for `bytes` of an object: all of it, or a part. `is_plain`: it is in the plain store."""

    object: Object
    bytes: int
    is_plain: bool = False


def with_mark(schema: Schema) -> Schema:
    """`schema` with the marks of published rows as a further column."""
    return replace(schema, columns=(*schema.columns, Column(MARK, Kind.SEALED, "BOOLEAN", nullable=False)))


def whole(which: Object) -> Read:
    """A request for all of an object."""
    return Read(which, which.bytes)


@dataclass(frozen=True, slots=True)
class Resident:
    """All rows of some columns of one version of a table, in memory as Parquet."""

    names: frozenset[str]
    file: MemoryFile
    bytes: int  # the estimate, which does not depend on values, or the size of the file if that is larger

    def expose(self, table: Table) -> bool:
        """Make `table` a view of the rows. False if too many files are open."""
        try:
            table.select(self.file)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            return False
        return True


class ResidentTables:
    """Decrypted rows that stay in memory between the queries of a session. Close it after the last query.

    Each table's rows are a file that only the DuckDB of a query over that table may read. So whatever a query can make
    DuckDB do, it does not find rows of another table, query or user. From a file DuckDB knows the number of rows, and
    orders joins by it; of a stream it does not know it.
    """

    def __init__(self, memory: int, most: int) -> None:
        """`memory`: most bytes for a query. `most`: in addition, most bytes of rows that stay in memory."""
        self.memory = memory
        self._most = most
        self._tables: dict[Rows, Resident] = {}

    def get(self, rows: Rows) -> Resident | None:
        return self._tables.get(rows)

    @property
    def bytes(self) -> int:
        """Bytes of the rows in memory."""
        return sum(each.bytes for each in self._tables.values())

    def room(self, rows: Rows) -> int:
        """Most bytes that `rows` may take in memory. Those that they take now count as free."""
        resident = self._tables.get(rows)
        return self._most - self.bytes + (resident.bytes if resident else 0)

    def keep(self, rows: Rows, resident: Resident) -> Resident:
        """Keep `resident` of `rows` in memory. Nothing of `rows` may be kept yet."""
        self._tables[rows] = resident
        return resident

    def drop(self, rows: Rows) -> None:
        """Remove what is here of `rows`, if anything, and free its memory."""
        resident = self._tables.pop(rows, None)
        if resident is not None:
            resident.file.close()

    def close(self) -> None:
        for each in list(self._tables):
            self.drop(each)


class Rows:
    """Reads rows of one version of a table. `cells` in methods: read at least the rows of these cells; None: all."""

    def __init__(self, tables: Objects, opened: Opened, session: ResidentTables | None = None) -> None:
        """`session`: limits memory, and keeps rows; None: DuckDB's own limit applies, and no rows stay."""
        self._tables = tables
        self._version = opened
        self._vault = opened.vault
        self._manifest = opened.manifest
        self.schema = load_stored_schema(opened.manifest)
        self._whole_schema = with_contributor(opened.manifest, self.schema)
        self._indexes: dict[str, Index] = {}
        self._chosen: tuple[SelectedCells, dict[str, list[Blocks]]] | None = None  # the newest cells, blocks by segment
        self._engine: Engine | None = None  # for tables without a session
        self._session = session
        self._read_before: set[str] = set()  # columns that were read completely
        self._may_stay = True  # False once it failed

    @property
    def has_marks(self) -> bool:
        """True if segments of the table may have marks of published rows."""
        return self._manifest.marking is not None

    def needed(self, names: Collection[str], *, ordered: bool = False) -> Needed:
        """What must be read for columns `names`. MARK among them: the marks of published rows too."""
        places = {each.name: place for place, each in enumerate(self._manifest.sealed)}
        contributor = self._whole_schema is not self.schema and CONTRIBUTOR in names
        wanted = [each for each in self.schema.columns if each.name in names]
        ordered = ordered and ROW in places
        sealed = [places[each.name] for each in wanted if each.kind is not Kind.PLAIN]
        return Needed(
            sealed=(*sealed, *([len(places)] if MARK in names else []), *([places[ROW]] if ordered else [])),
            plain=tuple(each for each in wanted if each.kind is Kind.PLAIN),
            contributor=contributor,
            ordered=ordered,
        )

    def reads(self, needed: Needed, cells: SelectedCells | None = None) -> list[Read]:
        """List the requests for `needed`."""
        requests = []
        for segment, _ in self._with_rows(cells):
            blocks = self._blocks(segment, cells)
            for column in needed.sealed if blocks else ():
                which = segment.columns[column].object
                requests += [Read(which, each.bytes) for each in ranges_of(self._manifest, segment, column, blocks)]
            if needed.plain and blocks and segment.plain is not None:
                requests.append(Read(segment.plain, segment.plain.bytes, is_plain=True))
        return requests

    def reading(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
        cells: SelectedCells | None = None,
        deadline: Deadline | None = None,
        once: bool = False,
    ) -> Reading:
        """A reading of the columns `names` of the rows of `segments` (None: all), in the order they were put if
        `ordered`.
        """
        runs = list(self._runs(segments, cells))
        needed, limit = self.needed(names, ordered=ordered), deadline or Deadline(PULL_SECONDS)
        schema = self._whole_schema.only(names)
        if MARK in names:
            schema = with_mark(schema)
        return Reading(self._tables, self._version, schema, needed, runs, progress, limit, once=once)

    def open(self, reading: Reading, name: str = "", beside: Table | None = None, *, now: bool = False) -> Table:
        """Return a table of the rows of `reading`: as further table `name` in the database of `beside`, which closes
        it; else in an engine with the session's memory limit, or in a database of its own.

        Rows are read when DuckDB scans the relation. They are read at once if they must be sorted, or `now`, so that
        DuckDB can scan them again. Errors of a scan are raised when the table is closed.

        Raises CheckFailed, StoreError; QueryRefused for rows that do not fit in memory; InputError for a memory limit
        that is too small.
        """
        resident = self._resident_for(reading)
        if beside is not None:
            table = beside.join(name, reading.schema)
        elif self._session is not None:
            table = no_table(self._manifest.table, reading.schema, memory=self._session.memory)
        else:
            table = self.new_table(reading.schema)
        try:
            if resident is None or not resident.expose(table):
                reading.expose(table, now=now)
            else:
                table.rows = self._manifest.rows
                reading.skip()
        except BaseException:
            if beside is None:
                table.__exit__(None, None, None)
            raise
        return table

    def _resident_for(self, reading: Reading) -> Resident | None:
        """Return the columns of `reading` with all rows in memory, or None. They are read now if earlier queries read
        them too, and there is room; neither depends on values. Raises like `open`.
        """
        names = {each.name for each in reading.schema.columns}
        if self._session is None or not reading.once or not names:
            return None
        resident = self._session.get(self)
        present = resident.names if resident is not None else frozenset[str]()
        if names <= present:
            return resident
        if reading.rows < self._manifest.rows:
            return None
        earlier, self._read_before = self._read_before, self._read_before | names
        if not self._may_stay or not names <= earlier:
            return None
        for wanted in (earlier, names | present):
            size = self._opened_bytes(wanted)
            if size <= self._session.room(self):
                self._session.drop(self)
                return self._keep(reading, wanted, size, self._session)
        return None

    def _keep(self, reading: Reading, names: Collection[str], size: int, session: ResidentTables) -> Resident | None:
        """Read columns with all rows, about `size` bytes, before the deadline of `reading`, and keep them. None if
        there is not enough room, or too many files are open.
        """
        schema, most = self._whole_schema.only(names), session.room(self)
        whole = self.reading(names, ordered=True, progress=reading.progress, deadline=reading.deadline, once=True)
        try:
            with no_table(self._manifest.table, schema, memory=session.memory) as table:
                file = whole.write(table, most)
        except BaseException as error:
            self._may_stay = False  # streaming takes less time and memory
            if isinstance(error, QueryRefused) or (isinstance(error, OSError) and error.errno == errno.EMFILE):
                return None
            raise
        return session.keep(self, Resident(frozenset(names), file, max(size, file.bytes)))

    def _opened_bytes(self, names: Collection[str]) -> int:
        """Estimate the bytes of columns with all rows, from what the store knows: it does not depend on values."""
        columns = [each for each in self._whole_schema.columns if each.name in names]
        places = {each.name: place for place, each in enumerate(self._manifest.sealed)}
        sealed = [places[each.name] for each in columns if each.name in places and is_text(each.type)]
        segments = self._manifest.segments if sealed else ()
        size = sum(each.columns[place].object.bytes for each in segments for place in sealed)
        plain = [each for each in columns if each.name not in places]
        wide = [each for each in columns if each.name in places]
        if any(is_text(each.type) for each in plain):  # widths say nothing of them
            size += _UNPACKED * self._manifest.segments.plain
        else:
            wide += plain
        return size + sum(opened_width(each.type) for each in wide if not is_text(each.type)) * self._manifest.rows

    def table(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
    ) -> Table:
        """A table of its own from one reading; see `reading` and `open`."""
        return self.open(self.reading(names, ordered=ordered, progress=progress, segments=segments))

    def new_table(self, schema: Schema) -> Table:
        """A table for other rows. Its relation does not exist yet."""
        self._engine = self._engine or Engine.idle()
        return self._engine.table(self._manifest.table, schema)

    def close(self) -> None:
        """Close the engine, and free the rows that stay in memory."""
        if self._session is not None:
            self._session.drop(self)
        if self._engine is not None:
            self._engine.end()
            self._engine = None

    def index(self, segment: Segment) -> Index:
        if segment.id not in self._indexes:
            self._indexes[segment.id] = index_of(segment)
        return self._indexes[segment.id]

    def open_all(self, segment: Segment, column: int) -> list[ColumnBlock]:
        """Open every block of a sealed column. Its object is read completely, and its digest is compared.

        Raises CheckFailed, StoreError.
        """
        stored, place = stored_of(segment, column), place_of(self._manifest, segment, column)
        which = stored.object
        content = self._tables.read(which)
        sizes = place.sizes(stored.lengths)
        return open_blocks(self._vault.key_in_column(place.column, which.name), place, 0, cut(content, sizes))

    def _runs(self, segments: Sequence[Segment] | None, cells: SelectedCells | None) -> Iterator[Run]:
        if segments is None:
            chosen = self._with_rows(cells)
        else:
            chosen = zip(segments, itertools.accumulate((each.rows for each in segments), initial=0), strict=False)
        for segment, before in chosen:
            for blocks in self._blocks(segment, cells):
                yield Run(segment, before, blocks)

    def _with_rows(self, cells: SelectedCells | None) -> Iterator[tuple[Segment, int]]:
        """The segments that may have rows of `cells`, each with the number of rows before it."""
        before, segments = 0, self._manifest.segments
        skipped = [cells is not None and not cells.in_page(each.stored) for each in segments.pages]
        read_pages(itertools.compress(segments.pages, map(operator.not_, skipped)))
        for page, is_skipped in zip(segments.pages, skipped, strict=True):
            if is_skipped and page.stored is not None:
                before += page.stored.rows
                continue
            for segment in page.items:
                yield segment, before
                before += segment.rows
        for segment in segments.last:
            yield segment, before
            before += segment.rows

    def _blocks(self, segment: Segment, cells: SelectedCells | None) -> list[Blocks]:
        """The ranges of blocks to read from a segment."""
        if cells is None:
            return [(0, -(-segment.rows // BLOCK_ROWS))] if segment.rows else []
        if self._chosen is None or self._chosen[0] is not cells:
            self._chosen = cells, {}
        chosen = self._chosen[1]
        if segment.id not in chosen:
            chosen[segment.id] = self.index(segment).blocks_of(cells.in_segment(segment))
        return chosen[segment.id]
