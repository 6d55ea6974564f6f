"""Types and values of encrypted columns. A layout is planned from the types, before values are read.

An exact column has integers from 0 to a limit, which may exceed 64 bits. A real column has float64. Values are arrays
of 64-bit words (words, rows), least significant first, or of doubles (rows,).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]  # (words, rows)
Doubles = NDArray[np.float64]  # (rows,)
Flags = NDArray[np.bool_]  # (rows,)


@dataclass(frozen=True, slots=True)
class Domain:
    """Range of an argument's values. Exact values (integer, decimal, boolean) are counted in units of the last decimal
    and are within `lower`..`upper`. Doubles are within `low`..`high`, infinite if no bound is declared.
    """

    decimals: int | None  # digits after the point of exact types (0 for integers and booleans), None for doubles
    lower: int = 0
    upper: int = 0
    nullable: bool = True
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_exact(self) -> bool:
        return self.decimals is not None

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def middle(self) -> int:
        return (self.lower + self.upper) // 2

    @property
    def unit(self) -> int:
        """Units of the last decimal in 1."""
        unit: int = 10 ** (self.decimals or 0)  # an int, because the exponent is not negative
        return unit


@dataclass(frozen=True, slots=True)
class Exact:
    """A column of integers from 0 to `limit`."""

    limit: int


@dataclass(frozen=True, slots=True)
class Real:
    """A column of finite doubles, at most `reach` in magnitude if bounds are declared.

    `least`: the declared minimum magnitude of the argument in every row, else 0.
    """

    reach: float = math.inf
    least: float = 0.0


ColumnType = Exact | Real


@dataclass(frozen=True, slots=True)
class Values:
    """An argument's value in each row: int64 or uint64 in units of the last decimal, or doubles.

    Exact values over 64 bits are two's complement words (words, rows). `valid` None: there are no NULLs.
    """

    values: NDArray[np.generic]
    valid: Flags | None

    @property
    def rows(self) -> int:
        rows: int = self.values.shape[-1]
        return rows


_WORD = (1 << 64) - 1
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


def of_integers(values: NDArray[np.generic], lower: int, upper: int) -> Words:
    """`values` as two's complement words, with enough words for `lower` and `upper` too."""
    if values.ndim == 2:
        return values.astype(np.uint64, copy=False)
    if values.dtype.kind == "u":
        words = values.astype(np.uint64)
        return words[None] if lower >= 0 and upper <= _WORD else np.stack([words, np.zeros_like(words)])
    signed = values.astype(np.int64)
    words = signed.view(np.uint64)
    if lower >= -(1 << 63) and upper < 1 << 63:
        return words[None]
    return np.stack([words, (signed >> np.int64(63)).view(np.uint64)])


def subtract(words: Words, constant: int) -> tuple[Words, Flags]:
    """(`words` - `constant` modulo their width, a flag where the result would be negative)."""
    out = np.empty_like(words)
    borrow = np.zeros(words.shape[1], np.bool_)
    for place, word in enumerate(words):
        part = np.uint64((constant >> (64 * place)) & _WORD)
        out[place] = word - part - borrow
        borrow = (word < part) | ((word == part) & borrow)
    return out, borrow


def exceed(words: Words, limit: int) -> Flags:
    """A flag where `words`, read as unsigned, are above `limit`."""
    if limit >= 1 << (64 * len(words)):
        return np.zeros(words.shape[1], np.bool_)
    return ~subtract(words, limit + 1)[1] if limit + 1 < 1 << (64 * len(words)) else np.zeros(words.shape[1], np.bool_)


def distance(words: Words, constant: int) -> tuple[Words, Flags]:
    """(|`words` - `constant`|, a flag where the difference is negative). `constant` >= 0 fits the words."""
    out, below = subtract(words, constant)
    carry = below.copy()
    for place in range(len(out)):  # negate where below 0: ~x + 1
        out[place, below] = ~out[place, below]
        out[place] += carry
        carry &= out[place] == 0
    return out, below


def multiply(one: Words, other: Words, limit: int, other_limit: int) -> Words:
    """Products, row by row, of integers up to `limit` and up to `other_limit`."""
    if limit * other_limit <= _WORD:
        return one[:1] * other[:1]
    firsts, seconds = _halves(one, limit), _halves(other, other_limit)
    sums = [np.zeros(one.shape[1], np.uint64) for _ in range(2 * ((len(firsts) + len(seconds) + 1) // 2) + 1)]
    for i, first in enumerate(firsts):  # schoolbook multiplication; a sum has at most four terms of 32 bits per half
        for j, second in enumerate(seconds):
            product = first * second
            sums[i + j] += product & _LOW_HALF
            sums[i + j + 1] += product >> _HALF
    for place in range(len(sums) - 1):
        sums[place + 1] += sums[place] >> _HALF
        sums[place] &= _LOW_HALF
    return np.stack([sums[i] | (sums[i + 1] << _HALF) for i in range(0, len(sums) - 1, 2)])


def _halves(words: Words, limit: int) -> list[NDArray[np.uint64]]:
    """Split into parts of 32 bits. Returns as many parts as a value up to `limit` needs."""
    halves = [part for word in words for part in (word & _LOW_HALF, word >> _HALF)]
    return halves[: max(1, -(-limit.bit_length() // 32))]


def above(sizes: Words, below: Flags, limit: int) -> Words:
    """`limit` + x, where |x| is in `sizes` and at most `limit`, and x is negative where `below`."""
    places = max(len(sizes), -(-(2 * limit).bit_length() // 64))
    wide = np.zeros((places, sizes.shape[1]), np.uint64)
    wide[: len(sizes)] = sizes
    out, _ = subtract(wide, -limit)
    if below.any():
        out[:, below] = distance(np.ascontiguousarray(wide[:, below]), limit)[0]
    return out


def bits(words: Words, shift: int, count: int) -> NDArray[np.uint64]:
    """Bits `shift`..`shift + count` of every integer; `count` <= 64."""
    place, offset = divmod(shift, 64)
    out = np.zeros(words.shape[1], np.uint64)
    if place < len(words):
        out |= words[place] >> np.uint64(offset)
    if offset and place + 1 < len(words):
        out |= words[place + 1] << np.uint64(64 - offset)
    return out & np.uint64((1 << count) - 1)


def doubles(words: Words) -> Doubles:
    """The integers as doubles, with an error of at most (words + 1) roundings."""
    out = np.zeros(words.shape[1])
    for word in words[::-1]:
        out = out * 2.0**64 + word.astype(np.float64)
    return out
