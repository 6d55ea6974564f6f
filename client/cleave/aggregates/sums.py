"""COUNT, SUM, FSUM and AVG with their synonyms; COUNT_IF, BOOL_AND and BOOL_OR. Each is NULL where no value is left.

A condition is evaluated row by row here and encrypted as 0 or 1; how many are true is then an exact total.
"""

from __future__ import annotations

from cleave.aggregates.balls import Number, rational
from cleave.aggregates.base import Figure
from cleave.aggregates.group import Aggregate, Group, counted, whole
from cleave.aggregates.moments import Sum

_SUM = Sum()


def _sum(group: Group) -> Figure | Number:
    total, domain = group.moments[_SUM], group.arguments[0].domain
    if not domain.is_exact:
        return group.total(_SUM)
    return Figure(total.value if domain.decimals else int(total.value), 0.0, exact=True, ball=rational(total.value))


def _type_of_sum(argument: str) -> str:
    if argument.startswith("DECIMAL"):
        return f"DECIMAL(38,{argument.rstrip(')').split(',')[1].strip()})"
    return "DOUBLE" if argument in ("FLOAT", "DOUBLE") else "HUGEINT"


def _true(group: Group) -> int:
    return int(group.moments[_SUM].value)


COUNT = Aggregate(("COUNT",), (), counted, least=0, type="BIGINT")
"""Exact: an encrypted column of flags, or the number of rows where x cannot be NULL."""

SUM = Aggregate(("SUM", "SUM_NO_OVERFLOW"), (_SUM,), _sum, type=_type_of_sum)
"""Integers, booleans and decimals: exact, typed as DuckDB types them."""

FSUM = Aggregate(("FSUM", "KAHAN_SUM", "SUMKAHAN"), (_SUM,), lambda group: group.total(_SUM))
"""DuckDB's sum of doubles with compensation, a DOUBLE whatever the type; of exact types correctly rounded."""

AVG = Aggregate(("AVG", "MEAN", "FAVG"), (_SUM,), Group.mean)
"""sum / n. Of integers and decimals the exact mean, rounded once to a DOUBLE, where DuckDB rounds a total first or
divides long doubles.
"""

COUNT_IF = Aggregate(("COUNT_IF", "COUNTIF"), (_SUM,), lambda group: whole(_true(group)), type="HUGEINT")
"""How many conditions are true; NULL, as in DuckDB, where every one is NULL."""

BOOL_AND = Aggregate(
    ("BOOL_AND",), (_SUM,), lambda group: Figure(_true(group) == group.count, 0.0, exact=True), type="BOOLEAN"
)
BOOL_OR = Aggregate(("BOOL_OR",), (_SUM,), lambda group: Figure(_true(group) > 0, 0.0, exact=True), type="BOOLEAN")
