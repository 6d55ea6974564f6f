"""The timing loop, by a clock that only moves where it is told to."""

from __future__ import annotations

import pytest

from benchmarks.lab.primitive import PRIMITIVES, Primitive, WrongResultError, measured
from benchmarks.lab.timing import Timing, clock_seconds, time_of

READ = 0.001  # what this clock takes to be read


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def __call__(self) -> float:
        self.now += READ
        return self.now

    def spend(self, *seconds: float) -> None:
        """The next of `seconds`, over and over."""
        self.now += seconds[self.calls % len(seconds)]
        self.calls += 1


def test_set_up_and_the_clock_are_not_in_it() -> None:
    clock, work = Clock(), Clock()

    def setup() -> int:
        clock.now += 100.0
        return 7

    def call(given: int) -> None:
        assert given == 7
        work.calls += 1
        clock.now += 0.25

    timing = time_of(call, setup, seconds=2.0, runs=5, clock=clock)
    assert timing.seconds == pytest.approx(0.25)
    assert timing.spread == pytest.approx(0.0, abs=1e-9)
    assert timing.calls == work.calls - 1  # one is not timed
    assert timing.calls == 5 * 8  # of 0.25 s and a reading each, until 2 s are there


def test_the_median_and_the_spread_of_the_runs() -> None:
    clock = Clock()
    timing = time_of(
        lambda _: clock.spend(9.0, 1.0, 5.0, 2.0, 3.0, 40.0), lambda: None, seconds=0.5, runs=5, clock=clock
    )
    assert (timing.seconds, timing.least, timing.most) == pytest.approx((3.0, 1.0, 40.0))
    assert timing.spread == pytest.approx(39 / 3)
    assert timing.calls == 5


def test_repeats_until_the_time_is_there() -> None:
    clock = Clock()
    timing = time_of(lambda _: clock.spend(0.099), lambda: None, seconds=0.5, runs=1, clock=clock)
    assert timing.calls == 5
    assert clock_seconds(Clock()) == pytest.approx(READ)


def test_of_several_operations_in_a_call() -> None:
    assert Timing(4.0, 2.0, 6.0, 3).each_of(2) == Timing(2.0, 1.0, 3.0, 6)


def test_no_error_is_timed() -> None:
    def broken(_: int) -> int:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        time_of(broken, lambda: 0)
    with pytest.raises(WrongResultError, match="add"):
        measured(Primitive("add", lambda: 2, lambda two: two + 3, lambda sum_: sum_ == 4))


def test_names_are_told_apart() -> None:
    assert len(set(PRIMITIVES)) == len(PRIMITIVES)
