"""The answer's table as the page has it: figure and bound apart, what is undecided marked."""

from __future__ import annotations

from cleave.finish import ResultTable
from cleave.report.charts import is_numeric
from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PageHeading:
    name: str
    source: str
    type: str
    is_number: bool
    scanned: bool = False


@dataclass(frozen=True, slots=True)
class PageCell:
    """`trust` is `exact`, `rounded`, `± 2e-9`, or empty where nothing is known or there is nothing to know."""

    value: str
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
    return [
        PageRow(
            tuple(_cell(result, row, place) for place in range(len(result.columns))),
            ", ".join(result.doubts_of(row)),
        )
        for row in range(len(result.rows))
    ]


def _cell(result: ResultTable, row: int, place: int) -> PageCell:
    value, exact = result.rows[row][place], result.exact[row][place]
    undecided = result.is_undecided(row, place)
    text, trust = figures.plain(value), ""
    if result.columns[place].source == "encrypted" and value is not None:
        text = figures.encrypted(value, result.bounds[row][place], exact)
        if exact:
            text, trust = text.removesuffix(" exact"), "exact"
        elif figures.is_rounded(value, result.bounds[row][place]):
            text, trust = text.removesuffix(" rounded"), "rounded"
        elif not isinstance(value, str | bool) and " \N{PLUS-MINUS SIGN} " in text:
            text, sign, bound = text.rpartition("\N{PLUS-MINUS SIGN} ")
            text, trust = text.rstrip(), sign + bound
    return PageCell(printable(text), trust, value is None, undecided)
