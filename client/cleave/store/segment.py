"""One segment of a table: its rows and its totals into objects of the store.

Rows lie in a secret random order: cells in random order, and random within a cell. So where a row of the plain half
lies among the ciphertexts is known to nobody who has both stores and not the key.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Exact, Values, Words
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import SENTINEL_SHIFT
from cleave.ckks.encryptors import Encryptors
from cleave.split import Halves
from cleave.sql.plan import Argument, QueryPlan
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.chunks import joined
from cleave.store.lanes import Lane, Lanes, plan_lanes
from cleave.store.manifest import Manifest, Measure, Object, Segment, Totals, described, new_id
from cleave.store.storage import Storage
from cleave.store.tables import now
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind
from cleave.table.table import Table
from cleave.table.types import is_number
from cleave.transport.deadline import Deadline
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

WINDOW = 64  # ciphertexts of a lane that may be added up: of totals so many segments, of rows so many chunks
OBJECT_CHUNKS = 64  # of a lane's ciphertexts in one object: 4.2 MB
ROW = "row of the segment"  # the column that numbers a segment's rows; no schema's column has its type
_UNDER_WAY = 4
_SECONDS = 3600.0  # for one segment, the store's waits included


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column of a segment's rows: `part` (count, sum, bits) of measure number `measure`."""

    measure: int
    part: str
    limit: int


def row_columns(measures: Sequence[Measure], *, lossless: bool) -> list[RowColumn]:
    """What is stored of every row: of the encrypted columns, not of derived ones."""
    found = [
        RowColumn(column.measure, column.part, column.limit)
        for column in of_measures.columns_of(measures)
        if column.part != "square" and not measures[column.measure].derived
    ]
    if lossless:
        found += [
            RowColumn(number, "bits", (1 << 64) - 1)
            for number, measure in enumerate(measures)
            if measure.decimals is None and not measure.derived
        ]
    return found


def row_lanes(measures: Sequence[Measure], profile: Profile, *, lossless: bool) -> Lanes:
    return plan_lanes([Exact(each.limit) for each in row_columns(measures, lossless=lossless)], WINDOW, profile)


def total_lanes(measures: Sequence[Measure], profile: Profile) -> Lanes:
    return plan_lanes([column.total for column in of_measures.columns_of(measures)], WINDOW, profile)


@dataclass(frozen=True, slots=True)
class Span:
    """Ciphertexts `start`..`stop` of a lane, the first of which is number `start` of it."""

    lane: int
    start: int
    stop: int


class Sheets:
    """Lanes of a segment on their way into ciphertexts. `label` makes their sentinels their own."""

    def __init__(self, lanes: Lanes, planes: Sequence[Lane], cipher: Cipher, profile: Profile, label: bytes) -> None:
        self.lanes = lanes
        self._planes = planes
        self._cipher = cipher
        self._degree = profile.degree
        self._label = label

    def spans(self) -> list[Span]:
        return [
            Span(lane, start, min(start + OBJECT_CHUNKS, chunks))
            for lane, plane in enumerate(self._planes)
            for chunks in [self.lanes.chunks(len(plane))]
            for start in range(0, chunks, OBJECT_CHUNKS)
        ]

    def encrypt(self, span: Span) -> list[bytes]:
        polynomials = self.lanes.polynomials(self._planes[span.lane], span.start, span.stop, self._degree)
        for number, polynomial in enumerate(polynomials, span.start):
            polynomial[-SENTINELS:] = sentinels(self._cipher, self._label, span.lane, number)
        return self._cipher.encrypt(polynomials)


def sentinels(cipher: Cipher, label: bytes, lane: int, number: int) -> NDArray[np.int64]:
    """What stands in the last coefficients of ciphertext `number` of a lane."""
    return cipher.sentinels(label, lane << 32 | number) << SENTINEL_SHIFT


class SegmentWriter:
    """Puts segments of one table into a store."""

    def __init__(
        self, sensitive: Storage, plain: Storage, vault: Vault, cipher: Cipher, profile: Profile, folder: str
    ) -> None:
        self._sensitive = sensitive
        self._plain = plain
        self._vault = vault
        self._cipher = cipher
        self._profile = profile
        self._folder = folder

    def write(self, table: Table, manifest: Manifest, cells: Cells) -> Segment:
        """The rows of `table`, which has them all in its column ROW; `cells` counts them.

        Raises InputError for values beyond what the table was made for, StoreError. What was written before an error is
        named by nothing.
        """
        measures, profile = manifest.measures, self._profile
        halves = Halves(table, selection(manifest, _arguments(manifest)))
        *values, numbers = halves.values()
        found = cells.add(halves.keys, halves.counts.tolist())
        segment = new_id()
        order = _order(halves.counts)
        parts = [of_measures.values_of(measure, each) for measure, each in zip(measures, values, strict=True)]
        totals = self.totals(segment, measures, 0, parts, halves.counts, found, len(cells))
        lanes = row_lanes(measures, profile, lossless=manifest.lossless)
        words = [
            (_pattern(values[each.measure]) if each.part == "bits" else parts[each.measure][each.part])[:, order.rows]
            for each in row_columns(measures, lossless=manifest.lossless)
        ]
        del parts, values
        sheets = Sheets(lanes, lanes.encode(words), self._cipher, profile, bytes.fromhex(segment))
        written = self._encrypted(sheets)
        index = {
            "cells": [found[group] for group in order.groups],
            "rows": [int(halves.counts[group]) for group in order.groups],
        }
        halves_of = _columns_by_half(table)
        rows = numbers.values.astype(np.uint32)[order.rows].tobytes()
        made = Segment(
            id=segment,
            added=now(),
            rows=table.rows,
            cells=len(cells),
            index=self._seal(json.dumps(index, separators=(",", ":")).encode()),
            lanes=written,
            totals=(totals,),
            sealed=self._seal(_sealed_parquet(table, halves_of["sealed"])) if halves_of["sealed"] else None,
            order=self._seal(rows),
            plain=self._write(self._plain, table.parquet(table.relation, halves_of["plain"], 0, table.rows))
            if halves_of["plain"]
            else None,
        )
        halves.close()
        return made

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
        lanes = total_lanes(measures, self._profile)
        starts = np.cumsum(counts) - counts
        columns = []
        for column in of_measures.columns_of(measures):
            sums = of_measures.totals(parts[column.measure][column.part], starts)
            entries = np.zeros((len(sums), cells), np.uint64)
            entries[:, np.asarray(numbers)] = sums
            columns.append(entries)
        planes = lanes.encode(columns)
        sheets = Sheets(lanes, planes, self._cipher, self._profile, total_label(segment, first))
        written = [
            self._write(self._sensitive, joined(sheets.encrypt(Span(lane, 0, lanes.chunks(cells)))))
            for lane in range(lanes.count)
        ]
        checks = [lane_checks(self._vault, lanes, plane, number) for number, plane in enumerate(planes)]
        return Totals(
            first=first,
            stop=first + len(measures),
            lanes=tuple(written),
            sums=tuple(total for total, _ in checks),
            weighted=tuple(weighted for _, weighted in checks),
        )

    def _encrypted(self, sheets: Sheets) -> tuple[tuple[Object, ...], ...]:
        written: dict[Span, Object] = {}
        lock = threading.Lock()

        def keep(span: Span, files: list[bytes]) -> None:
            made = self._write(self._sensitive, joined(files))
            with lock:
                written[span] = made

        spans = sheets.spans()
        with Encryptors(sheets, spans) as encryptors:
            encryptors.each(keep, _UNDER_WAY, threading.Event(), Deadline(_SECONDS))
        return tuple(tuple(written[span] for span in spans if span.lane == lane) for lane in range(sheets.lanes.count))

    def _seal(self, content: bytes) -> Object:
        name = f"{self._folder}/{new_id()}"
        sealed = self._vault.seal(name, content)
        self._sensitive.write(name, sealed)
        return described(name, sealed)

    def _write(self, store: Storage, content: bytes) -> Object:
        name = f"{self._folder}/{new_id()}"
        store.write(name, content)
        return described(name, content)


def total_label(segment: str, first: int) -> bytes:
    return f"totals/{segment}/{first}".encode()


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
    found = [
        Argument(each.sql, each.type, each.decimals, (), lower=each.lower, upper=each.upper, nullable=each.nullable)
        for each in manifest.measures
    ]
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


def half_of(column: Column) -> str:
    """Where a column is stored: encrypted, sealed or plain. Encrypted dates and the like are sealed."""
    if column.kind is Kind.ENCRYPTED:
        return "encrypted" if is_number(column.type) or column.type == "BOOLEAN" else "sealed"
    return str(column.kind)


def _columns_by_half(table: Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"plain": [], "encrypted": [], "sealed": [], "local": []}
    for column in table.schema.columns:
        found[half_of(column)].append(column.name)
    return found


def _sealed_parquet(table: Table, names: Sequence[str]) -> bytes:
    """Parquet counts intervals in milliseconds: they go as text, which has every microsecond."""
    columns = [table.schema.column(name) for name in names]
    selected = ", ".join(
        f"CAST({identifier(each.name)} AS VARCHAR) AS {identifier(each.name)}"
        if is_text_in_parquet(each)
        else identifier(each.name)
        for each in columns
    )
    table.connection.execute(f"CREATE OR REPLACE TEMP VIEW sealed_columns AS SELECT {selected} FROM {table.relation}")
    content = table.parquet("sealed_columns", names, 0, table.rows)
    table.connection.execute("DROP VIEW sealed_columns")
    return content


def is_text_in_parquet(column: Column) -> bool:
    return column.type == "INTERVAL"
