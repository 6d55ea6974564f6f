"""What is published is made from rounded totals, never from a raw phase."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleave.aggregates.base import Decoding, Estimate, grid, snapped

POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30)


@given(POSITIVE)
def test_the_grid_is_a_power_of_two_just_below_the_bound(bound: Fraction) -> None:
    unit = grid(bound)
    assert bound / 2 < unit <= bound
    assert bin(unit.numerator * unit.denominator).count("1") == 1


@given(st.fractions(-(10**6), 10**6), POSITIVE, st.fractions(-1, 1))
def test_a_total_is_moved_to_the_grid_and_its_bound_covers_that(
    truth: Fraction, bound: Fraction, noise: Fraction
) -> None:
    value, covered = snapped(truth + noise * bound, bound)
    assert value % grid(bound) == 0
    assert abs(value - truth) <= covered <= 3 * bound / 2


def test_noise_inside_a_cell_is_not_seen() -> None:
    totals = [Estimate(Fraction(100) + Fraction(noise, 64), Fraction(1)) for noise in range(-31, 32)]
    assert len({Decoding().estimate(total, 3) for total in totals}) == 1


@pytest.mark.parametrize("value", [Fraction(7), Fraction(1, 3)])
def test_an_exact_total_stays(value: Fraction) -> None:
    assert Decoding().estimate(Estimate(value), 3).value == value
