"""Read a stored table's rows, or just the columns of them that a question reads, into DuckDB in this process.

Ranges of blocks are fetched in parallel, opened by threads, and handed to DuckDB as Arrow arrays while it reads them
(cleave.store.reading): nothing of them stays after a scan. Sealed columns and the plain half have the same order, so
row meets row without a join.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cleave.processes.deadline import Deadline
from cleave.store.cells import Blocks, Index
from cleave.store.columns import is_text, opened_width
from cleave.store.contributors import CONTRIBUTOR, contributor_in, with_contributor
from cleave.store.manifest import ROW, Object, Segment
from cleave.store.reader import Opened
from cleave.store.reading import Needed, Reading, Run, place_of, ranges_of
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock, cut, open_blocks
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave.table.schema import Kind, Schema
from cleave.table.table import Engine, Table
from cleave_shared.errors import QueryRefused

_MOST_HOMES = 24  # sets of tables that a session asks in turn; the bytes that stay in all of them have their own limit
_UNPACKED = 4  # bytes of texts for each that is stored, at most, as a rule
PULL_SECONDS = 7 * 24 * 3600.0  # for all of a table, where the caller gives no time


@dataclass(frozen=True, slots=True)
class SelectedCells:
    """`flags`: by number of the cell, and the same for all cells of equal plain by columns. Where `contributors` have
    cells of their own: of one after the other.
    """

    flags: NDArray[np.bool_]
    contributors: Sequence[str] = ()

    def in_segment(self, segment: Segment) -> NDArray[np.bool_]:
        if not self.contributors:
            return self.flags
        cells = len(self.flags) // len(self.contributors)
        start = self.contributors.index(contributor_in(segment)) * cells
        return self.flags[start : start + cells]


@dataclass(frozen=True, slots=True)
class Read:
    """Request for `bytes` of an object, all or a part."""

    object: Object
    bytes: int


def whole(which: Object) -> Read:
    """A request for all of an object."""
    return Read(which, which.bytes)


class Home:
    """DuckDB for the queries over one set of tables, and the rows of these that stay in it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._resident: dict[Rows, tuple[Table, int]] = {}  # with their bytes

    def resident(self, rows: Rows) -> tuple[Table | None, int]:
        return self._resident.get(rows, (None, 0))

    def keep(self, rows: Rows, size: int, read: Callable[[Engine], Table]) -> Table:
        """Keep what is read in place of what was kept of `rows`; it takes `size` bytes."""
        self.drop(rows)
        self.engine.resident += size
        try:
            table = read(self.engine)
        except BaseException:
            self.engine.resident -= size
            raise
        self._resident[rows] = table, size
        return table

    def drop(self, rows: Rows) -> None:
        table, size = self._resident.pop(rows, (None, 0))
        if table is not None:
            self.engine.resident -= size
            table.__exit__(None, None, None)

    def close(self) -> None:
        for each in list(self._resident):
            self.drop(each)
        self.engine.end()


class ResidentTables:
    """DuckDB for all queries of a session, and the tables that stay in it. Close it after them.

    A query runs in a DuckDB that has no tables but those that it names: whatever it may be able to ask DuckDB, it finds
    nothing of another query or user. DuckDB knows how many rows a table of its own has, and so in which order to join;
    of a stream it knows nothing.
    """

    def __init__(self, memory: int, most: int) -> None:
        """`memory`: bytes that a query may take; `most`: bytes of rows that stay besides."""
        self._memory = memory
        self._most = most
        self._homes: dict[frozenset[str], Home] = {}  # the one used last comes last

    def home(self, names: Iterable[str]) -> Home:
        """The home of queries over the tables `names`, in lower case. Raises InputError for too little memory."""
        key = frozenset(names)
        home = self._homes.pop(key) if key in self._homes else Home(Engine.idle(self._memory))
        self._homes[key] = home
        while len(self._homes) > _MOST_HOMES:
            self._homes.pop(next(iter(self._homes))).close()
        return home

    @property
    def bytes(self) -> int:
        """Bytes of the rows that stay."""
        return sum(each.engine.resident for each in self._homes.values())

    def has_room(self, size: int) -> bool:
        return self.bytes + size <= self._most

    def drop(self, rows: Rows) -> None:
        """Give up what is kept of `rows`."""
        for each in self._homes.values():
            each.drop(rows)

    def close(self) -> None:
        while self._homes:
            self._homes.popitem()[1].close()


class Rows:
    """Reads rows of one version of a table. `cells` below: the rows of the selected cells at least; None: all."""

    def __init__(self, tables: Tables, opened: Opened, session: ResidentTables | None = None) -> None:
        """`session`: where rows are opened, and may stay; None: DuckDB decides what memory it takes, and none stay."""
        self._tables = tables
        self._version = opened
        self._vault = opened.vault
        self._manifest = opened.manifest
        self.schema = load_stored_schema(opened.manifest)
        self._whole_schema = with_contributor(opened.manifest, self.schema)
        self._indexes: dict[str, Index] = {}
        self._engine: Engine | None = None  # of its own
        self._session = session
        self._read_before: set[str] = set()  # columns whose rows were all read
        self._may_stay = True  # unless that failed once

    def needed(self, names: Collection[str], *, ordered: bool = False) -> Needed:
        places = {each.name: place for place, each in enumerate(self._manifest.sealed)}
        contributor = self._whole_schema is not self.schema and CONTRIBUTOR in names
        wanted = [each for each in self.schema.columns if each.name in names]
        ordered = ordered and ROW in places
        sealed = [places[each.name] for each in wanted if each.kind is not Kind.PLAIN]
        return Needed(
            sealed=(*sealed, *([places[ROW]] if ordered else [])),
            plain=tuple(each for each in wanted if each.kind is Kind.PLAIN),
            contributor=contributor,
            ordered=ordered,
        )

    def reads(self, needed: Needed, cells: SelectedCells | None = None) -> list[Read]:
        """List the requests of `table`. Reads the segments' indexes where `cells` are given."""
        requests = []
        for segment in self._manifest.segments:
            if cells is not None:
                requests.append(Read(segment.index, segment.index.bytes))
            blocks = self._blocks(segment, cells)
            for column in needed.sealed if blocks else ():
                which = segment.columns[column].object
                requests += [Read(which, each.bytes) for each in ranges_of(self._manifest, segment, column, blocks)]
            if needed.plain and blocks and segment.plain is not None:
                requests.append(Read(segment.plain, segment.plain.bytes))
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
        runs = list(self._runs(self._manifest.segments if segments is None else segments, cells))
        needed, limit = self.needed(names, ordered=ordered), deadline or Deadline(PULL_SECONDS)
        schema = self._whole_schema.only(names)
        return Reading(self._tables, self._version, schema, needed, runs, progress, limit, once=once)

    def open(self, reading: Reading, name: str = "", beside: Table | None = None, *, home: Home | None = None) -> Table:
        """The rows of `reading`, in a database of their own, or called `name` in that of `beside`, which closes them.

        `home`: of the query's tables; None: of this one alone.
        They are read when DuckDB reads the relation, at once if they are ordered; what is wrong with them is raised
        when the table is closed. Raises CheckFailed, StoreError; QueryRefused where they do not fit in memory.
        """
        if home is None and self._session is not None:
            home = self._session.home([self._manifest.table.lower()])
        resident = self._resident_for(reading, home)
        table = self.new_table(reading.schema, home) if beside is None else beside.join(name, reading.schema)
        try:
            if resident is None:
                reading.expose(table)
            else:
                reading.skip()
                table.rows = resident.rows
                table.select(resident)
        except BaseException:
            if beside is None:
                table.__exit__(None, None, None)
            raise
        return table

    def _resident_for(self, reading: Reading, home: Home | None) -> Table | None:
        """Return all rows of the columns of `reading`, if they stay in memory from here on, or did before.

        That follows from earlier queries and from sizes. Raises as `open` does.
        """
        names = {each.name for each in reading.schema.columns}
        if home is None or not reading.once or not names:
            return None
        resident, resident_bytes = home.resident(self)
        present = {each.name for each in resident.schema.columns} if resident is not None else set()
        if names <= present:
            return resident
        if reading.rows < self._manifest.rows:
            return None
        earlier, self._read_before = self._read_before, self._read_before | names
        if self._session is None or not self._may_stay or not names <= earlier:
            return None
        for wanted in (earlier, names | present):
            size = self._opened_bytes(wanted)
            if self._session.has_room(size - resident_bytes):
                with suppress(QueryRefused):  # its texts take more than was reckoned with
                    return home.keep(self, size, partial(self._read_whole, reading, wanted))
                return None
        return None

    def _read_whole(self, reading: Reading, names: Collection[str], engine: Engine) -> Table:
        """Read all rows of columns, in the time of `reading`."""
        table = engine.table(self._manifest.table, self._whole_schema.only(names))
        try:
            whole = self.reading(names, ordered=True, progress=reading.progress, deadline=reading.deadline, once=True)
            whole.expose(table, now=True)
        except BaseException:
            self._may_stay = False  # streaming takes less time and memory
            table.__exit__(None, None, None)
            raise
        return table

    def _opened_bytes(self, names: Collection[str]) -> int:
        """About how many bytes all rows of columns take in DuckDB."""
        columns = [each for each in self._whole_schema.columns if each.name in names]
        size = sum(opened_width(each.type) for each in columns) * self._manifest.rows
        texts = [each.name for each in columns if is_text(each.type)]
        places = {each.name: place for place, each in enumerate(self._manifest.sealed)}
        for segment in self._manifest.segments:
            plain = segment.plain.bytes if segment.plain else 0
            size += _UNPACKED * sum(
                segment.columns[places[name]].object.bytes if name in places else plain for name in texts
            )
        return size

    def table(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
    ) -> Table:
        """A table of its own of one reading, as `reading` and `open` say."""
        return self.open(self.reading(names, ordered=ordered, progress=progress, segments=segments))

    def new_table(self, schema: Schema, home: Home | None = None) -> Table:
        """A table beside those that are read, whose relation is still to be made."""
        if home is not None:
            return home.engine.table(self._manifest.table, schema)
        self._engine = self._engine or Engine.idle()
        return self._engine.table(self._manifest.table, schema)

    def close(self) -> None:
        """Close the databases of tables, those that stay in memory included."""
        if self._session is not None:
            self._session.drop(self)
        if self._engine is not None:
            self._engine.end()
            self._engine = None

    def index(self, segment: Segment) -> Index:
        if segment.id not in self._indexes:
            self._indexes[segment.id] = self._tables.index(self._version.vault, segment)
        return self._indexes[segment.id]

    def open_all(self, segment: Segment, column: int) -> list[ColumnBlock]:
        """Read the whole object of a sealed column, compare its digest, and open every block.

        Raises CheckFailed, StoreError.
        """
        which, place = segment.columns[column].object, place_of(self._manifest, segment, column)
        content = self._tables.read(which)
        sizes = place.sizes(segment.columns[column].lengths)
        return open_blocks(self._vault.key_of("rows", which.name), place, 0, cut(content, sizes))

    def _runs(self, segments: Sequence[Segment], cells: SelectedCells | None) -> Iterator[Run]:
        before = 0
        for segment in segments:
            for blocks in self._blocks(segment, cells):
                yield Run(segment, before, blocks)
            before += segment.rows

    def _blocks(self, segment: Segment, cells: SelectedCells | None) -> list[Blocks]:
        """The blocks that are read of a segment."""
        if cells is not None:
            return self.index(segment).blocks_of(cells.in_segment(segment))
        return [(0, -(-segment.rows // BLOCK_ROWS))] if segment.rows else []
