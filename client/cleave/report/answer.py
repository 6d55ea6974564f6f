"""The answer's table as the page shows it: four digits of each figure, all of them on hover and in the CSV."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cleave.finish import ResultTable
from cleave.report.charts import digits_before_point, fraction, is_by_month, is_numeric, key_text
from cleave.text import figures
from cleave.text.printable import printable

_DIGITS = 4
_WHOLE = 6  # digits before the point that are never rounded to zeros


@dataclass(frozen=True, slots=True)
class PageHeading:
    name: str
    source: str
    type: str
    is_number: bool
    scanned: bool = False


@dataclass(frozen=True, slots=True)
class PageCell:
    """`value` is what is shown, `full` every digit with the bound; "" where `value` is all there is to say.

    `trust` is the bound (`± 2e0`) where it reaches a digit that is shown.
    """

    value: str
    full: str
    trust: str
    is_null: bool
    undecided: bool


@dataclass(frozen=True, slots=True)
class PageRow:
    cells: tuple[PageCell, ...]
    doubts: str


def headings_of(result: ResultTable) -> list[PageHeading]:
    return [
        PageHeading(
            printable(column.name), column.source, printable(type_), is_numeric(type_), result.is_scanned(place)
        )
        for place, (column, type_) in enumerate(zip(result.columns, result.types, strict=True))
    ]


def cells_of(result: ResultTable) -> list[PageRow]:
    months = {place for place in range(len(result.columns)) if is_by_month(result, place)}
    return [
        PageRow(
            tuple(_cell(result, row, place, month=place in months) for place in range(len(result.columns))),
            ", ".join(result.doubts_of(row)),
        )
        for row in range(len(result.rows))
    ]


def _cell(result: ResultTable, row: int, place: int, *, month: bool) -> PageCell:
    value, exact = result.rows[row][place], result.exact[row][place]
    source, undecided = result.columns[place].source, result.is_undecided(row, place)
    full, bound = figures.plain(value), None
    if source == "encrypted" and value is not None:
        bound = None if exact else result.bounds[row][place]
        full = figures.encrypted(value, result.bounds[row][place], exact)
    text = key_text(value, month=month) if month or source == "key" else brief(value)
    trust = ""
    if " ± " in full and (unit := shown_unit(value)) is not None and not (bound is not None and 2 * bound < unit):
        text, _, trust = full.partition(" ± ")
        trust = f"± {trust}"
    full = "" if f"{text} {trust}".strip() == full else full
    return PageCell(printable(text), printable(full), trust, value is None, undecided)


def brief(value: Any) -> str:
    """`value` with four significant digits; the digits of a whole number below a million are all there."""
    unit = shown_unit(value)
    if unit is None:
        return figures.plain(value)
    shown = Decimal(round(Fraction(value) / unit)) * (Decimal(unit.numerator) / Decimal(unit.denominator))
    if shown and not -_WHOLE <= shown.adjusted() < 2 * _WHOLE:
        return f"{shown.scaleb(-shown.adjusted()).normalize():f}e{shown.adjusted()}"
    return f"{shown:,f}"


def shown_unit(value: Any) -> Fraction | None:
    """The unit of the last digit that `brief` shows of a number; None for what is no finite number."""
    exact = fraction(value)
    if exact is None:
        return None
    if not exact:
        return Fraction(1)
    before = digits_before_point(abs(exact))
    unit = Fraction(10) ** (before - (max(_DIGITS, before) if before <= _WHOLE else _DIGITS))
    return max(unit, _least_unit(value)) if unit < 1 else unit


def _least_unit(value: Any) -> Fraction:
    """The unit of the last digit that a number has, so that 0.5 is not written 0.5000."""
    if isinstance(value, Fraction):
        return Fraction(0)
    exponent = Decimal(repr(value) if isinstance(value, float) else value).normalize().as_tuple().exponent
    return Fraction(10) ** exponent if isinstance(exponent, int) else Fraction(0)
