"""COUNT_IF(condition), COUNTIF(condition), BOOL_AND(condition), BOOL_OR(condition).

A condition is evaluated row by row here and encrypted as 0 or 1; how many are true is then an exact total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import null, rational
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Sum
from cleave_shared.dataclass import dataclass

_SUM = Sum()


class CountIf:
    """How many conditions are true; NULL, as in DuckDB, where every one is NULL."""

    names = ("COUNT_IF", "COUNTIF")
    arity = 1
    moments: tuple[Moment, ...] = (_SUM,)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "HUGEINT"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:  # noqa: ARG002
        if not count:
            return null()
        true = int(moments[_SUM].value)
        return Figure(true, 0.0, exact=True, ball=rational(Fraction(true)))


@dataclass(frozen=True, slots=True)
class BoolAll:
    """Whether all conditions are true, or any, leaving out NULLs; NULL where nothing is left."""

    names: tuple[str, ...]
    every: bool

    @property
    def arity(self) -> int:
        return 1

    @property
    def moments(self) -> tuple[Moment, ...]:
        return (_SUM,)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "BOOLEAN"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:  # noqa: ARG002
        if not count:
            return null()
        true = int(moments[_SUM].value)
        return Figure(true == count if self.every else true > 0, 0.0, exact=True)
