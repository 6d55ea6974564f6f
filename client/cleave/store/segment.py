"""Writes one segment of a table: its sealed columns, its plain half, its totals, and its rows for scans.

Rows are sorted by the plain by columns, then by the order of the file, equally in both halves. Rows for scans have a
secret random order. So a reader of both stores without the key cannot relate ciphertexts to rows of the plain half.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Words
from cleave.ckks.cipher import Cipher
from cleave.objects.storage import Storage
from cleave.sql.rejoin import Texts
from cleave.store.cells import Cells, Index
from cleave.store.columns import read_columns
from cleave.store.contributors import OWNER
from cleave.store.encrypting import RowEncryptors, Span, encrypt_lane
from cleave.store.lanes import LaneEntries, Lanes, row_lanes, total_label, total_lanes
from cleave.store.manifest import (
    MARK,
    Manifest,
    Measure,
    Object,
    ScanObjects,
    Sealed,
    SealedColumn,
    Segment,
    Segments,
    TotalsObjects,
    described,
    new_id,
    now,
)
from cleave.store.published import digests_of, identity_of
from cleave.store.reader import Opened
from cleave.store.reading import MARKS
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import ColumnPlace, ColumnValues, seal_column
from cleave.store.slices import sort
from cleave.store.sums import Summing
from cleave.store.tables import Tables
from cleave.store.vault import Purpose, Vault
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind
from cleave.table.table import Table
from cleave_shared.chunks import joined

THREADS = min(4, len(os.sched_getaffinity(0)))
_VALUES_TOGETHER = 1 << 18  # in columns that are read at once


@dataclass(frozen=True, slots=True)
class PartialSegment:
    """A segment written except for its rows for scans.

    `keys`: its cells, with their numbers. `words`: the columns of the rows for scans, in their order; `order`: for
    each of them, its row in the segment. Both are empty without scans.
    """

    segment: Segment
    keys: tuple[tuple[int, Texts], ...]
    words: list[Words]
    order: bytes


@dataclass(frozen=True, slots=True)
class ColumnTarget:
    """Folder for the columns of `segment`, and the key of each object, from its column and name."""

    store: Storage
    folder: str
    table_id: str
    segment: str
    key_of: Callable[[SealedColumn, str], bytes]

    def write(self, pool: Executor, table: Table, columns: Sequence[SealedColumn]) -> list[Future[list[Sealed]]]:
        """Start to seal and write `columns` of the rows of `table` in threads (AES-GCM and DuckDB release the GIL).

        Each future returns the next of them, in order. DuckDB reads several columns of few rows at once, because a
        statement's fixed cost grows with the table's columns.
        """
        together = max(1, min(-(-len(columns) // THREADS), _VALUES_TOGETHER // max(1, table.rows)))
        groups = [columns[start : start + together] for start in range(0, len(columns), together)]
        return [pool.submit(self._write_group, table, group) for group in groups]

    def _write_group(self, table: Table, columns: Sequence[SealedColumn]) -> list[Sealed]:
        with table.beside() as rows:
            read = read_columns(rows.connection, columns, rows.relation)
        return [self.write_values(column, values) for column, values in zip(columns, read, strict=True)]

    def write_marks(self, marks: NDArray[np.bool_]) -> Sealed:
        """Seal and write which rows are published (rows,)."""
        return self.write_values(MARKS, ColumnValues(marks.astype(np.uint8).reshape(-1, 1), None))

    def write_values(self, column: SealedColumn, values: ColumnValues) -> Sealed:
        """Seal and write all values of a column."""
        name = f"{self.folder}/{new_id()}"
        place = ColumnPlace(self.table_id, name[-32:], self.segment, column, values.rows)
        blocks = seal_column(self.key_of(column, name), place, values)
        content = b"".join(blocks)
        self.store.write(name, content)
        lengths = () if column.width else tuple(map(len, blocks))
        return Sealed(object=described(name, content), lengths=lengths)


def target_of(tables: Tables, manifest: Manifest, segment: str) -> ColumnTarget:
    """Where the columns of a segment of an owner's table are written."""
    vault, folder = tables.vault(manifest.table_id), tables.folder(manifest.table)
    return ColumnTarget(tables.stores.sensitive, folder, manifest.table_id, segment, vault.key_in_column)


class SegmentWriter:
    """Writes segments of the table of `manifest` under its owner's key. A context manager.

    `cells` counts the written rows. `advance` gets the number of rows written since its last call.
    """

    def __init__(
        self, tables: Tables, manifest: Manifest, cells: Cells, most_rows: int, advance: Callable[[int], None]
    ) -> None:
        """`most_rows`: of a segment that is encrypted for scans. Reads the table's CKKS secret.

        Raises CheckFailed, StoreError.
        """
        secret = tables.secret(manifest)
        self.cells = cells
        self.advance = advance
        self.schema = load_stored_schema(manifest)
        self._tables = tables
        self.manifest = manifest
        self._vault = tables.vault(manifest.table_id)
        self._cipher = Cipher(secret)
        self._profile = secret.profile
        self._folder = tables.folder(manifest.table)
        self._identity = identity_of(manifest)
        self._digests = digests_of(tables, manifest) if self._identity else None  # else the releases have ended
        self._encryptors: RowEncryptors | None = None
        if manifest.scanned and most_rows:
            self._encryptors = RowEncryptors(row_lanes(manifest, self._profile), most_rows, self._cipher)

    def __enter__(self) -> SegmentWriter:
        if self._encryptors is not None:
            self._encryptors.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._encryptors is not None:
            self._encryptors.__exit__()

    def begin(
        self,
        table: Table,
        segment: str | None = None,
        contributor: str | None = None,
        plain: Object | None = None,
    ) -> PartialSegment:
        """Write the rows of `table`, in order, as `segment` (None: a new one).

        `plain`: the plain half, if it is stored already. Rows that were published before are marked, from the column
        MARK of `table`, or by the digests of rows that left.

        Raises InputError for values outside the table's range and as `Cells.add`; StoreError. After an error no
        manifest names what was written.
        """
        segment, manifest, cells = segment or new_id(), self.manifest, self.cells
        by = plain_by(manifest, table.schema.columns)
        if by:
            sort(table, by)
        target = target_of(self._tables, manifest, segment)
        with ThreadPoolExecutor(THREADS) as pool:
            half = None if plain else pool.submit(self._plain_half, table)
            columns = target.write(pool, table, manifest.sealed)
            marks = self._marks(table, contributor)
            summed = Summing(table, manifest.by, manifest.measures).sums()
            numbers = cells.add(manifest.by, summed.keys, summed.counts.tolist())
            totals = self.write_totals(manifest.measures, 0, summed.columns, numbers, len(cells))
            runs = _runs(table, manifest, by, summed.keys, numbers)
            index = Index(np.asarray(numbers, np.int64), summed.counts, np.asarray(runs, np.int64).reshape(-1, 2))
            written = Segment(
                id=segment,
                added=now(),
                rows=table.rows,
                cells=len(cells),
                index=index.dump(),
                columns=tuple(each for group in columns for each in group.result()),
                totals=(totals,),
                plain=half.result() if half else plain,
                contributor=contributor,
                marks=None if marks is None else target.write_marks(marks),
                unpublished=None if marks is None else int(table.rows - marks.sum()),
            )
        return self.for_scans(table, written, tuple(zip(numbers, summed.keys, strict=True)))

    def renumbered(self, opened: Opened, segment: Segment) -> tuple[Segment, tuple[tuple[int, Texts], ...]]:
        """Write index and totals of a stored segment again, because others have used numbers of its cells; and return
        the keys of its cells with the new numbers. Its rows stay, also those for scans, which have no numbers of cells.

        `opened`: a version of the table. Raises InputError as `Cells.add`, CheckFailed, StoreError.
        """
        manifest = self.manifest.model_copy(update={"segments": Segments.of([segment])})
        read = set(self.schema.names)
        with (
            closing(Rows(self._tables, replace(opened, manifest=manifest))) as rows,
            rows.table(read, segments=[segment]) as table,
        ):
            summed = Summing(table, manifest.by, manifest.measures).sums()
            numbers = self.cells.add(manifest.by, summed.keys, summed.counts.tolist())
            totals = self.write_totals(manifest.measures, 0, summed.columns, numbers, len(self.cells))
            runs = _runs(table, manifest, plain_by(manifest, table.schema.columns), summed.keys, numbers)
        index = Index(np.asarray(numbers, np.int64), summed.counts, np.asarray(runs, np.int64).reshape(-1, 2))
        update = {"index": index.dump(), "totals": (totals,), "cells": len(self.cells)}
        return segment.model_copy(update=update), tuple(zip(numbers, summed.keys, strict=True))

    def _marks(self, table: Table, contributor: str | None) -> NDArray[np.bool_] | None:
        """Which rows were published before (rows,); None if none can be."""
        if table.schema.find(MARK) is not None:
            read = table.connection.execute(f"SELECT {identifier(MARK)} AS mark FROM {table.relation}").fetchnumpy()
            return np.asarray(read["mark"], np.bool_)
        if self._digests is None:
            return None
        return self._digests.marks(table, self.schema, self._identity, contributor or OWNER)

    def _plain_half(self, table: Table) -> Object | None:
        names = table.schema.plain
        with table.beside() as rows:
            return self._tables.write(self._folder, rows.parquet_of(names), plain=True) if names else None

    def for_scans(self, table: Table, segment: Segment, keys: tuple[tuple[int, Texts], ...] = ()) -> PartialSegment:
        """The rows for scans of a stored segment. `table` has its rows in stored order."""
        manifest = self.manifest
        if not manifest.scanned:
            return PartialSegment(segment, keys, [], b"")
        rows = Summing(table, manifest.by, manifest.measures[: manifest.scanned]).rows()
        order = np.argsort(rows.cells, kind="stable")[_secret_order(np.bincount(rows.cells))]
        return PartialSegment(segment, keys, *rows.ordered(order))

    def finish(self, partial: PartialSegment) -> Segment:
        """Encrypt and write the rows for scans, if there are any. Raises StoreError, ProcessDied."""
        rows, encryptors, advance = partial.segment.rows, self._encryptors, self.advance
        if encryptors is None:
            advance(rows)
            return partial.segment
        lanes = encryptors.lanes
        ciphertexts, done, shown = lanes.count * lanes.chunks(rows), 0, 0
        written: dict[Span, Object] = {}
        lock = threading.Lock()

        def keep(span: Span, files: Sequence[bytes | memoryview]) -> None:
            nonlocal done, shown
            object_ = self._tables.write(self._folder, joined(files))
            with lock:
                written[span] = object_
                done += len(files)
                so_far = rows * done // ciphertexts
                advance(so_far - shown)
                shown = so_far

        encryptors.each(bytes.fromhex(partial.segment.id), partial.words, keep)
        advance(rows - shown)
        in_order = sorted(written.items(), key=lambda item: item[0].start)
        of = tuple(tuple(object_ for span, object_ in in_order if span.lane == lane) for lane in range(lanes.count))
        return partial.segment.model_copy(
            update={"scan": ScanObjects(order=self._seal("rows", partial.order), lanes=of)}
        )

    def _seal(self, purpose: Purpose, content: bytes) -> Object:
        return self._tables.seal(self._folder, self._vault, purpose, content)

    def write_totals(
        self,
        measures: Sequence[Measure],
        first: int,
        sums: Sequence[Words],
        numbers: Sequence[int],
        cells: int,
    ) -> TotalsObjects:
        """Write the totals of `measures`. `first`: index in the table of the first of them.

        `sums`: for every column of totals, the totals of the cells `numbers`.
        """
        lanes = total_lanes(measures, self._profile)
        columns = []
        for each in sums:
            entries = np.zeros((len(each), cells), np.uint64)
            entries[:, np.asarray(numbers)] = each
            columns.append(entries)
        planes = lanes.encode(columns)
        label = new_id()
        written = [
            self._tables.write(
                self._folder,
                joined(encrypt_lane(lanes, plane, self._cipher, total_label(label), lane)),
            )
            for lane, plane in enumerate(planes)
        ]
        checks = [lane_checks(self._vault, lanes, plane, number) for number, plane in enumerate(planes)]
        return TotalsObjects(
            label=label,
            first=first,
            stop=first + len(measures),
            lanes=tuple(written),
            sums=tuple(total for total, _ in checks),
            weighted=tuple(weighted for _, weighted in checks),
        )


def write_marks(tables: Tables, manifest: Manifest, segment: Segment, marks: NDArray[np.bool_]) -> Segment:
    """`segment` with new marks of published rows (rows,)."""
    left = int(segment.rows - marks.sum())
    written = target_of(tables, manifest, segment.id).write_marks(marks)
    return segment.model_copy(update={"marks": written, "unpublished": left})


def plain_by(manifest: Manifest, columns: Sequence[Column]) -> list[Column]:
    """The plain by columns: they may order what the plain place sees."""
    kinds = {each.name: each for each in columns}
    return [kinds[name] for name in manifest.by if kinds[name].kind is Kind.PLAIN]


def _runs(
    table: Table, manifest: Manifest, by: Sequence[Column], keys: Sequence[Texts], cells: Sequence[int]
) -> list[tuple[int, int]]:
    """Runs of rows with equal plain by columns, in order: (one of their cells, number of rows)."""
    if not by:
        return []
    places = [manifest.by.index(each.name) for each in by]
    cell_of = {tuple(key[place] for place in places): cell for key, cell in zip(keys, cells, strict=True)}
    names = [identifier(each.name) for each in by]
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    ordered = ", ".join(f"{name} NULLS LAST" for name in names)
    sql = f"SELECT {texts}, count(*) FROM {table.relation} GROUP BY {', '.join(names)} ORDER BY {ordered}"
    return [(cell_of[tuple(key)], rows) for *key, rows in table.connection.execute(sql).fetchall()]


def lane_checks(vault: Vault, lanes: Lanes, plane: LaneEntries, number: int) -> tuple[int, int]:
    """The sum of a lane's entries, and their sum with weights that only the owner knows. Both add up over segments."""
    entries = (plane >> lanes.layout.guard).astype(object)
    weights = np.frombuffer(vault.pseudorandom(f"lane/{number}", 4 * len(plane)), np.uint32).astype(object)
    return int(entries.sum()) if len(entries) else 0, int((entries * weights).sum()) if len(entries) else 0


def _secret_order(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows, sorted by group, in a new order for their ciphertexts: groups in random order, and rows random
    within each.
    """
    total = int(counts.sum())
    groups = np.argsort(np.frombuffer(os.urandom(8 * len(counts)), np.uint64), kind="stable")
    place = np.empty(len(counts), np.int64)
    place[groups] = np.arange(len(counts))
    return np.lexsort((np.frombuffer(os.urandom(8 * total), np.uint64), np.repeat(place, counts)))
