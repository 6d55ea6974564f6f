"""Probabilities and quantiles of the usual distributions, as balls that hold the exact value.

Arguments may be rationals or balls. Tails fall as their argument grows, so a tail of a ball runs between the tails of
its two ends. Precision rises until a tail has 64 correct bits, or until it stops to help: then the ball is wide, but
still true. Sources: Arb's incomplete beta and gamma functions and inverse of erfc (arb_hypgeom.h); NIST DLMF 8.17.2 and
8.2.4 for the definitions; Abramowitz and Stegun 26.4 to 26.7 for the distributions as such functions.
"""

from __future__ import annotations

from collections.abc import Callable

import flint
from flint import arb, fmpq

from cleave.aggregates.balls import Number, within

_PRECISIONS = (192, 384, 768)  # bits to compute with
_CORRECT_BITS = 64  # a double has 53
_STEPS = 256  # of a bisection, at most


def t_tail(t: Number, degrees: int) -> arb:
    """P(|T| > |t|) of Student's t distribution."""

    def tail(end: arb) -> arb:
        return _beta_tail(end * end, 1, degrees)

    return _falling(tail, *_sizes(t))


def f_tail(f: Number, upper: int, lower: int) -> arb:
    """P(F > f) of the F distribution with `upper` and `lower` degrees of freedom."""
    return _falling(lambda end: _beta_tail(end, upper, lower), *_from_zero(f))


def chi_square_tail(x: Number, degrees: int) -> arb:
    """P(X > x) of the chi-square distribution."""
    return _falling(lambda end: (end / 2).gamma_upper(arb(degrees) / 2, True), *_from_zero(x))


def normal_quantile(chance: fmpq) -> arb:
    """The z with P(Z <= z) = `chance`, which is between 0 and 1."""
    with flint.ctx.workprec(_PRECISIONS[0]):
        return -arb(2).sqrt() * arb(2 * chance).erfcinv()


def t_quantile(chance: fmpq, degrees: int) -> arb:
    """The t with P(T <= t) = `chance`, which is between 0 and 1: found by bisection with certified comparisons."""
    with flint.ctx.workprec(_PRECISIONS[0]):
        if chance == fmpq(1, 2):
            return arb(0)
        sign, target = (1, arb(2 * (1 - chance))) if chance > fmpq(1, 2) else (-1, arb(2 * chance))
        low, high = arb(0), arb(1)
        while not (tail := t_tail(high, degrees)) < target:
            low, high = high if tail > target else low, 2 * high
        for _ in range(_STEPS):
            middle = ((low + high) / 2).mid()
            tail = t_tail(middle, degrees)
            if tail > target:
                low = middle
            elif tail < target:
                high = middle
            else:
                break  # tails closer to the quantile cannot be told apart
        return sign * low.union(high)


def _beta_tail(f: arb, upper: int, lower: int) -> arb:
    """The tail of F at `f`. Below 1, where the tail is large and the series of beta slow, the complement is taken."""
    first, second = arb(upper) / 2, arb(lower) / 2
    share = upper * f / (lower + upper * f)
    if f < 1:
        return 1 - share.beta_lower(first, second, True)
    return (lower / (lower + upper * f)).beta_lower(second, first, True)


def _sizes(value: Number) -> tuple[arb, arb]:
    with flint.ctx.workprec(_PRECISIONS[0]):
        ball = arb(value)
        return ball.abs_lower(), ball.abs_upper()


def _from_zero(value: Number) -> tuple[arb, arb]:
    with flint.ctx.workprec(_PRECISIONS[0]):
        ball = arb(value)
        return max(ball.lower(), arb(0)), max(ball.upper(), arb(0))


def _falling(tail: Callable[[arb], arb], low: arb, high: arb) -> arb:
    """A falling `tail`, between 0 and 1, over all points from `low` to `high`."""
    with flint.ctx.workprec(_PRECISIONS[0]):
        if not (low.is_finite() and high.is_finite()):
            return arb(0).union(arb(1))
        ends = []
        for end in (high, low):
            for bits in _PRECISIONS:
                with flint.ctx.workprec(bits):
                    found = tail(end)
                if found.rel_accuracy_bits() >= _CORRECT_BITS:
                    break
            ends.append(found)
        return within(ends[0].union(ends[1]), 0, 1)
