"""Show a schema as `cleave schema` prints it: as text for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.text.printable import printable
from cleave.text.tabular import Heading, table

if TYPE_CHECKING:
    from cleave.table.schema import Column, Schema

_NAMED = 10  # column names in a message; more are only counted
_WIDEST_CELL = 40  # characters
_GROUPED = 4  # columns with one reason that share a line


def entity_text(schema: Schema) -> str:
    return printable(", ".join(schema.privacy.entity))


def people_text(schema: Schema) -> str:
    return f"whom a row is about: {entity_text(schema) or 'not named'}; thresholds count {schema.privacy.counted}"


def schema_text(columns: Sequence[Column], values: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return a table of the columns. Several with equal kind, type and reason share a line, except plain ones: a
    reviewer must see the name of each.

    `values` are cells to show for each column, only on a terminal; then every column has its own line.
    """
    headings = [Heading("column"), Heading("kind"), Heading("type"), Heading("reason")]
    if values is not None:
        rows = [[each.name, each.kind, each.type, _cells(values.get(each.name, ())), each.reason] for each in columns]
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


def proposal_text(
    schema: Schema, changed: Mapping[str, tuple[str, str]], values: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the proposal with fields that change as text. Show it only on a terminal: it quotes cells."""
    changes = [
        f"{printable(name)}: {printable(_cells([field]))} comes back as {printable(_cells([back]))}"
        for name, (field, back) in changed.items()
    ]
    people = [people_text(schema)] if schema.privacy.entity else []
    return "\n".join([schema_text(schema.columns, values), *people, *changes])


def _cells(values: Sequence[str]) -> str:
    return ", ".join(each if len(each) <= _WIDEST_CELL else f"{each[: _WIDEST_CELL - 3]}..." for each in values)


def unsure_of(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.unsure]


def listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(printable, names[:_NAMED])) + more


def schema_json(schema: Schema, target: Path) -> str:
    """Return the JSON of `cleave schema --json`. Bounds are text, because a JSON number may lose digits."""
    return json.dumps(
        {
            "schema": str(target),
            "columns": [_column(column) for column in schema.columns],
            "unsure": unsure_of(schema),
            "entity": list(schema.privacy.entity),
            "entity_unsure": schema.privacy.unsure,
        }
    )


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": str(column.kind),
        "type": column.type,
        "nullable": column.nullable,
        "lower": None if column.lower is None else f"{column.lower:f}",
        "upper": None if column.upper is None else f"{column.upper:f}",
        "reason": column.reason,
        "unsure": column.unsure,
    }
