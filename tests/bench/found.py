"""Results made by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from cleave.bench.machine import Machine
from cleave.bench.primitive import PRIMITIVES, Measured
from cleave.bench.profiler import COUNTERS, Ran
from cleave.bench.results import FORMAT, Micro, Results
from cleave.bench.workloads import Observed

MACHINE = Machine("A <b>processor</b>", 2, 8.0, "Linux 6 x86_64", "3.11.7", "0.1.0", "0.3.18", 0.25)


def ran(seconds: float, *, joules: float | None = None) -> Ran:
    return Ran(seconds, 0.6 * seconds, 0.1 * seconds, 0.3, 0.05, 120, 8, 150.0, None, joules)


def results(*, joules: float | None = None, clock: str = "wall") -> Results:
    primitives = tuple(
        Measured(name, of, 8192, (60, 60), 1e-4 * (place + 1), 0.9e-4 * (place + 1), 1.2e-4 * (place + 1), 50)
        for of in ("slots, N = 8192", "sum60-pack")
        for place, name in enumerate(PRIMITIVES)
        if (of, name) != ("sum60-pack", "rescale")
    )
    micro = (Micro(Measured("aligned sum", "sum60-pack", 8192, (60, 60), 0.05, 0.05, 0.05, 50), "64 chunks"),)
    counted = dict.fromkeys(COUNTERS) | {"page-faults": 35_428.0}
    runs = tuple(ran(each, joules=joules) for each in (0.9, 1.0, 1.3))
    workloads = (Observed("6,000 x 8 sum", "a CSV", runs, 181.4, counted, 197_487, 131_545),)
    made = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
    return Results(FORMAT, made, MACHINE, 0.5, 5, clock, primitives, micro, workloads)
