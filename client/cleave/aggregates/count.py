"""COUNT(x): the rows of a group where x is not NULL."""

from __future__ import annotations

from collections.abc import Mapping

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import count_of


class Count:
    """Exact: the number of rows less an encrypted column of NULL flags."""

    names = ("COUNT",)
    formula = "sum of (x is not NULL)"
    leaks = "how many values are missing in a group"

    def needs(self, decimals: int | None) -> frozenset[Moment]:  # noqa: ARG002 - the same for every type
        return frozenset({Moment.COUNT})

    def result_type(self, argument_type: str) -> str:  # noqa: ARG002 - the same for every type
        return "BIGINT"

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:  # noqa: ARG002
        return Figure(count_of(moments), 0.0, exact=True)
