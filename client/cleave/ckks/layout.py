"""Layout of encrypted columns in lanes, with their widths: decided before any value is read.

A lane is one integer per row. Services only add chunks, at most `window` of them. So a coefficient of a result is the
sum of up to `window` integers of its position, plus noise:

    bit 58                                                        guard      0
     |  field of column A  |  field of column B  |   unused        |  noise  |      an exact lane
     |  field of column C: its low limb                            |  noise  |      C is wider than a lane:
     |  its high limb      |  field of column D  |   unused        |  noise  |      cut into limbs
     |  real column E, scaled to fill the lane; noise in its last bits       |      a real lane

- An exact column takes a field as wide as `window` times its limit, so that neighbours cannot meet. Below is the
  guard: the noise of `window` chunks stays under half of it with probability 1 - 2^-127, so totals are exact integers.
- A real column takes a lane of its own. Its scale is chosen when its values have been read; it never leaves the client.
- A real column with declared bounds takes half a lane, as the exact column of its scaled and shifted values, where
  `digits` digits of every group's sum of magnitudes are certain all the same (`_narrow`).

Noise: SEAL's fresh error is centred binomial of variance 10.5; sums of n errors exceed K sqrt(10.5 n) with probability
2 exp(-K^2 / 2) at most (docs/ckks.md section 3).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from cleave.aggregates.columns import ColumnType, Exact, Real

FRESH_VARIANCE = 10.5  # of a ciphertext encrypted with the secret key
SIGMAS_EXACT = 13.37  # more than sqrt(2 ln(2 / 2^-127))
# Bound on the change of a group's sum when real values are rounded with carried errors (encode.py).
ROUNDING_UNITS = Fraction(1025, 1024)


@dataclass(frozen=True, slots=True)
class Field:
    """A part of an exact column: bits `shift`..`shift + bits` of each value. Its total takes bits `offset`..`offset +
    width` of `lane`.
    """

    lane: int
    offset: int
    shift: int
    bits: int
    width: int
    largest: int  # of one value


@dataclass(frozen=True, slots=True)
class ExactFields:
    """Fields of an exact column; none if its limit is 0."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class NarrowField:
    """A real column in half a lane, as the integers (x - least) * 2^exponent."""

    field: Field
    exponent: int

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)


@dataclass(frozen=True, slots=True)
class WideLane:
    """A real column with a lane of its own."""

    lane: int

    @property
    def fields(self) -> tuple[Field, ...]:
        return ()


ColumnLayout = ExactFields | NarrowField | WideLane


@dataclass(frozen=True)
class Layout:
    """`used`: bits used above the guard, for each lane of fields. These lanes come first."""

    lanes: int
    window: int
    capacity_bits: int
    guard: int
    used: tuple[int, ...]
    by_column: tuple[ColumnLayout, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all columns, column by column."""
        return tuple(field for place in self.by_column for field in place.fields)

    @cached_property
    def first_fields(self) -> tuple[int, ...]:
        """Index in `fields` of each column's first field."""
        return tuple(itertools.accumulate((len(place.fields) for place in self.by_column[:-1]), initial=0))

    @cached_property
    def numbers_by_lane(self) -> tuple[tuple[int, ...], ...]:
        """Indices in `fields` of the fields of each lane."""
        numbers: tuple[list[int], ...] = tuple([] for _ in self.used)
        for number, field in enumerate(self.fields):
            numbers[field.lane].append(number)
        return tuple(map(tuple, numbers))


def noise(terms: int) -> float:
    """A bound that the error of `terms` added fresh ciphertexts exceeds with probability 2^-127 at most."""
    return SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * terms)


def plan_layout(columns: Sequence[ColumnType], window: int, capacity_bits: int, fewest: int, digits: int) -> Layout:
    """Lay out `columns`. At most `window` chunks are added up, and the smallest group has `fewest` rows.

    Real columns take half a lane if `digits` digits stay certain and lanes are saved.
    """
    wide = _lay_out(columns, window, capacity_bits, None)
    narrow = _lay_out(columns, window, capacity_bits, Fraction(fewest, 10**digits))
    return narrow if narrow.lanes < wide.lanes else wide


def _lay_out(columns: Sequence[ColumnType], window: int, capacity_bits: int, tolerance: Fraction | None) -> Layout:
    guard = math.ceil(math.log2(2 * noise(window)))
    usable = capacity_bits - guard
    places: list[ColumnLayout] = []
    for column in columns:
        narrow = None
        if isinstance(column, Real) and tolerance is not None:
            narrow = _narrow(column, window, usable // 2, tolerance)
        places.append(
            ExactFields(_limbs(column, window, usable)) if isinstance(column, Exact) else narrow or WideLane(-1)
        )
    used: list[int] = []
    placed = {}
    waiting = [field for place in places for field in place.fields]
    least = min((field.width for field in waiting), default=0)
    full = 0  # number of full lanes, which are the first ones
    for number in sorted(range(len(waiting)), key=lambda i: -waiting[i].width):  # first fit, widest first
        field = waiting[number]
        while full < len(used) and used[full] + least > usable:
            full += 1
        lane = next((lane for lane in range(full, len(used)) if used[lane] + field.width <= usable), len(used))
        if lane == len(used):
            used.append(0)
        placed[number] = replace(field, lane=lane, offset=used[lane])
        used[lane] += field.width
    lanes = len(used)
    settled = iter([placed[number] for number in range(len(waiting))])
    for number, place in enumerate(places):
        if isinstance(place, ExactFields):
            places[number] = ExactFields(tuple(next(settled) for _ in place.fields))
        elif isinstance(place, NarrowField):
            places[number] = replace(place, field=next(settled))
        else:
            places[number] = WideLane(lanes)
            lanes += 1
    return Layout(lanes, window, capacity_bits, guard, tuple(used), tuple(places))


def _limbs(column: Exact, window: int, usable: int) -> tuple[Field, ...]:
    if not column.limit:
        return ()
    width = (column.limit * window).bit_length()
    if width <= usable:
        return (Field(-1, 0, 0, column.limit.bit_length(), width, column.limit),)
    bits = usable - (window - 1).bit_length()
    limbs = []
    for shift in range(0, column.limit.bit_length(), bits):
        largest = min((1 << bits) - 1, column.limit >> shift)
        limbs.append(Field(-1, 0, shift, bits, (largest * window).bit_length(), largest))
    return tuple(limbs)


def _narrow(column: Real, window: int, width: int, tolerance: Fraction) -> NarrowField | None:
    """Half a lane for `column`, or None if rounding may exceed `tolerance` times the least magnitude of a row.

    `tolerance` is the smallest group's rows times 10^-digits. So a group's sum is rounded by at most 10^-digits of its
    sum of magnitudes, for all values within the bounds.
    """
    if not (math.isfinite(column.reach) and column.reach > 0 and column.least > 0):
        return None
    bits = width - (window - 1).bit_length()
    if bits < 3:
        return None
    # values differ by `reach` at most, and rounding moves each by less than 1; reach < 2^frexp
    exponent = bits - math.frexp(column.reach)[1]
    while (largest := math.ceil(Fraction(column.reach) * Fraction(2) ** exponent) + 2) >> bits:
        exponent -= 1
    if ROUNDING_UNITS * Fraction(2) ** -exponent > tolerance * Fraction(column.least):
        return None
    return NarrowField(Field(-1, 0, 0, largest.bit_length(), (largest * window).bit_length(), largest), exponent)
