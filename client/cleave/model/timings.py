"""Seconds of each operation, on one core."""

from __future__ import annotations

import os
from collections.abc import Mapping

from cleave.model.operations import SHARED, Counts, Operation
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """`source`: where they were measured."""

    seconds: Mapping[Operation, float]
    source: str

    @staticmethod
    def cores() -> int:
        return len(os.sched_getaffinity(0))

    def of(self, counts: Counts, cores: int | None = None) -> float:
        """Seconds on so many cores (None: this machine's), which share what can be shared."""
        cores = cores or self.cores()
        return sum(count * self.seconds[each] / (cores if each in SHARED else 1) for each, count in counts.items())


SHIPPED = Timings(
    {
        Operation.QUESTION: 0.027,
        Operation.READ: 87e-9,
        Operation.READ_ALONE: 100e-9,
        Operation.SPLIT: 3.2e-9,
        Operation.ENCODE: 78e-9,
        Operation.ENCRYPT: 670e-6,
        Operation.ENCRYPT_ALONE: 660e-6,
        Operation.ASK: 0.012,
        Operation.GROUP: 3.3e-6,
        Operation.STORED: 5e-3,
        Operation.FETCH: 0.02,
        Operation.SEGMENT: 340e-6,
        Operation.DECRYPT: 170e-6,
        Operation.VALUE: 140e-9,
        Operation.BESIDE: 36e-9,
        Operation.CELLS: 4e-3,
        Operation.PLACE: 18e-9,
        Operation.LOCAL: 21e-9,
        Operation.TOTALS: 410e-6,
        Operation.CELL: 120e-9,
        Operation.LIST: 0.023,
        Operation.LISTED: 600e-9,
        Operation.TOTAL: 1.9e-9,
        Operation.FIGURE: 7.1e-6,
        Operation.PLAIN: 0.027,
        Operation.PLAIN_VALUE: 13e-9,
        Operation.PLAIN_ROW: 190e-9,
        Operation.SUMS: 3.5e-3,
        Operation.ADD: 180e-6,
        Operation.RESULT: 430e-6,
        Operation.SELECT: 0.032,
        Operation.SELECT_VALUE: 4.2e-9,
        Operation.ORDER: 52e-9,
        Operation.SCAN: 1e-3,
        Operation.MASK: 88e-6,
        Operation.MULTIPLY: 52e-6,
        Operation.PACK: 390e-6,
    },
    "shipped with Cleave, for a server of 2 cores",
)
