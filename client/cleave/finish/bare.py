"""Encrypted aggregates that stand by themselves in the answer: no expression reads them, so most need no ball."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from cleave.aggregates.answers import Answers, ExactColumn
from cleave.finish.casts import INTEGERS
from cleave.finish.cells import PRECISE, Cell, of_figure
from cleave.sql.plan import QueryPlan
from cleave.table.types import decimals_of


def evaluated(plan: QueryPlan) -> frozenset[int]:
    """The encrypted aggregates that something else than an output by itself reads; perhaps some more."""
    clauses = " ".join([plan.having or "", *plan.order_by])
    read = {i for final in plan.finals if not final.is_bare for i in final.encrypted}
    return frozenset(read | {i for i in range(len(plan.encrypted)) if re.search(rf"\be{i}\b", clauses)})


def cells(answers: Answers, number: int, type_: str, rows: Sequence[int]) -> list[Cell]:
    """Return the cells of the groups in `rows`."""
    exact = answers.exact(number)
    values = None if exact is None else _of_type(exact, type_)
    if values is not None:
        return [Cell(values[row], 0.0, exact=True) for row in rows]
    figures = answers.column(number)
    return [of_figure(figures[row], type_) for row in rows]


def _of_type(exact: ExactColumn, type_: str) -> Sequence[int | float | Decimal | None] | None:
    """As DuckDB types them; None where a figure's own way has to be gone."""
    decimals = exact.decimals
    if decimals is None:
        return exact.values if type_ == "DOUBLE" else None
    if type_ in INTEGERS:
        return exact.values if not decimals else None
    if decimals_of(type_) != decimals:
        return None
    return [None if each is None else Decimal(each).scaleb(-decimals, PRECISE) for each in exact.values]
