"""The DuckDB types that a column may have, their ranges and digits, and formats of dates."""

from __future__ import annotations

import re

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}  # bits
_SIGNED = {**INTEGERS, "HUGEINT": 128}  # also of expressions; each has an unsigned one, U...
FLOATS = ("FLOAT", "DOUBLE")
ZONED = "TIMESTAMP WITH TIME ZONE"
TIMES = ("DATE", "TIME", "TIMESTAMP", ZONED, "INTERVAL")
OTHERS = ("BOOLEAN", "VARCHAR", *TIMES)
INT64_DIGITS = 18  # a DECIMAL of so many digits always fits an int64

_SYNONYMS = {
    "INT": "INTEGER",
    "LONG": "BIGINT",
    "BOOL": "BOOLEAN",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "REAL": "FLOAT",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": ZONED,
}
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def canonical(text: str) -> str:
    """DuckDB's own spelling of a type.

    Raises ValueError naming the supported types.
    """
    name = text.strip().upper()
    name = _SYNONYMS.get(name, name)
    if name in INTEGERS or name in FLOATS or name in OTHERS:
        return name
    if match := _DECIMAL.fullmatch(name):
        width, decimals = int(match[1]), int(match[2] or 0)
        if 1 <= width <= 38 and decimals <= width:
            return f"DECIMAL({width},{decimals})"
    raise ValueError(f"must be one of {', '.join([*INTEGERS, *FLOATS, *OTHERS])} or DECIMAL(digits, decimals)")


def has_floats(type_: str) -> bool:
    """True for FLOAT and DOUBLE, and lists, structs and maps of them."""
    return re.search(r"\b(?:FLOAT|DOUBLE)\b", type_) is not None


def decimals_of(type_: str) -> int | None:
    """Digits after the point of an exact type (0 for integers and booleans), None for other types."""
    if is_integer(type_) or type_ == "BOOLEAN":
        return 0
    match = _DECIMAL.fullmatch(type_)
    return int(match[2]) if match else None


def digits_of(type_: str) -> int | None:
    """Return the number of digits of a DECIMAL, None for other types."""
    match = _DECIMAL.fullmatch(type_)
    return int(match[1]) if match else None


def bytes_of_value(type_: str) -> int:
    """Bytes of a value in the memory of DuckDB or Arrow, whichever takes more; without the text of a VARCHAR."""
    if type_ in INTEGERS:
        return INTEGERS[type_] // 8
    if type_ in ("BOOLEAN", "DATE", "FLOAT"):
        return 1 if type_ == "BOOLEAN" else 4
    return 8 if type_ in ("DOUBLE", "TIME", "TIMESTAMP", ZONED) else 16


def range_of(type_: str) -> tuple[int, int]:
    """Smallest and largest value of an exact type, in units of its last decimal."""
    if type_ == "BOOLEAN":
        return 0, 1
    digits = digits_of(type_)
    if digits is not None:
        return 1 - 10**digits, 10**digits - 1
    if type_ in _SIGNED:
        return -(1 << (_SIGNED[type_] - 1)), (1 << (_SIGNED[type_] - 1)) - 1
    return 0, (1 << _SIGNED[type_.removeprefix("U")]) - 1


def is_number(type_: str) -> bool:
    return type_ in INTEGERS or type_ in FLOATS or digits_of(type_) is not None


def is_integer(type_: str) -> bool:
    """True for DuckDB's integer types."""
    return type_.removeprefix("U") in _SIGNED


def is_numeric(type_: str) -> bool:
    """True if expressions of the type are numbers."""
    return is_shown_as_it_is(type_) and type_ != "BOOLEAN"


def can_be_encrypted(type_: str) -> bool:
    """True if CKKS columns can hold it: numbers, booleans as 0 and 1, dates as days, times as microseconds."""
    return type_ == "BOOLEAN" or type_ in TIMES or is_number(type_)


def is_shown_as_it_is(type_: str) -> bool:
    """True if an answer contains Python values of it (numbers and booleans). Other types are DuckDB's text."""
    return decimals_of(type_) is not None or type_ in FLOATS


_PARTS = {
    "%d": "[0-9]{1,2}",
    "%m": "[0-9]{1,2}",
    "%Y": "[0-9]{4}",
    "%y": "[0-9]{2}",  # 69 to 99 mean 1969 to 1999, as in POSIX
    "%b": "[A-Za-z]{3}",
    "%B": "[A-Za-z]{3,9}",
    "%H": "[0-9]{1,2}",
    "%I": "[0-9]{1,2}",
    "%M": "[0-9]{2}",
    "%S": "[0-9]{2}",
    "%p": "[AaPp][Mm]",
}
_DAYS = (("%d",), ("%m", "%b", "%B"), ("%Y", "%y"))
_TIMES = (("%H", "%I"), ("%M",))


def check_format(date_format: str, type_: str) -> None:
    """Raises ValueError unless a format has day, month and year once each, and a time only if `type_` has one."""
    parts = re.findall("%.?", date_format)
    if strange := [part for part in parts if part not in _PARTS]:
        raise ValueError(f"does not know {strange[0]}, only {', '.join(_PARTS)}")
    for choice in _DAYS:
        if sum(parts.count(part) for part in choice) != 1:
            raise ValueError(f'must hold one of {", ".join(choice)}, once, as in "%d.%m.%Y"')
    times = [part for part in parts if part in ("%H", "%I", "%M", "%S", "%p")]
    if times and type_ != "TIMESTAMP":
        raise ValueError(f"holds a time, but {type_} has no time")
    if times and any(sum(times.count(part) for part in choice) != 1 for choice in _TIMES):
        raise ValueError("must hold %H (or %I and %p) and %M, once each, where it holds a time")
    if len(set(times)) != len(times) or ("%I" in times) != ("%p" in times):
        raise ValueError("must hold %I and %p together, and nothing twice")


def pattern(date_format: str) -> str:
    """Regular expression (RE2) for texts in a date format. It is stricter than strptime, which reads 24 as a year for
    %Y.
    """
    parts = re.split("(%.)", date_format)
    return r"\s*" + "".join(_PARTS[part] if part in _PARTS else re.escape(part) for part in parts) + r"\s*"
