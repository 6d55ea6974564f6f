"""Sums that do not fit their type: DuckDB refuses the query, so the encrypted sums are refused too."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from cleave.aggregates.answers import Answers
from cleave.sql.plan import QueryPlan
from cleave.table.types import decimals_of, digits_of, range_of
from cleave_shared.errors import QueryRefused


def check_sums(plan: QueryPlan, answers: Answers) -> None:
    """Raise QueryRefused where an encrypted sum of any group is beyond HUGEINT, or beyond the digits of its DECIMAL."""
    for number, each in enumerate(plan.encrypted):
        if each.type != "HUGEINT" and digits_of(each.type) is None:
            continue
        unit = 10 ** (decimals_of(each.type) or 0)
        lower, upper = (Fraction(end, unit) for end in range_of(each.type))
        least, most = _ends(answers, number)
        if least < lower or most > upper:
            raise QueryRefused(
                f"a sum does not fit {each.type}, the type that DuckDB gives it: it overflows",
                hint="SUM(CAST(x AS DOUBLE)) holds larger ones, with fewer digits",
            )


def _ends(answers: Answers, number: int) -> tuple[Fraction, Fraction]:
    """The least and the largest figure of all groups; 0 and 0 where there is none."""
    exact = answers.exact(number)
    values: Iterable[int | float | Fraction | None]
    if exact is not None and exact.decimals is not None:
        values, unit = exact.values, 10**exact.decimals
    else:
        values, unit = (figure.value for figure in answers.column(number)), 1
    present = [value for value in values if value is not None]
    return (Fraction(min(present)) / unit, Fraction(max(present)) / unit) if present else (Fraction(0), Fraction(0))
