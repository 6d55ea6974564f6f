"""Encodes values into the plaintext polynomials of a job's chunks.

Lane l of position p of a chunk is its coefficient l * capacity + p. The last SENTINELS coefficients hold values that
only the key's owner knows.

Rounding errors of real values are carried: each row gets the error of the rows before it. So the rounded values of a
group sum to within about one unit of its exact sum, for any number of rows. (Rounding each value to the nearest would
make the errors of equal values add up.)
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates import columns
from cleave.aggregates.columns import Doubles, Words
from cleave.ckks.layout import ColumnLayout, ExactFields, Layout, NarrowField, WideLane
from cleave.ckks.packing import Packing
from cleave_shared.errors import InputError

SENTINEL_SHIFT = 20  # 2 * 13.37 * sqrt(10.5 * 64 chunks) < 2^10; 64 16-bit values above it take 42 bits
_LARGEST_SCALE = 1000  # for a column of zeros
_CARRY_BITS = 36
_FEW = 768  # average rows per group; above this, placing group by group is faster
_LARGE = 1 << 22  # bytes
_TOGETHER = 1 << 15  # values rounded per batch: intermediate arrays stay in the processor's cache

_ColumnValues = Sequence[Words | Doubles]


@dataclass(frozen=True, slots=True)
class Scale:
    """How a column's values become integers: x * 2^exponent + shift.

    It may depend on the values, so it never leaves the client.
    """

    exponent: int = 0
    shift: int = 0


Encoded = tuple[NDArray[np.int64], tuple[Scale, ...]]
"""Plaintexts (chunks, N), and the scale of each column."""


def encode(packing: Packing, values: _ColumnValues) -> Encoded:
    """Encode `values` into chunks: one array per column of the packing, rows sorted by group. Sentinels are not set
    yet.
    """
    placement = packing.placement
    plaintexts = _zeros(packing.chunks, packing.profile.degree)
    scales = scales_of(packing.layout, values)
    lanes = lanes_of(packing.layout, values, scales) if packing.rows else []
    if packing.rows >= _FEW * len(placement.counts):
        for lane, column in lanes:
            placement.put(column, plaintexts[:, lane * placement.capacity :])
    else:
        places, coefficients = placement.places(packing.profile.degree), plaintexts.reshape(-1)
        for lane, column in lanes:
            coefficients[lane * placement.capacity :][places] = column
    return plaintexts, scales


def _zeros(chunks: int, degree: int) -> NDArray[np.int64]:
    """Zeros. Large arrays use huge pages: filling and forking are slow with pages of 4 KB."""
    if 8 * chunks * degree < _LARGE:
        return np.zeros((chunks, degree), np.int64)
    memory = mmap.mmap(-1, 8 * chunks * degree, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # this kernel has no huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.int64).reshape(chunks, degree)


def scales_of(layout: Layout, values: _ColumnValues) -> tuple[Scale, ...]:
    return tuple(_scale(layout, place, column) for place, column in zip(layout.by_column, values, strict=True))


def lanes_of(layout: Layout, values: _ColumnValues, scales: Sequence[Scale]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Number and integers (rows,) of each lane."""
    shared: dict[int, NDArray[np.int64]] = {}
    for place, column, scale in zip(layout.by_column, values, scales, strict=True):
        if isinstance(place, WideLane):
            yield place.lane, carried(column, scale.exponent)
            continue
        for lane, part in _parts(place, column, scale, layout.guard):
            if lane in shared:
                shared[lane] += part
            else:
                shared[lane] = part
    yield from shared.items()


def _parts(
    place: ExactFields | NarrowField, column: Words | Doubles, scale: Scale, guard: int
) -> list[tuple[int, NDArray[np.int64]]]:
    """The part of a column in each of its lanes."""
    if isinstance(place, NarrowField):
        integers = carried(column, scale.exponent) + scale.shift
        _require_within(integers.view(np.uint64)[None], place.field.largest)
        return [(place.field.lane, integers << (place.field.offset + guard))]
    exact = column.astype(np.uint64, copy=False)
    _require_within(exact, sum(field.largest << field.shift for field in place.fields))
    return [
        (field.lane, (columns.bits(exact, field.shift, field.bits) << np.uint64(field.offset + guard)).view(np.int64))
        for field in place.fields
    ]


def _require_within(integers: Words, largest: int) -> None:
    """Raises InputError for a value above the field's limit. It would overflow into other columns' totals, which no
    check could detect.
    """
    beyond = (
        int(integers[0].max(initial=0)) > largest if len(integers) == 1 else columns.exceed(integers, largest).any()
    )
    if beyond:
        raise InputError(
            "an encrypted column has a value outside the bounds it was given",
            hint="widen `lower` and `upper` in the schema, or run `cleave schema` again",
        )


def _scale(layout: Layout, place: ColumnLayout, column: Words | Doubles) -> Scale:
    if isinstance(place, ExactFields):
        return Scale()
    if isinstance(place, NarrowField):
        least = float(np.ldexp(column.min(initial=0.0), place.exponent)) if len(column) else 0.0
        return Scale(place.exponent, -math.floor(least))
    largest = max(float(column.max(initial=0.0)), -float(column.min(initial=0.0)))
    if largest == 0.0:
        return Scale(_LARGEST_SCALE)
    mantissa, top = math.frexp(largest)
    # the margin covers what rounding adds
    return Scale(layout.capacity_bits - math.ceil(math.log2(layout.window * mantissa * (1 + 2.0**-20))) - top)


def carried(values: Words | Doubles, exponent: int = 0) -> NDArray[np.int64]:
    """Scale `values` by 2^exponent (result below 2^62 in magnitude) and round. The sum of any run of rows changes by
    less than ROUNDING_UNITS.

    Each row gets the rounding error of the rows before it. A run's error is the difference of two carried errors: less
    than one unit. Fractions are carried in units of 2^-36; for up to 2^26 rows that adds less than 2^-10.
    """
    out = np.empty(len(values), np.int64)
    fractions, carried_before = 0, 0  # sum of the fractions of all earlier values, and the whole units in that sum
    for start in range(0, len(values), _TOGETHER):
        scaled = np.ldexp(values[start : start + _TOGETHER], exponent)
        below = np.floor(scaled)
        scaled -= below
        scaled *= 2.0**_CARRY_BITS
        carry = scaled.astype(np.int64)
        carry[0] += fractions
        np.cumsum(carry, out=carry)
        fractions = int(carry[-1])
        carry >>= _CARRY_BITS
        rounded = out[start : start + _TOGETHER]
        rounded[:] = below
        rounded += carry
        rounded[1:] -= carry[:-1]
        rounded[0] -= carried_before
        carried_before = int(carry[-1])
    return out
