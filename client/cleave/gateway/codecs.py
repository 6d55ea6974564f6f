"""Values in PostgreSQL's protocol: for each type how it is written and read, as text and as binary.

Answers have Python's numbers and booleans, and DuckDB's text of other types; arrays are lists of these. Parameters
become values for cleave.sql.parameters. Source of the binary format: the *send and *recv functions in
https://github.com/postgres/postgres/tree/master/src/backend/utils/adt
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from cleave.gateway import moments, numbers
from cleave.gateway.types import ARRAYS, VECTORS, type_of
from cleave.gateway.wire import Fields
from cleave.sql.parameters import Items, Typed
from cleave.text.figures import plain
from cleave_shared.errors import QueryRefused

COPY_HEAD, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_IN_TEXT: Final = str.maketrans(
    {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
)
_QUOTED: Final = re.compile(r"[,\"\n\r]|^\\\.$")  # the second form marks the end of data for some readers
_SPACES: Final = " \t\n\r\v\f"
_BOOLEANS: Final = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}
_ITEM: Final = re.compile(
    r'\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>(?:[^,{}"\\\s]|\\.|\s++(?![,}]))++))\s*+(?P<end>[,}])',
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Codec:
    """How the values of one type are written in answers and read from parameters.

    `binary` raises struct.error or OverflowError for a value beyond PostgreSQL's format. The readers raise ValueError,
    ArithmeticError, LookupError or struct.error for what is no value.
    """

    text: Callable[[Any], str]
    binary: Callable[[Any], bytes]
    of_text: Callable[[str], object]
    of_binary: Callable[[bytes], object]


def codec(oid: int) -> Codec:
    """The codec of a type; that of texts for a type without its own."""
    return _array(ARRAYS[oid], is_vector=oid in VECTORS) if oid in ARRAYS else _CODECS.get(oid, _TEXT)


def row(oids: Sequence[int], formats: Sequence[int]) -> Callable[[Sequence[Any]], bytes]:
    """A function that writes a row for DataRow and for COPY's binary format: each value after its length."""
    encoders = [codec(oid).binary if form else partial(as_text, oid) for oid, form in zip(oids, formats, strict=True)]
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
    return codec(oid).text(value).encode("utf-8", "replace")


def parameter(oid: int, content: bytes | None, *, binary: bool) -> object:
    """A parameter for cleave.sql.parameters. Raises QueryRefused if it is no value of its type."""
    type_ = type_of(oid)
    if content is None:
        return Typed(None, type_)
    try:
        value = codec(oid).of_binary(content) if binary else codec(oid).of_text(content.decode())
    except (ValueError, ArithmeticError, struct.error, LookupError):  # UnicodeDecodeError, InvalidOperation too
        raise QueryRefused(f"a parameter is no value of its type {type_}", code="parameter") from None
    return Typed("[]", type_) if value == [] else value


# arrays


@cache
def _array(element: int, *, is_vector: bool) -> Codec:
    """The codec of a one-dimensional array. A vector's text has numbers between blanks."""
    of = codec(element)

    def text(values: Sequence[Any]) -> str:
        items = ["NULL" if each is None else of.text(each) if is_vector else _quoted(of.text(each)) for each in values]
        return " ".join(items) if is_vector else f"{{{','.join(items)}}}"

    def binary(values: Sequence[Any]) -> bytes:
        items = [struct.pack("!i", -1) if each is None else _sized(of.binary(each)) for each in values]
        head = struct.pack("!iiI", bool(items), any(each is None for each in values), element)
        return head + (struct.pack("!ii", len(items), 0 if is_vector else 1) if items else b"") + b"".join(items)

    def of_text(given: str) -> Items:
        items = given.split() if is_vector else _items(given)
        return Items(None if each is None else of.of_text(each) for each in items)

    def of_binary(content: bytes) -> Items:
        fields = Fields(content)
        dimensions, _, kind = (fields.number(form) for form in "iiI")
        if dimensions == 0:
            return Items()
        count, _ = fields.number("i"), fields.number("i")
        if dimensions != 1 or kind != element or not 0 <= count <= len(content):
            raise ValueError
        values = [fields.value() for _ in range(count)]
        if not fields.is_read:
            raise ValueError
        return Items(None if each is None else of.of_binary(each) for each in values)

    return Codec(text, binary, of_text, of_binary)


def _quoted(text: str) -> str:
    if text.upper() != "NULL" and re.fullmatch(r"[^\s{},\"\\]+", text, re.ASCII):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _sized(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content


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


# scalars


def _boolean_of(text: str) -> bool:
    return _BOOLEANS[text.strip(_SPACES).lower()]


def _boolean_of_binary(content: bytes) -> bool:
    (is_true,) = struct.unpack("!?", content)
    return bool(is_true)


def _encoded(value: Any) -> bytes:
    return plain(value).encode("utf-8", "replace")


def _typed(type_: str, read: Callable[[Any], str] = str) -> Callable[[Any], Typed]:
    """A reader of a text for DuckDB."""
    return lambda given: Typed(read(given), type_)


def _counted(form: str, shown: Callable[[int], str]) -> Callable[[bytes], str]:
    """A reader of one number."""

    def read(content: bytes) -> str:
        (number,) = struct.unpack(form, content)
        return shown(number)

    return read


def _integer(oid: int) -> Codec:
    return Codec(plain, partial(numbers.binary, oid), partial(numbers.of_text, oid), partial(numbers.of_binary, oid))


def _float(oid: int) -> Codec:
    text = partial(numbers.float_text, oid)
    return Codec(text, partial(numbers.binary, oid), partial(numbers.of_text, oid), partial(numbers.of_binary, oid))


def _moment(type_: str, *, zoned: bool) -> Codec:
    return Codec(
        moments.date_text,
        lambda value: struct.pack("!q", moments.moment_number(value)),
        _typed(type_, partial(moments.read_moment, zoned=zoned)),
        _typed(type_, _counted("!q", partial(moments.moment_of, zoned=zoned))),
    )


def _unread(_: bytes) -> object:
    """No binary parameters of this type are read."""
    raise ValueError


_TEXT: Final = Codec(plain, _encoded, str, bytes.decode)
_CODECS: Final = {
    16: Codec(
        lambda value: "t" if value else "f", lambda value: b"\1" if value else b"\0", _boolean_of, _boolean_of_binary
    ),
    17: Codec(
        lambda value: "\\x" + numbers.bytes_of_duck(value).hex(), numbers.bytes_of_duck, numbers.bytes_of_text, bytes
    ),
    20: _integer(20),
    21: _integer(21),
    23: _integer(23),
    26: _integer(26),
    700: _float(700),
    701: _float(701),
    1082: Codec(
        moments.date_text,
        lambda value: struct.pack("!i", moments.date_number(value)),
        _typed("DATE", moments.read_date),
        _typed("DATE", _counted("!i", moments.date_of)),
    ),
    1083: Codec(
        plain,
        lambda value: struct.pack("!q", moments.clock_number(value)),
        _typed("TIME"),
        _typed("TIME", _counted("!q", moments.clock_of)),
    ),
    1114: _moment("TIMESTAMP", zoned=False),
    1184: _moment("TIMESTAMP WITH TIME ZONE", zoned=True),
    1186: Codec(
        moments.span_text,
        moments.span_binary,
        _typed("INTERVAL", moments.read_span),
        _typed("INTERVAL", moments.span_of),
    ),
    1266: Codec(
        plain,
        moments.zoned_clock_binary,
        _typed("TIME WITH TIME ZONE"),
        _typed("TIME WITH TIME ZONE", moments.zoned_clock_of),
    ),
    1700: Codec(plain, numbers.numeric, partial(numbers.of_text, 1700), numbers.decimal_of),
    2950: Codec(plain, lambda value: uuid.UUID(value).bytes, _typed("UUID"), lambda content: uuid.UUID(bytes=content)),
    3802: Codec(plain, _encoded, str, _unread),
}
