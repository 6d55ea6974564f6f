"""Columns of DuckDB's rows as bytes for sealing, and opened blocks as Arrow arrays, which DuckDB reads without a copy.

A value of fixed width is a two's complement integer, an IEEE 754 float, or a count of days or microseconds since 1970.
It is little-endian, in as many bytes as the declared bounds need. Texts, and intervals as DuckDB's text, have variable
length.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import duckdb
import nanoarrow
import numpy as np
from numpy.typing import NDArray

from cleave.store.manifest import SealedColumn, new_id
from cleave.store.sealed import ColumnBlock, ColumnValues, offsets_of
from cleave.table.batches import batches, bytes_of, close_stream, open_stream
from cleave.table.duck import identifier
from cleave.table.schema import Column
from cleave.table.table import ArrowRows
from cleave.table.types import INTEGERS, decimals_of, digits_of, range_of

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray
    from nanoarrow.c_schema import CSchema

    PlainBlock: TypeAlias = Sequence[Sequence[CArray]]  # arrays of several columns, for consecutive rows of a block

_Width = Literal[0, 1, 2, 4, 8, 16]

_TEXTS = ("VARCHAR", "INTERVAL")
_WIDTHS: dict[str, _Width] = {"DATE": 4, "FLOAT": 4}  # others without bounds have 8
# Offsets of texts have 8 bytes; decimals have 4 or 8 if their digits fit.
_ARROW = "SET arrow_large_buffer_size = true; SET arrow_output_version = '1.5'"
_DECIMAL32, _DECIMAL64 = 9, 18  # digits of a DECIMAL that fit Arrow's 4 and 8 bytes


def sealed_column(column: Column) -> SealedColumn:
    """How `column` is stored: it depends on its type and declared bounds, never on values."""
    return SealedColumn(name=column.name, id=new_id(), type=column.type, width=_width(column), nullable=column.nullable)


def _width(column: Column) -> _Width:
    if column.type in _TEXTS:
        return 0
    if column.type == "BOOLEAN":
        return 1
    if decimals_of(column.type) is None:
        return _WIDTHS.get(column.type, 8)
    least, most = bounds_of(column)
    reach = max(most, -least - 1, 0).bit_length() + 1
    return next(width for width in cast(tuple[_Width, ...], (1, 2, 4, 8, 16)) if 8 * width >= reach)


def bounds_of(column: Column) -> tuple[int, int]:
    """The least and largest value of an exact column, as it is stored."""
    low, high = range_of(column.type)
    unit = 10 ** (column.decimals or 0)
    if column.lower is not None:
        low = max(low, int(column.lower * unit))
    if column.upper is not None:
        high = min(high, int(column.upper * unit))
    return low, high


def read_columns(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[SealedColumn], relation: str
) -> list[ColumnValues]:
    """Values of columns over all rows of `relation`, in order. Raises duckdb.Error."""
    if not columns:
        return []
    selected = ", ".join(_selected(each) for each in columns)
    connection.execute(_ARROW)
    sql = f"SELECT {selected} FROM {relation}"
    arrays = [array for batch in batches(connection, sql) for array in batch.arrays]
    return [_values(each, [array.child(place) for array in arrays]) for place, each in enumerate(columns)]


def _selected(column: SealedColumn) -> str:
    """SQL of a column that Arrow exports as one buffer."""
    name = identifier(column.name)
    if column.type == "BOOLEAN":
        return f"CAST({name} AS UTINYINT)"
    return f"CAST({name} AS {'VARCHAR' if column.type in _TEXTS else column.type})"


def _values(column: SealedColumn, arrays: Sequence[CArray]) -> ColumnValues:
    valid = _valid(arrays) if column.nullable else None
    if not column.width:
        return _texts(arrays, valid)
    native = opened_width(column.type)
    parts = [_buffer(each, 1, native * each.length).reshape(-1, native) for each in arrays]
    whole = np.concatenate(parts) if parts else np.zeros((0, native), np.uint8)
    if column.width < native:  # two's complement: the lower bytes are the value
        whole = np.ascontiguousarray(whole[:, : column.width])
    if valid is not None:
        whole[~valid] = 0
    return ColumnValues(whole, valid)


def _texts(arrays: Sequence[CArray], valid: NDArray[np.bool_] | None) -> ColumnValues:
    lengths, data = [], []
    for each in arrays:
        offsets = _buffer(each, 1, 8 * (each.length + 1)).view(np.int64)
        lengths.append(np.diff(offsets).astype(np.uint32))
        data.append(_buffer(each, 2, int(offsets[-1]))[int(offsets[0]) :])
    sizes = np.concatenate(lengths) if lengths else np.zeros(0, np.uint32)
    return ColumnValues(np.concatenate(data) if data else np.zeros(0, np.uint8), valid, sizes)


def _valid(arrays: Sequence[CArray]) -> NDArray[np.bool_]:
    masks = []
    for array in arrays:
        if array.null_count == 0 or not array.buffers[0]:
            masks.append(np.ones(array.length, np.bool_))
        else:
            bits = _buffer(array, 0, -(-array.length // 8))
            masks.append(np.unpackbits(bits, count=array.length, bitorder="little").astype(np.bool_))
    return np.concatenate(masks) if masks else np.zeros(0, np.bool_)


def _buffer(array: CArray, place: int, size: int) -> NDArray[np.uint8]:
    """A buffer of an array from DuckDB, which begins at its first row. Valid as long as `array` exists."""
    if array.offset:
        raise TypeError("DuckDB hands out arrays without an offset")
    if not size:
        return np.zeros(0, np.uint8)
    view: Any = (ctypes.c_uint8 * size).from_address(array.buffers[place])
    return np.frombuffer(view, np.uint8)


def is_text(type_: str) -> bool:
    """True if the type's values have variable length."""
    return type_ in _TEXTS


def plain_column(column: Column) -> SealedColumn:
    """A plain column, described like a sealed one for `RecordBatches`."""
    width = 0 if column.type in _TEXTS else opened_width(column.type)
    return SealedColumn(name=column.name, id="0" * 32, type=column.type, width=cast(_Width, width), nullable=True)


def plain_blocks(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[SealedColumn], source: str, rows: Sequence[int]
) -> list[PlainBlock]:
    """Columns of all rows of `source`, in order, as DuckDB exports them, cut into blocks of `rows`.

    Raises duckdb.Error.
    """
    connection.execute(_ARROW)
    sql = f"SELECT {', '.join(map(_opened, columns))} FROM {source}"
    arrays = [array for batch in batches(connection, sql, sum(rows)) for array in batch.arrays]
    blocks, start = list["PlainBlock"](), 0
    for wanted in rows:
        parts, left = list["Sequence[CArray]"](), wanted
        while left and arrays:
            stop = min(start + left, arrays[0].length)
            parts.append([arrays[0].child(place)[start:stop] for place in range(len(columns))])
            left -= stop - start
            start = stop
            if stop == arrays[0].length:
                del arrays[0]
                start = 0
        blocks.append(parts)
    return blocks


class RecordBatches(ArrowRows):
    """Blocks of columns as one relation of Arrow arrays, with a batch for each block of rows.

    DuckDB reads it by its registered name, without a copy if a value is as wide as Arrow's. Batches are made while
    DuckDB reads, once per scan, unless they are held.
    """

    def __init__(
        self,
        columns: Sequence[SealedColumn],
        connection: duckdb.DuckDBPyConnection,
        batches: Callable[[RecordBatches], Iterator[CArray]],
    ) -> None:
        """`connection`: any; it defines Arrow's types. `batches` yields all batches; it gets this object, which makes
        them.
        """
        self.columns = tuple(columns)
        self._schema = _schema(columns, connection)
        self._batches = batches
        self._held: list[CArray] | None = None
        self._streams: list[int] = []

    def make(self, blocks: Sequence[ColumnBlock]) -> CArray:
        """A batch from one block of each column."""
        return self._batch(self._arrays(blocks))

    def make_beside(self, plain: PlainBlock, blocks: Sequence[ColumnBlock]) -> Iterator[CArray]:
        """The batches of a block whose first columns are `plain`."""
        arrays, start = self._arrays(blocks), 0
        for each in plain:
            stop = start + each[0].length
            yield self._batch([*each, *(array[start:stop] for array in arrays)])
            start = stop

    def _arrays(self, blocks: Sequence[ColumnBlock]) -> list[CArray]:
        """Arrays from one block for each of the last columns."""
        first = len(self.columns) - len(blocks)
        return [
            nanoarrow.c_array_from_buffers(self._schema.child(place), block.rows, _buffers(self.columns[place], block))
            for place, block in enumerate(blocks, first)
        ]

    def _batch(self, children: Sequence[CArray]) -> CArray:
        return nanoarrow.c_array_from_buffers(self._schema, children[0].length, [None], children=children)

    def hold(self, most: int | None) -> int | None:
        """Make all batches now. Returns their bytes; None, and keeps none, if that is over `most`."""
        held, size = [], 0
        with closing(cast("Generator[CArray, None, None]", self._batches(self))) as batches:
            for batch in batches:
                size += bytes_of(batch)
                if most is not None and size > most:
                    return None
                held.append(batch)
        self._held = held
        return size

    def close(self) -> None:
        """End running scans, and free held batches."""
        self._held = None
        for each in self._streams:
            close_stream(each)

    def __arrow_c_schema__(self) -> object:
        """DuckDB calls this once for each time a statement or view names it."""
        self.named += 1
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        batches = self._batches(self) if self._held is None else iter(list(self._held))
        number, capsule = open_stream(self._schema, batches, self._failed)
        self._streams.append(number)
        return capsule

    def _failed(self, error: BaseException) -> None:
        self.failure = self.failure or error


def value_of(column: SealedColumn, name: str) -> str:
    """SQL of a column of `RecordBatches` in its own type."""
    return f"CAST({name} AS INTERVAL)" if column.type == "INTERVAL" else name


def _schema(columns: Sequence[SealedColumn], connection: duckdb.DuckDBPyConnection) -> CSchema:
    """Arrow's types of the columns, defined by DuckDB: decimals are as narrow as their digits allow."""

    connection.execute(_ARROW)
    nulls = ", ".join(f"NULL AS {identifier(each.name)}" for each in columns)
    sql = f"SELECT {', '.join(map(_opened, columns))} FROM (SELECT {nulls}) LIMIT 0"
    stream: Any = nanoarrow.c_array_stream(connection.sql(sql))
    return cast("CSchema", stream.get_schema())


def _opened(column: SealedColumn) -> str:
    """SQL of a column as `RecordBatches` has it."""
    name = identifier(column.name)
    return f"CAST({name} AS {'VARCHAR' if column.type in _TEXTS else column.type}) AS {name}"


def _buffers(column: SealedColumn, block: ColumnBlock) -> list[Any]:
    if block.lengths is not None:
        return [block.bitmap, offsets_of(block.lengths), block.data]
    if column.type == "BOOLEAN":
        return [block.bitmap, np.packbits(np.frombuffer(block.data, np.uint8), bitorder="little")]
    wide = opened_width(column.type)
    if wide == column.width:
        return [block.bitmap, block.data]
    narrow = np.frombuffer(block.data, f"<i{column.width}")
    if wide < 16:
        return [block.bitmap, narrow.astype(f"<i{wide}")]
    words = np.empty((block.rows, 2), np.int64)
    words[:, 0] = narrow
    words[:, 1] = words[:, 0] >> 63
    return [block.bitmap, words]


def opened_width(type_: str) -> int:
    """Bytes of a value in Arrow. Booleans are read as one byte each."""
    if type_ == "BOOLEAN":
        return 1
    if type_ in INTEGERS:
        return INTEGERS[type_] // 8
    digits = digits_of(type_)
    if digits is None:
        return 4 if type_ in ("DATE", "FLOAT") else 8
    return 4 if digits <= _DECIMAL32 else 8 if digits <= _DECIMAL64 else 16
