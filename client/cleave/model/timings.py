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
        Operation.QUESTION: 0.029,
        Operation.READ: 100e-9,
        Operation.READ_ALONE: 92e-9,
        Operation.SPLIT: 3.5e-9,
        Operation.ENCODE: 69e-9,
        Operation.ENCRYPT: 0.68e-3,
        Operation.ENCRYPT_ALONE: 0.67e-3,
        Operation.ASK: 0.012,
        Operation.GROUP: 3.8e-6,
        Operation.STORED: 4.6e-3,
        Operation.FETCH: 0.017,
        Operation.SEGMENT: 0.33e-3,
        Operation.DECRYPT: 0.15e-3,
        Operation.VALUE: 230e-9,
        Operation.BESIDE: 44e-9,
        Operation.CELLS: 5.3e-3,
        Operation.PLACE: 19e-9,
        Operation.LOCAL: 29e-9,
        Operation.TOTALS: 0.41e-3,
        Operation.CELL: 160e-9,
        Operation.LIST: 0.02,
        Operation.LISTED: 6.100e-9,
        Operation.TOTAL: 1.8e-9,
        Operation.FIGURE: 5.8e-6,
        Operation.PLAIN: 0.025,
        Operation.PLAIN_VALUE: 13e-9,
        Operation.PLAIN_ROW: 260e-9,
        Operation.SUMS: 4.2e-3,
        Operation.ADD: 0.18e-3,
        Operation.RESULT: 0.38e-3,
        Operation.SELECT: 0.03,
        Operation.SELECT_VALUE: 4.3e-9,
        Operation.ORDER: 64e-9,
        Operation.SCAN: 1.1e-3,
        Operation.MASK: 0.086e-3,
        Operation.MULTIPLY: 0.052e-3,
        Operation.PACK: 0.39e-3,
    },
    "shipped with Cleave, for a server of 2 cores",
)
