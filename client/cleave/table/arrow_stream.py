"""Batches of rows that are made while DuckDB reads them, as a stream of Arrow's C interface.

nanoarrow makes streams of arrays that are there already; this one asks an iterator for each. DuckDB calls it from its
own threads, one at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray
    from nanoarrow.c_schema import CSchema

_POINTER = ctypes.sizeof(ctypes.c_void_p)
# Bytes of struct ArrowSchema and struct ArrowArray, and where `release` is in them
_SCHEMA_BYTES, _SCHEMA_RELEASE = 2 * 8 + 7 * _POINTER, 2 * 8 + 5 * _POINTER
_ARRAY_BYTES, _ARRAY_RELEASE = 5 * 8 + 5 * _POINTER, 5 * 8 + 3 * _POINTER
_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MESSAGE = ctypes.create_string_buffer(b"the rows could not be read")

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes, _pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.argtypes, _capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object


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
    struct: _Stream
    schema: CSchema
    batches: Iterator[CArray]
    failed: Callable[[BaseException], None]


_open: dict[int, _Open] = {}  # by private_data, until it is released or closed
_numbers = itertools.count(1)


def open_stream(
    schema: CSchema, batches: Iterator[CArray], failed: Callable[[BaseException], None]
) -> tuple[int, object]:
    """Return the number of a new stream, for `close_stream`, and its capsule.

    `failed` is called with what `batches` raises; DuckDB then raises an error of its own.
    """
    number = next(_numbers)
    struct = _Stream(*(ctypes.cast(each, ctypes.c_void_p).value for each in _CALLBACKS), number)
    _open[number] = _Open(struct, schema, batches, failed)
    return number, _capsule(ctypes.addressof(struct), b"arrow_array_stream", None)


def close_stream(number: int) -> None:
    """End a stream, read to its end or not. A reader that is still at work gets an error."""
    found = _open.pop(number, None)
    close = getattr(found.batches, "close", None) if found else None
    if close is not None:
        with contextlib.suppress(ValueError):  # a thread is at work on it, and lets go of it then
            close()


def _move(capsule: object, name: bytes, to: int, size: int, release: int) -> None:
    """Move a struct out of its capsule, which then releases nothing."""
    place = _pointer_of(capsule, name)
    ctypes.memmove(to, place, size)
    ctypes.memset(place + release, 0, _POINTER)


def _found(stream: int) -> _Open | None:
    return _open.get(_Stream.from_address(stream).private_data or 0)


def _get_schema(stream: int, out: int) -> int:
    found = _found(stream)
    if found is None:
        return errno.EIO
    _move(found.schema.__arrow_c_schema__(), b"arrow_schema", out, _SCHEMA_BYTES, _SCHEMA_RELEASE)
    return 0


def _get_next(stream: int, out: int) -> int:
    found = _found(stream)
    if found is None:
        return errno.EIO
    try:
        batch: Any = next(found.batches, None)
        if batch is None:
            ctypes.memset(out, 0, _ARRAY_BYTES)  # the end
        else:
            _, capsule = batch.__arrow_c_array__()
            _move(capsule, b"arrow_array", out, _ARRAY_BYTES, _ARRAY_RELEASE)
    except BaseException as error:  # noqa: BLE001 - no exception passes through C
        found.failed(error)
        return errno.EIO
    return 0


def _get_last_error(stream: int) -> int:  # noqa: ARG001 - there is one message
    return ctypes.addressof(_MESSAGE)


def _release(stream: int) -> None:
    struct = _Stream.from_address(stream)
    number, struct.release = struct.private_data, None
    close_stream(number or 0)


_CALLBACKS = (_NEXT(_get_schema), _NEXT(_get_next), _ERROR(_get_last_error), _RELEASE(_release))
