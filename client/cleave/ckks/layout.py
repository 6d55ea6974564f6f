"""Columns into lanes of integers, and decrypted totals back into totals of columns.

A lane is one integer a row; a chunk's polynomial interleaves the lanes (cleave_shared.moments). Every lane is scaled so
that the sum of magnitudes over any one request stays below a quarter of the modulus: it cannot overflow.

- An exact column (non-negative integers) leaves `guard` low bits for the noise, so that its totals round to the exact
  integer with probability 1 - 2^-128. What fits is laid side by side in one lane (mixed radix: each field is as wide as
  its largest possible total); what does not fit is cut into limbs.
- A real column takes a lane of its own at the largest power-of-two scale.

Noise: SEAL's fresh error is centred binomial with variance 10.5, so a masked total of n rows errs by less than
K sqrt(10.5 n) (docs/ckks.md section 3). Real values are rounded up or down at random, in proportion to what is cut
off: equal values rounded to the nearest would all err to the same side, and their errors add up.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates import words
from cleave.aggregates.base import SIGMAS, Estimate
from cleave.aggregates.columns import Column, Doubles, Exact, Words
from cleave_shared.errors import CheckFailed
from cleave_shared.moments import SENTINELS, rows_per_chunk

FRESH_VARIANCE = 10.5
ROUNDING_VARIANCE = 1 / 4  # of stochastic rounding: unbiased, and at most this for any value
_COIN = Fraction(1, 2**23)  # the coin that rounds has 24 bits, and its odds are rounded to 24 bits
SIGMAS_EXACT = 13.37  # sqrt(2 ln(2 / 2^-128))
DISTRUST = "the service used another key or damaged data; nothing of this answer can be trusted"
_LARGEST_EXPONENT = 1022  # of a column of zeros: its noise is next to nothing
SENTINEL_SHIFT = 20  # 2 * 13.37 * sqrt(10.5 * 16 * 67 chunks) < 2^12


@dataclass(frozen=True, slots=True)
class Field:
    """Bits `shift`..`shift + bits` of a source, whose total stands at `offset` of a lane, `bits_total` wide."""

    lane: int
    offset: int
    shift: int
    bits: int
    bits_total: int
    largest: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source lies: fields of exact lanes, or the whole of `lane` at scale 2^exponent."""

    fields: tuple[Field, ...]
    lane: int = -1
    exponent: int = 0

    @property
    def is_exact(self) -> bool:
        return bool(self.fields)


@dataclass(frozen=True, slots=True)
class Layout:
    lanes: int
    guard: int
    exact_bits: tuple[int, ...]  # bits used of each exact lane; these lanes come first
    places: tuple[Place, ...]  # one a source

    def decode(self, coefficients: Sequence[int], rows: int) -> list[int]:
        """One group's lane totals from one request to one integer a source (a Real's: times 2^exponent).

        Raises CheckFailed if an exact lane is farther from an integer than its noise, or a field out of its range.
        """
        noise = SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * rows)
        lanes = list(coefficients)
        for lane, bits in enumerate(self.exact_bits):
            rounded = (lanes[lane] + (1 << (self.guard - 1))) >> self.guard
            if abs(lanes[lane] - (rounded << self.guard)) > noise:
                raise CheckFailed("residual", "a decrypted total is not an integer within its noise", hint=DISTRUST)
            if not 0 <= rounded < 1 << bits:
                raise _out_of_range()
            lanes[lane] = rounded
        return [self._source(place, lanes, rows) for place in self.places]

    def _source(self, place: Place, lanes: Sequence[int], rows: int) -> int:
        if not place.is_exact:
            return lanes[place.lane]
        value = 0
        for field in place.fields:
            part = (lanes[field.lane] >> field.offset) & ((1 << field.bits_total) - 1)
            if part > field.largest * rows:
                raise _out_of_range()
            value += part << field.shift
        return value

    def total(self, source: int, value: int, rows: int) -> Estimate:
        """The total of source number `source` from its integers added over all requests."""
        place = self.places[source]
        if place.is_exact:
            return Estimate(Fraction(value))
        unit = Fraction(2) ** -place.exponent
        bound = SIGMAS * math.sqrt((FRESH_VARIANCE + ROUNDING_VARIANCE) * rows)
        return Estimate(value * unit, (Fraction(bound) + rows * _COIN) * unit)


def _out_of_range() -> CheckFailed:
    return CheckFailed("range", "a decrypted total is beyond its column's bounds", hint=DISTRUST)


def plan_layout(types: Sequence[Column], rows: int, window: int, capacity_bits: int) -> Layout:
    """Lay out columns of `types`, of `rows` rows, at most `window` of them in one request."""
    window = max(1, min(rows, window))
    guard = math.ceil(math.log2(2 * SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * window)))
    width = capacity_bits - guard
    fields: list[tuple[int, Field]] = []  # (column, field without its place yet)
    for number, column in enumerate(types):
        if isinstance(column, Exact):
            fields.extend((number, field) for field in _limbs(column, window, width))
    used: list[int] = []  # bits taken of each exact lane
    placed: dict[int, list[Field]] = {}
    for number, field in sorted(fields, key=lambda item: -item[1].bits_total):  # first fit, widest first
        lane = next((lane for lane, taken in enumerate(used) if taken + field.bits_total <= width), len(used))
        if lane == len(used):
            used.append(0)
        placed.setdefault(number, []).append(replace(field, lane=lane, offset=used[lane]))
        used[lane] += field.bits_total
    lanes = len(used)
    places = []
    for number, column in enumerate(types):
        if isinstance(column, Exact):
            places.append(Place(tuple(placed[number])))
        else:
            places.append(Place((), lanes))
            lanes += 1
    return Layout(lanes, guard, tuple(used), tuple(places))


def _limbs(column: Exact, window: int, width: int) -> list[Field]:
    largest, total = column.limit, window * column.limit
    if total.bit_length() <= width:
        return [Field(-1, 0, 0, max(1, largest.bit_length()), max(1, total.bit_length()), largest)]
    size = width - window.bit_length()
    limbs = []
    for shift in range(0, largest.bit_length(), size):
        top = min((1 << size) - 1, largest >> shift)
        limbs.append(Field(-1, 0, shift, size, (top * window).bit_length(), top))
    return limbs


def scaled(layout: Layout, columns: Sequence[Words | Doubles], window: int, capacity_bits: int) -> Layout:
    """`layout` with the scale of every real column, which follows its values and stays here."""
    window = max(1, min(columns[0].shape[-1], window))
    places = [
        place
        if place.is_exact
        else replace(place, exponent=_exponent(column.astype(np.float64), window, capacity_bits))
        for place, column in zip(layout.places, columns, strict=True)
    ]
    return replace(layout, places=tuple(places))


def _exponent(values: Doubles, window: int, capacity_bits: int) -> int:
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return _LARGEST_EXPONENT
    top = math.frexp(largest)[1]
    # relative to the largest, nothing overflows or vanishes that matters; the margin covers rounding to integers
    relative = float(np.abs(np.ldexp(values, -top)).sum())
    total = min(relative, float(window)) * (1 + 2.0**-20)
    return capacity_bits - math.ceil(math.log2(total)) - top


def pack(layout: Layout, columns: Sequence[Words | Doubles]) -> NDArray[np.int64]:
    """The lanes (rows, lanes) of `columns`, of which there is at least one."""
    matrix = np.zeros((columns[0].shape[-1], layout.lanes), np.int64)
    for column, place in zip(columns, layout.places, strict=True):
        if not place.is_exact:
            matrix[:, place.lane] = _round_stochastically(np.ldexp(column.astype(np.float64), place.exponent))
            continue
        for field in place.fields:
            limb = words.bits(column.astype(np.uint64), field.shift, field.bits)
            matrix[:, field.lane] += (limb << np.uint64(field.offset + layout.guard)).astype(np.int64)
    return matrix


def _round_stochastically(values: NDArray[np.float64]) -> NDArray[np.int64]:
    below = np.floor(values)
    random = np.random.Generator(np.random.SFC64(secrets.randbits(128)))
    up = random.random(len(values), np.float32) < (values - below).astype(np.float32)
    return below.astype(np.int64) + up


def polynomials(
    matrix: NDArray[np.int64], degree: int, start: int, stop: int, sentinels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Coefficients (chunks, N) of chunks `start`..`stop` of a job, `sentinels` (chunks, SENTINELS) in their places."""
    rows, lanes = matrix.shape
    capacity = rows_per_chunk(degree, lanes)
    out = np.zeros((stop - start, degree), np.int64)
    out[:, degree - SENTINELS :] = sentinels << SENTINEL_SHIFT
    for place, chunk in enumerate(range(start, stop)):
        part = matrix[chunk * capacity : min((chunk + 1) * capacity, rows)]
        out[place, : part.size] = part.ravel()
    return out
