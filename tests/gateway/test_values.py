"""Parameters as PostgreSQL reads them: what it refuses is refused, and nothing is lost without a word."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest

from cleave.gateway.codecs import codec, line, parameter, row
from cleave.gateway.types import TEXT
from cleave.sql.parameters import Typed
from cleave_shared.errors import QueryRefused

ARRAY = struct.Struct("!iiIiii")  # dimensions, NULLs, element, count, lower bound, the first size


@pytest.mark.parametrize(
    ("oid", "text", "value"),
    [
        (1009, "{}", Typed("[]", "VARCHAR[]")),
        (1009, "{ }", Typed("[]", "VARCHAR[]")),
        (1009, "{ a , b c ,NULL,null}", ["a", "b c", None, None]),
        (1009, r'{"NULL","",a\,b," x ","a\"\\b"}', ["NULL", "", "a,b", " x ", 'a"\\b']),
        (1007, "{1 , 2}", [1, 2]),
        (16, "yes", True),
        (16, " OF ", False),
        (16, "1", True),
        (17, "\\x6162", b"ab"),
        (17, r"a\\b\001", b"a\\b\x01"),
        (20, " 7 ", 7),
        (700, "0.1", struct.unpack("!f", struct.pack("!f", 0.1))[0]),
        (701, "-Infinity", float("-inf")),
        (1700, "1e3", Decimal(1000)),
    ],
)
def test_texts_of_postgresql_are_read(oid: int, text: str, value: object) -> None:
    assert parameter(oid, text.encode(), binary=False) == value


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        *((1009, text) for text in ("{1,,2}", "{,}", "{a,}", '{"a"b}', '{"a}', "{{a}}", "{a", "{a}}", "{a}x", "a")),
        *((16, text) for text in ("2", "", "o", "truee")),
        *((17, text) for text in (r"\q", "\\", r"\400", "\\x6", "\\xgg")),
        *((oid, text) for oid in (23, 701, 1700) for text in ("1_0", "\N{FULLWIDTH DIGIT ONE}", "")),
        *((701, "1e400"), (700, "1e39"), (1700, "1e999999999"), (1700, "1e-999999999")),
    ],
)
def test_texts_that_are_no_values(oid: int, text: str) -> None:
    with pytest.raises(QueryRefused, match="no value of its type"):
        parameter(oid, text.encode(), binary=False)


@pytest.mark.parametrize(
    ("oid", "content"),
    [
        (16, b""),
        (16, b"\1\1"),
        (1009, ARRAY.pack(1, 0, 25, 1, 1, 100) + b"cut"),
        (1009, ARRAY.pack(1, 0, 25, 1, 1, 1) + b"ab"),
        (1009, ARRAY.pack(1, 0, 25, 1, 1, -2)),
        (1007, ARRAY.pack(1, 0, 25, 1, 1, 4) + b"text"),
        (1083, struct.pack("!q", 86_400_000_001)),
        (1083, struct.pack("!q", -1)),
        (1700, struct.pack("!hhHh2h", 2, 0, 0, 0, 1, 10_000)),
        (1700, struct.pack("!hhHh2h", 2, 0, 0, 0, 1, -1)),
        (1700, struct.pack("!hhHhh", 1, 0, 0x8000, 0, 1)),
        (1700, struct.pack("!hhHhh", 1, 0, 0, -3, 1)),
    ],
)
def test_bytes_that_are_no_values(oid: int, content: bytes) -> None:
    with pytest.raises(QueryRefused, match="no value of its type"):
        parameter(oid, content, binary=True)


@pytest.mark.parametrize("oid", [700, 701])
def test_a_float_as_text_is_the_one_in_binary(oid: int) -> None:
    for value in (0.1, 1e-40, 16777217.0, 3.4e38):
        content: Any = codec(oid).binary(value)
        assert parameter(oid, content, binary=True) == parameter(oid, repr(value).encode(), binary=False)


def test_the_last_time_of_a_day() -> None:
    assert parameter(1083, struct.pack("!q", 86_400_000_000), binary=True) == Typed("24:00:00.000000", "TIME")


def test_a_value_that_has_no_binary_form() -> None:
    for oid, text in ((1082, "5877642-06-25 (BC)"), (1114, "290309-12-22 (BC) 00:00:00")):
        with pytest.raises(QueryRefused, match="binary"):
            row([oid], [1])([text])
        assert text.split()[0].encode() in row([oid], [0])([text])


def test_no_line_of_csv_ends_the_data() -> None:
    """As in PostgreSQL: psql and readers before PostgreSQL 18 stop at it."""
    assert line([TEXT], is_csv=True)(["\\."]) == b'"\\."\n'
    assert line([TEXT], is_csv=False)(["\\."]) == b"\\\\.\n"
