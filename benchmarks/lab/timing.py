"""How long one call takes: repeated until its time can be told, the median of several such runs, set-up left out.

Set-up is not timed at all, so nothing noisy is subtracted from something noisy. What reading the clock costs is: it is
measured in the same way, with a call that does nothing, and taken off every call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

SECONDS = 0.5  # of a run
RUNS = 5
_CLOCK_READS = 1000

T = TypeVar("T")
Clock = Callable[[], float]
# By the wall, or seconds of this thread on a processor: on a busy machine the latter still tells the same.
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.thread_time}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: the median of the runs, the least and the most of them. `calls` are those of all runs."""

    seconds: float
    least: float
    most: float
    calls: int

    @property
    def spread(self) -> float:
        """From the least run to the most, as a share of the median."""
        return (self.most - self.least) / self.seconds if self.seconds else 0.0

    def each_of(self, times: int) -> Timing:
        """Of one operation where a call does so many."""
        return Timing(self.seconds / times, self.least / times, self.most / times, self.calls * times)


def time_of(
    work: Callable[[T], object],
    setup: Callable[[], T],
    *,
    seconds: float = SECONDS,
    runs: int = RUNS,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Time `work(setup())` without `setup()`, after one call that is not timed.

    Each run repeats both until the calls of `work` have taken `seconds`, and calls at least once. What either raises
    goes through: a benchmark never times an error.
    """
    work(setup())
    overhead = clock_seconds(clock)
    found, calls = [], 0
    for _ in range(runs):
        taken, count = 0.0, 0
        while taken < seconds:
            given = setup()
            started = clock()
            work(given)
            taken += clock() - started
            count += 1
        found.append(max(0.0, taken / count - overhead))
        calls += count
    return Timing(statistics.median(found), min(found), max(found), calls)


def clock_seconds(clock: Clock) -> float:
    """What two readings of the clock and a call that does nothing take."""

    def nothing(_: None) -> None:
        return None

    taken = []
    for _ in range(_CLOCK_READS):
        started = clock()
        nothing(None)
        taken.append(clock() - started)
    return statistics.median(taken)
