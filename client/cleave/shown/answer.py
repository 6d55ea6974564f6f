"""The answer of a query as text for people, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from types import NoneType
from typing import TYPE_CHECKING, Any

from cleave.sql.plan import Output, reasons_of
from cleave.table.types import is_shown_as_it_is
from cleave.text import figures
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave.text.tabular import GAP, Heading, table, widths_of

if TYPE_CHECKING:
    from cleave.ask.question import Answer, Usage
    from cleave.finish import ResultTable

_WIDE = 120  # characters; about one line of a terminal
MOST_ROWS = 40  # on a terminal, by default
_MOST_NAMED = 8  # names of columns that are not shown
_FAR = 40  # digits above which a decimal gets an exponent


def answer_text(answer: Answer) -> str:
    """The answer as a table; one long row is printed downwards."""
    headings, rows = cells(answer.result)
    return _downwards(headings, rows, _WIDE) or table(headings, rows)


def terminal_text(answer: Answer, width: int, most: int, how: str) -> str:
    """The answer as a table, cut to `most` rows and to the columns that fit in `width` characters.

    If it is cut, the last line says by how much, and `how` to see all.
    """
    headings, rows = cells(answer.result, most)
    if downwards := _downwards(headings, rows, min(width, _WIDE)):
        return downwards
    fit = _fitting(headings, rows, width, keeps_last=any(answer.result.doubts))
    shown = table([headings[place] for place in fit], [[row[place] for place in fit] for row in rows])
    cut = []
    if len(rows) < len(answer.result.rows):
        cut.append(f"{len(answer.result.rows) - len(rows):,} of {counted(len(answer.result.rows), 'row')}")
    if dropped := [heading.name for place, heading in enumerate(headings) if place not in fit]:
        more = ", ..." if len(dropped) > _MOST_NAMED else ""
        names = f"{', '.join(map(printable, dropped[:_MOST_NAMED]))}{more}"
        cut.append(f"{len(dropped):,} of {counted(len(headings), 'column')} ({names})")
    return f"{shown}\nNot shown: {' and '.join(cut)}. {how}" if cut else shown


def _downwards(headings: Sequence[Heading], rows: Sequence[Sequence[str]], width: int) -> str:
    """A single wide row, printed downwards for readability; "" for any other table."""
    if len(rows) != 1 or max(map(len, table(headings, rows).splitlines())) <= width:
        return ""
    figure = [Heading("column"), Heading("from"), Heading("value", justify="right")]
    return table(figure, [[heading.name, heading.note, cell] for heading, cell in zip(headings, rows[0], strict=True)])


def _fitting(headings: Sequence[Heading], rows: Sequence[Sequence[str]], width: int, *, keeps_last: bool) -> list[int]:
    """Indices of the columns that fit beside each other: the first ones, and the last one if `keeps_last`."""
    widths = widths_of(headings, rows)
    last = [len(widths) - 1] if keeps_last else []
    room = width - sum(widths[place] + GAP for place in last)
    fit: list[int] = []
    for place in range(len(widths) - len(last)):
        room -= widths[place] + (GAP if fit else 0)
        if room < 0 and fit:
            break
        fit.append(place)
    return [*fit, *last]


def cells(result: ResultTable, most: int | None = None) -> tuple[list[Heading], list[list[str]]]:
    """Headings and cells for people, of the first `most` rows. Undecided cells are marked."""
    headings = [
        Heading(column.name, _origin(result, place), "left" if _is_text(column, type_) else "right")
        for place, (column, type_) in enumerate(zip(result.columns, result.types, strict=True))
    ]
    count = len(result.rows) if most is None else min(most, len(result.rows))
    rows = [[_cell(result, row, place) for place in range(len(result.columns))] for row in range(count)]
    if any(result.doubts):
        headings.append(Heading("row"))
        rows = [[*shown, _doubt(result.doubts_of(row))] for row, shown in enumerate(rows)]
    return headings, rows


def _origin(result: ResultTable, place: int) -> str:
    return f"{result.source(place)}{', scanned' if result.is_scanned(place) else ''}"


def _is_text(column: Output, type_: str) -> bool:
    return column.source == "key" or (column.source == "local" and not is_shown_as_it_is(type_))


def _cell(result: ResultTable, row: int, place: int) -> str:
    value = result.rows[row][place]
    if result.is_hidden(row, place):
        return "hidden"
    if not result.columns[place].has_bounds:
        return figures.plain(value)
    bound, exact = result.bounds[row][place], result.exact[row][place]
    return figures.encrypted(value, bound, exact, undecided=result.is_undecided(row, place))


def _doubt(clauses: Sequence[str]) -> str:
    return f"undecided: {', '.join(clauses)}" if clauses else ""


def answer_json(answer: Answer) -> str:
    """The JSON of `cleave query --json`. Decimals are numbers with all digits; NaN and infinities are text.

    As in the table, no value has digits beyond its bound, and the bound includes that rounding.
    """
    result = answer.result
    published = [
        [figures.published(*cell) for cell in zip(*row, strict=True)]
        for row in zip(result.rows, result.bounds, result.exact, strict=True)
    ]
    return dump(
        {
            "columns": [
                {"name": column.name, "source": result.source(place)}
                | ({"reason": column.reason} if column.reason else {})
                | ({"scanned": True} if result.is_scanned(place) else {})
                for place, column in enumerate(result.columns)
            ],
            "rows": [[value for value, _ in row] for row in published],
            "bounds": [[bound for _, bound in row] for row in published],
            "exact": result.exact,
            **({"hidden": result.hidden} if any(map(any, result.hidden)) else {}),
            "undecided": {
                "cells": [
                    [result.is_undecided(row, place) for place in range(len(result.columns))]
                    for row in range(len(result.rows))
                ],
                "rows": [result.doubts_of(row) for row in range(len(result.rows))],
            },
            "warnings": result.warnings,
            **({"trust": result.trust} if result.trust else {}),
            "checks": answer.checks,
            "plan": {name: fact for name, fact in asdict(answer.usage).items() if fact is not None},
            "timings": answer.timings,
        }
    )


def footer(answer: Answer, seconds: float) -> str:
    """How far to trust an answer, what was computed here and why, and what it cost."""
    passed = [name for name, outcome in answer.checks.items() if outcome == "passed"]
    usage = answer.usage
    lines = []
    if usage.suppression:
        lines.append(usage.suppression)
    for reason in reasons_of((each.name, each.reason) for each in answer.result.columns):
        lines.append(f"{local_words(usage)}: {printable(reason)}")
    if answer.result.trust:
        lines.append(printable(answer.result.trust))
    checked = f"{counted(len(passed), 'check')} passed ({', '.join(passed)})" if passed else "Nothing was sent"
    lines.append(f"{checked}. {traffic_of([usage])}, {seconds:.2f} s.")
    return "\n".join(lines)


def traffic_of(usages: Sequence[Usage]) -> str:
    """What some statements read of stores and exchanged with services, together."""
    requests, up, down = (
        sum(getattr(each, name) for each in usages) for name in ("requests", "bytes_sent", "bytes_received")
    )
    traffic = f"{counted(requests, 'request')}, {sized(up)} up, {sized(down)} down"
    stored = [each for each in usages if each.objects_read is not None]
    if not stored:
        return traffic
    objects, size = (sum(getattr(each, name) or 0 for each in stored) for name in ("objects_read", "bytes_read"))
    return f"{counted(objects, 'object')} read, {sized(size)}; {traffic if requests else 'no service used'}"


def local_words(usage: Usage) -> str:
    """How this machine computed local outputs."""
    return "local, nothing of it sent" if usage.objects_read is None else "local, over what was fetched and decrypted"


def dump(value: Any) -> str:
    """Standard JSON. (json.dumps would lose digits of decimals, and write NaN, which JSON does not have.)"""
    if (write := _BY_TYPE.get(type(value))) is not None:
        return write(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _dump_list(value)
    if isinstance(value, Fraction):
        return dump(value.numerator) if value.denominator == 1 else dump(float(value))
    return json.dumps(figures.plain(value))


def _dump_list(value: Sequence[Any]) -> str:
    return "[" + ", ".join(map(dump, value)) + "]"


def _dump_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else json.dumps(figures.plain(value))


def _dump_decimal(value: Decimal) -> str:
    if not value.is_finite():
        return json.dumps(figures.plain(value))
    return f"{value:f}" if abs(value.adjusted()) < _FAR else str(value).replace("E+", "e").replace("E", "e")


# called several times per cell of an answer
_BY_TYPE: dict[type, Callable[[Any], str]] = {
    NoneType: lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
    float: _dump_float,
    Decimal: _dump_decimal,
    str: json.dumps,
    list: _dump_list,
    tuple: _dump_list,
}
