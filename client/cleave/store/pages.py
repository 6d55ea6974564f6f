"""Opened blocks of a sealed column as pages of Parquet that are neither compressed nor encoded, as far as it allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cleave.store import parquet
from cleave.store.columns import is_text
from cleave.store.manifest import SealedColumn
from cleave.store.parquet import Chunk, chunk_of
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock, offsets_of
from cleave.table.types import INTEGERS, ZONED, decimals_of, digits_of

Buffers: TypeAlias = list[Any]

_LEAST = 128  # values of a block of lengths: a multiple of it
_BITS = 32  # of a length
_TEXT, _DECIMAL, _DATE, _TIME, _TIMESTAMP = 0, 5, 6, 8, 10  # converted types
_INT32, _INT64 = 17, 18
_NARROW, _WIDE = 4, 8  # bytes of the two types of numbers
_DIGITS = {parquet.INT32: 9, parquet.INT64: 18}
# LogicalType: TIMESTAMP(isAdjustedToUTC = true, unit = MICROS)
_ADJUSTED = parquet.structure(
    {8: (12, parquet.structure({1: (1, b""), 2: (12, parquet.structure({2: (12, parquet.structure({}))}))}))}
)


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column of a file: how its values are stored there. `limits`: whether the file has the least and the largest."""

    column: SealedColumn
    type: int
    element: bytes
    encoding: int
    limits: bool = False


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a column in one row group, `size` bytes in `buffers`. `limits`: least and largest value, if any."""

    rows: int
    buffers: Buffers
    size: int
    limits: tuple[bytes, bytes] | None

    def chunk(self, wanted: PageColumn, start: int) -> Chunk:
        """The chunk that they are where they are written from byte `start` on."""
        encodings = (parquet.RLE, wanted.encoding)
        return chunk_of(wanted.column.name, wanted.type, self.rows, encodings, start, self.size, self.limits)


def page_column(column: SealedColumn) -> PageColumn:
    """`column` in a Parquet file: numbers as narrow as Parquet and their bounds allow, intervals as their text."""
    name, type_ = column.name, column.type

    def of(kind: int, converted: int | None = None, *, limits: bool = False, **more: Any) -> PageColumn:
        encoding = parquet.DELTA_LENGTHS if kind == parquet.BYTES else parquet.PLAIN
        described = parquet.element(name, kind, nullable=column.nullable, converted=converted, **more)
        return PageColumn(column, kind, described, encoding, limits)

    if is_text(type_):
        return of(parquet.BYTES, _TEXT)
    if type_ == "BOOLEAN":
        return of(parquet.BOOLEAN)
    if type_ in ("FLOAT", "DOUBLE"):
        return of(parquet.FLOAT if type_ == "FLOAT" else parquet.DOUBLE)
    if type_ == ZONED:
        return of(parquet.INT64, _TIMESTAMP, logical=_ADJUSTED)
    if type_ in ("TIME", "TIMESTAMP"):
        return of(parquet.INT64, _TIME if type_ == "TIME" else _TIMESTAMP)
    if type_ == "DATE":
        return of(parquet.INT32, _DATE, limits=True)
    narrow = parquet.INT32 if column.width <= _NARROW else parquet.INT64
    if type_ in INTEGERS:
        return of(narrow, _INT32 if narrow == parquet.INT32 else _INT64, limits=True)
    digits, decimals = digits_of(type_) or 0, decimals_of(type_) or 0
    if column.width > _WIDE or decimals > _DIGITS[parquet.INT64]:
        return of(parquet.FIXED, _DECIMAL, decimal=(decimals, digits), width=16)
    kind = narrow if decimals <= _DIGITS[narrow] else parquet.INT64
    # DuckDB does not count the digits of a value: the type that it is cast to has them all
    return of(kind, _DECIMAL, decimal=(decimals, min(digits, _DIGITS[kind])), limits=True)


def file_width(column: SealedColumn) -> int:
    """Bytes of a value of fixed width there; 0 for texts."""
    if not column.width or column.type == "BOOLEAN":
        return column.width
    return {parquet.INT32: 4, parquet.FLOAT: 4, parquet.FIXED: 16}.get(page_column(column).type, 8)


def pages_of(wanted: PageColumn, blocks: Sequence[ColumnBlock], groups: Sequence[int]) -> list[Pages]:
    """The pages of each row group of so many rows. `blocks`: all rows, BLOCK_ROWS each."""
    found, first = [], 0
    for rows in groups:
        buffers, size, stop, limits = Buffers(), 0, first + rows, list[Any]()
        while first < stop:
            number, start = divmod(first, BLOCK_ROWS)
            end = min(BLOCK_ROWS, stop - number * BLOCK_ROWS)
            content = _page(wanted, blocks[number], start, end, limits)
            length = sum(memoryview(each).nbytes for each in content)
            head = parquet.page_header(end - start, length, wanted.encoding)
            buffers += [head, *content]
            size += len(head) + length
            first += end - start
        wide = 4 if wanted.type == parquet.INT32 else 8
        least_most = (
            [int(each).to_bytes(wide, "little", signed=True) for each in (min(limits), max(limits))] if limits else None
        )
        found.append(Pages(rows, buffers, size, (least_most[0], least_most[1]) if least_most else None))
    return found


def _page(wanted: PageColumn, block: ColumnBlock, start: int, stop: int, limits: list[Any]) -> Buffers:
    levels, valid = Buffers(), None
    if wanted.column.nullable:
        if block.bitmap is not None:
            bits = np.unpackbits(np.frombuffer(block.bitmap, np.uint8), count=block.rows, bitorder="little")
            valid = bits[start:stop].astype(np.bool_)
            if valid.all():
                valid = None
        levels = [_levels(stop - start, valid)]
    if block.lengths is not None:
        return levels + _texts(block, block.lengths, start, stop, valid)
    return [*levels, _values(wanted, block, start, stop, valid, limits)]


def _levels(rows: int, valid: NDArray[np.bool_] | None) -> bytes:
    """Which rows are not NULL: one run of so many, or bits."""
    if valid is None:
        runs = parquet.varint(rows << 1) + b"\x01"
    else:
        runs = parquet.varint(-(-rows // 8) << 1 | 1) + np.packbits(valid, bitorder="little").tobytes()
    return len(runs).to_bytes(4, "little") + runs


def _values(
    wanted: PageColumn,
    block: ColumnBlock,
    start: int,
    stop: int,
    valid: NDArray[np.bool_] | None,
    limits: list[Any],
) -> Any:
    width = wanted.column.width
    raw = np.frombuffer(block.data, np.uint8)[start * width : stop * width].reshape(-1, width)
    if valid is not None:
        raw = raw[valid]
    if wanted.type == parquet.BOOLEAN:
        return np.packbits(raw.reshape(-1), bitorder="little")
    if wanted.type == parquet.FIXED:
        return _wide(raw, width)
    if wanted.limits and len(raw):
        numbers = raw.view(f"<i{width}")
        limits += [numbers.min(), numbers.max()]
    wide = 4 if wanted.type in (parquet.INT32, parquet.FLOAT) else 8
    return raw if wide == width else raw.view(f"<i{width}").astype(f"<i{wide}")


def _wide(raw: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Numbers of 16 bytes, the highest first."""
    out = np.empty((len(raw), 16), np.uint8)
    out[:, : 16 - width] = np.where(raw[:, -1:] & 128, 255, 0)
    out[:, 16 - width :] = raw[:, ::-1]
    return out


def _texts(
    block: ColumnBlock, lengths: NDArray[np.uint32], start: int, stop: int, valid: NDArray[np.bool_] | None
) -> Buffers:
    data: Any = block.data
    if (start, stop) != (0, block.rows):
        ends = offsets_of(lengths)
        data, lengths = data[ends[start] : ends[stop]], lengths[start:stop]
    if valid is not None:
        if lengths[~valid].any():
            data = np.frombuffer(data, np.uint8)[np.repeat(valid, lengths)]
        lengths = lengths[valid]
    count = len(lengths)
    head = parquet.varint(max(_LEAST, -(-(count - 1) // _LEAST) * _LEAST)) + b"\x01" + parquet.varint(count)
    head += parquet.number(int(lengths[0]) if count else 0)
    if count <= 1:
        return [head, data]
    deltas = np.diff(lengths.astype(np.int64))
    least = int(deltas.min())
    packed = np.zeros(-(-len(deltas) // _LEAST) * _LEAST, np.uint32)
    packed[: len(deltas)] = deltas - least
    return [head, parquet.number(least) + bytes([_BITS]), packed, data]
