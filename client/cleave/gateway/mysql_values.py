"""Values of MySQL's protocol: parameters of prepared statements in, columns of answers out."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

from mysql_mimic import types
from mysql_mimic.charset import CharacterSet
from mysql_mimic.results import ResultColumn
from mysql_mimic.types import ColumnType

from cleave.gateway.dialect import Parameter
from cleave.gateway.system import type_of
from cleave.table.types import decimals_of

_BLOBS: Final = frozenset(
    {ColumnType.BLOB, ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.GEOMETRY}
)
_NUMBERS: Final = {  # as `struct` calls them
    **{ColumnType.TINY: "b", ColumnType.SHORT: "h", ColumnType.YEAR: "h", ColumnType.INT24: "i", ColumnType.LONG: "i"},
    **{ColumnType.LONGLONG: "q", ColumnType.FLOAT: "f", ColumnType.DOUBLE: "d"},
}


def read_parameter(reader: io.BytesIO, kind: ColumnType, charset: CharacterSet, *, unsigned: bool) -> Parameter:
    """https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html"""
    if code := _NUMBERS.get(kind):
        form = f"<{code.upper() if unsigned and code not in 'fd' else code}"
        (number,) = struct.unpack(form, reader.read(struct.calcsize(form)))
        return cast("int | float", number)
    match kind:
        case ColumnType.BOOL:
            return bool(types.read_uint_1(reader))
        case ColumnType.DATE | ColumnType.DATETIME | ColumnType.TIMESTAMP:
            return _moment(types.read_str_len(reader))
        case ColumnType.TIME:
            return _span(types.read_str_len(reader))
        case ColumnType.NULL:
            return None
    return text_or_bytes(types.read_str_len(reader), kind, charset)


def text_or_bytes(content: bytes, kind: ColumnType, charset: CharacterSet) -> Parameter:
    if kind in (ColumnType.DECIMAL, ColumnType.NEWDECIMAL):
        value = Decimal(content.decode("ascii")) if len(content) < 100 else Decimal("NaN")
        if not value.is_finite():
            raise ValueError
        return value
    if kind in _BLOBS:
        try:
            return charset.decode(content)  # drivers send long texts as blobs
        except UnicodeDecodeError:
            return content
    return charset.decode(content)


def _moment(content: bytes) -> datetime.date | None:
    if not content:
        return None  # MySQL's zero date
    year, month, day = struct.unpack_from("<HBB", content)
    if len(content) == 4:
        return datetime.date(year, month, day)
    hour, minute, second = struct.unpack_from("<BBB", content, 4)
    micro = struct.unpack_from("<I", content, 7)[0] if len(content) > 7 else 0
    return datetime.datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001 - MySQL's has no zone


def _span(content: bytes) -> str:
    """MySQL's TIME as text, which compares with a time of day and with a span."""
    negative, days, hours, minutes, seconds = struct.unpack_from("<BIBBB", content or bytes(8))
    micro = struct.unpack_from("<I", content, 8)[0] if len(content) > 8 else 0
    return f"{'-' if negative else ''}{24 * days + hours:02}:{minutes:02}:{seconds:02}.{micro:06}"


def column_of(name: str, duck: str) -> ResultColumn:
    """Description and encoders of a column."""
    data_type = type_of(duck)[0]
    kind = _KINDS.get(data_type, ColumnType.VAR_STRING)
    if duck == "BLOB":
        return ResultColumn(name, ColumnType.BLOB, CharacterSet.binary, _as_bytes, _long_bytes)
    if data_type == "float":
        kind = ColumnType.DOUBLE  # which loses no digit
    text = _TEXT.get(data_type, _as_text)
    return ResultColumn(name, kind, CharacterSet.utf8mb4, text, _BINARY.get(data_type, _long_text))


def decimals_shown(duck: str) -> int:
    """Decimals that a column's description states: drivers cut a time's microseconds to as many."""
    data_type = type_of(duck)[0]
    return decimals_of(duck) or 0 if data_type == "decimal" else _DECIMALS.get(data_type, 0)


_KINDS: Final = {
    "tinyint": ColumnType.LONG,
    "smallint": ColumnType.LONG,
    "int": ColumnType.LONG,
    "bigint": ColumnType.LONGLONG,
    "decimal": ColumnType.NEWDECIMAL,
    "double": ColumnType.DOUBLE,
    "date": ColumnType.DATE,
    "datetime": ColumnType.DATETIME,
    "time": ColumnType.TIME,
    "json": ColumnType.JSON,
}
_DECIMALS: Final = {"datetime": 6, "time": 6, "double": 31, "float": 31}  # 31: as many as there are
_BITS: Final = {"true": "1", "false": "0"}


def _as_text(_: ResultColumn, text: str) -> bytes:
    return text.encode()


def _as_bit(_: ResultColumn, text: str) -> bytes:
    return _BITS.get(text, text).encode()


def _as_moment(_: ResultColumn, text: str) -> bytes:
    return text.removesuffix("+00").encode()


def _as_bytes(_: ResultColumn, text: str) -> bytes:
    """Bytes of DuckDB's text of a BLOB: `\\xAB` for what is no printable character of ASCII."""
    parts = text.split("\\x")
    return parts[0].encode() + b"".join(bytes.fromhex(each[:2]) + each[2:].encode() for each in parts[1:])


def _long_text(_: ResultColumn, text: str) -> bytes:
    return types.str_len(text.encode())


def _long_bytes(column: ResultColumn, text: str) -> bytes:
    return types.str_len(_as_bytes(column, text))


def _binary(kind: ColumnType, convert: Callable[[str], Any]) -> Callable[[ResultColumn, str], bytes]:
    """mysql-mimic's encoding of a value that is made of a text."""
    plain = ResultColumn("", kind)
    return lambda _, text: plain.binary_encode(convert(text))


def _whole(text: str) -> int:
    return int(_BITS.get(text, text))


def _moment_of(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.removesuffix("+00"))


def _clock(text: str) -> datetime.timedelta:
    hour, minute, second = text.split(":")  # 24:00:00 is one
    return datetime.timedelta(hours=int(hour), minutes=int(minute), seconds=float(second))


_TEXT: Final = {"tinyint": _as_bit, "datetime": _as_moment}
_BINARY: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int"), _binary(ColumnType.LONG, _whole)),
    "bigint": _binary(ColumnType.LONGLONG, int),
    **dict.fromkeys(("double", "float"), _binary(ColumnType.DOUBLE, float)),
    "date": _binary(ColumnType.DATE, datetime.date.fromisoformat),
    "datetime": _binary(ColumnType.DATETIME, _moment_of),
    "time": _binary(ColumnType.TIME, _clock),
}
