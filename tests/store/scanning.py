"""A segment of rows under encryption, and a service that scans it, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Exact
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.store.encrypting import encrypt_lane
from cleave.store.lanes import Lanes, plan_lanes
from cleave.sums.scanned import Addends, Scanned, SumCall, addends_of, stored_order, sum_call
from cleave_services.sensitive.evaluate import Evaluator
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, ScanLayout
from cleave_shared import rowsets
from cleave_shared.masking import mask_evaluator

Totals = list[list[bytes]]
SEGMENT = "5e" * 16


class Rows:
    """`columns`: limit and values of each, in the order they are stored in."""

    def __init__(self, key: SecretKey, columns: Sequence[tuple[int, NDArray[np.uint64]]], window: int) -> None:
        self.key = key
        self.columns = [values for _, values in columns]
        self.window = window
        self.lanes: Lanes = plan_lanes([Exact(limit) for limit, _ in columns], window, key.profile)
        self.cipher = Cipher(key)
        planes = self.lanes.encode([values[None] for values in self.columns])
        label = bytes.fromhex(SEGMENT)
        self.files: list[list[bytes]] = [
            encrypt_lane(self.lanes, plane, self.cipher, label, at) for at, plane in enumerate(planes)
        ]

    @property
    def evaluator(self) -> Evaluator:
        return mask_evaluator(self.key.profile.name)

    def addends(self, numbers: NDArray[np.int32], groups: int, window: int | None = None) -> list[Addends]:
        order = np.arange(len(numbers), dtype=np.uint32)
        placed = stored_order(numbers, order, self.lanes.capacity)
        return list(addends_of(placed, groups, range(self.lanes.count), window or self.window))

    def chunks(self, asked: SumCall) -> list[ScanChunk]:
        addends, capacity = asked.cut, self.lanes.capacity
        size = rowsets.size(capacity, len(addends.groups))
        return [
            ScanChunk(
                place,
                number,
                rowsets.unpack(addends.numbers[place * size : (place + 1) * size], capacity, len(addends.groups)),
                tuple(self.files[lane][number] for lane in addends.lanes),
            )
            for place, number in enumerate(addends.chunks)
        ]

    def wanted(self, asked: SumCall) -> ScanLayout:
        return ScanLayout(asked.cut.cuts, asked.weights, asked.label)

    def answer(self, asked: SumCall, sums: MaskedSums | None = None, shares: int = 1) -> Totals:
        """What the service answers, its work divided between `shares` processes."""
        sums = sums or MaskedSums(self.evaluator, self.wanted(asked))
        chunks = self.chunks(asked)
        size = -(-len(chunks) // shares)
        parts = [sums.evaluate(chunks[start : start + size]) for start in range(0, len(chunks), size)]
        files, results = sums.merge(parts).files, self.wanted(asked).results
        return [[files[lane * results + at] for at in range(results)] for lane in range(len(asked.cut.lanes))]

    def scanned(self, key: SecretKey | None = None) -> Scanned:
        return Scanned(self.lanes, Cipher(key) if key else self.cipher)

    def read(self, asked: SumCall, totals: Totals, key: SecretKey | None = None) -> dict[tuple[int, int], int]:
        """By column and group, the sums that one call answers."""
        scanned, addends = self.scanned(key), asked.cut
        scanned.accept(asked.shape, [blob for lane in totals for blob in lane], [(SEGMENT, asked)])
        rows = dict(zip(addends.groups, map(sum, addends.rows), strict=True))
        return {
            (at, group): scanned.total(at, group, rows[group])
            for at in range(len(self.columns))
            for group in rows
            if {*self.lanes.holding(at)} <= {*addends.lanes}
        }

    def totals(
        self,
        numbers: NDArray[np.int32],
        groups: int,
        window: int | None = None,
        harm: Callable[[SumCall, Totals], Totals] = lambda _, totals: totals,
        shares: int = 1,
    ) -> dict[tuple[int, int], int]:
        """By column and group, through encryption, as `harm` leaves it."""
        asked = [sum_call(each) for each in self.addends(numbers, groups, window)]
        found = [self.read(each, harm(each, self.answer(each, shares=shares))) for each in asked]
        return {place: total for each in found for place, total in each.items()}

    def truth(self, numbers: NDArray[np.int32]) -> dict[tuple[int, int], int]:
        return {
            (at, int(number) - 1): int(values[numbers == number].sum(dtype=object))
            for at, values in enumerate(self.columns)
            for number in np.unique(numbers)
            if number
        }
