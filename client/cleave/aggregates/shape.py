"""SKEWNESS(x), KURTOSIS(x), KURTOSIS_POP(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import exact_double, exact_root, inexact, null, number, precision, rational, undecided
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.central import Central, is_zero
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Cube, Fourth, Square
from cleave_shared.dataclass import dataclass


class Skewness:
    """sqrt(n (n - 1)) / (n - 2) times m3 / m2^(3/2), where mk = sum of (x - mean)^k / n: the sample skewness G1.

    NULL for fewer than 3 values, and where all are equal. Of integers and decimals correctly rounded: its square is an
    exact fraction. DuckDB sums raw powers, and loses digits where the mean is large beside the deviation.
    """

    names = ("SKEWNESS",)
    arity = 1
    moments: tuple[Moment, ...] = (Sum(), Square(), Cube())

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if count < 3:
            return null()
        with precision():
            central = Central(count, moments, arguments)
            squares = central.squares()
            if is_zero(squares):
                return null()
            if is_zero(squares) is None:
                return undecided()
            cubes, factor = central.cubes(), Fraction(count**2 * (count - 1), (count - 2) ** 2)
            if isinstance(squares, Fraction) and isinstance(cubes, Fraction):
                return exact_root(factor * cubes**2 / squares**3, -1 if cubes < 0 else 1)
            deviation = number(squares).sqrt()
            return inexact(rational(factor).sqrt() * number(cubes) / deviation**3)


@dataclass(frozen=True, slots=True)
class Kurtosis:
    """Excess kurtosis: m4 / m2^2 - 3 of a population, or the sample's G2 = (n - 1) / ((n - 2)(n - 3)) times
    ((n + 1) m4 / m2^2 - 3 (n - 1)). An exact fraction of integers and decimals.

    NULL where all values are equal, of a population for fewer than 2 values, of a sample for fewer than 4.
    """

    names: tuple[str, ...]
    sample: bool

    @property
    def arity(self) -> int:
        return 1

    @property
    def moments(self) -> tuple[Moment, ...]:
        return Sum(), Square(), Cube(), Fourth()

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if count < (4 if self.sample else 2):
            return null()
        with precision():
            central = Central(count, moments, arguments)
            squares = central.squares()
            if is_zero(squares):
                return null()
            if is_zero(squares) is None:
                return undecided()
            fourths, factor, excess = central.fourths(), Fraction(count), Fraction(3)
            if self.sample:
                factor *= Fraction((count - 1) * (count + 1), (count - 2) * (count - 3))
                excess *= Fraction((count - 1) ** 2, (count - 2) * (count - 3))
            if isinstance(squares, Fraction) and isinstance(fourths, Fraction):
                return exact_double(factor * fourths / squares**2 - excess)
            return inexact(rational(factor) * number(fourths) / number(squares) ** 2 - rational(excess))
