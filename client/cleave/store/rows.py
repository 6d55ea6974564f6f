"""A stored table's rows, or the columns of them that a question reads, decrypted into a table of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.store.cells import Cells
from cleave.store.fetching import Wanted, fetched
from cleave.store.halves import half_of
from cleave.store.index import Index, Part, load_index, parts_of
from cleave.store.lanes import Lanes
from cleave.store.manifest import Manifest, Object, Segment
from cleave.store.opening import Place
from cleave.store.rebuild import Piece, Rebuilding
from cleave.store.stored_lanes import columns_of_rows, lanes_of, marks_of
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave.table.schema import Column, Schema
from cleave.table.table import Table, no_table
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.pipeline import Progress

Selected = NDArray[np.bool_]  # by the number of the cell
PULL_SECONDS = 7 * 24 * 3600.0  # for all of a table, where nobody says how long a question may take


@dataclass(frozen=True, slots=True)
class Needed:
    """What has to be fetched for some columns: of which kinds they are, and whether rows must be told apart."""

    encrypted: tuple[int, ...]  # measures
    by: tuple[Column, ...]
    plain: tuple[Column, ...]
    sealed: tuple[Column, ...]
    ordered: bool

    @property
    def order(self) -> bool:
        """Whether rows of one half must be found in another."""
        return self.ordered or bool(self.plain or self.sealed)


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of an object: `bytes` of it, all or a part."""

    object: Object
    bytes: int


class Rows:
    """Fetches rows of one version of a table. `cells` below: the rows of the selected cells at least, None: all."""

    def __init__(
        self, tables: Tables, vault: Vault, key: SecretKey, manifest: Manifest, schema: Schema, cells: Cells
    ) -> None:
        self._tables = tables
        self._vault = vault
        self._key = key
        self._manifest = manifest
        self._schema = schema
        self._cells = cells
        self._indexes: dict[str, Index] = {}
        self._lanes: dict[str | None, Lanes] = {}

    def needed(self, names: Collection[str], *, ordered: bool = False) -> Needed:
        wanted = [column for column in self._schema.columns if column.name in names]
        by = set(self._manifest.by)
        measures = {measure.name: number for number, measure in enumerate(self._manifest.measures)}
        return Needed(
            encrypted=tuple(
                measures[each.name] for each in wanted if half_of(each) == "encrypted" and each.name not in by
            ),
            by=tuple(each for each in wanted if each.name in by),
            plain=tuple(each for each in wanted if half_of(each) == "plain" and each.name not in by),
            sealed=tuple(each for each in wanted if half_of(each) == "sealed" and each.name not in by),
            ordered=ordered,
        )

    def objects(self, needed: Needed, cells: Selected | None = None) -> list[Object]:
        """All of which `table` reads something. Reads the segments' indexes where `cells` are given."""
        return list({each.object.name: each.object for each in self.reads(needed, cells)}.values())

    def reads(self, needed: Needed, cells: Selected | None = None) -> list[Read]:
        """All that `table` reads, one request each. Reads the segments' indexes where `cells` are given."""
        found = []
        for segment in self._manifest.segments:
            found.append(Read(segment.index, segment.index.bytes))
            numbers = self._numbers(segment, cells)
            if len(numbers):
                found += [Read(part.object, part.size) for part in self._parts(segment, needed, numbers, cells)]
                found += [Read(each, each.bytes) for each in _extras(segment, needed).values()]
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
        table = self._no_table(names)
        try:
            rebuilding = self._rebuilding(table, needed)
            rebuilding.begin()
            with closing(self._pieces(needed, segments, cells, progress, deadline)) as pieces:
                for piece in pieces:
                    table.rows += rebuilding.append(piece)
            rebuilding.end()
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
        cells: Selected | None = None,
        deadline: Deadline | None = None,
    ) -> Generator[Table, None, None]:
        """The same, a table for each segment, while the next is fetched. Each is gone once the next is asked for."""
        needed = self.needed(names, ordered=ordered)
        with closing(self._pieces(needed, segments, cells, progress, deadline)) as pieces:
            for piece in pieces:
                with self._no_table(names) as table:
                    rebuilding = self._rebuilding(table, needed)
                    rebuilding.begin()
                    table.rows = rebuilding.append(piece)
                    rebuilding.end()
                    del piece
                    yield table

    @cached_property
    def _cipher(self) -> Cipher:
        return Cipher(self._key)

    def _place(self, segment: Segment) -> Place:
        """What the ciphertexts of a segment are known by; of all that are the owner's the lanes are the same."""
        whose = segment.sentinels
        if whose not in self._lanes:
            self._lanes[whose] = lanes_of(self._manifest, segment, self._key.profile)
        return Place(bytes.fromhex(segment.id), self._lanes[whose], marks_of(segment, self._cipher))

    def _no_table(self, names: Collection[str]) -> Table:
        return no_table(self._manifest.table, self._schema.only(names))

    def _rebuilding(self, table: Table, needed: Needed) -> Rebuilding:
        kept = columns_of_rows(self._manifest)
        parts = {
            number: {each.part: at for at, each in enumerate(kept) if each.measure == number and each.value}
            for number in needed.encrypted
        }
        return Rebuilding(table, self._manifest, parts, self._cells, needed.by, ordered=needed.ordered)

    def _pieces(
        self,
        needed: Needed,
        segments: Sequence[Segment] | None,
        cells: Selected | None,
        progress: Progress | None,
        deadline: Deadline | None,
    ) -> Generator[Piece, None, None]:
        wanted = []
        for segment in self._manifest.segments if segments is None else segments:
            numbers = self._numbers(segment, cells)
            if len(numbers):
                extras: Mapping[str, Callable[[], bytes]] = {
                    name: partial(self._extra, name, each) for name, each in _extras(segment, needed).items()
                }
                parts = self._parts(segment, needed, numbers, cells)
                wanted.append(Wanted(segment, self._place(segment), numbers, parts, extras))
        total = sum(len(part.numbers) for each in wanted for part in each.parts)
        advance = progress.stage("fetch and decrypt", total, "ciphertexts") if progress and total else lambda _: None
        deadline = deadline or Deadline(PULL_SECONDS)
        with closing(fetched(self._tables, self._cipher, wanted, deadline, advance)) as found:
            for each in found:
                index = self._index(each.wanted.segment)
                yield Piece(each, index, None if cells is None else index.rows_of(cells))

    def _extra(self, name: str, which: Object) -> bytes:
        return self._tables.read(which, plain=True) if name == "plain" else self._tables.unseal(self._vault, which)

    def _index(self, segment: Segment) -> Index:
        if segment.id not in self._indexes:
            self._indexes[segment.id] = load_index(self._tables.unseal(self._vault, segment.index), segment)
        return self._indexes[segment.id]

    def _numbers(self, segment: Segment, cells: Selected | None) -> NDArray[np.int64]:
        """Of the ciphertexts that hold rows which are wanted."""
        lanes = self._place(segment).lanes
        if cells is None:
            return np.arange(lanes.chunks(segment.rows))
        # cells that came with later segments are in none of this one's rows
        return self._index(segment).numbers_of(cells, lanes.capacity)

    def _parts(
        self, segment: Segment, needed: Needed, numbers: NDArray[np.int64], cells: Selected | None
    ) -> list[Part]:
        of, kept = self._place(segment).lanes.of, enumerate(columns_of_rows(self._manifest))
        lanes = {lane for at, each in kept if each.value and each.measure in needed.encrypted for lane in of(at)}
        return parts_of(segment, sorted(lanes), numbers, None if cells is None else self._index(segment))


def _extras(segment: Segment, needed: Needed) -> dict[str, Object]:
    """What is read of a segment beside its index and ciphertexts."""
    parts = {
        "order": segment.order if needed.order else None,
        "plain": segment.plain if needed.plain else None,
        "sealed": segment.sealed if needed.sealed else None,
    }
    return {name: part for name, part in parts.items() if part is not None}
