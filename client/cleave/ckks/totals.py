"""Sums of positions back into totals of groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cleave.aggregates.base import SIGMAS, Estimate
from cleave.ckks.checks import Coefficients, fields_of_lanes
from cleave.ckks.encode import Scale
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, Layout, NarrowPlace, WidePlace, fields_of
from cleave.ckks.packing import Packing, Piece

_HALF = 32
_LOW = (1 << _HALF) - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """Every group's total of one column, in units of 2^-exponent; its bound from its number of terms, None: exact."""

    totals: list[int]
    exponent: int
    bound: Callable[[int], Fraction] | None


class Totals:
    """Every group's total of every field and real lane, in two halves: no sum of 2^31 of them overflows."""

    def __init__(self, packing: Packing, scales: tuple[Scale, ...]) -> None:
        self._packing = packing
        self._scales = scales
        layout, groups = packing.layout, len(packing.placement.counts)
        self._rows = packing.placement.counts
        self._terms = packing.placement.terms()
        slots = len(layout.fields) + layout.lanes - len(layout.used)
        self._low = np.zeros((slots, groups), np.int64)
        self._high = np.zeros((slots, groups), np.int64)

    def decode(self, piece: Piece, coefficients: Coefficients) -> Coefficients:
        """The totals (slots, positions in use) in one result (N,). Raises CheckFailed."""
        layout, capacity = self._packing.layout, self._packing.placement.capacity
        lanes = coefficients[: layout.lanes * capacity].reshape(layout.lanes, capacity)
        fields = fields_of_lanes(layout, lanes, piece.chunks)
        return np.concatenate([fields, lanes[len(layout.used) :]])

    def add(self, piece: Piece, positions: Coefficients) -> None:
        block = piece.block
        if len(block.groups):
            used = positions[:, : int(block.positions.sum())]
            self._low[:, block.groups] += np.add.reduceat(used & _LOW, block.first, axis=1)
            self._high[:, block.groups] += np.add.reduceat(used >> _HALF, block.first, axis=1)

    @property
    def terms(self) -> list[int]:
        """The fresh coefficients in each group's totals."""
        return [int(each) for each in self._terms]

    def whole(self, number: int) -> Whole:
        """The totals of one column over every group."""
        layout = self._packing.layout
        place, scale = layout.places[number], self._scales[number]
        if isinstance(place, WidePlace):
            slot = len(layout.fields) + place.lane - len(layout.used)
            return Whole(self._slot(slot), scale.exponent, lambda terms: wide_bound(terms, scale))
        at = sum(len(fields_of(each)) for each in layout.places[:number])
        if isinstance(place, NarrowPlace):
            shifted = [t - int(n) * scale.shift for t, n in zip(self._slot(at), self._rows, strict=True)]
            return Whole(shifted, scale.exponent, lambda _: ROUNDING_UNITS * unit_of(scale))
        fields = [[total << each.shift for total in self._slot(at + i)] for i, each in enumerate(fields_of(place))]
        return Whole([sum(parts) for parts in zip([0] * len(self._rows), *fields, strict=True)], 0, None)

    def _slot(self, slot: int) -> list[int]:
        high, low = self._high[slot], self._low[slot]
        if not len(high) or (np.abs(high).max() < 1 << 29 and low.max() < 1 << 61):
            whole: list[int] = ((high << _HALF) + low).tolist()
            return whole
        return [(h << _HALF) + w for h, w in zip(high.tolist(), low.tolist(), strict=True)]

    def estimates(self, group: int) -> list[Estimate]:
        """The total of every column over one group."""
        slots = [(int(h) << _HALF) + int(w) for h, w in zip(self._high[:, group], self._low[:, group], strict=True)]
        return estimates(self._packing.layout, self._scales, slots, int(self._rows[group]), int(self._terms[group]))


def unit_of(scale: Scale) -> Fraction:
    return Fraction(2) ** -scale.exponent


def wide_bound(terms: int, scale: Scale) -> Fraction:
    """Return the wide bound of the total of a real column with a lane of its own."""
    return (Fraction(SIGMAS * math.sqrt(FRESH_VARIANCE * terms)) + ROUNDING_UNITS) * unit_of(scale)


def estimates(layout: Layout, scales: Sequence[Scale], slots: Sequence[int], rows: int, terms: int) -> list[Estimate]:
    """The total of every column from those of its `slots`: over `rows` rows, the sum of `terms` fresh coefficients."""
    found, at = [], 0
    for place, scale in zip(layout.places, scales, strict=True):
        fields = fields_of(place)
        totals, at = slots[at : at + len(fields)], at + len(fields)
        if isinstance(place, WidePlace):
            total = slots[len(layout.fields) + place.lane - len(layout.used)]
            found.append(Estimate(total * unit_of(scale), wide_bound(terms, scale)))
        elif isinstance(place, NarrowPlace):
            found.append(Estimate((totals[0] - rows * scale.shift) * unit_of(scale), ROUNDING_UNITS * unit_of(scale)))
        else:
            found.append(
                Estimate(Fraction(sum(part << field.shift for part, field in zip(totals, fields, strict=True))))
            )
    return found
