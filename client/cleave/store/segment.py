"""One segment of a table: its rows and its totals into objects of the store.

Rows lie in a secret random order: cells in random order, and random within a cell. So where a row of the plain half
lies among the ciphertexts is known to nobody who has both stores and not the key.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Values, Words
from cleave.ckks.cipher import Cipher
from cleave.split import Halves
from cleave.sql.plan import Argument, QueryPlan
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.chunks import directory, joined
from cleave.store.encrypting import Encrypting, RowEncryptors, Span, encrypt_span
from cleave.store.halves import columns_by_half
from cleave.store.lanes import Lane, Lanes
from cleave.store.manifest import Manifest, Measure, Object, Segment, Totals, described, new_id
from cleave.store.names import ROW
from cleave.store.storage import Storage
from cleave.store.stored_lanes import OBJECT_CHUNKS, columns_of_rows, row_lanes, total_label, total_lanes
from cleave.store.tables import now
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.table import Table
from cleave_shared.dataclass import dataclass
from cleave_shared.params import Profile


class Sealing(Protocol):
    """What only the owner opens: under the owner's own key (Vault), or to the owner's public key."""

    def seal(self, name: str, content: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A segment all of which is written but its rows' ciphertexts: the columns `words` of its rows, in their order, and
    their cells with the rows of each.
    """

    words: list[Words]
    cells: list[int]
    rows: list[int]
    segment: Segment  # without index and lanes


class RowsWriter:
    """Puts the rows of segments of one table into a store, by whatever key; their totals are the subclass's."""

    public = False  # whether it is the public key

    def __init__(
        self,
        sensitive: Storage,
        plain: Storage,
        sealing: Sealing,
        cipher: Encrypting,
        profile: Profile,
        folder: str,
    ) -> None:
        self._sensitive = sensitive
        self._plain = plain
        self._sealing = sealing
        self._cipher = cipher
        self._profile = profile
        self._folder = folder

    def write(self, table: Table, manifest: Manifest, cells: Cells) -> Segment:
        """`begin` and `finish` of one segment."""
        begun = self.begin(table, manifest, cells)
        with self.encryptors(manifest, table.rows) as encryptors:
            return self.finish(begun, encryptors)

    def encryptors(self, manifest: Manifest, rows: int) -> RowEncryptors:
        """What encrypts the rows of segments of at most `rows` rows."""
        lanes = row_lanes(manifest, self._profile, public=self.public)
        return RowEncryptors(lanes, rows, OBJECT_CHUNKS, self._cipher, self._profile)

    def begin(self, table: Table, manifest: Manifest, cells: Cells) -> Begun:
        """Put the rows of `table`, which has them all in its column ROW, in their order; `cells` counts them.

        All that belongs to them but their ciphertexts is written. Raises InputError for values beyond what the table
        was made for, StoreError. What was written before an error is named by nothing.
        """
        measures = manifest.measures
        halves = Halves(table, selection(manifest, _arguments(manifest)))
        *values, numbers = halves.values()
        halves.close()
        found = cells.add(halves.keys, halves.counts.tolist())
        segment = new_id()
        order = _order(halves.counts)
        parts = [of_measures.values_of(measure, each) for measure, each in zip(measures, values, strict=True)]
        totals = self._totals(segment, measures, parts, halves.counts, found, len(cells))
        words = [
            (_pattern(values[each.measure]) if each.part == "bits" else parts[each.measure][each.part])[:, order.rows]
            for each in columns_of_rows(manifest)
        ]
        del parts, values
        rows = numbers.values.astype(np.uint32)[order.rows].tobytes()
        halves_of = columns_by_half(table)
        plain, sealed = halves_of["plain"], halves_of["sealed"]
        return Begun(
            words=words,
            cells=[found[group] for group in order.groups],
            rows=[int(halves.counts[group]) for group in order.groups],
            segment=Segment.model_construct(
                id=segment,
                added=now(),
                rows=table.rows,
                cells=len(cells),
                totals=totals,
                sealed=self._seal(table.parquet_of(sealed)) if sealed else None,
                order=self._seal(rows),
                plain=self._write(self._plain, table.parquet_of(plain)) if plain else None,
            ),
        )

    def finish(
        self, begun: Begun, encryptors: RowEncryptors, advance: Callable[[int], None] = lambda _: None
    ) -> Segment:
        """Encrypt and write the rows; `advance` is told how many of them that is by and by. Raises StoreError,
        ProcessDied.
        """
        lanes, rows = encryptors.lanes, begun.segment.rows
        ciphertexts, done, told = lanes.count * lanes.chunks(rows), 0, 0
        written: dict[Span, tuple[Object, list[tuple[int, str]]]] = {}
        lock = threading.Lock()

        def keep(span: Span, files: Sequence[bytes | memoryview]) -> None:
            nonlocal done, told
            made = self._write(self._sensitive, joined(files)), directory(files)
            with lock:
                written[span] = made
                done += len(files)
                so_far = rows * done // ciphertexts
                advance(so_far - told)
                told = so_far

        encryptors.each(bytes.fromhex(begun.segment.id), begun.words, keep)
        advance(rows - told)
        in_order = sorted(written.items(), key=lambda item: item[0].start)
        of = [[made for span, made in in_order if span.lane == lane] for lane in range(lanes.count)]
        index = {
            "cells": begun.cells,
            "rows": begun.rows,
            "chunks": [[entry for _, entries in lane for entry in entries] for lane in of],
        }
        sealed = self._seal(json.dumps(index, separators=(",", ":")).encode())
        parts = {"index": sealed, "lanes": tuple(tuple(made for made, _ in lane) for lane in of)}
        return Segment.model_validate({**begun.segment.__dict__, **parts})

    def _totals(
        self,
        segment: str,
        measures: Sequence[Measure],
        parts: Sequence[dict[str, Words]],
        counts: NDArray[np.int64],
        numbers: Sequence[int],
        cells: int,
    ) -> tuple[Totals, ...]:
        """Keep the totals of a segment; what of them its entry in the manifest holds."""
        raise NotImplementedError

    def _seal(self, content: bytes) -> Object:
        name = f"{self._folder}/{new_id()}"
        sealed = self._sealing.seal(name, content)
        self._sensitive.write(name, sealed)
        return described(name, sealed)

    def _write(self, store: Storage, content: bytes) -> Object:
        name = f"{self._folder}/{new_id()}"
        store.write(name, content)
        return described(name, content)


class SegmentWriter(RowsWriter):
    """The owner's: totals encrypted with the secret key, and checks of them that only the owner can make."""

    def __init__(
        self, sensitive: Storage, plain: Storage, vault: Vault, cipher: Cipher, profile: Profile, folder: str
    ) -> None:
        super().__init__(sensitive, plain, vault, cipher, profile, folder)
        self._vault = vault

    def totals(
        self,
        segment: str,
        measures: Sequence[Measure],
        first: int,
        parts: Sequence[dict[str, Words]],
        counts: NDArray[np.int64],
        numbers: Sequence[int],
        cells: int,
    ) -> Totals:
        """Those of `measures`, number `first` and following of the table, whose `parts` are sorted by group."""
        starts = np.cumsum(counts) - counts
        sums = [of_measures.totals(parts[each.measure][each.part], starts) for each in of_measures.columns_of(measures)]
        return self.write_totals(segment, measures, first, sums, numbers, cells)

    def write_totals(
        self,
        segment: str,
        measures: Sequence[Measure],
        first: int,
        sums: Sequence[Words],
        numbers: Sequence[int],
        cells: int,
    ) -> Totals:
        """`sums`: of every column of the totals, the total of each of the cells `numbers`."""
        lanes = total_lanes(measures, self._profile)
        columns = []
        for each in sums:
            entries = np.zeros((len(each), cells), np.uint64)
            entries[:, np.asarray(numbers)] = each
            columns.append(entries)
        planes = lanes.encode(columns)
        label = total_label(segment, first)
        written = [
            self._write(
                self._sensitive,
                joined(
                    encrypt_span(lanes, plane, Span(lane, 0, lanes.chunks(cells)), self._cipher, self._profile, label)
                ),
            )
            for lane, plane in enumerate(planes)
        ]
        checks = [lane_checks(self._vault, lanes, plane, number) for number, plane in enumerate(planes)]
        return Totals(
            first=first,
            stop=first + len(measures),
            lanes=tuple(written),
            sums=tuple(total for total, _ in checks),
            weighted=tuple(weighted for _, weighted in checks),
        )

    def _totals(
        self,
        segment: str,
        measures: Sequence[Measure],
        parts: Sequence[dict[str, Words]],
        counts: NDArray[np.int64],
        numbers: Sequence[int],
        cells: int,
    ) -> tuple[Totals, ...]:
        return (self.totals(segment, measures, 0, parts, counts, numbers, cells),)


def lane_checks(vault: Vault, lanes: Lanes, plane: Lane, number: int) -> tuple[int, int]:
    """The sum of a lane's entries, and that by weights only the owner knows; both add up over segments."""
    entries = (plane >> lanes.layout.guard).astype(object)
    weights = np.frombuffer(vault.pseudorandom(f"lane/{number}", 4 * len(plane)), np.uint32).astype(object)
    return int(entries.sum()) if len(entries) else 0, int((entries * weights).sum()) if len(entries) else 0


@dataclass(frozen=True, slots=True)
class _Order:
    """`rows`: the rows, sorted by group, in the order they are stored in; `groups`: the order of the groups."""

    rows: NDArray[np.int64]
    groups: NDArray[np.int64]


def _order(counts: NDArray[np.int64]) -> _Order:
    """Groups in random order and random within each, by the system's generator."""
    total = int(counts.sum())
    groups = np.argsort(np.frombuffer(os.urandom(8 * len(counts)), np.uint64), kind="stable")
    place = np.empty(len(counts), np.int64)
    place[groups] = np.arange(len(counts))
    rows = np.lexsort((np.frombuffer(os.urandom(8 * total), np.uint64), np.repeat(place, counts)))
    return _Order(rows, groups)


def _pattern(values: Values) -> Words:
    """The bits of doubles; 0 where there is none."""
    bits = values.values.astype(np.float64).view(np.uint64)
    return (bits if values.valid is None else np.where(values.valid, bits, np.uint64(0)))[None]


def _arguments(manifest: Manifest) -> list[Argument]:
    """Every measure's, and the rows' numbers."""
    found = [of_measures.argument_of(each) for each in manifest.measures]
    number = Argument(identifier(ROW), "BIGINT", 0, (), lower=0, upper=of_measures.SEGMENT_ROWS, nullable=False)
    return [*found, number]


def selection(manifest: Manifest, arguments: Sequence[Argument]) -> QueryPlan:
    """All rows by cell, with their values of `arguments`."""
    by = tuple(identifier(name) for name in manifest.by)
    return QueryPlan(
        sql="",
        table=manifest.table,
        where=None,
        keys=by,
        key_types=(),
        selecting=(),
        plain_columns=(),
        arguments=tuple(arguments),
        encrypted=(),
        plain=(),
        outputs=(),
        finals=(),
        having=None,
        order_by=(),
        limit=None,
        offset=0,
    )
