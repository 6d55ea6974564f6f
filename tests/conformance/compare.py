"""An answer held against DuckDB's, and its figures against the exact values (tests.oracle)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cleave.aggregates.base import Figure
from cleave.finish import ResultTable
from tests.conformance.asked import STATISTICS, SUMS, Call, Expected, Values
from tests.deviations import truth, wrong
from tests.oracle import Cell, decimals_of, fraction

# What DuckDB's doubles may lose of expressions over aggregates and of plain columns: n u of sums of at most 6,005
# numbers mostly of one sign is 7e-13, and the queries make no differences of nearly equal figures.
LOSS = 1e-12
LOSS_OF_POWERS = 1e-9  # it takes skewness and kurtosis from sums of powers, which cancel


def differences(answer: ResultTable, expected: Expected, calls: list[Call | None], ordered: bool) -> list[str]:
    """Everything that is wrong with `answer`; `calls` has one entry an output, None where it is no bare aggregate."""
    found = []
    if [column.name for column in answer.columns] != expected.names:
        found.append(f"names {[column.name for column in answer.columns]}, DuckDB {expected.names}")
    if answer.types != expected.types:
        found.append(f"types {answer.types}, DuckDB {expected.types}")
    if len(answer.rows) != len(expected.rows):
        return [*found, f"{len(answer.rows)} rows, DuckDB {len(expected.rows)}"]
    if found:
        return found
    told = [each for each in answer.warnings if "have no bound" not in each]  # `_figure` checks which have one
    if told:
        found.append(f"warnings {told}")
    left = list(range(len(expected.rows)))
    for number in range(len(answer.rows)):
        tried = [_row(answer, number, expected, place, calls) for place in (left[:1] if ordered else left)]
        match = next((place for place, each in zip(left, tried, strict=False) if not each), None)
        if match is None:
            found += [f"row {number}: {each}" for each in min(tried, key=len)]
            match = left[0]
        left.remove(match)
    return found


def _row(answer: ResultTable, number: int, expected: Expected, place: int, calls: list[Call | None]) -> list[str]:
    found = []
    inside = iter(expected.inside[place]) if expected.inside else iter(())
    for i, column in enumerate(answer.columns):
        figure = answer.rows[number][i], answer.bounds[number][i], answer.exact[number][i]
        theirs = expected.rows[place][i]
        call = calls[i]
        values = next(inside) if call else None
        broken = _figure(figure, theirs, column.source, call, values)
        if broken:
            found.append(f"{column.name}: {broken}")
    return found


def _figure(
    figure: tuple[Any, float | None, bool | None], theirs: Any, source: str, call: Call | None, values: Values | None
) -> str | None:
    ours, bound, exact = figure
    if not isinstance(ours, float) or not isinstance(theirs, float):
        return None if same(ours, theirs) else f"{ours!r}, DuckDB {theirs!r}"
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return None if ours == theirs or (math.isnan(ours) and math.isnan(theirs)) else f"{ours!r}, DuckDB {theirs!r}"
    if source == "encrypted" and not (exact or (bound is not None and math.isfinite(bound))):
        return f"{ours!r} without a bound, DuckDB {theirs!r}"
    if call and values is not None:
        return _exactly(figure, theirs, call, values)
    return None if close(ours, theirs, bound or 0.0) else f"{ours!r} +- {bound!r}, DuckDB {theirs!r}"


def _exactly(figure: tuple[Any, float | None, bool | None], theirs: float, call: Call, values: Values) -> str | None:
    ours, bound, exact = figure
    columns = [[fraction(value) for value in column] for column in zip(*values, strict=True)] or [[], []]
    if call.name in SUMS:
        cell = Cell(SUMS[call.name], columns[0], decimals_of(values[0][0]) if values else 0)
        return cell.wrong(ours, bound, exact) or cell.disagrees(ours, bound, theirs)
    right = truth(STATISTICS[call.name], columns[0], columns[-1])
    if broken := wrong(Figure(ours, bound or 0.0, bool(exact)), right):
        return broken
    return None if close(ours, theirs, bound or 0.0, LOSS_OF_POWERS) else f"{ours!r} +- {bound!r}, DuckDB {theirs!r}"


def same(ours: Any, theirs: Any) -> bool:
    if type(ours) is not type(theirs):
        return isinstance(ours, Decimal) and isinstance(theirs, Decimal)
    return bool(ours == theirs)


def close(ours: float, theirs: float, bound: float, lost: float = LOSS) -> bool:
    loss = Fraction(lost) * Fraction(max(abs(ours), abs(theirs)))
    return abs(Fraction(ours) - Fraction(theirs)) <= Fraction(bound) + loss
