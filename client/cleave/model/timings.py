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
        Operation.READ_ALONE: 94e-9,
        Operation.SPLIT: 3.6e-9,
        Operation.ENCODE: 57e-9,
        Operation.ENCRYPT: 0.87e-3,
        Operation.ENCRYPT_ALONE: 0.66e-3,
        Operation.ASK: 7.5e-3,
        Operation.GROUP: 8.3e-6,
        Operation.FETCH: 0.022,
        Operation.SEGMENT: 1.1e-3,
        Operation.DECRYPT: 0.86e-3,
        Operation.VALUE: 270e-9,
        Operation.BESIDE: 33e-9,
        Operation.CELLS: 0.022,
        Operation.PLACE: 39e-9,
        Operation.LOCAL: 15e-9,
        Operation.TOTALS: 0.024,
        Operation.CELL: 1.6e-6,
        Operation.TOTAL: 120e-9,
        Operation.PLAIN: 0.025,
        Operation.PLAIN_VALUE: 210e-9,
        Operation.SUMS: 5.1e-3,
        Operation.ADD: 0.13e-3,
        Operation.RESULT: 2.4e-3,
        Operation.SELECT: 0.036,
        Operation.SELECT_VALUE: 11e-9,
        Operation.ORDER: 14e-9,
        Operation.SCAN: 3.8e-3,
        Operation.MASK: 0.083e-3,
        Operation.MULTIPLY: 0.063e-3,
        Operation.PACK: 0.34e-3,
    },
    "shipped with Cleave, for a server of 2 cores",
)
