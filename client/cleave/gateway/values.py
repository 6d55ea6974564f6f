"""Values in PostgreSQL's protocol, as text and binary: columns of answers, and parameters.

Types have DuckDB's names. Numbers and booleans are Python values, all others DuckDB's text; lists and structs are JSON.
Two more types are the catalog's: OID, a number, and LIST, a list of Python values.
"""

from __future__ import annotations

import csv
import datetime
import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from importlib.resources import files
from typing import Any, Final

import numpy as np

from cleave.gateway.wire import Fields
from cleave.sql.parameters import Items, Typed
from cleave.table.types import decimals_of, digits_of
from cleave.text.figures import plain
from cleave_shared.errors import QueryRefused

TEXT: Final = 25
COPY_HEAD, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
TYPES: Final = list(csv.DictReader(files(__package__).joinpath("types.csv").read_text().splitlines()))
_OIDS: Final = {type_: int(each["oid"]) for each in TYPES for type_ in each["columns"].split("|")}
_ARRAYS: Final = {int(each["oid"]): int(each["array_oid"]) for each in TYPES}
_ELEMENTS: Final = {array: element for element, array in _ARRAYS.items() if array} | {22: 21, 30: 26}
_SIZES: Final = {int(each["oid"]): int(each["size"]) for each in TYPES}
_PARAMETERS: Final = {0: "VARCHAR"} | {int(each["oid"]): each["parameter"] for each in TYPES if each["parameter"]}
_NUMBERS: Final = {20: "q", 21: "h", 23: "i", 26: "I", 700: "f", 701: "d"}
_EPOCH: Final = datetime.date(2000, 1, 1)
_DAY: Final = 86_400_000_000  # microseconds
_INFINITE: Final = {"infinity": (1 << 31) - 1, "-infinity": -(1 << 31)}
_ALWAYS: Final = {"infinity": (1 << 63) - 1, "-infinity": -(1 << 63)}
_DATE: Final = re.compile(r"(?P<year>\d+)-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?(?: (?P<clock>[\d:.]+).*)?")
_SPAN: Final = re.compile(
    r"(?:(-?\d+) years?\s*)?(?:(-?\d+) months?\s*)?(?:(-?\d+) days?\s*)?(?:(-?)(\d+:\d\d:\d\d(?:\.\d+)?))?"
)
_IN_TEXT: Final = str.maketrans(
    {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
)
_QUOTED: Final = re.compile(r"[,\"\n\r]|^\\\.$")  # the second form marks the end of data for some readers
Parameter = tuple[int, bytes | None, bool]  # (OID, value, whether it is binary)


def oid_of(type_: str) -> int:
    """The OID of PostgreSQL's type for a DuckDB type; text if there is none.

    >>> oid_of("DECIMAL(9,2)"), oid_of("STRUCT(a INTEGER)"), oid_of("ENUM('a')")
    (1700, 114, 25)
    """
    if type_.startswith("DECIMAL("):
        return 1700
    if type_.startswith("LIST "):
        of = type_.removeprefix("LIST ")
        return int(of) if of.isdecimal() else _ARRAYS[oid_of(of)]
    return 114 if is_nested(type_) else _OIDS.get(type_, TEXT)


def oid_of_parameter(type_: str) -> int:
    """The OID of a parameter's type: text for "", an array for a list."""
    return _ARRAYS[oid_of(type_[:-2])] if type_.endswith("[]") else oid_of(type_) if type_ else TEXT


def size_of(oid: int) -> int:
    """Bytes of a value; -1 if variable."""
    return _SIZES.get(oid, -1)


def is_nested(type_: str) -> bool:
    return type_.endswith("]") or type_.startswith(("STRUCT(", "MAP(", "UNION(", "TUPLE("))


def described(columns: Sequence[tuple[str, str]], formats: Sequence[int]) -> bytes:
    """The content of a RowDescription."""
    parts = [struct.pack("!H", len(columns))]
    for (name, type_), form in zip(columns, formats, strict=True):
        oid = oid_of(type_)
        modifier = -1 if (digits := digits_of(type_)) is None else (digits << 16 | (decimals_of(type_) or 0)) + 4
        parts.append(name.encode("utf-8", "replace").replace(b"\0", b"") + b"\0")
        parts.append(struct.pack("!IhIhih", 0, 0, oid, size_of(oid), modifier, form))
    return b"".join(parts)


def spread(formats: Sequence[int], count: int) -> list[int]:
    """One format per column, from none (all text), one for all, or one each. Raises ValueError for other counts."""
    given = list(formats) if len(formats) > 1 else list(formats or (0,)) * count
    if len(given) != count or not {*given} <= {0, 1}:
        raise ValueError
    return given


# answers


def row(oids: Sequence[int], formats: Sequence[int]) -> Callable[[Sequence[Any]], bytes]:
    """A function that writes a row for DataRow and for COPY's binary format: each value after its length."""
    encoders = [partial(_binary if form else as_text, oid) for oid, form in zip(oids, formats, strict=True)]
    count = struct.pack("!H", len(oids))

    def write(values: Sequence[Any]) -> bytes:
        parts = [count]
        for encode, value in zip(encoders, values, strict=True):
            try:
                content = b"" if value is None else encode(value)
            except (struct.error, OverflowError):
                hint = "ask for it as text: CAST(... AS VARCHAR)"
                raise QueryRefused("a value of the answer is beyond PostgreSQL's binary format", hint=hint) from None
            parts += (struct.pack("!i", -1 if value is None else len(content)), content)
        return b"".join(parts)

    return write


def line(oids: Sequence[int], *, is_csv: bool) -> Callable[[Sequence[Any]], bytes]:
    """A function that writes a row as text or CSV for COPY."""

    def cell(oid: int, value: Any) -> str:
        if value is None:
            return "" if is_csv else "\\N"
        shown = as_text(oid, value).decode()
        if not is_csv:
            return shown.translate(_IN_TEXT)
        return '"' + shown.replace('"', '""') + '"' if not shown or _QUOTED.search(shown) else shown

    return lambda values: ((",", "\t")[not is_csv].join(map(cell, oids, values)) + "\n").encode()


def as_text(oid: int, value: Any) -> bytes:
    """PostgreSQL's text of a value."""
    match oid:
        case 16:
            return b"t" if value else b"f"
        case 17:
            return b"\\x" + _bytes(value).hex().encode()
        case 700 | 701:
            return _float(value, 15 if oid == 701 else 6).encode()
        case 1082 | 1114 | 1184 if "(BC)" in value:
            return f"{value.replace(' (BC)', '')} BC".encode()
        case 22 | 30:
            return " ".join(map(str, value)).encode()
        case 1186:
            return _span(value).encode()
    if oid in _ELEMENTS:
        items = ("NULL" if each is None else _quoted(as_text(_ELEMENTS[oid], each).decode()) for each in value)
        return f"{{{','.join(items)}}}".encode()
    return plain(value).encode("utf-8", "replace")


def _span(text: str) -> str:
    """PostgreSQL's text of an interval: a part after a negative one has a sign."""
    *parts, sign, clock = _SPAN.match(text).groups()  # type: ignore[union-attr]
    shown, is_negative = [], False
    for part, unit in zip(parts, ("year", "mon", "day"), strict=True):
        if number := int(part or 0):
            shown.append(f"{'+' if is_negative and number > 0 else ''}{number} {unit}{'' if number == 1 else 's'}")
            is_negative = number < 0
    if not shown or _clock(clock or "0:0:0"):
        shown.append(f"{sign or ('+' if is_negative else '')}{clock or '00:00:00'}")
    return " ".join(shown)


def _quoted(text: str) -> str:
    if text.upper() != "NULL" and re.fullmatch(r"[^\s{},\"\\]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _float(value: Any, digits: int) -> str:
    """The shortest text of a float that reads back equal, with an exponent where PostgreSQL writes one."""
    shown = plain(float(value)) if digits > 6 or not math.isfinite(value) else str(np.float32(value))
    shown = shown.removesuffix(".0")
    bare = shown.lstrip("-")
    if bare.isdecimal() and len(bare) > digits:
        return f"{'-' if shown[0] == '-' else ''}{bare[0]}.{bare[1:].rstrip('0')}".rstrip(".") + f"e+{len(bare) - 1:02}"
    return shown


def _bytes(text: str) -> bytes:
    r"""Bytes of DuckDB's text of a BLOB, in which `\\xAB` is a byte that is no printable ASCII character."""
    first, *parts = text.split("\\x")
    return first.encode() + b"".join(bytes.fromhex(each[:2]) + each[2:].encode() for each in parts)


def _binary(oid: int, value: Any) -> bytes:
    """A value in PostgreSQL's binary format. Source: the *send functions in
    https://github.com/postgres/postgres/tree/master/src/backend/utils/adt
    """
    match oid:
        case 16:
            return b"\1" if value else b"\0"
        case 17:
            return _bytes(value)
        case 20 | 21 | 23 | 26:
            return struct.pack(f"!{_NUMBERS[oid]}", int(value))
        case 700 | 701:
            return struct.pack(f"!{_NUMBERS[oid]}", float(value))
        case 1082:
            return struct.pack("!i", _INFINITE[value] if value in _INFINITE else _moment(value) // _DAY)
        case 1083:
            return struct.pack("!q", _clock(value))
        case 1114 | 1184:
            return struct.pack("!q", _ALWAYS[value] if value in _ALWAYS else _moment(value))
        case 1186:
            years, months, days, sign, clock = _SPAN.match(value).groups()  # type: ignore[union-attr]
            micro = _clock(clock or "0:0:0") * (-1 if sign else 1)
            return struct.pack("!qii", micro, int(days or 0), 12 * int(years or 0) + int(months or 0))
        case 1266:
            clock, sign, zone = re.match(r"([\d:.]+)([+-])(.*)", value).groups()  # type: ignore[union-attr]
            return struct.pack("!qi", _clock(clock), _clock(f"{zone}:0:0") // 1_000_000 * (-1 if sign == "+" else 1))
        case 1700:
            return _numeric(Decimal(plain(value)))
        case 2950:
            return uuid.UUID(value).bytes
    if oid in _ELEMENTS:
        element = _ELEMENTS[oid]
        items = [struct.pack("!i", -1) if each is None else _sized(_binary(element, each)) for each in value]
        head = struct.pack("!iiI", bool(items), any(each is None for each in value), element)
        return head + (struct.pack("!ii", len(items), 1) if items else b"") + b"".join(items)
    return as_text(oid, value)


def _sized(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content


def _moment(text: str) -> int:
    """Microseconds of a date or timestamp since 2000. Days are counted in a calendar whose years begin in March."""
    read = _DATE.fullmatch(text)
    if read is None:
        raise ValueError
    month, day = int(read["month"]), int(read["day"])
    year = (1 - int(read["year"]) if read["bc"] else int(read["year"])) - (month < 3)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month - 3) % 12) + 2) // 5 + day - 730_426
    return days * _DAY + (_clock(read["clock"]) if read["clock"] else 0)


def _clock(text: str) -> int:
    """Microseconds of a time of day."""
    hours, minutes, seconds = text.split(":")[:3]
    whole, _, rest = seconds.partition(".")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(whole) * 1_000_000 + int(f"{rest:0<6}"[:6])


def _numeric(value: Decimal) -> bytes:
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000 if value.is_nan() else 0xD000 if value > 0 else 0xF000, 0)
    whole, _, rest = f"{value.copy_abs():f}".partition(".")
    whole = whole.lstrip("0")
    shown = "0" * (-len(whole) % 4) + whole + rest + "0" * (-len(rest) % 4)
    digits = [int(shown[start : start + 4]) for start in range(0, len(shown), 4)]
    weight = -(-len(whole) // 4) - 1
    while digits and not digits[0]:
        del digits[0]
        weight -= 1
    while digits and not digits[-1]:
        del digits[-1]
    head = (len(digits), weight if digits else 0, 0x4000 if value < 0 and digits else 0, len(rest))
    return struct.pack(f"!hhHh{len(digits)}h", *head, *digits)


# parameters


def type_of(oid: int) -> str:
    """DuckDB's type of a parameter. Raises QueryRefused for an unsupported type."""
    if oid in _ELEMENTS:
        return f"{type_of(_ELEMENTS[oid])}[]"
    if oid not in _PARAMETERS:
        raise QueryRefused(f"parameters of the type with OID {oid} are not read", hint="cast a text", code="parameter")
    return str(_PARAMETERS[oid])


def parameter(oid: int, content: bytes | None, *, binary: bool) -> object:
    """A parameter for cleave.sql.parameters. Raises QueryRefused if it is no value of its type."""
    type_ = type_of(oid)
    if content is None:
        return None
    try:
        return _from_binary(oid, content) if binary else _from_text(oid, content.decode())
    except (ValueError, ArithmeticError, struct.error, LookupError):  # UnicodeDecodeError, InvalidOperation too
        raise QueryRefused(f"a parameter is no value of its type {type_}", code="parameter") from None


def _from_text(oid: int, text: str) -> object:
    match oid:
        case 16:
            return _BOOLEANS[text.strip(_SPACES).lower()]
        case 17:
            return bytes.fromhex(text[2:]) if text.startswith("\\x") else _escaped(text)
        case 20 | 21 | 23 | 26 | 700 | 701 | 1700:
            return _number(oid, text)
    if oid in _ELEMENTS:
        return Items(None if each is None else _from_text(_ELEMENTS[oid], each) for each in _items(text))
    return text if _PARAMETERS[oid] == "VARCHAR" else Typed(text, _PARAMETERS[oid])


_SPACES: Final = " \t\n\r\v\f"
_BOOLEANS: Final = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}
_MOST_DIGITS: Final = (131_072, 16_383)  # of PostgreSQL's NUMERIC, before and after the point
_ESCAPED: Final = re.compile(r"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*+", re.DOTALL)
_ITEM: Final = re.compile(
    r'\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>(?:[^,{}"\\\s]|\\.|\s++(?![,}]))++))\s*+(?P<end>[,}])',
    re.DOTALL | re.ASCII,
)


def _number(oid: int, text: str) -> int | float | Decimal:
    if "_" in text or not text.isascii():  # only numbers of Python's syntax
        raise ValueError
    if oid == 1700:
        value = Decimal(text)
        if not value.is_finite():
            return float(value)
        before, behind = _MOST_DIGITS
        if value.adjusted() >= before or int(value.as_tuple().exponent) < -behind:
            raise ValueError
        return value
    if oid not in (700, 701):
        return int(text)
    number = float(text)
    if oid == 700:  # as in binary
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError
    return number


def _escaped(text: str) -> bytes:
    """Bytes from PostgreSQL's older text format."""
    if _ESCAPED.fullmatch(text) is None:
        raise ValueError
    pattern = rb"\\(\\|[0-3][0-7]{2})"
    return re.sub(pattern, lambda read: b"\\" if read[1] == b"\\" else bytes([int(read[1], 8)]), text.encode())


def _items(text: str) -> list[str | None]:
    """Items of PostgreSQL's text of a one-dimensional array."""
    text = text.strip(_SPACES)
    if text[:1] == "{" and text[1:].strip(_SPACES) == "}":
        return []
    items: list[str | None] = []
    place, end = 1, "," if text[:1] == "{" else ""
    while end == ",":
        if (read := _ITEM.match(text, place)) is None:
            raise ValueError
        quoted, bare, end = read["quoted"], read["bare"], read["end"]
        is_null = quoted is None and bare.upper() == "NULL"
        items.append(None if is_null else re.sub(r"\\(.)", r"\1", bare if quoted is None else quoted, flags=re.DOTALL))
        place = read.end()
    if end != "}" or place != len(text):
        raise ValueError
    return items


def _from_binary(oid: int, content: bytes) -> object:
    match oid:
        case 16:
            (is_true,) = struct.unpack("!?", content)
            return is_true
        case 17:
            return content
        case 20 | 21 | 23 | 26 | 700 | 701:
            (number,) = struct.unpack(f"!{_NUMBERS[oid]}", content)
            return number
        case 1082:
            (days,) = struct.unpack("!i", content)
            return _EPOCH + datetime.timedelta(days)
        case 1083:
            (micro,) = struct.unpack("!q", content)
            if not 0 <= micro <= _DAY:
                raise ValueError
            seconds, rest = divmod(micro, 1_000_000)
            return Typed(f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}", "TIME")
        case 1114 | 1184:
            (micro,) = struct.unpack("!q", content)
            zone = datetime.UTC if oid == 1184 else None
            return datetime.datetime(2000, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=micro)
        case 1186:
            micro, days, months = struct.unpack("!qii", content)
            return Typed(f"{months} months {days} days {micro} microseconds", "INTERVAL")
        case 1700:
            return _decimal(content)
        case 2950:
            return uuid.UUID(bytes=content)
    if oid in _ELEMENTS:
        return _array(_ELEMENTS[oid], content)
    if _PARAMETERS[oid] != "VARCHAR" or oid == 3802:
        raise ValueError
    return content.decode()


def _decimal(content: bytes) -> Decimal | float:
    count, weight, sign, scale = struct.unpack_from("!hhHh", content)
    if sign >= 0xC000:
        return math.nan if sign == 0xC000 else math.inf if sign == 0xD000 else -math.inf
    digits = struct.unpack(f"!{count}h", content[8:])
    if sign not in (0, 0x4000) or scale < 0 or not all(0 <= each < 10_000 for each in digits):
        raise ValueError
    number, shift = int("".join(f"{each:04}" for each in digits) or "0"), 4 * (weight + 1 - count) + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return Decimal((bool(sign), tuple(map(int, str(number))), -scale))


def _array(element: int, content: bytes) -> Items:
    fields = Fields(content)
    dimensions, _, of = (fields.number(form) for form in "iiI")
    if dimensions == 0:
        return Items()
    count, _ = fields.number("i"), fields.number("i")
    if dimensions != 1 or of != element or not 0 <= count <= len(content):
        raise ValueError
    values = [fields.value() for _ in range(count)]
    if not fields.is_read:
        raise ValueError
    return Items(None if each is None else _from_binary(element, each) for each in values)
