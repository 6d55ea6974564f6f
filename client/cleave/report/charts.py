"""Charts of an answer. All decisions are here; draw.js only draws.

There is one per numeric output of a grouped question: bars over the groups, or a line over time if a key is a date.
Values and bounds have the digits shown in the answer's table, scaled to ordinary doubles.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from cleave.finish import ResultTable
from cleave.text import figures
from cleave.text.printable import printable

MOST_DRAWN = 400  # groups: with more, bars would be narrower than their gaps
MOST_LINES = 8  # colours that people can distinguish
MOST_CHARTS = 24
_MOST_COLUMNS, _MOST_BARS = 12, 40  # upright with names below; horizontal with names beside
_LINE = 60  # characters that fit below all upright bars
_PIXELS = 240  # approximate height of a chart: a smaller bound is invisible
_TIMES = ("DATE", "TIMESTAMP")
_NAMING = ("VARCHAR", "ENUM", "BOOLEAN", "UUID", *_TIMES)
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_MONTH = ("-01", "-01 00:00:00", "-01 00:00:00+00")  # texts of a month's first moment
_UNITS = {6: "millions", 9: "billions", 12: "trillions"}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_ChartKind = Literal["columns", "bars", "line", "curve"]


@dataclass(frozen=True, slots=True)
class Point:
    """A figure in a chart. `place`: its group's index, or milliseconds since 1970 in UTC. `low` and `high` None: no
    error bar.
    """

    place: float
    series: int
    value: float
    low: float | None
    high: float | None
    label: str
    title: str
    undecided: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """`names`: of the groups in order, empty for a line. `series`: names of the lines, empty if there is one.

    Of a survival curve: `ticks` of the time axis, and how many are `at_risk` there, by line.
    """

    kind: _ChartKind
    name: str
    by: str
    source: str
    unit: str
    names: tuple[str, ...]
    series: tuple[str, ...]
    points: tuple[Point, ...]
    summary: str
    notes: tuple[str, ...]
    ticks: tuple[float, ...] = ()
    at_risk: tuple[tuple[int, ...], ...] = ()

    @property
    def is_wide(self) -> bool:
        """True if it needs the page's whole width."""
        return self.kind == "curve" or len(self.points) > (_MOST_BARS if self.kind == "columns" else 2 * _MOST_BARS)


@dataclass(frozen=True, slots=True)
class _Groups:
    by: str
    names: list[str]
    times: list[float | None] | None  # if one key is a time
    series: list[str]  # for each group, the names of the other keys
    left_out: int

    def is_placed(self, place: int) -> bool:
        return self.times is None or self.times[place] is not None

    def kind(self, count: int) -> _ChartKind:
        """The kind of a chart of the first `count` groups."""
        if self.times is not None:
            return "line"
        if count <= _MOST_COLUMNS and count * (max(map(len, self.names[:count])) + 1) <= _LINE:
            return "columns"
        return "bars" if count <= _MOST_BARS else "columns"


def charts_of(result: ResultTable) -> list[Chart]:
    """The charts; [] if the answer has no group names or no rows."""
    groups = _groups_of(result)
    if groups is None:
        return []
    drawn = [
        place
        for place, (column, type_) in enumerate(zip(result.columns, result.types, strict=True))
        if column.source != "key" and is_numeric(type_)
    ]
    charts = (_chart(result, place, groups) for place in drawn[:MOST_CHARTS])
    return [chart for chart in charts if chart.points]


def is_numeric(type_: str) -> bool:
    """True if a type, named as in DuckDB, is numeric."""
    return type_.removeprefix("U").startswith(_NUMBERS) and not type_.endswith("]")


def is_by_month(result: ResultTable, place: int) -> bool:
    """True if a column has two or more different months, each as its first moment."""
    if not result.types[place].startswith(("DATE", "TIMESTAMP")):
        return False
    values = {str(row[place]) for row in result.rows if row[place] is not None}
    return len(values) > 1 and all(map(_is_month, values))


def key_text(value: Any, *, month: bool) -> str:
    """The text of a group's key; for a month, without the day."""
    text = figures.plain(value)
    return text[:7] if month and value is not None else text


def _is_month(text: str) -> bool:
    return text[4:5] == "-" and text[7:] in _MONTH


def _groups_of(result: ResultTable) -> _Groups | None:
    keys = _keys_of(result)
    if not keys or not result.rows:
        return None
    timed = [place for place in keys if result.types[place].startswith(_TIMES)]
    rows = result.rows
    times: list[float | None] | None = None
    others = keys
    if len(timed) == 1 and any(row[timed[0]] is not None for row in rows):
        times = [_milliseconds(row[timed[0]]) for row in rows]
        others = [place for place in keys if place != timed[0]]
        if any(time is None and row[timed[0]] is not None for time, row in zip(times, rows, strict=True)):
            times, others = None, keys  # infinity, or a year outside browsers' calendars
    months = {place for place in keys if is_by_month(result, place)}
    series = [_name(row, others, months) for row in rows]
    if times is not None and (len(set(series)) > MOST_LINES or len(set(zip(series, times, strict=True))) < len(rows)):
        times, others = None, keys  # more lines than colours, or two values at one time because a key is not shown
    shown = timed if times is not None else keys
    by = ", ".join(printable(result.columns[place].name) for place in [*shown, *(others if times is not None else ())])
    left_out = 0 if times is not None else max(0, len(rows) - MOST_DRAWN)
    names = [_name(row, keys, months) for row in rows]
    return _Groups(by, names, times, series, left_out)


def _keys_of(result: ResultTable) -> list[int]:
    """The columns that identify a group. If this machine gave the whole answer, those that are not numbers, if no two
    rows are equal in them.
    """
    keys = [place for place, column in enumerate(result.columns) if column.source == "key"]
    if keys or any(column.source != "local" for column in result.columns):
        return keys
    named = [place for place, type_ in enumerate(result.types) if type_.startswith(_NAMING)]
    names = {tuple(row[place] for place in named) for row in result.rows}
    return named if len(names) == len(result.rows) else []


def _chart(result: ResultTable, column: int, groups: _Groups) -> Chart:
    cells = [
        figures.published(row[column], bounds[column], exact[column])
        for row, bounds, exact in zip(result.rows, result.bounds, result.exact, strict=True)
    ]
    count = len(cells) - groups.left_out
    seen = [place for place in range(count) if fraction(cells[place][0]) is not None and groups.is_placed(place)]
    spans = {place: _span(*cells[place]) for place in seen}
    exponent = _exponent(max((abs(end) for span in spans.values() for end in span), default=Fraction(0)))
    lines = list(dict.fromkeys(groups.series[place] for place in seen)) if groups.times is not None else []
    points = tuple(_point(result, column, place, cells[place], spans[place], exponent, groups, lines) for place in seen)
    name = printable(result.columns[column].name)
    unit = _UNITS.get(exponent, f"\N{MULTIPLICATION SIGN} 10{str(exponent).translate(_RAISED)}" if exponent else "")
    kind = groups.kind(count)
    return Chart(
        kind=kind,
        name=name,
        by=groups.by,
        source=result.columns[column].source,
        unit=unit,
        names=() if kind == "line" else tuple(groups.names[:count]),
        series=tuple(lines) if len(lines) > 1 else (),
        points=points,
        summary=_summary(kind, name, groups.by, points, unit),
        notes=tuple(_notes(result, column, cells, points, groups, count)),
    )


def _point(
    result: ResultTable,
    column: int,
    place: int,
    cell: tuple[Any, float | None],
    span: tuple[Fraction, Fraction],
    exponent: int,
    groups: _Groups,
    lines: Sequence[str],
) -> Point:
    value, bound = cell
    scale = Fraction(10) ** exponent
    exact, undecided = result.exact[place][column], result.is_undecided(place, column) or bool(result.doubts_of(place))
    scaled = float((fraction(value) or Fraction(0)) / scale)
    has_bar = bound is not None and bound > 0 and math.isfinite(bound) and not exact
    written = (
        figures.encrypted(result.rows[place][column], result.bounds[place][column], exact)
        if result.columns[column].has_bounds
        else figures.plain(value)
    )
    mark = " undecided" if undecided else ""
    time = groups.times[place] if groups.times is not None else None
    return Point(
        place=float(place) if time is None else time,
        series=lines.index(groups.series[place]) if lines else 0,
        value=scaled,
        low=float(span[0] / scale) if has_bar else None,
        high=float(span[1] / scale) if has_bar else None,
        label=_short(scaled),
        title=printable(f"{groups.names[place]}: {written}{mark}"),
        undecided=undecided,
    )


_REACH = "Error bars reach as far as the exact value may be"
_BARS = {"noisy": "Error bars are 95% intervals of the noise"}


def _notes(
    result: ResultTable,
    column: int,
    cells: Sequence[tuple[Any, float | None]],
    points: Sequence[Point],
    groups: _Groups,
    count: int,
) -> list[str]:
    """Notes on what is invisible: the meaning of error bars, and values that are not drawn."""
    notes = []
    bars = [point for point in points if point.low is not None and point.high is not None]
    exact = [row[column] for row in result.exact[:count]]
    if bars:
        ends = [end for point in points for end in (point.value, point.low, point.high, 0.0) if end is not None]
        largest = max((point.high or 0.0) - (point.low or 0.0) for point in bars)
        unseen = largest / (max(ends) - min(ends)) * _PIXELS < 1
        notes.append(
            _BARS.get(result.columns[column].source, _REACH) + (", here less than a pixel." if unseen else ".")
        )
    elif points and all(exact):
        notes.append("Every value is exact.")
    elif not result.columns[column].has_bounds:
        notes.append("Doubles as the engine adds them up: no bound is stated.")
    unknown = sum(
        1
        for place in range(count)
        if result.columns[column].has_bounds
        and fraction(cells[place][0]) is not None
        and not exact[place]
        and (cells[place][1] is None or not math.isfinite(cells[place][1] or 0.0))
    )
    hidden = sum(result.is_hidden(place, column) for place in range(count))
    empty = sum(1 for value, _ in cells[:count] if value is None) - hidden
    strange = sum(1 for value, _ in cells[:count] if value is not None and fraction(value) is None)
    timeless = sum(1 for place in range(count) if not groups.is_placed(place))
    undecided = sum(1 for point in points if point.undecided)
    for number, words in (
        (unknown, "without a known bound"),
        (empty, "NULL, not drawn"),
        (hidden, "hidden, not drawn"),
        (strange, "infinite or not a number, not drawn"),
        (timeless, "without a time, not drawn"),
        (undecided, "undecided, drawn hollow"),
        (groups.left_out, f"more not drawn: these are the first {count}"),
    ):
        if number:
            notes.append(f"{number:,} {words}.")
    return notes


def _summary(kind: _ChartKind, name: str, by: str, points: Sequence[Point], unit: str) -> str:
    """A description for people who cannot see the chart. The table has every figure."""
    shape = "Line chart" if kind == "line" else "Bar chart"
    least = min(points, key=lambda point: point.value, default=None)
    largest = max(points, key=lambda point: point.value, default=None)
    if least is None or largest is None:
        return f"{shape} of {name} by {by}, empty."
    unit = f" {unit}" if unit else ""
    return (
        f"{shape} of {name} by {by}: {len(points)} {'value' if len(points) == 1 else 'values'}, from "
        f"{least.label}{unit} to {largest.label}{unit}. The answer's table has all figures."
    )


def _name(row: Sequence[Any], keys: Sequence[int], months: Collection[int]) -> str:
    return " \N{MIDDLE DOT} ".join(printable(key_text(row[place], month=place in months)) for place in keys)


def _milliseconds(value: Any) -> float | None:
    """None for a value that datetime cannot hold."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000


def fraction(value: Any) -> Fraction | None:
    """The exact value of a number; None for NULL, infinities, NaN and anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        return None
    return Fraction(value)


def _span(value: Any, bound: float | None) -> tuple[Fraction, Fraction]:
    middle = fraction(value) or Fraction(0)
    width = Fraction(bound) if bound is not None and math.isfinite(bound) else Fraction(0)
    return middle - width, middle + width


def _exponent(largest: Fraction) -> int:
    """The power of ten to divide values by: 0 for readable values, else a multiple of three."""
    if not largest or Fraction(1, 1000) <= largest < 10**6:
        return 0
    return (digits_before_point(largest) - 1) // 3 * 3


def digits_before_point(size: Fraction) -> int:
    """Digits before the decimal point of a positive number; 0 and negative results count zeros after the point."""
    digits = len(str(size.numerator)) - len(str(size.denominator))  # of the logarithm, or one more
    return digits + 1 if size >= Fraction(10) ** digits else digits


def _short(value: float) -> str:
    """Four digits, enough beside a bar."""
    if not value:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
