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
        Operation.QUESTION: 0.05,
        Operation.READ: 90e-9,
        Operation.READ_ALONE: 90e-9,
        Operation.SPLIT: 10e-9,
        Operation.ENCODE: 30e-9,
        Operation.ENCRYPT: 2.2e-3,
        Operation.ENCRYPT_ALONE: 2.2e-3,
        Operation.ASK: 0.015,
        Operation.GROUP: 5e-6,
        Operation.FETCH: 0.075,
        Operation.SEGMENT: 3e-3,
        Operation.DECRYPT: 1.6e-3,
        Operation.VALUE: 0.1e-6,
        Operation.BESIDE: 0.12e-6,
        Operation.PLACE: 0.15e-6,
        Operation.LOCAL: 0.033e-6,
        Operation.TOTALS: 3e-3,
        Operation.CELL: 1e-6,
        Operation.TOTAL: 0.25e-6,
        Operation.PLAIN: 0.02,
        Operation.PLAIN_VALUE: 0.1e-6,
        Operation.SUMS: 0.07,
        Operation.ADD: 0.56e-3,
        Operation.RESULT: 0.5e-3,
        Operation.SELECT: 0.03,
        Operation.SELECT_VALUE: 0.05e-6,
        Operation.ORDER: 0.073e-6,
        Operation.SCAN: 0.025,
        Operation.MASK: 0.3e-3,
        Operation.MULTIPLY: 0.1e-3,
        Operation.PACK: 1e-3,
    },
    "shipped with Cleave, for a server of 2 cores",
)
