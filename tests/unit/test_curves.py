"""Survival curves against statsmodels, exact fractions and integrals; merged steps by brute force."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from cleave.models.certified import Certified
from cleave.models.curves import Curve, Leaving, curve_of, log_rank
from cleave.models.steps import merge

LEVEL = fmpq(95, 100)
Person = tuple[int, bool]  # step end, event


def people(count: int, seed: int, *, last: int = 12) -> list[Person]:
    draw = random.Random(seed)
    return [(10 * draw.randint(1, last), draw.random() < 0.5) for _ in range(count)]


def leaving(group: Sequence[Person]) -> list[Leaving]:
    ends = sorted({end for end, _ in group})
    return [Leaving(fmpq(end), group.count((end, True)), group.count((end, False))) for end in ends]


def estimated(group: Sequence[Person], until: int = 100) -> Curve:
    return curve_of(None, leaving(group), LEVEL, fmpq(until))


def exact(group: Sequence[Person]) -> list[tuple[int, Fraction, Fraction | None]]:
    """End, survival and Greenwood's sum by their definitions, person by person."""
    found = []
    for end in sorted({end for end, _ in group}):
        survival, spread = Fraction(1), Fraction(0)
        for time in sorted({time for time, _ in group if time <= end}):
            left = sum(1 for other, _ in group if other >= time)
            died = sum(1 for other, event in group if other == time and event)
            survival *= 1 - Fraction(died, left)
            spread += Fraction(died, left * (left - died)) if left > died else 0
        found.append((end, survival, spread if survival else None))
    return found


def near(found: Certified, value: Fraction | float) -> bool:
    return abs(Fraction(found.value) - Fraction(value)) <= Fraction(found.bound) + abs(Fraction(value)) / 2**52


@pytest.mark.parametrize("seed", range(8))
def test_a_curve_is_the_product_of_its_definition(seed: int) -> None:
    group = people(40 + seed, seed)
    made, wanted = estimated(group), exact(group)
    assert [step.time for step in made.steps] == [end for end, _, _ in wanted]
    for step, (end, survival, spread) in zip(made.steps, wanted, strict=True):
        assert step.at_risk == sum(1 for other, _ in group if other >= end)
        assert step.survival == Certified(survival.numerator / survival.denominator, 0.0)
        if spread is None:
            assert not any(each.exists for each in (step.error, step.low, step.high))
            continue
        width = 1.9599639845400545 * math.sqrt(spread)
        assert near(step.error, Fraction(float(survival)) * Fraction(math.sqrt(spread)))
        assert abs(step.low.value - float(survival) * math.exp(-width)) < 1e-14
        assert abs(step.high.value - min(1.0, float(survival) * math.exp(width))) < 1e-14
        assert max(step.error.bound, step.low.bound, step.high.bound) < 1e-15
    below = [end for end, survival, _ in wanted if survival <= Fraction(1, 2)]
    assert made.median == (below[0] if below else None)
    assert (made.n, made.events) == (len(group), sum(event for _, event in group))


@pytest.mark.parametrize("seed", range(8))
def test_a_curve_is_that_of_statsmodels(seed: int) -> None:
    group = people(60, seed)
    other = SurvfuncRight([end for end, _ in group], [int(event) for _, event in group])
    steps = {step.time: step for step in estimated(group).steps if step.events}
    assert list(steps) == other.surv_times.tolist()
    for step, survival, error in zip(steps.values(), other.surv_prob, other.surv_prob_se, strict=True):
        assert step.survival.value == pytest.approx(survival, rel=1e-12, abs=1e-12)
        assert not step.error.exists or step.error.value == pytest.approx(error, rel=1e-12)
    assert [step.at_risk for step in steps.values()] == other.n_risk.tolist()


@pytest.mark.parametrize(("seed", "until"), list(itertools.product(range(6), (5, 10, 47, 100))))
@pytest.mark.sampled(5)
def test_the_mean_is_the_area_below_the_curve(seed: int, until: int) -> None:
    group = people(30, seed)
    made = estimated(group, until)
    height = [next((s for end, s, _ in reversed(exact(group)) if end <= unit), Fraction(1)) for unit in range(until)]
    area = sum(height, Fraction(0))
    assert made.mean == Certified(area.numerator / area.denominator, 0.0)
    variance = Fraction(0)
    for end in {end for end, _ in group if end <= until}:
        left = sum(1 for other, _ in group if other >= end)
        died = group.count((end, True))
        if left > died:
            variance += sum(height[end:], Fraction(0)) ** 2 * Fraction(died, left * (left - died))
    assert made.mean_error.value == pytest.approx(math.sqrt(variance), rel=1e-14)
    assert made.mean_error.bound < 1e-12


@pytest.mark.parametrize("sizes", [(30, 40), (20, 20, 20), (7, 50, 11, 23)])
def test_the_log_rank_test_is_that_of_statsmodels(sizes: tuple[int, ...]) -> None:
    groups = [people(size, size + place, last=8 + place) for place, size in enumerate(sizes)]
    found = log_rank([leaving(group) for group in groups])
    every = [(end, event, place) for place, group in enumerate(groups) for end, event in group]
    statistic, p = survdiff(*(np.array(column) for column in zip(*every, strict=True)))
    assert found is not None
    assert found.df == len(groups) - 1
    assert found.chi_square.value == pytest.approx(statistic, rel=1e-10)
    assert found.p.value == pytest.approx(p, rel=1e-9)
    assert found.chi_square.bound == 0.0
    assert sum(each.value for each in found.expected) == pytest.approx(sum(event for _, event, _ in every))


def test_the_log_rank_test_of_a_published_trial() -> None:
    """Freireich et al., "The effect of 6-mercaptopurine on the duration of steroid-induced remissions in acute
    leukemia", Blood 21 (1963). R's survdiff prints chi-square 16.8 on 1 degree of freedom, and 19.3 expected events.
    """
    drug = [(6, 1)] * 3 + [
        (6, 0),
        (7, 1),
        (9, 0),
        (10, 1),
        (10, 0),
        (11, 0),
        (13, 1),
        (16, 1),
        (17, 0),
        (19, 0),
        (20, 0),
    ]
    drug += [(22, 1), (23, 1), (25, 0), (32, 0), (32, 0), (34, 0), (35, 0)]
    placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    groups = [[(end, bool(event)) for end, event in drug], [(end, True) for end in placebo]]
    found = log_rank(list(map(leaving, groups)))
    assert found is not None
    assert found.df == 1
    assert found.chi_square.value == pytest.approx(16.79, abs=0.005)
    assert found.p.value == pytest.approx(4.17e-5, rel=1e-3)
    assert found.expected[0].value == pytest.approx(19.25, abs=0.005)


def test_the_log_rank_test_needs_two_groups_that_are_at_risk_together() -> None:
    early, late = [(10, True)] * 5, [(20, True)] * 5
    assert log_rank([leaving(early)]) is None
    assert log_rank([leaving([(10, False)] * 4), leaving([(20, False)] * 4)]) is None
    alone = log_rank([leaving(early + late), leaving(early), leaving([(5, False)] * 3)])
    assert alone is not None
    assert alone.df == 1  # the third group left before any event
    assert alone.expected[2].value == 0


def test_a_group_that_dies_out_has_no_interval_and_a_known_mean() -> None:
    made = curve_of(None, leaving([(10, True)] * 3 + [(20, True)] * 5), LEVEL, fmpq(50))
    assert made.steps[-1].survival == Certified(0.0, 0.0)
    assert not made.steps[-1].error.exists
    assert made.mean == Certified(10 + 10 * 5 / 8, 0.0)
    assert made.at(60).value == 0
    assert [made.at(time).value for time in (0, 9.5, 10, 19)] == [1, 1, 5 / 8, 5 / 8]
    assert [made.at_risk(time) for time in (0, 10, 11, 20, 21)] == [8, 8, 5, 5, 0]
    assert not estimated([(10, False)] * 4).at(11).exists


def test_an_interval_follows_its_level() -> None:
    step = curve_of(None, leaving([(10, True), (20, False), (20, False)]), fmpq(9, 10), fmpq(10)).steps[0]
    width = 1.6448536269514722 * math.sqrt(1 / 6)
    assert step.low.value == pytest.approx(2 / 3 * math.exp(-width), rel=1e-14)
    assert step.high == Certified(1.0, 0.0)  # 2 / 3 * exp(width) is above 1


def test_merged_steps_have_none_or_enough_of_each_kind() -> None:
    """Against all ways to cut the steps: a merge is found wherever one is, and steps are never longer than needed."""
    draw = random.Random(5)
    for _ in range(300):
        size, least = draw.randint(1, 7), draw.choice([2, 3, 5])
        steps = [
            {(group, event): rows for group in "AB" for event in (0, 1) if (rows := draw.choice([0, 0, 1, 2, 4, 9]))}
            for _ in range(size)
        ]
        steps = [step or {("A", 1): 1} for step in steps]  # each step is that of some row
        lasts = merge(steps, least)

        def is_large(first: int, last: int, steps: list = steps, least: int = least) -> bool:
            total: dict[tuple[str, int], int] = {}
            for step in steps[first : last + 1]:
                for key, rows in step.items():
                    total[key] = total.get(key, 0) + rows
            return all(rows >= least for rows in total.values())

        if lasts is None:
            assert not is_large(0, size - 1)
            continue
        assert lasts[-1] == size - 1
        firsts = [0, *(last + 1 for last in lasts[:-1])]
        assert all(itertools.starmap(is_large, zip(firsts, lasts, strict=True)))
        for first, last in zip(firsts[:-1], lasts[:-1], strict=True):
            assert not any(is_large(first, earlier) for earlier in range(first, last))
