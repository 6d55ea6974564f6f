"""Show the columns of a schema as a table, for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cleave.text.printable import printable
from cleave.text.tabular import Heading, table

if TYPE_CHECKING:
    from cleave.table.privacy import Privacy

_WIDEST_CELL = 40  # characters
_GROUPED = 4  # columns with one reason that share a line
_HEADINGS = ("column", "kind", "type", "reason")


class _ShownColumn(Protocol):
    """cleave.table.schema.Column, which imports this module."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def reason(self) -> str: ...


class _Schema(Protocol):
    @property
    def columns(self) -> Sequence[_ShownColumn]: ...

    @property
    def privacy(self) -> Privacy: ...


def entity_text(schema: _Schema) -> str:
    return printable(", ".join(schema.privacy.entity))


def people_text(schema: _Schema) -> str:
    return f"whom a row is about: {entity_text(schema) or 'not named'}; thresholds count {schema.privacy.counted}"


def schema_text(columns: Sequence[_ShownColumn], values: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return a table of the columns. Several with equal kind, type and reason share a line, except plain ones: a
    reviewer must see the name of each.

    `values` are cells to show for each column, only on a terminal; then every column has its own line.
    """
    headings = [*map(Heading, _HEADINGS)]
    if values is not None:
        rows = [
            [each.name, each.kind, each.type, cells_text(values.get(each.name, ())), each.reason] for each in columns
        ]
        return table([*headings[:3], Heading("values"), headings[3]], rows)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in columns:
        groups.setdefault((each.kind, each.type, each.reason), []).append(each.name)
    rows = []
    for (kind, type_, reason), names in groups.items():
        many = len(names) >= _GROUPED and kind != "plain"
        shown = [f"{names[0]}, {names[1]} and {len(names) - 2:,} more"] if many else names
        rows += [[name, kind, type_, reason] for name in shown]
    return table(headings, rows)


def cells_text(values: Sequence[str]) -> str:
    return ", ".join(each if len(each) <= _WIDEST_CELL else f"{each[: _WIDEST_CELL - 3]}..." for each in values)


def schema_repr(schema: _Schema) -> str:
    people = [people_text(schema)] if schema.privacy.entity else []
    return "\n".join([schema_text(schema.columns), *people])


def schema_html(schema: _Schema) -> str:
    """Return the table as HTML, a line for each column."""
    rows = [[each.name, each.kind, each.type, each.reason] for each in schema.columns]
    lines = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    people = f"<p>{_escaped(people_text(schema))}</p>" if schema.privacy.entity else ""
    head = "".join(f"<th>{each}</th>" for each in _HEADINGS)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{people}"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
