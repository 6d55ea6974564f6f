"""A schema as `cleave schema` prints it: text for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.text.printable import printable
from cleave.text.tabular import Heading, table

if TYPE_CHECKING:
    from cleave.table.schema import Column, Schema

_NAMED = 10  # columns that a message names before it only counts
_WIDEST_CELL = 40  # characters
_GROUPED = 4  # columns of one reason that share a line


def entity_text(schema: Schema) -> str:
    return printable(", ".join(schema.privacy.entity))


def people_text(schema: Schema) -> str:
    return f"whom a row is about: {entity_text(schema) or 'not named'}; thresholds count {schema.privacy.counted}"


def schema_text(columns: Sequence[Column], values: Mapping[str, Sequence[str]] | None = None) -> str:
    """Columns of a schema, to be judged one by one; those of equal kind, type and reason in one line, if they are many.

    `values`: cells to show of each, on a terminal only; then every column has a line.
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
        many = len(names) >= _GROUPED
        shown = [f"{names[0]}, {names[1]} and {len(names) - 2:,} more"] if many else names
        rows += [[name, kind, type_, reason] for name in shown]
    return table(headings, rows)


def proposal_text(
    schema: Schema, changed: Mapping[str, tuple[str, str]], values: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The proposal, with what comes back as another text than it was. Both quote cells: on a terminal only."""
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
    """The shape of `cleave schema --json`; bounds are text, for a JSON number may lose digits."""
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
