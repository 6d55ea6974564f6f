"""COUNT(x): the rows of a group where x is not NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import rational
from cleave.aggregates.base import Estimate, Facts, Figure, Moment


class Count:
    """Exact: an encrypted column of flags, or the number of rows where x cannot be NULL."""

    names = ("COUNT",)
    arity = 1
    moments: tuple[Moment, ...] = ()

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "BIGINT"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:  # noqa: ARG002
        return Figure(count, 0.0, exact=True, ball=rational(Fraction(count)))
