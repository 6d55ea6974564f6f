"""Columns of integers in a store: every lane has its own ciphertexts, so it can be read alone.

An entry is a row of the table, or a cell of its totals. Lane l of entry e is coefficient e mod capacity of ciphertext e
div capacity of that lane. The last SENTINELS coefficients hold secret values. Up to `window` ciphertexts of a lane can
be added up without overflow of a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Exact, Words
from cleave.ckks.checks import fields_of_lane
from cleave.ckks.encode import Scale, lanes_of
from cleave.ckks.layout import ExactFields, Layout, plan_layout
from cleave.store import measures as of_measures
from cleave.store.manifest import WINDOW, Manifest, Measure
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

# Rows that a service may select and add up into one value of a field: 16 full ciphertexts. So fields are 17 bits wider
# than a value.
SCAN_ROWS = 1 << 17
OBJECT_CHUNKS = 64  # ciphertexts of a lane in one object: 4.2 MB

Integers = NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.object_]  # Python integers if 64 bits may be too few
LaneEntries = NDArray[np.int64]  # (entries,)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Positions of `columns` in lanes. They depend on the columns' limits only."""

    columns: tuple[Exact, ...]
    layout: Layout
    capacity: int  # entries per ciphertext

    @property
    def count(self) -> int:
        return self.layout.lanes

    def holding(self, column: int) -> tuple[int, ...]:
        """The lanes with a part of `column`."""
        return tuple(sorted({field.lane for field in self._place(column).fields}))

    def chunks(self, entries: int) -> int:
        """Ciphertexts of a lane with this many entries."""
        return -(-entries // self.capacity)

    def encode(self, values: Sequence[Words]) -> list[LaneEntries]:
        """Encode `values`: an array (words, entries) per column. Raises InputError for a value above its limit."""
        lanes = dict(lanes_of(self.layout, values, [Scale()] * len(values)))
        return [lanes[lane] for lane in range(self.count)]

    def polynomials(self, lane: LaneEntries) -> NDArray[np.int64]:
        """The ciphertexts of a lane's entries (chunks, N); their sentinels are still 0."""
        out = np.zeros((self.chunks(len(lane)), self.capacity + SENTINELS), np.int64)
        whole, rest = divmod(len(lane), self.capacity)
        out[:whole, : self.capacity] = lane[: whole * self.capacity].reshape(whole, self.capacity)
        if rest:
            out[whole, :rest] = lane[whole * self.capacity :]
        return out

    def decode(self, column: int, lanes: Mapping[int, NDArray[np.int64]], terms: int) -> Integers:
        """Decode `column` from the decrypted coefficients (entries,) of its lanes. Each is a sum of `terms`
        ciphertexts.

        Raises CheckFailed if a value is no integer or outside its bounds.
        """
        fields = {
            number: values for lane in self.holding(column) for number, values in self.fields(lane, lanes[lane], terms)
        }
        return self.combine(column, fields, terms)

    def fields(self, lane: int, coefficients: NDArray[np.int64], terms: int) -> list[tuple[int, NDArray[np.int64]]]:
        """The fields in `lane`, each with its number, for `combine`. Raises as `decode` does."""
        return fields_of_lane(self.layout, lane, coefficients, terms)

    def combine(self, column: int, fields: Mapping[int, NDArray[np.int64]], terms: int) -> Integers:
        """Combine `column` from its fields, which are among `fields`. If its limit is 0 it has none."""
        mine = [*enumerate(self._place(column).fields, self.layout.first_fields[column])]
        largest = self.columns[column].limit * terms
        kind: type = np.int64 if largest < 1 << 62 else np.uint64 if largest < 1 << 64 else object
        if len(mine) == 1 and not mine[0][1].shift and kind is np.int64:
            return fields[mine[0][0]]
        total: Integers = np.zeros(len(fields[mine[0][0]]) if mine else 0, kind)
        for number, field in mine:
            total += fields[number].astype(kind) << (field.shift if kind is object else kind(field.shift))
        return total

    def _place(self, column: int) -> ExactFields:
        place = self.layout.by_column[column]
        if not isinstance(place, ExactFields):
            raise TypeError("columns of a store are exact")
        return place


def plan_lanes(columns: Sequence[Exact], window: int, profile: Profile) -> Lanes:
    layout = plan_layout(columns, window, profile.capacity_bits, fewest=1, digits=1)
    return Lanes(tuple(columns), layout, profile.degree - SENTINELS)


def columns_of_rows(manifest: Manifest) -> list[of_measures.TotalsColumn]:
    """The columns of the rows that scans add up."""
    return of_measures.columns_of(manifest.measures[: manifest.scanned])


def row_lanes(manifest: Manifest, profile: Profile) -> Lanes:
    return plan_lanes([Exact(each.limit) for each in columns_of_rows(manifest)], SCAN_ROWS, profile)


def total_lanes(measures: Sequence[Measure], profile: Profile) -> Lanes:
    return plan_lanes([column.total for column in of_measures.columns_of(measures)], WINDOW, profile)


def total_label(label: str) -> bytes:
    """What the sentinels of totals follow from. `label`: that of the totals in the manifest."""
    return f"totals/{label}".encode()
