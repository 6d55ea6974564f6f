"""Fetched integers and files into rows of a DuckDB table: values in their own types, halves joined, cells by number.

The plain and the sealed half lie in the order the rows were put in. Integers are brought into that order where rows of
two halves must meet, by which then no join is needed: row meets row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.fetching import Fetched
from cleave.store.foreign_parquet import require_readable
from cleave.store.halves import half_of, is_text_in_parquet
from cleave.store.index import Index
from cleave.store.lanes import Integers
from cleave.store.manifest import Manifest, Measure
from cleave.store.names import CELL, ROW, THERE
from cleave.table.duck import identifier
from cleave.table.schema import Column
from cleave.table.table import Table
from cleave.table.types import decimals_of, digits_of
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

NO_COLUMN = '" " BOOLEAN'  # DuckDB has no table without columns
_ENCRYPTED, _CELLS = "stored_encrypted", "stored_cells"
_DIGITS_AT_ONCE = 18  # of a DECIMAL that DuckDB multiplies without leaving 38


@dataclass(frozen=True, slots=True)
class Piece:
    """What was fetched of a segment; `rows`: which of its rows, None: all."""

    fetched: Fetched
    index: Index
    rows: NDArray[np.int64] | None


class Rebuilding:
    """Fills the relation of `table`. `parts[measure]`: which column of the lanes of rows each part of it is."""

    def __init__(
        self,
        table: Table,
        manifest: Manifest,
        parts: Mapping[int, Mapping[str, int]],
        cells: Cells,
        by: Sequence[Column],
        *,
        ordered: bool,
    ) -> None:
        self._table = table
        self._manifest = manifest
        self._parts = parts
        self._cells = cells
        self._by = by
        self._ordered = ordered

    def begin(self) -> None:
        columns = ", ".join(f"{identifier(each.name)} {each.type}" for each in self._table.schema.columns)
        self._table.connection.execute(f"CREATE TABLE {self._table.relation} ({columns or NO_COLUMN})")
        places = {name: place for place, name in enumerate(self._manifest.by)}
        if self._by:
            by = [(places[each.name], each) for each in self._by]
            self._cells.create(self._table.connection, _CELLS, CELL, by)

    def end(self) -> None:
        self._table.connection.execute(f"DROP TABLE IF EXISTS {_CELLS}")

    def append(self, piece: Piece) -> int:
        """The rows of `piece`; how many. Raises CheckFailed where its parts do not belong together."""
        connection, relation = self._table.connection, self._table.relation
        arrays, rows = self._arrays(piece)
        connection.register(_ENCRYPTED, arrays)
        sources = f"{_ENCRYPTED} AS e"
        segment = piece.fetched.wanted.segment
        for half in ("plain", "sealed"):
            content = piece.fetched.extras.get(half)
            if content is not None:
                # of rows that were taken in with --trust-rows nothing was opened yet
                foreign = segment.contributor is not None or segment.sentinels is not None
                if foreign:
                    require_readable(content, segment.rows)
                self._table.take(f"stored_{half}", content, one_thread=foreign)
                if self._count(f"stored_{half}") != segment.rows:
                    raise _apart()
                sources += f" POSITIONAL JOIN stored_{half} AS {half}"
        if self._by:
            sources += f" JOIN {_CELLS} AS c ON e.{identifier(CELL)} = c.{identifier(CELL)}"
        if THERE in arrays:
            sources += f" WHERE e.{identifier(THERE)}"
        if self._ordered:
            sources += f" ORDER BY e.{identifier(ROW)}"
        selected = ", ".join(self._value(each) for each in self._table.schema.columns)
        before = self._count(relation)
        connection.execute(f"INSERT INTO {relation} SELECT {selected or 'NULL'} FROM {sources}")
        connection.unregister(_ENCRYPTED)
        for half in ("plain", "sealed"):
            connection.execute(f"DROP TABLE IF EXISTS stored_{half}")
        if self._count(relation) - before != rows:
            raise _apart()
        return rows

    def _count(self, relation: str) -> int:
        (rows,) = self._table.connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0]
        return int(rows)

    def _arrays(self, piece: Piece) -> tuple[dict[str, NDArray[Any]], int]:
        """What DuckDB reads of the encrypted half, and how many rows are wanted of it."""
        order = piece.fetched.extras.get("order")
        segment, index, rows = piece.fetched.wanted.segment, piece.index, piece.rows
        count = segment.rows if rows is None else len(rows)
        arrays = self._values(piece)
        if self._by or not arrays:
            cells = np.repeat(index.cells, index.rows).astype(np.int32)
            arrays[CELL] = cells if rows is None else cells[rows]
        if order is None:
            return arrays, count
        places = np.frombuffer(order, np.uint32)
        if len(places) != segment.rows or not len(places) or int(places.max()) >= segment.rows:
            raise _apart()
        if rows is not None:
            places = places[rows]
            there = np.zeros(segment.rows, np.bool_)
            there[places] = True
        arrays = {name: _placed(values, places, segment.rows) for name, values in arrays.items()}
        if rows is not None:
            arrays[THERE] = there
        if self._ordered:
            arrays[ROW] = np.arange(segment.rows, dtype=np.int32)
        return arrays, count

    def _values(self, piece: Piece) -> dict[str, NDArray[Any]]:
        """Each needed measure's values, NULLs masked; exact ones in units of their last decimal."""
        segment, fields = piece.fetched.wanted.segment, piece.fetched.fields
        lanes = piece.fetched.wanted.place.lanes
        taken: slice | NDArray[np.int64] = slice(0, segment.rows)
        count = segment.rows
        if piece.rows is not None:
            capacity = lanes.capacity
            slots = np.zeros(lanes.chunks(segment.rows), np.int64)
            slots[piece.fetched.wanted.numbers] = np.arange(len(piece.fetched.wanted.numbers))
            taken = slots[piece.rows // capacity] * capacity + piece.rows % capacity
            count = len(piece.rows)
        found: dict[str, NDArray[Any]] = {}
        for number, parts in self._parts.items():
            measure = self._manifest.measures[number]
            read: dict[str, Integers] = {}
            for part, at in parts.items():
                has = bool(lanes.of(at))
                read[part] = lanes.combine(at, fields, 1)[taken] if has else np.zeros(count, np.int64)
                if len(read[part]) != count:
                    raise CheckFailed("stored", "a segment has fewer ciphertexts than rows")
            found[measure.name] = values_of(measure, read)
        return found

    def _value(self, column: Column) -> str:
        """SQL of a column's value in its own type."""
        name = identifier(column.name)
        if column in self._by:
            return f"c.{name}"
        half = half_of(column)
        if half == "encrypted":
            return _typed(f"e.{name}", column.type)
        return f"CAST({half}.{name} AS {column.type})" if is_text_in_parquet(column) else f"{half}.{name}"


def values_of(measure: Measure, parts: Mapping[str, Integers]) -> NDArray[Any]:
    """A measure's values from the parts that are kept of every row, masked where they are NULL."""
    domain = of_measures.domain_of(measure)
    if "bits" in parts:
        values: NDArray[Any] = parts["bits"].astype(np.uint64).view(np.float64)
    elif domain.is_exact:
        values = _moved(parts["sum"], domain.lower, domain.upper)
    else:
        steps = (parts["sum"] - (1 << of_measures.BITS)).astype(np.float64)
        values = np.ldexp(steps, -measure.exponent) + measure.centre
    return np.ma.masked_array(values, parts["count"] == 0) if "count" in parts else values


def _moved(above: Integers, lower: int, upper: int) -> Integers:
    """`above` + `lower`, which is at most `upper`."""
    if lower >= -(1 << 63) and upper < 1 << 63:  # modulo 2^64 on the way, and the result is exact
        return (above.astype(np.uint64) + np.uint64(lower % (1 << 64))).view(np.int64)
    return above.astype(object) + lower


def _placed(values: NDArray[Any], places: NDArray[np.uint32], rows: int) -> NDArray[Any]:
    """`values[i]` at `places[i]` of `rows`, whatever may be at others."""
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        return np.ma.masked_array(_placed(values.data, places, rows), _placed(mask, places, rows))
    placed = np.zeros(rows, values.dtype)
    placed[places] = values
    return placed


def _apart() -> CheckFailed:
    return CheckFailed("stored", "a segment's parts do not have the same rows")


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
