"""Tails and quantiles against integrals of the densities, by mpmath to 30 digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import flint
import mpmath
import pytest
from flint import arb, fmpq

from cleave.models.chances import chi_square_tail, f_tail, normal_quantile, t_quantile, t_tail

DIGITS = 30


def normal(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def student(degrees: int) -> Callable[[mpmath.mpf], mpmath.mpf]:
    over = mpmath.gamma(mpmath.mpf(degrees + 1) / 2) / mpmath.gamma(mpmath.mpf(degrees) / 2)
    return lambda x: over / mpmath.sqrt(degrees * mpmath.pi) * (1 + x * x / degrees) ** (-mpmath.mpf(degrees + 1) / 2)


def fisher(upper: int, lower: int) -> Callable[[mpmath.mpf], mpmath.mpf]:
    first, second = mpmath.mpf(upper) / 2, mpmath.mpf(lower) / 2
    over = mpmath.mpf(upper) ** first * mpmath.mpf(lower) ** second / mpmath.beta(first, second)
    return lambda x: over * x ** (first - 1) * (lower + upper * x) ** -(first + second)


def chi_square(degrees: int) -> Callable[[mpmath.mpf], mpmath.mpf]:
    half = mpmath.mpf(degrees) / 2
    return lambda x: x ** (half - 1) * mpmath.exp(-x / 2) / (2**half * mpmath.gamma(half))


def above(density: Callable[[mpmath.mpf], mpmath.mpf], x: Fraction) -> mpmath.mpf:
    """The integral of `density` from `x`, over pieces that grow from the scale on which it falls."""
    low = mpmath.mpf(x.numerator) / x.denominator
    step = min(low, 1 / low)
    pieces = [low, *(low + step * 4**power for power in range(9)), mpmath.inf]
    return mpmath.quad(lambda point: density(point) / density(low), pieces) * density(low)


def holds(ball: arb, value: mpmath.mpf, digits: int = 16) -> None:
    """`ball` is narrow, and overlaps `value` with its own error."""
    with flint.ctx.workprec(192):
        text = mpmath.nstr(value, DIGITS)
        assert abs(ball - arb(text)) <= abs(arb(text)) * arb(10) ** -digits
        assert ball.rad() <= abs(ball) * arb(10) ** -digits or not value


CASES = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(196, 100), Fraction(7), Fraction(40)]


@pytest.mark.parametrize("x", CASES, ids=str)
@pytest.mark.sampled(3)
def test_tails_are_integrals_of_the_densities(x: Fraction) -> None:
    point = fmpq(x.numerator, x.denominator)
    with mpmath.workdps(DIGITS):
        for degrees in (1, 2, 7, 100):
            holds(t_tail(point, degrees), 2 * above(student(degrees), x))
            holds(t_tail(-point, degrees), 2 * above(student(degrees), x))
        for degrees in (2, 3, 10):
            holds(chi_square_tail(point, degrees), above(chi_square(degrees), x))
        for upper, lower in ((2, 4), (3, 7), (5, 40)):
            holds(f_tail(point, upper, lower), above(fisher(upper, lower), x))


def test_a_tail_at_zero_is_one() -> None:
    zero = fmpq(0)
    assert t_tail(zero, 3) == f_tail(zero, 2, 3) == chi_square_tail(zero, 4) == 1


def test_a_tiny_tail_has_correct_digits() -> None:
    x = mpmath.mpf(45)  # chi-square with one degree at x^2 has the normal tail at x, here 3e-442
    with mpmath.workdps(DIGITS):
        fraction = mpmath.mpf(0)
        for term in range(400, 0, -1):
            fraction = term / (x + fraction)
        holds(chi_square_tail(fmpq(45**2), 1), 2 * normal(x) / (x + fraction))
    smallest = t_tail(fmpq(10**5), 10**9)
    assert smallest > 0
    assert smallest.rel_accuracy_bits() > 64


def test_the_tail_of_a_ball_holds_those_of_its_points_and_no_impossible_value() -> None:
    """Also of a ball around 0, of a variance ratio that may be below 0, and of one that may be anything."""
    with flint.ctx.workprec(192):
        wide = arb(2, 0.25)
        for point in (fmpq(7, 4), fmpq(2), fmpq(9, 4)):
            assert t_tail(wide, 9).contains(t_tail(point, 9).mid())
            assert f_tail(wide, 3, 9).contains(f_tail(point, 3, 9).mid())
            assert chi_square_tail(wide, 9).contains(chi_square_tail(point, 9).mid())
        around = t_tail(arb(0, 0.5), 9)
        assert around.contains(1)
        assert around.contains(t_tail(fmpq(1, 2), 9).mid())
        assert f_tail(arb(0, 1), 3, 9).contains(1)
        for ball in (around, t_tail(arb.nan(), 3), chi_square_tail(arb.pos_inf(), 3)):
            assert ball.lower() > -1e-9
            assert ball.upper() < 1 + 1e-9
        assert t_tail(arb.nan(), 3).contains(0)
        assert t_tail(arb.nan(), 3).contains(1)


@pytest.mark.parametrize("chance", [Fraction(975, 1000), Fraction(1, 1000), Fraction(6, 10), 1 - Fraction(1, 10**12)])
def test_quantiles_lead_back_to_their_probability(chance: Fraction) -> None:
    exact = fmpq(chance.numerator, chance.denominator)
    with mpmath.workdps(DIGITS):
        outside = mpmath.mpf(min(chance, 1 - chance).numerator) / chance.denominator
        sign = 1 if 2 * chance > 1 else -1
        densities = [(normal_quantile(exact), normal)]
        densities += [(t_quantile(exact, degrees), student(degrees)) for degrees in (1, 4, 1000)]
        for found, density in densities:
            with flint.ctx.workprec(192):
                middle = Fraction(*map(int, _fraction(abs(found).mid())))
                assert found * sign > 0
                assert found.rel_accuracy_bits() > 64
            assert abs(above(density, middle) / outside - 1) < mpmath.mpf(10) ** -17


def test_the_median_of_student_is_zero() -> None:
    assert t_quantile(fmpq(1, 2), 3) == normal_quantile(fmpq(1, 2)) == 0
    assert abs(t_quantile(fmpq(1, 2) + fmpq(1, 10**20), 3)) < 1e-19


def _fraction(exact: arb) -> tuple[int, int]:
    found = exact.fmpq()
    return found.numerator, found.denominator
