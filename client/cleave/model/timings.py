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
        Operation.QUESTION: 0.037,
        Operation.READ: 46e-9,
        Operation.READ_ALONE: 120e-9,
        Operation.SPLIT: 3.8e-9,
        Operation.ENCODE: 120e-9,
        Operation.ENCRYPT: 0.93e-3,
        Operation.ENCRYPT_ALONE: 0.52e-3,
        Operation.ASK: 0.012,
        Operation.GROUP: 0.012e-3,
        Operation.FETCH: 0.019,
        Operation.SEGMENT: 0.81e-3,
        Operation.DECRYPT: 5.5e-3,
        Operation.VALUE: 130e-9,
        Operation.BESIDE: 35e-9,
        Operation.CELLS: 0.014,
        Operation.PLACE: 41e-9,
        Operation.LOCAL: 13e-9,
        Operation.TOTALS: 6e-3,
        Operation.CELL: 190e-9,
        Operation.TOTAL: 1.1e-6,
        Operation.PLAIN: 0.036,
        Operation.PLAIN_VALUE: 380e-9,
        Operation.SUMS: 8.9e-3,
        Operation.ADD: 0.17e-3,
        Operation.RESULT: 3.3e-3,
        Operation.SELECT: 0.032,
        Operation.SELECT_VALUE: 14e-9,
        Operation.ORDER: 18e-9,
        Operation.SCAN: 4.6e-3,
        Operation.MASK: 0.15e-3,
        Operation.MULTIPLY: 0.054e-3,
        Operation.PACK: 0.38e-3,
    },
    "shipped with Cleave, for a server of 2 cores",
)
