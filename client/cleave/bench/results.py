"""All that one run of the suite found, and its JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime

from cleave.bench.machine import Machine, this_machine
from cleave.bench.primitive import Measured
from cleave.bench.workloads import Observed
from cleave_shared.dataclass import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Micro:
    """A microbenchmark and what one run of it is."""

    measured: Measured
    told: str


@dataclass(frozen=True, slots=True)
class Results:
    """`seconds` of `clock` (wall, processor) accumulated in each of `runs` runs of a primitive or microbenchmark; whole
    questions go by the wall. Times are in seconds.
    """

    format: int
    made: datetime
    machine: Machine
    seconds: float
    runs: int
    clock: str
    primitives: tuple[Measured, ...] = ()
    micro: tuple[Micro, ...] = ()
    workloads: tuple[Observed, ...] = ()


def begun(seconds: float, runs: int, clock: str) -> Results:
    """Nothing yet, of this machine as it is before the first measurement."""
    return Results(FORMAT, datetime.now(UTC).replace(microsecond=0), this_machine(), seconds, runs, clock)


def as_json(results: Results) -> str:
    return json.dumps(asdict(results), indent=2, default=lambda moment: moment.isoformat(), allow_nan=False)
