"""Survival curves from counts per time step: Kaplan-Meier, restricted means, and the log-rank test.

Whoever leaves within a step is at risk through the whole of it, events come before withdrawals, and the step's end is
the time of both. Fractions are exact until a root, a logarithm or a quantile is taken; these give balls.

Sources: Kaplan and Meier, "Nonparametric estimation from incomplete observations" (1958); Greenwood's variance with
intervals on the scale of the logarithm, as R's survfit has by default; Klein and Moeschberger, "Survival
analysis" (2003), section 4.5 for the restricted mean, 7.3 for the test of several groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, fmpq, fmpq_mat

from cleave.aggregates.balls import precision, root
from cleave.models.certified import NONE, Certified, certified
from cleave.models.chances import chi_square_tail, normal_quantile


@dataclass(frozen=True, slots=True)
class Leaving:
    """People who leave within a step: `events` have the event, `censored` do not. `end` is the step's end."""

    end: fmpq
    events: int
    censored: int


@dataclass(frozen=True, slots=True)
class CurveStep:
    """One step of a curve, at its end `time`. `at_risk` counts those who had not left before the step.

    `survival` is the estimated probability to be without the event after the step. `error` is its standard error;
    `low` and `high` limit its confidence interval. These do not exist where nobody survives.
    """

    time: int | float
    at_risk: int
    events: int
    censored: int
    survival: Certified
    error: Certified
    low: Certified
    high: Certified


@dataclass(frozen=True, slots=True)
class Curve:
    """The Kaplan-Meier curve of one group; `group` is None if there are no groups.

    `median` is the first step end by which at most half survive; None if more than half do at the end. `mean` is the
    area below the curve up to a chosen time: the mean time without the event until then.
    `mean_error` is its standard error.
    """

    group: Any
    n: int
    events: int
    steps: tuple[CurveStep, ...]
    median: int | float | None
    mean: Certified
    mean_error: Certified

    def at(self, time: float) -> Certified:
        """Return the estimated probability to be without the event after `time`. It does not exist after the last step,
        unless nobody survives.
        """
        last = self.steps[-1]
        if time > last.time:
            return last.survival if last.survival.value == 0 else NONE
        return next((step.survival for step in reversed(self.steps) if step.time <= time), Certified(1.0, 0.0))

    def at_risk(self, time: float) -> int:
        """Return how many have not left before `time`."""
        return next((step.at_risk for step in self.steps if step.time >= time), 0)


@dataclass(frozen=True, slots=True)
class LogRank:
    """The log-rank test that all groups have one curve. `expected` has the expected events of each group."""

    chi_square: Certified
    df: int
    p: Certified
    expected: tuple[Certified, ...]


def number(value: fmpq) -> int | float:
    """A time as a number of Python."""
    return int(value.p) if value.q == 1 else int(value.p) / int(value.q)


def curve_of(group: Any, leaving: Sequence[Leaving], level: fmpq, until: fmpq) -> Curve:
    """The curve of one group. `leaving` is in the order of time, `level` that of the intervals."""
    left = n = sum(each.events + each.censored for each in leaving)
    quantile = normal_quantile((1 + level) / 2)
    survival, greenwood = fmpq(1), fmpq(0)
    steps, exact = [], []
    for moment in leaving:
        survival *= fmpq(left - moment.events, left)
        share = None if left == moment.events else fmpq(moment.events, left * (left - moment.events))
        greenwood = greenwood + share if share is not None else fmpq(0)
        exact.append((moment.end, survival, share))
        steps.append(_step(moment, left, survival, greenwood, quantile))
        left -= moment.events + moment.censored
    mean, variance = _mean(exact, until)
    with precision():
        error = certified(root(variance).ball)
    median = next((number(end) for end, value, _ in exact if 2 * value <= 1), None)
    events = sum(each.events for each in leaving)
    return Curve(group, n, events, tuple(steps), median, certified(mean), error)


def _step(leaving: Leaving, left: int, survival: fmpq, greenwood: fmpq, quantile: arb) -> CurveStep:
    error = low = high = NONE
    if survival:
        with precision():
            spread = quantile * arb(greenwood).sqrt()
            error = certified(root(survival * survival * greenwood).ball)
            low = certified(survival * (-spread).exp() if greenwood else survival)
            high = certified((survival * spread.exp()).min(arb(1)) if greenwood else survival)
    return CurveStep(number(leaving.end), left, leaving.events, leaving.censored, certified(survival), error, low, high)


def _mean(steps: Sequence[tuple[fmpq, fmpq, fmpq | None]], until: fmpq) -> tuple[fmpq, fmpq]:
    """The area below a curve up to `until`, and its variance. `steps`: end, survival, share of Greenwood's sum."""
    inside = [each for each in steps if each[0] <= until]
    ends = [end for end, _, _ in inside] + [until]
    area, variance = fmpq(0), fmpq(0)
    for place in range(len(inside) - 1, -1, -1):
        _, survival, share = inside[place]
        area += survival * (ends[place + 1] - ends[place])
        if share:
            variance += area * area * share
    return area + ends[0], variance


def log_rank(groups: Sequence[Sequence[Leaving]]) -> LogRank | None:
    """None if there are no two groups to compare."""
    size = len(groups)
    left = [sum(each.events + each.censored for each in group) for group in groups]
    at: dict[fmpq, dict[int, Leaving]] = {}
    for place, group in enumerate(groups):
        for each in group:
            at.setdefault(each.end, {})[place] = each
    difference, expected = [fmpq(0)] * size, [fmpq(0)] * size
    covariance = [[fmpq(0)] * size for _ in groups]
    for _, leaving in sorted(at.items(), key=lambda item: item[0]):
        whole, events = sum(left), sum(each.events for each in leaving.values())
        factor = fmpq(events * (whole - events), whole - 1) if whole > 1 else fmpq(0)
        for one in range(size):
            share = fmpq(left[one], whole)
            expected[one] += events * share
            difference[one] += (leaving[one].events if one in leaving else 0) - events * share
            for two in range(size):
                covariance[one][two] += factor * share * ((one == two) - fmpq(left[two], whole))
        for place, each in leaving.items():
            left[place] -= each.events + each.censored
    _, rank = (matrix := fmpq_mat(covariance)).rref()
    if not rank:
        return None
    chosen = _pivots(matrix, rank)
    part = fmpq_mat([[covariance[one][two] for two in chosen] for one in chosen])
    found = part.solve(fmpq_mat([[difference[one]] for one in chosen]))
    statistic = sum((difference[one] * found[row, 0] for row, one in enumerate(chosen)), fmpq(0))
    return LogRank(
        certified(statistic), rank, certified(chi_square_tail(statistic, rank)), tuple(map(certified, expected))
    )


def _pivots(matrix: fmpq_mat, rank: int) -> list[int]:
    """Columns of a symmetric matrix that are a basis of its range: those of the pivots of its reduced form."""
    reduced, _ = matrix.rref()
    return [next(column for column in range(matrix.ncols()) if reduced[row, column]) for row in range(rank)]
