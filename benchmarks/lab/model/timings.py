"""Seconds of each operation, on one core."""

from __future__ import annotations

import os
from collections.abc import Mapping

from benchmarks.lab.model.operations import SHARED, Counts, Operation
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
        Operation.READ: 89e-9,
        Operation.READ_ALONE: 97e-9,
        Operation.SPLIT: 2.9e-9,
        Operation.ENCODE: 70e-9,
        Operation.ENCRYPT: 680e-6,
        Operation.ENCRYPT_ALONE: 670e-6,
        Operation.ASK: 0.01,
        Operation.GROUP: 3e-6,
        Operation.STORED: 5.2e-3,
        Operation.FETCH: 0.022,
        Operation.SEGMENT: 350e-6,
        Operation.INDEXED: 320e-9,
        Operation.DECRYPT: 1.6e-3,
        Operation.VALUE: 41e-9,
        Operation.BESIDE: 31e-9,
        Operation.PLACE: 12e-9,
        Operation.LOCAL: 11e-9,
        Operation.TOTALS: 410e-6,
        Operation.CELL: 100e-9,
        Operation.LIST: 0.02,
        Operation.LISTED: 610e-9,
        Operation.TOTAL: 2.1e-9,
        Operation.FIGURE: 7.4e-6,
        Operation.PLAIN: 0.026,
        Operation.PLAIN_VALUE: 13e-9,
        Operation.PLAIN_ROW: 190e-9,
        Operation.SUMS: 2.7e-3,
        Operation.ADD: 180e-6,
        Operation.RESULT: 410e-6,
        Operation.SELECT: 0.03,
        Operation.SELECT_VALUE: 4e-9,
        Operation.ORDER: 31e-9,
        Operation.SCAN: 1.7e-3,
        Operation.MASK: 87e-6,
        Operation.MULTIPLY: 52e-6,
    },
    "shipped with Cleave, for a server of 2 cores",
)
