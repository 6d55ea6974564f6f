"""Encrypted aggregates that stand by themselves in the answer: no expression reads them, so most need no ball."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Context, Decimal

from cleave.aggregates.answers import Answers, ExactColumn
from cleave.aggregates.base import Figure
from cleave.finish.casts import INTEGERS
from cleave.finish.cells import Cell, of_figure
from cleave.sql.plan import QueryPlan
from cleave.table.types import decimals_of

_PRECISE = Context(prec=60)  # more than the 38 digits of any DECIMAL


def evaluated(plan: QueryPlan) -> frozenset[int]:
    """The encrypted aggregates that something else than an output by itself reads; perhaps some more."""
    clauses = " ".join([plan.having or "", *plan.order_by])
    read = {i for final in plan.finals if not final.is_bare for i in final.encrypted}
    return frozenset(read | {i for i in range(len(plan.encrypted)) if re.search(rf"\be{i}\b", clauses)})


def cells(answers: Answers, number: int, type_: str, rows: Sequence[int]) -> list[Cell]:
    """Of the groups in `rows`."""
    exact = answers.exact(number)
    values = None if exact is None else _of_type(exact, type_)
    if values is not None:
        return [Cell(values[row], 0.0, exact=True) for row in rows]
    figures = answers.column(number)
    return [(_double if type_ == "DOUBLE" else of_figure)(figures[row], type_) for row in rows]


def _double(figure: Figure, type_: str) -> Cell:
    """As `of_figure`, which goes by way of fractions: a double stays as it is, but -0 becomes 0."""
    value = figure.value
    if not isinstance(value, float) or not math.isfinite(value):
        return of_figure(figure, type_)
    if figure.exact:
        return Cell(value + 0.0, 0.0, exact=True)
    return Cell(value + 0.0, figure.bound if math.isfinite(figure.bound) else None, exact=False)


def _of_type(exact: ExactColumn, type_: str) -> Sequence[int | float | Decimal | None] | None:
    """As DuckDB types them; None where a figure's own way has to be gone."""
    decimals = exact.decimals
    if decimals is None:
        return exact.values if type_ == "DOUBLE" else None
    if type_ in INTEGERS:
        return exact.values if not decimals else None
    if decimals_of(type_) != decimals:
        return None
    return [None if each is None else Decimal(each).scaleb(-decimals, _PRECISE) for each in exact.values]
