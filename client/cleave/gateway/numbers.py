"""Numbers and bytes: between Python's values or DuckDB's texts, PostgreSQL's texts, and its binary format."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any, Final

import numpy as np

from cleave.text.figures import plain

_FORMS: Final = {20: "q", 21: "h", 23: "i", 26: "I", 700: "f", 701: "d"}
_DIGITS: Final = {700: 6, 701: 15}  # floats with more digits before the point have an exponent
_MOST_DIGITS: Final = (131_072, 16_383)  # of PostgreSQL's NUMERIC, before and after the point
_ESCAPED: Final = re.compile(r"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*+", re.DOTALL)


def float_text(oid: int, value: Any) -> str:
    """The shortest text of a float that reads back equal, with an exponent where PostgreSQL writes one."""
    if not math.isfinite(value):
        return plain(float(value))
    number = Decimal(str(np.float32(value)) if oid == 700 else repr(float(value))).normalize()
    if not number:
        return "-0" if number.is_signed() else "0"
    exponent = number.adjusted()
    if -4 <= exponent < _DIGITS[oid]:
        return f"{number:f}"
    return f"{number.scaleb(-exponent):f}e{exponent:+03}"


def binary(oid: int, value: Any) -> bytes:
    """Raises struct.error or OverflowError if the value is beyond the type."""
    return struct.pack(f"!{_FORMS[oid]}", float(value) if oid in _DIGITS else int(value))


def of_binary(oid: int, content: bytes) -> int | float:
    number: int | float
    (number,) = struct.unpack(f"!{_FORMS[oid]}", content)
    return number


def of_text(oid: int, text: str) -> int | float | Decimal:
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


def numeric(value: Any) -> bytes:
    return _numeric(Decimal(plain(value)))


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


def decimal_of(content: bytes) -> Decimal | float:
    count, weight, sign, scale = struct.unpack_from("!hhHh", content)
    if sign >= 0xC000:
        return math.nan if sign == 0xC000 else math.inf if sign == 0xD000 else -math.inf
    digits = struct.unpack(f"!{count}h", content[8:])
    if sign not in (0, 0x4000) or scale < 0 or not all(0 <= each < 10_000 for each in digits):
        raise ValueError
    number, shift = int("".join(f"{each:04}" for each in digits) or "0"), 4 * (weight + 1 - count) + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return Decimal((bool(sign), tuple(map(int, str(number))), -scale))


def bytes_of_duck(text: str) -> bytes:
    r"""Bytes of DuckDB's text of a BLOB, in which `\\xAB` is a byte that is no printable ASCII character."""
    first, *parts = text.split("\\x")
    return first.encode() + b"".join(bytes.fromhex(each[:2]) + each[2:].encode() for each in parts)


def bytes_of_text(text: str) -> bytes:
    """Bytes of PostgreSQL's text of bytea, in hexadecimal or in the older format."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if _ESCAPED.fullmatch(text) is None:
        raise ValueError
    pattern = rb"\\(\\|[0-3][0-7]{2})"
    return re.sub(pattern, lambda read: b"\\" if read[1] == b"\\" else bytes([int(read[1], 8)]), text.encode())
