"""STDDEV_SAMP(x), STDDEV(x), STDDEV_POP(x)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cleave.aggregates.base import Estimate
from cleave.aggregates.doubles import UNIT_EXACT, of_doubles, square_root
from cleave.aggregates.variance import Variance


@dataclass(frozen=True, slots=True)
class Stddev(Variance):
    """The square root of the variance. Its bound is the larger distance to the root of the variance's ends, which is
    the lower one.
    """

    def _doubles(self, squared: Estimate, highest: Fraction) -> tuple[float, float]:
        root = square_root(squared.value)
        # sqrt(v + d) - sqrt(v) where v is small, else d / (sqrt(v) + sqrt(v - d))
        if squared.bound >= squared.value:
            distance = max(root, square_root(squared.value + squared.bound) - root)
        else:
            distance = squared.bound / (root + square_root(squared.value - squared.bound))
        loss = distance * (1 + UNIT_EXACT) + 2 * UNIT_EXACT * root
        return of_doubles(root, loss, highest)
