"""Sums of positions back into totals of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cleave.aggregates.base import SIGMAS, Estimate
from cleave.ckks.checks import Coefficients, fields_of_lanes
from cleave.ckks.encode import Scale
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, Layout, NarrowPlace, WidePlace, fields_of
from cleave.ckks.packing import Packing, Piece

_HALF = 32
_LOW = (1 << _HALF) - 1


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

    def estimates(self, group: int) -> list[Estimate]:
        """The total of every column over one group."""
        slots = [(int(h) << _HALF) + int(w) for h, w in zip(self._high[:, group], self._low[:, group], strict=True)]
        return estimates(self._packing.layout, self._scales, slots, int(self._rows[group]), int(self._terms[group]))


def estimates(layout: Layout, scales: Sequence[Scale], slots: Sequence[int], rows: int, terms: int) -> list[Estimate]:
    """The total of every column from those of its `slots`: over `rows` rows, the sum of `terms` fresh coefficients."""
    found, at = [], 0
    noise = Fraction(SIGMAS * math.sqrt(FRESH_VARIANCE * terms))
    for place, scale in zip(layout.places, scales, strict=True):
        fields = fields_of(place)
        totals, at = slots[at : at + len(fields)], at + len(fields)
        unit = Fraction(2) ** -scale.exponent
        if isinstance(place, WidePlace):
            total = slots[len(layout.fields) + place.lane - len(layout.used)]
            found.append(Estimate(total * unit, (noise + ROUNDING_UNITS) * unit))
        elif isinstance(place, NarrowPlace):
            found.append(Estimate((totals[0] - rows * scale.shift) * unit, ROUNDING_UNITS * unit))
        else:
            found.append(
                Estimate(Fraction(sum(part << field.shift for part, field in zip(totals, fields, strict=True))))
            )
    return found
