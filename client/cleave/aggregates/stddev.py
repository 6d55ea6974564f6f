"""STDDEV_SAMP(x), STDDEV(x), STDDEV_POP(x)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import flint

from cleave.aggregates.balls import exact_root, inexact
from cleave.aggregates.base import Figure
from cleave.aggregates.variance import Variance
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True, slots=True)
class Stddev(Variance):
    """The square root of the variance, correctly rounded where that is exact."""

    def _exact(self, variance: Fraction) -> Figure:
        return exact_root(variance)

    def _inexact(self, variance: arb) -> Figure:
        # of the ends: the root of a ball that reaches down to 0 would reach below it
        lower = variance.lower()
        return inexact((lower.sqrt() if lower > 0 else flint.arb(0)).union(variance.upper().sqrt()))
