"""SEM(x): the standard error of the mean."""

from __future__ import annotations

from cleave.aggregates.stddev import Stddev
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Sem(Stddev):
    """STDDEV_POP / sqrt(n), as DuckDB has it (others divide the sample's deviation). NULL where no value is left, 0 for
    one value; correctly rounded where the variance is exact.
    """

    names: tuple[str, ...] = ("SEM",)
    freedom: int = 0

    def _divisor(self, count: int) -> int:
        return count * count
