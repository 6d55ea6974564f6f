"""Rows moved from one DuckDB to another in small batches, over Arrow's C interface (nanoarrow).

By default DuckDB's stream returns 131,072 rows at once. Here it returns 2,048 (one DuckDB vector) if it supports that,
so rows with long texts do not fill the memory.

In the other direction, `open_stream` makes rows while DuckDB reads them. nanoarrow can only stream existing arrays;
this stream takes each array from an iterator. DuckDB calls it from its own threads, one at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import nanoarrow
from nanoarrow.c_array_stream import CArrayStream

from cleave.table.table import ArrowRows

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray
    from nanoarrow.c_schema import CSchema

BATCH_ROWS = 2048
_BYTES = 32 << 20  # a batch is passed on at this size
_MOST_TOGETHER = 64  # vectors per batch: DuckDB reads more than 122,880 rows at half the cost per row


@dataclass(frozen=True, slots=True)
class RowBatch(ArrowRows):
    """Consecutive rows. DuckDB reads a registered batch like a table."""

    schema: CSchema
    arrays: Sequence[CArray]
    rows: int
    bytes: int

    @property
    def names(self) -> list[str]:
        return [str(self.schema.child(place).name) for place in range(self.schema.n_children)]

    def divided(self, rows: int) -> tuple[RowBatch, RowBatch | None]:
        """The first `rows` rows, and the rest or None. Nothing is copied."""
        if rows >= self.rows:
            return self, None
        first, rest, left = [], [], rows
        for array in self.arrays:
            taken = min(array.length, left)
            left -= taken
            first += [array[:taken]] if taken else []
            rest += [array[taken:]] if taken < array.length else []
        size = self.bytes * rows // self.rows
        return RowBatch(self.schema, first, rows, size), RowBatch(
            self.schema, rest, self.rows - rows, self.bytes - size
        )

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return CArrayStream.from_c_arrays(
            list(self.arrays), self.schema, move=False, validate=False
        ).__arrow_c_stream__()


def joined(parts: Sequence[RowBatch]) -> RowBatch:
    """Join at least one batch."""
    arrays = [array for each in parts for array in each.arrays]
    return RowBatch(parts[0].schema, arrays, sum(each.rows for each in parts), sum(each.bytes for each in parts))


def batches(connection: duckdb.DuckDBPyConnection, sql: str, together: int = BATCH_ROWS) -> Iterator[RowBatch]:
    """The rows of a SELECT, in order. Only a few batches are in memory at a time.

    Raises duckdb.Error, or nanoarrow's error with DuckDB's message. Both may quote values.
    """
    stream = nanoarrow.c_array_stream(_capsule(connection.sql(sql), together))
    schema = stream.get_schema()
    arrays: list[CArray] = []
    rows = size = 0
    for array in stream:
        arrays.append(array)
        rows += array.length
        size += bytes_of(array)
        if size >= _BYTES or len(arrays) >= _MOST_TOGETHER:
            yield RowBatch(schema, arrays, rows, size)
            arrays, rows, size = [], 0, 0
    if arrays:
        yield RowBatch(schema, arrays, rows, size)


def _capsule(relation: Any, rows: int) -> Any:
    """Export the relation in batches of `rows`. `_submit` is private in DuckDB: a test checks it in the pinned version.
    Without it a batch has 131,072 rows.
    """
    submit = getattr(relation, "_submit", None)
    return relation if submit is None else submit("stream", rows).arrow_capsule()


def bytes_of(array: CArray) -> int:
    """Bytes of an array's buffers. (nanoarrow has no width for narrow decimals.)"""
    total = 0
    for place in range(array.n_children):
        child = array.child(place)
        share = child.length / (child.offset + child.length) if child.offset else 1.0  # the part of a sliced buffer
        kind, _, described = child.schema.format.partition(":")
        if kind == "d":
            bits = int(described.split(",")[2]) if described.count(",") > 1 else 128
            total += child.length * bits // 8
        else:
            view = child.view()
            size = sum(int(view.buffer(number).size_bytes) for number in range(view.n_buffers))
            total += int(share * size)
    return total


_POINTER = ctypes.sizeof(ctypes.c_void_p)
# Sizes of struct ArrowSchema and struct ArrowArray, and the offset of `release` in each
_SCHEMA_BYTES, _SCHEMA_RELEASE = 2 * 8 + 7 * _POINTER, 2 * 8 + 5 * _POINTER
_ARRAY_BYTES, _ARRAY_RELEASE = 5 * 8 + 5 * _POINTER, 5 * 8 + 3 * _POINTER
_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MESSAGE = ctypes.create_string_buffer(b"the rows could not be read")

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes, _pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class _Stream(ctypes.Structure):
    """struct ArrowArrayStream of Arrow's C stream interface."""

    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class _Open:
    schema: CSchema
    batches: Iterator[CArray]
    failed: Callable[[BaseException], None]

    def close(self) -> None:
        close = getattr(self.batches, "close", None)
        if close is not None:
            with contextlib.suppress(ValueError):  # a thread is using it, and will release it
                close()


_open: dict[int, _Open] = {}  # by private_data, until released or closed
_numbers = itertools.count(1)


def open_stream(
    schema: CSchema, batches: Iterator[CArray], failed: Callable[[BaseException], None]
) -> tuple[int, object]:
    """Return a new stream's number, for `close_stream`, and its capsule.

    `failed` is called with any exception of `batches`; DuckDB then raises an error of its own.
    """
    number = next(_numbers)
    _open[number] = _Open(schema, batches, failed)
    struct = _Stream(*(ctypes.cast(each, ctypes.c_void_p).value for each in _CALLBACKS), number)
    stream = CArrayStream.allocate()
    ctypes.memmove(stream._addr(), ctypes.addressof(struct), ctypes.sizeof(struct))
    return number, stream.__arrow_c_stream__()  # the capsule owns its memory, also after `close_stream`


def close_stream(number: int) -> None:
    """End a stream, even if it was not read to its end. Its reader then gets an error."""
    if (stream := _open.pop(number, None)) is not None:
        stream.close()


def _move(capsule: object, name: bytes, to: int, size: int, release: int) -> None:
    """Move a struct out of its capsule. The capsule then releases nothing."""
    place = _pointer_of(capsule, name)
    ctypes.memmove(to, place, size)
    ctypes.memset(place + release, 0, _POINTER)


def _entry(stream: int) -> _Open | None:
    return _open.get(_Stream.from_address(stream).private_data or 0)


def _get_schema(stream: int, out: int) -> int:
    entry = _entry(stream)
    if entry is None:
        return errno.EIO
    _move(entry.schema.__arrow_c_schema__(), b"arrow_schema", out, _SCHEMA_BYTES, _SCHEMA_RELEASE)
    return 0


def _get_next(stream: int, out: int) -> int:
    entry = _entry(stream)
    if entry is None:
        return errno.EIO
    try:
        batch: Any = next(entry.batches, None)
        if batch is None:
            ctypes.memset(out, 0, _ARRAY_BYTES)  # the end
        else:
            _, capsule = batch.__arrow_c_array__()
            _move(capsule, b"arrow_array", out, _ARRAY_BYTES, _ARRAY_RELEASE)
    except BaseException as error:  # noqa: BLE001 - no exception passes through C
        entry.failed(error)
        return errno.EIO
    return 0


def _get_last_error(stream: int) -> int:  # noqa: ARG001 - there is one message
    return ctypes.addressof(_MESSAGE)


def _release(stream: int) -> None:
    struct = _Stream.from_address(stream)
    number, struct.release = struct.private_data, None
    close_stream(number or 0)


_CALLBACKS = (_NEXT(_get_schema), _NEXT(_get_next), _ERROR(_get_last_error), _RELEASE(_release))
