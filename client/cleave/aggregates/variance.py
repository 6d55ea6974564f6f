"""VAR_SAMP(x), VARIANCE(x), VAR_POP(x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import TINY, UNIT_EXACT, count_of, of_doubles, roundings, square_root


@dataclass(frozen=True, slots=True)
class Variance:
    """Squares are of x - c, so that an offset like 1e6 cannot cancel the digits away (docs/ckks.md section 4). The
    bound covers the noise and DuckDB's running (Welford) computation. NULL where no value is left, and for the sample
    variance of one value.
    """

    names: tuple[str, ...]
    freedom: int  # degrees of freedom taken off n: 1 for the sample variance, 0 for the population's
    formula: str
    leaks: str = "the spread of a group"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT, Moment.SUM, Moment.SQUARE})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:  # noqa: ARG002
        count = count_of(moments)
        if count <= self.freedom:
            return Figure(None, 0.0, exact=True)
        if count == 1:
            return Figure(0.0, 0.0, exact=True)
        estimate = variance(moments, facts, self.freedom)
        value, bound = self._doubles(estimate, peak(estimate, count))
        return Figure(value, bound, exact=False)

    def _doubles(self, squared: Estimate, highest: Fraction) -> tuple[float, float]:
        return of_doubles(squared.value, squared.bound, highest)


def variance(moments: Mapping[Moment, Estimate], facts: ColumnFacts, freedom: int) -> Estimate:
    """The variance of n >= 2 values, at least 0, and its distance to DuckDB's."""
    count = count_of(moments)
    shifted, squares = moments[Moment.SUM], moments[Moment.SQUARE]
    deviations = squares.value - shifted.value**2 / count
    noise = squares.bound + (2 * abs(shifted.value) + shifted.bound) * shifted.bound / count
    deviations = max(deviations, Fraction(0))
    mean = facts.centre + shifted.value / count
    loss = _welford_loss(count, abs(mean) + shifted.bound / count, (deviations + noise) / count)
    return Estimate(deviations / (count - freedom), (noise + count * loss) / (count - freedom))


def peak(estimate: Estimate, count: int) -> Fraction:
    """What the engine's sum of squared deviations could come to."""
    return 2 * count * (estimate.value + estimate.bound)


def _welford_loss(count: int, mean: Fraction, spread: Fraction) -> Fraction:
    """What Welford's recurrence in doubles loses of a population variance of at most `spread`.

    Its running mean is rounded at every step, an error e of up to UNIT |mean| sqrt(n): a random walk. That shifts the
    deviations d by e, and the variance by 2 e d + e^2. The textbook bound is n kappa units with kappa = sqrt(1 +
    mean^2 / var) (Chan, Golub and LeVeque 1983); for random rounding sqrt(n) takes the place of n.
    """
    deviation = square_root(spread) * (1 + UNIT_EXACT)
    size = square_root(spread + mean**2) * (1 + UNIT_EXACT)
    steps = roundings(count)
    loss = UNIT_EXACT * steps * (spread + deviation * size) + 4 * TINY * count
    stuck = UNIT_EXACT * count * mean
    if 8 * stuck > deviation:  # the mean's last bit is as coarse as the data: it may not move at all
        return loss + stuck * (stuck + 2 * deviation)
    return loss + (UNIT_EXACT * steps * mean) ** 2
