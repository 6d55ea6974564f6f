"""Sizes of sealed objects: they depend on counts, never on values.

Sealed content is not compressed, because its compressed size would show how similar values are. In a record (JSON),
every number takes as many bytes as the longest may, and every text of a cell's key as many as the longest one, rounded
up to a power of two. The rest is rounded up by Padme (Nikitin et al., PoPETs 2019).
"""

from __future__ import annotations

import json
from typing import Any

_SMALLEST = 512  # bytes of an object
_SHORTEST_KEY = 16  # bytes of a text in a cell's key
_KEYS = "keys"  # a record's member with keys of cells, or numbers and keys


def padded(size: int) -> int:
    """Round a size up so that only its leading bits are set (Padme): at most 12% more."""
    if size < _SMALLEST:
        return _SMALLEST
    bits = size.bit_length() - 1
    loose = bits - bits.bit_length()
    return -(-size >> loose) << loose


def room(record: bytes, number: int, longest: int = 0) -> int:
    """The size that a record gets for any numbers and keys. A number takes at least `number` bytes. `longest`:
    `text_bytes` of the longest text of a key, if other records count too.
    """
    numbers: list[int] = []
    texts: list[int] = []

    def note(digits: str) -> int:
        numbers.append(len(digits))
        return 0

    _walk(json.loads(record, parse_int=note, parse_float=note), numbers, texts, is_key=False)
    rest = len(record) - sum(numbers) - sum(texts)
    return rest + len(numbers) * _longest(numbers, number) + room_of_keys(len(texts), max([longest, *texts]))


def room_of_keys(texts: int, longest: int) -> int:
    """The size that `texts` texts of keys get in a record. `longest`: `text_bytes` of the longest one."""
    return texts * _longest([longest], _SHORTEST_KEY)


def text_bytes(text: str | None) -> int:
    """Bytes of a text in a record: with its quotes, and with JSON's escapes."""
    return len(json.dumps(text, ensure_ascii=False).encode())


def _longest(lengths: list[int], least: int) -> int:
    return max(least, 1 << (max(lengths, default=1) - 1).bit_length())


def _walk(value: Any, numbers: list[int], texts: list[int], *, is_key: bool) -> None:
    """Collect the lengths of all texts of keys, and of numbers that are names of members."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name.isdecimal():
                numbers.append(len(name))
            _walk(each, numbers, texts, is_key=is_key or name == _KEYS)
    elif isinstance(value, list):
        for each in value:
            _walk(each, numbers, texts, is_key=is_key)
    elif is_key and (value is None or isinstance(value, str)):
        texts.append(text_bytes(value))
