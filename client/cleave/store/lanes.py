"""Columns of integers as they rest in a store: every lane a row of ciphertexts of its own, so that it is read alone.

An entry is a row of the table, or a cell of its totals. Lane l of entry e is coefficient e mod capacity of ciphertext
e div capacity of that lane; the last SENTINELS coefficients hold secret values. Up to `window` ciphertexts of a lane
may be added up, and every field keeps to its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Exact, Words
from cleave.ckks.checks import fields_of_lanes
from cleave.ckks.encode import Scale, lanes_of
from cleave.ckks.layout import ExactPlace, Layout, plan_layout
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

Integers = NDArray[np.int64] | NDArray[np.object_]  # Python's where 64 bits may not do
Lane = NDArray[np.int64]  # (entries,)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where `columns` lie. Follows from their limits alone."""

    columns: tuple[Exact, ...]
    layout: Layout
    capacity: int  # entries of a ciphertext

    @property
    def count(self) -> int:
        return self.layout.lanes

    def of(self, column: int) -> tuple[int, ...]:
        """The lanes that hold a part of `column`."""
        return tuple(sorted({field.lane for field in self._place(column).fields}))

    def chunks(self, entries: int) -> int:
        """Ciphertexts of a lane of so many entries."""
        return -(-entries // self.capacity)

    def encode(self, values: Sequence[Words]) -> list[Lane]:
        """Every lane of `values`, one array (words, entries) per column. Raises InputError for one above its limit."""
        found = dict(lanes_of(self.layout, values, [Scale()] * len(values)))
        return [found[lane] for lane in range(self.count)]

    def polynomials(self, lane: Lane, start: int, stop: int, degree: int) -> NDArray[np.int64]:
        """Ciphertexts `start`..`stop` of a lane (stop - start, N), their sentinels still 0."""
        out = np.zeros((stop - start, degree), np.int64)
        piece = lane[start * self.capacity : stop * self.capacity]
        whole, rest = divmod(len(piece), self.capacity)
        out[:whole, : self.capacity] = piece[: whole * self.capacity].reshape(whole, self.capacity)
        if rest:
            out[whole, :rest] = piece[whole * self.capacity :]
        return out

    def decode(self, column: int, lanes: dict[int, NDArray[np.int64]], terms: int) -> Integers:
        """Every entry of `column` from the decrypted coefficients (entries,) of its lanes, each the sum of `terms`.

        Raises CheckFailed where one is no integer or beyond its bounds.
        """
        fields = self._place(column).fields
        size = len(next(iter(lanes.values()))) if lanes else 0
        planes = np.zeros((self.count, size), np.int64)
        for number, coefficients in lanes.items():
            planes[number] = coefficients
        found = fields_of_lanes(self.layout, planes, terms)
        places = {id(field): at for at, field in enumerate(self.layout.fields)}
        fits = self.columns[column].limit * terms < 1 << 62
        total = np.zeros(size, np.int64 if fits else object)
        for field in fields:
            total += found[places[id(field)]].astype(total.dtype) << field.shift
        return total

    def _place(self, column: int) -> ExactPlace:
        place = self.layout.places[column]
        if not isinstance(place, ExactPlace):
            raise TypeError("columns of a store are exact")
        return place


def plan_lanes(columns: Sequence[Exact], window: int, profile: Profile) -> Lanes:
    layout = plan_layout(columns, window, profile.capacity_bits, fewest=1, digits=1)
    return Lanes(tuple(columns), layout, profile.degree - SENTINELS)
