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
        Operation.QUESTION: 0.035,
        Operation.READ: 150e-9,
        Operation.READ_ALONE: 170e-9,
        Operation.SPLIT: 3.7e-9,
        Operation.ENCODE: 59e-9,
        Operation.ENCRYPT: 0.63e-3,
        Operation.ENCRYPT_ALONE: 0.63e-3,
        Operation.ASK: 0.021,
        Operation.GROUP: 0.016e-3,
        Operation.STORED: 8e-3,
        Operation.FETCH: 0.052,
        Operation.SEGMENT: 0.3e-3,
        Operation.DECRYPT: 0.15e-3,
        Operation.VALUE: 180e-9,
        Operation.BESIDE: 55e-9,
        Operation.CELLS: 2.5e-3,
        Operation.PLACE: 20e-9,
        Operation.LOCAL: 23e-9,
        Operation.TOTALS: 0.41e-3,
        Operation.CELL: 560e-9,
        Operation.LIST: 13e-3,
        Operation.LISTED: 0.9e-6,
        Operation.TOTAL: 1.8e-9,
        Operation.FIGURE: 8e-6,
        Operation.PLAIN: 0.027,
        Operation.PLAIN_VALUE: 12.4e-9,
        Operation.PLAIN_ROW: 200e-9,
        Operation.SUMS: 0.031,
        Operation.ADD: 0.19e-3,
        Operation.RESULT: 1.9e-3,
        Operation.SELECT: 0.027,
        Operation.SELECT_VALUE: 4.6e-9,
        Operation.ORDER: 230e-9,
        Operation.SCAN: 1.3e-3,
        Operation.MASK: 0.09e-3,
        Operation.MULTIPLY: 0.053e-3,
        Operation.PACK: 0.38e-3,
    },
    "shipped with Cleave, for a server of 2 cores",
)
