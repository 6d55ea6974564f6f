"""A table as text or HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cleave.text.printable import printable

GAP = 2  # blanks between two columns
Justify = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a printed table; `note` is printed under its name."""

    name: str
    note: str = ""
    justify: Justify = "left"


def table(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> str:
    """A table as text, as wide as necessary: figures are never cut or wrapped. Cells are made printable."""
    names = [printable(heading.name) for heading in headings]
    notes = [printable(heading.note) for heading in headings]
    cells = [[printable(cell) for cell in row] for row in rows]
    head = [names, notes] if any(notes) else [names]
    widths = widths_of(headings, rows)
    rule = ["-" * width for width in widths]
    lines = []
    for line in [*head, rule, *cells]:
        padded = [
            _pad(cell, width, heading.justify) for cell, width, heading in zip(line, widths, headings, strict=True)
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return "\n".join(lines)


def widths_of(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> list[int]:
    """Width of each column, in characters of a terminal."""
    names = [max(_width(printable(heading.name)), _width(printable(heading.note))) for heading in headings]
    return [max([name, *(_width(printable(row[place])) for row in rows)]) for place, name in enumerate(names)]


def _width(text: str) -> int:
    """Width on a terminal: wide characters take two columns, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _pad(text: str, width: int, justify: Justify) -> str:
    blank = " " * (width - _width(text))
    return text + blank if justify == "left" else blank + text


def html_table(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML, without notes. Names and cells are made printable, and escaped."""

    def row(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align: {heading.justify}">{html.escape(printable(cell))}</{tag}>'
            for heading, cell in zip(headings, cells, strict=True)
        )

    body = "".join(f"<tr>{row('td', cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{row('th', [each.name for each in headings])}</tr></thead><tbody>{body}</tbody></table>"
