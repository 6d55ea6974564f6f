"""Write a proposed schema as one HTML page, on which a person chooses kinds, sees who will see what, and downloads it.

The page does not write TOML itself: it joins texts that `cleave.table.schema` wrote, one for each choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import tomlkit

from cleave.propose.entity import candidates
from cleave.propose.propose import Examined
from cleave.report.html import html, shown_time
from cleave.table.schema import Column, Kind, Schema, column_text, schema_head
from cleave.text.printable import printable

_WIDEST_CELL = 80  # characters


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a kind means for a column: `sees` says who sees its values, `local` which questions only this machine
    answers then.
    """

    sees: str
    local: str


_SELECTING = "where WHERE or GROUP BY reads it, COUNT(*), and other columns' aggregates that need more than sums"
_NOT_SENT = f"every aggregate of it; {_SELECTING}"
CONSEQUENCES: Mapping[Kind, Consequence] = {
    Kind.PLAIN: Consequence("the plain service and store see every value", "no question but these"),
    Kind.ENCRYPTED: Consequence(
        "the sensitive service adds up ciphertexts and sees no value",
        f"its aggregates that need more than sums, such as MIN, MAX, MEDIAN, MODE and COUNT(DISTINCT); {_SELECTING}",
    ),
    Kind.SEALED: Consequence("nobody sees a value; a store has it encrypted", _NOT_SENT),
    Kind.LOCAL: Consequence("nobody sees it; it never leaves this machine", _NOT_SENT),
}


def review(
    schema: Schema,
    examined: Mapping[str, Examined],
    *,
    table: str,
    created: datetime,
    file: str,
    command: str,
    values: bool,
) -> str:
    """Return the page, which must be written as UTF-8, for a schema that was just proposed.

    `command` checks the downloaded `file`. `values` says that the page shows cells.
    """
    columns = [_shown(column, examined[column.name], values=values) for column in schema.columns]
    privacy, places = schema.privacy, {column.name: place for place, column in enumerate(schema.columns)}
    entity = [places[name] for name in privacy.entity]
    data = {
        "file": file,
        "head": schema_head(schema),
        "columns": [_choices(column, examined[column.name]) for column in schema.columns],
        "entity": entity,
        "candidates": [
            places[name] for name in candidates(schema.columns)
        ],  # the page proposes the first that is not local
        "unsure": privacy.unsure,
        "kinds": {kind: [each.sees, each.local] for kind, each in CONSEQUENCES.items()},
    }
    return html(
        "review.html",
        ["review.js"],
        data,
        title=printable(table),
        created=shown_time(created),
        command=printable(command),
        file=printable(file),
        values=values,
        rows=next(iter(examined.values())).rows,
        columns=columns,
        entity=entity,
        unsure=privacy.unsure,
        consequences=CONSEQUENCES,
    )


def _choices(column: Column, examined: Examined) -> dict[str, object]:
    """Return a column's texts, as it is and for each kind that a person may choose."""
    return {
        "name": tomlkit.item(column.name).as_string(),
        "kind": column.kind,
        "unsure": column.unsure,
        "untouched": column_text(column),
        "chosen": {kind: column_text(each) for kind, each in examined.choices.items()},
    }


def _shown(column: Column, examined: Examined, *, values: bool) -> dict[str, object]:
    cells = examined.values if values else ()
    return {
        "name": printable(column.name),
        "type": printable(column.type),
        "kind": column.kind,
        "unsure": column.unsure,
        "others": [kind for kind in examined.choices if column.unsure or kind is not column.kind],
        "reason": printable(column.reason),
        "figures": examined.figures,
        "values": [_cut(value) for value in cells],
        "changed": [_cut(value) for value in examined.changed or ()] if values else [],
    }


def _cut(value: str) -> str:
    return printable(value if len(value) <= _WIDEST_CELL else f"{value[: _WIDEST_CELL - 3]}...")
