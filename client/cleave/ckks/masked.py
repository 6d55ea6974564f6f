"""The client's side of the simple call's group_by: rows one after another, totals under masks.

The service is told every row's group number. `cleave query` never asks so (packing.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import numpy as np

from cleave.aggregates.base import Estimate
from cleave.aggregates.columns import Column
from cleave.ckks.checks import fields_of_lanes
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import SENTINEL_SHIFT, Values, lanes_of, scales_of
from cleave.ckks.layout import noise, plan_layout
from cleave.ckks.packing import DIGITS
from cleave.ckks.totals import estimates
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS, Run, rows_per_chunk, segments, sentinel_label, sentinel_weights


class MaskedJob:
    """One column's lanes; `values` are sorted by group, as `runs` say."""

    def __init__(self, columns: Sequence[Column], values: Values, runs: Sequence[Run], cipher: Cipher) -> None:
        self._runs = runs
        self._cipher = cipher
        profile = cipher.ring.profile
        rows = sum(count for _, count in runs)
        # a mask adds up to all rows at one coefficient
        self._layout = plan_layout(columns, rows, profile.capacity_bits, min(count for _, count in runs), DIGITS)
        self.lanes = self._layout.lanes
        self._scales = scales_of(self._layout, values)
        self._matrix = np.zeros((rows, self.lanes), np.int64)
        for lane, integers in lanes_of(self._layout, values, self._scales):
            self._matrix[:, lane] = integers
        self._capacity = rows_per_chunk(profile.degree, max(1, self.lanes))
        self.chunks = -(-rows // self._capacity) if self.lanes else 0
        self._name = secrets.token_bytes(16)

    def encrypt(self) -> list[bytes]:
        plaintexts = np.zeros((self.chunks, self._cipher.ring.degree), np.int64)
        for index, plaintext in enumerate(plaintexts):
            part = self._matrix[index * self._capacity : (index + 1) * self._capacity]
            plaintext[: part.size] = part.ravel()
            plaintext[-SENTINELS:] = self._cipher.sentinels(self._name, index) << SENTINEL_SHIFT
        return self._cipher.encrypt(plaintexts)

    def accept(self, totals: Mapping[int, bytes], sentinel: bytes) -> dict[int, list[Estimate]]:
        """Every column's total by group. Raises CheckFailed."""
        if list(totals) != [group for group, _ in self._runs]:
            raise CheckFailed("envelope", "the answer's groups are not those that were asked for")
        try:
            results = self._cipher.decrypt([sentinel, *totals.values()])
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}") from None
        self._check_sentinel(int(results[0, 0]))
        found, start = {}, 0
        for (group, rows), result in zip(self._runs, results[1:], strict=True):
            lanes = result[: self.lanes]
            sent = self._matrix[start : start + rows].sum(axis=0)
            fields = fields_of_lanes(self._layout, lanes[:, None], rows)[:, 0]
            if (np.abs(lanes - sent) > noise(rows)).any():
                raise CheckFailed("total", "a group's total is not what was sent")
            slots = [*map(int, fields), *map(int, lanes[len(self._layout.used) :])]
            found[group] = estimates(self._layout, self._scales, slots, rows, rows)
            start += rows
        return found

    def _check_sentinel(self, coefficient: int) -> None:
        expected = 0
        for index, chunk in enumerate(segments(self._runs, self._capacity)):
            label = sentinel_label(index, chunk, self._capacity)
            expected += int(self._cipher.sentinels(self._name, index) @ sentinel_weights(label))
        if abs(coefficient - (expected << SENTINEL_SHIFT)) > noise(SENTINELS * self.chunks):
            raise CheckFailed("sentinel", "the chunks did not come back as they were sent")
