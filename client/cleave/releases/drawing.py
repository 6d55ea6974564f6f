"""The noise of a release: OpenDP's discrete Laplace, added by OpenDP itself. Nothing here draws.

For a scale OpenDP states the epsilon, rounded up. A scale is used only if that is at most the statistic's epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from cleave.disclosure.noise import Statistic
from cleave_shared.errors import extra

_TRIES = 8


def require_sampler() -> None:
    """Raise InputError if OpenDP is not installed."""
    _opendp()


def noisy(statistic: Statistic, totals: Sequence[int]) -> tuple[float, list[int]]:
    """The scale of the noise, and the total of each cell with fresh noise added."""
    scale = statistic.scale
    for _ in range(_TRIES):
        measurement = _laplace(scale)
        if Fraction(measurement.map(statistic.sensitivity)) <= statistic.epsilon:
            return scale, [int(each) for each in measurement(list(totals))]
        scale = math.nextafter(scale, math.inf)
    raise ArithmeticError("OpenDP states another epsilon for this scale")


def _laplace(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


def _opendp() -> Any:
    with extra("noise", "noisy releases"):
        import opendp.prelude as dp  # noqa: PLC0415 - takes a second; other commands do not need it
    dp.enable_features("contrib")  # OpenDP's name for what contributors proved, and its auditors did not; all samplers
    return dp
