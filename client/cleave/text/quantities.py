"""Counts and sizes as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cleave_shared.errors import InputError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 10) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more:,} more"


def sized(number: int) -> str:
    """A number of bytes with three digits and a unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return counted(number, "byte")


def size_of(text: str | int) -> int:
    """Bytes from a size such as 1GB, 500 MB, 1.5GiB, or a number of bytes. Raises InputError."""
    size = _SIZE.fullmatch(str(text).strip().lower())
    if size is None or size[2] not in _UNITS:
        raise InputError("that is not a size", hint="a number of bytes, or one with a unit: 500MB, 1GB, 2GiB")
    return int(float(size[1]) * _UNITS[size[2]]) if "." in size[1] else int(size[1]) * _UNITS[size[2]]
