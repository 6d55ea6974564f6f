"""Columns of pandas and Arrow as Arrow columns that DuckDB reads. Types are never guessed. Needs pyarrow.

pyarrow alone would guess: 1 and 2.5 become floats, a date and a timestamp become dates, and timestamps with and without
a time zone become UTC. Its errors quote the value. Here a column of Python objects must have one kind, or the error
names the row.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleave_shared.errors import InputError

_INT64 = range(-(1 << 63), 1 << 63)
_DIGITS = 38  # of the widest DECIMAL
_MONTH_DAY_NANO = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])  # Arrow's layout
_FINER = "is finer than a microsecond"
_ROUND = "round it to microseconds first"
_USUAL = 18  # digits whose unscaled value is an int64


def readable(table: pa.Table, shown: str) -> pa.Table:
    """Return `table` in types that DuckDB reads: dictionaries become their values, durations become microseconds.

    Raises InputError naming column and row of a value that does not fit.
    """
    columns = [
        _readable(table.column(place), f"{shown}, column {name!r}") for place, name in enumerate(table.column_names)
    ]
    return pa.table(columns, names=table.column_names)


def _readable(column: pa.ChunkedArray, place: str) -> pa.ChunkedArray:
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type)
    if pa.types.is_interval(column.type):
        _check_microseconds(column, place)
    target = _target(column.type)
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except pa.ArrowException:
        row = _first_unfit(column, target)
        raise InputError(f"{place}{row}: {column.type} cannot be read as {target} without a change") from None


def _first_unfit(column: pa.ChunkedArray, target: pa.DataType) -> str:
    """Return ", row N" for the first value that cannot be cast to `target`, or ""."""
    fit, end = 0, len(column)
    while end - fit > 1:
        middle = (fit + end) // 2
        try:
            column.slice(fit, middle - fit).cast(target)
            fit = middle
        except pa.ArrowException:
            end = middle
    return f", row {end}" if end else ""


def _check_microseconds(column: pa.ChunkedArray, place: str) -> None:
    """Raise InputError for an interval with nanoseconds, which DuckDB would cut off."""
    before = 0
    for chunk in column.chunks:
        stored = np.frombuffer(chunk.buffers()[1] or b"", _MONTH_DAY_NANO)[chunk.offset :][: len(chunk)]
        finer = (stored["nanoseconds"] % 1000 != 0) & chunk.is_valid().to_numpy(zero_copy_only=False)
        if finer.any():
            raise InputError(f"{place}, row {before + int(finer.argmax()) + 1}: {_FINER}", hint=_ROUND)
        before += len(chunk)


def _target(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _target(type_.value_type)
    if isinstance(type_, pa.UuidType) or (isinstance(type_, pa.OpaqueType) and type_.vendor_name == "DuckDB"):
        return type_  # DuckDB reads the value, and not the bytes it is stored as
    if isinstance(type_, pa.BaseExtensionType):
        return _target(type_.storage_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit, type_.tz and "UTC")
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal256(type_) or (pa.types.is_decimal(type_) and type_.scale < 0):
        return pa.decimal128(_DIGITS, min(max(type_.scale, 0), _DIGITS))
    return type_


def of_pandas(frame: Any, shown: str) -> pa.Table:
    """Raises InputError for a column that mixes kinds of objects, or has objects of an unsupported kind."""
    arrays = []
    for place, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise InputError(
                f"{shown}: the name of column {place + 1} is {type(name).__name__}, not text",
                hint="frame.columns = [...] names them; several levels of names must become one",
            )
        arrays.append(_array(frame.iloc[:, place], f"{shown}, column {name!r}"))
    return pa.table(arrays, names=list(frame.columns)) if arrays else pa.table({})


def _array(series: Any, place: str) -> pa.Array:
    if str(series.dtype) == "category":
        codes = series.cat.codes.to_numpy()
        categories = _array(series.cat.categories.to_series(), f"{place}, among its categories")
        return categories.take(pa.array(codes, mask=codes < 0))
    if series.dtype == object:
        return _objects(series.to_numpy(), series.isna().to_numpy(), place)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError(f"{place}: {series.dtype.name} cannot be read", hint="convert it with astype") from None


def _objects(values: Any, missing: Any, place: str) -> pa.Array:
    """An Arrow array of Python objects, which must all have one kind. It is NULL where `missing`."""
    kind = None
    for row, (value, absent) in enumerate(zip(values, missing, strict=True)):
        if absent:
            continue
        if getattr(value, "nanosecond", 0) or getattr(
            value, "nanoseconds", 0
        ):  # attributes of pandas' Timestamp and Timedelta
            raise InputError(f"{place}, row {row + 1}: {_FINER}", hint=_ROUND)
        current = _kind(value)
        if current is None:
            raise InputError(
                f"{place}, row {row + 1}: a {type(value).__name__} cannot be read",
                hint="map(str) makes it text; a column of pyarrow's own type is read as it is",
            )
        if kind not in (None, current):
            raise InputError(
                f"{place}, row {row + 1}: is {current}, the rows before it are {kind}",
                hint="make it one kind, for instance with astype",
            )
        kind = current
    if kind is None:
        return pa.nulls(len(values), pa.string())
    present = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    try:
        return _KINDS[kind](present, place)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError(f"{place}: {kind} that cannot be read") from None


def _kind(value: object) -> str | None:
    """Tests bool before int, and datetime before date: the first is a subclass of the second."""
    match value:
        case bool() | np.bool_():
            return "true or false"
        case int() | np.integer():
            return "a whole number"
        case float() | np.floating():
            return "a float"
        case Decimal():
            return "a Decimal"
        case str():
            return "text"
        case datetime.datetime():
            return "a moment" if value.tzinfo is None else "a moment with a time zone"
        case datetime.date():
            return "a date"
        case datetime.time():
            return "a time" if value.tzinfo is None else None
        case datetime.timedelta():
            return "a span of time"
        case bytes():
            return "bytes"
    return None


def _of(type_: pa.DataType) -> Callable[[list[Any], str], pa.Array]:
    return lambda values, _: pa.array(values, type_)


def _whole_numbers(values: list[Any], place: str) -> pa.Array:
    if all(value is None or int(value) in _INT64 for value in values):
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    return _decimals([None if value is None else Decimal(int(value)) for value in values], place)


def _decimals(values: list[Decimal | None], place: str) -> pa.Array:
    """Array of DECIMAL(18, s), if all values fit: the type must not reveal the largest value."""
    whole = decimals = 0
    for row, value in enumerate(values):
        if value is None:
            continue
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise InputError(f"{place}, row {row + 1}: is infinite; a DECIMAL cannot be")
        decimals = max(decimals, -exponent)
        whole = max(whole, len(digits) + exponent)
        if max(whole, 0) + decimals > _DIGITS:
            raise InputError(f"{place}, row {row + 1}: needs more than the {_DIGITS} digits of a DECIMAL")
    width = _USUAL if max(whole, 0) + decimals <= _USUAL else _DIGITS
    return pa.array(values, pa.decimal128(width, decimals))


def _texts(values: list[str | None], place: str) -> pa.Array:
    for row, value in enumerate(values):
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InputError(f"{place}, row {row + 1}: is text with an unpaired surrogate") from None
    return pa.array(values, pa.string())


_KINDS: dict[str, Callable[[list[Any], str], pa.Array]] = {
    "true or false": _of(pa.bool_()),
    "a whole number": _whole_numbers,
    "a float": _of(pa.float64()),
    "a Decimal": _decimals,
    "text": _texts,
    "a moment": _of(pa.timestamp("us")),
    "a moment with a time zone": _of(pa.timestamp("us", "UTC")),
    "a date": _of(pa.date32()),
    "a time": _of(pa.time64("us")),
    "a span of time": _of(pa.duration("us")),
    "bytes": _of(pa.binary()),
}
