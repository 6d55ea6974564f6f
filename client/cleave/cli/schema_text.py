"""Show a schema as `cleave schema` prints it: as text for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.table.shown import cells_text, people_text, schema_text
from cleave.text.printable import printable

if TYPE_CHECKING:
    from cleave.table.schema import Column, Schema

_NAMED = 10  # column names in a message; more are only counted


def proposal_text(
    schema: Schema, changed: Mapping[str, tuple[str, str]], values: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the proposal with fields that change as text. Show it only on a terminal: it quotes cells."""
    changes = [
        f"{printable(name)}: {printable(cells_text([field]))} comes back as {printable(cells_text([back]))}"
        for name, (field, back) in changed.items()
    ]
    people = [people_text(schema)] if schema.privacy.entity else []
    return "\n".join([schema_text(schema.columns, values), *people, *changes])


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
