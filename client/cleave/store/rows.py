"""A stored table's rows, or the columns of them that a question reads, decrypted into a table of this process."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.chunks import split
from cleave.store.lanes import Integers
from cleave.store.manifest import Manifest, Measure, Object, Segment
from cleave.store.opening import open_lane
from cleave.store.segment import OBJECT_CHUNKS, ROW, half_of, is_text_in_parquet, row_columns, row_lanes
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave.table.table import Table, no_table
from cleave.table.types import decimals_of, digits_of
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from cleave.pipeline import Progress

_CELL = "cell of the row"
_ENCRYPTED, _CELLS = "stored_encrypted", "stored_cells"
NO_COLUMN = '" " BOOLEAN'  # DuckDB has no table without columns
_DIGITS_AT_ONCE = 18  # of a DECIMAL that DuckDB multiplies without leaving 38


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


class Rows:
    def __init__(
        self, tables: Tables, vault: Vault, key: SecretKey, manifest: Manifest, schema: Schema, cells: Cells
    ) -> None:
        self._tables = tables
        self._vault = vault
        self._cipher = Cipher(key)
        self._key = key
        self._manifest = manifest
        self._schema = schema
        self._cells = cells

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

    def objects(self, needed: Needed) -> list[Object]:
        """All that `table` reads."""
        found = []
        for segment in self._manifest.segments:
            found += [segment.index, *(each for lane in self._lanes(needed) for each in segment.lanes[lane])]
            parts = (
                segment.order if needed.order else None,
                segment.plain if needed.plain else None,
                segment.sealed if needed.sealed else None,
            )
            found += [part for part in parts if part is not None]
        return found

    def table(
        self,
        names: Collection[str],
        *,
        ordered: bool = False,
        progress: Progress | None = None,
        segments: Sequence[Segment] | None = None,
    ) -> Table:
        """The columns `names` of the rows of `segments` (None: all), in the order they were put if `ordered`.

        Raises CheckFailed, StoreError.
        """
        chosen = self._manifest.segments if segments is None else segments
        needed = self.needed(names, ordered=ordered)
        columns = tuple(column for column in self._schema.columns if column.name in names)
        schema = Schema(columns, self._schema.dialect, self._schema.table)
        table = no_table(self._manifest.table, schema, sum(segment.rows for segment in chosen))
        try:
            described = ", ".join(f"{identifier(each.name)} {each.type}" for each in columns)
            table.connection.execute(f"CREATE TABLE {table.relation} ({described or NO_COLUMN})")
            self._load_cells(table, needed)
            advance = progress.stage("fetch and decrypt", table.rows) if progress else None
            for segment in chosen:
                self._append(table, segment, columns, needed)
                if advance:
                    advance(segment.rows)
            table.connection.execute(f"DROP TABLE {_CELLS}")
        except BaseException:
            table.__exit__(None, None, None)
            raise
        return table

    def _lanes(self, needed: Needed) -> list[int]:
        kept = row_columns(self._manifest.measures, lossless=self._manifest.lossless)
        lanes = row_lanes(self._manifest.measures, self._key.profile, lossless=self._manifest.lossless)
        return sorted(
            {lane for at, each in enumerate(kept) if each.measure in needed.encrypted for lane in lanes.of(at)}
        )

    def _load_cells(self, table: Table, needed: Needed) -> None:
        places = {name: place for place, name in enumerate(self._manifest.by)}
        self._cells.create(table.connection, _CELLS, _CELL, [(places[each.name], each) for each in needed.by])

    def _append(self, table: Table, segment: Segment, columns: Sequence[Column], needed: Needed) -> None:
        index = json.loads(self._tables.unseal(self._vault, segment.index))
        arrays: dict[str, NDArray[Any]] = {_CELL: np.repeat(index["cells"], index["rows"]).astype(np.int64)}
        if len(arrays[_CELL]) != segment.rows:
            raise CheckFailed("stored", "a segment's index has another number of rows than the table's manifest")
        if needed.order and segment.order is not None:
            order = np.frombuffer(self._tables.unseal(self._vault, segment.order), np.uint32)
            arrays[ROW] = order.astype(np.int64)
        arrays |= self._decrypted(segment, needed)
        connection = table.connection
        connection.register(_ENCRYPTED, arrays)
        sources = f"{_ENCRYPTED} AS e JOIN {_CELLS} AS c USING ({identifier(_CELL)})"
        for kind, wanted, part, plain in (
            ("plain", needed.plain, segment.plain, True),
            ("sealed", needed.sealed, segment.sealed, False),
        ):
            if wanted and part is not None:
                content = self._tables.read(part, plain=True) if plain else self._tables.unseal(self._vault, part)
                table.take(f"stored_{kind}_file", content)
                connection.execute(
                    f"CREATE TABLE stored_{kind} AS SELECT *, row_number() OVER () - 1 AS {identifier(ROW)} "
                    f"FROM stored_{kind}_file"
                )
                connection.execute(f"DROP TABLE stored_{kind}_file")
                sources += f" JOIN stored_{kind} AS {kind} USING ({identifier(ROW)})"
        selected = ", ".join(self._value(each, needed) for each in columns)
        ordering = f" ORDER BY {identifier(ROW)}" if needed.ordered else ""
        before = _rows(table)
        connection.execute(f"INSERT INTO {table.relation} SELECT {selected or 'NULL'} FROM {sources}{ordering}")
        connection.unregister(_ENCRYPTED)
        for kind in ("plain", "sealed"):
            connection.execute(f"DROP TABLE IF EXISTS stored_{kind}")
        if _rows(table) - before != segment.rows:
            raise CheckFailed("stored", "a segment's parts do not have the same rows")

    def _decrypted(self, segment: Segment, needed: Needed) -> dict[str, NDArray[Any]]:
        """Each needed measure's values, NULLs masked; exact ones in units of their last decimal."""
        manifest = self._manifest
        kept = row_columns(manifest.measures, lossless=manifest.lossless)
        lanes = row_lanes(manifest.measures, self._key.profile, lossless=manifest.lossless)
        planes = {lane: self._lane(segment, lanes, lane) for lane in self._lanes(needed)}
        found: dict[str, NDArray[Any]] = {}
        for number in needed.encrypted:
            parts: dict[str, Integers] = {}
            for at, each in enumerate(kept):
                if each.measure == number:
                    of = {lane: planes[lane] for lane in lanes.of(at)}
                    parts[each.part] = lanes.decode(at, of, 1) if of else np.zeros(segment.rows, np.int64)
            measure = manifest.measures[number]
            found[measure.name] = _values(measure, parts)
        return found

    def _lane(self, segment: Segment, lanes: Any, lane: int) -> NDArray[np.int64]:
        label = bytes.fromhex(segment.id)
        pieces = [
            open_lane(self._cipher, lanes, label, lane, place * OBJECT_CHUNKS, split(self._tables.read(each)))
            for place, each in enumerate(segment.lanes[lane])
        ]
        found = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        if len(found) < segment.rows:
            raise CheckFailed("stored", "a segment has fewer ciphertexts than rows")
        return found[: segment.rows]

    def _value(self, column: Column, needed: Needed) -> str:
        """SQL of a column's value in its own type."""
        name = identifier(column.name)
        if column in needed.by:
            return f"c.{name}"
        half = half_of(column)
        if half == "encrypted":
            return _typed(f"e.{name}", column.type)
        return f"CAST({half}.{name} AS {column.type})" if is_text_in_parquet(column) else f"{half}.{name}"


def _rows(table: Table) -> int:
    (rows,) = table.connection.execute(f"SELECT count(*) FROM {table.relation}").fetchall()[0]
    return int(rows)


def _values(measure: Measure, parts: Mapping[str, Integers]) -> NDArray[Any]:
    domain = of_measures.domain_of(measure)
    if "bits" in parts:
        values: NDArray[Any] = parts["bits"].astype(np.uint64).view(np.float64)
    elif domain.is_exact:
        total = parts["sum"]
        wide = max(-domain.lower, domain.upper) >= 1 << 62
        values = (total.astype(object) if wide else total) + domain.lower
    else:
        steps = (parts["sum"] - (1 << of_measures.BITS)).astype(np.float64)
        values = np.ldexp(steps, -measure.exponent) + measure.centre
    return np.ma.masked_array(values, parts["count"] == 0) if "count" in parts else values


def _typed(sql: str, type_: str) -> str:
    """`sql`, a number in units of the type's last decimal, as a value of `type_`."""
    decimals, digits = decimals_of(type_), digits_of(type_)
    if not decimals or digits is None:
        return f"CAST({sql} AS {type_})"
    if digits <= _DIGITS_AT_ONCE:
        unit = f"CAST('0.{'0' * (decimals - 1)}1' AS DECIMAL({decimals + 1},{decimals}))"
        return f"CAST(CAST({sql} AS DECIMAL({_DIGITS_AT_ONCE},0)) * {unit} AS {type_})"
    text = f"CAST(abs({sql}) AS VARCHAR)"
    padded = f"(repeat('0', greatest(0, {decimals + 1} - length({text}))) || {text})"
    sign = f"CASE WHEN {sql} < 0 THEN '-' ELSE '' END"
    return f"CAST({sign} || left({padded}, -{decimals}) || '.' || right({padded}, {decimals}) AS {type_})"
