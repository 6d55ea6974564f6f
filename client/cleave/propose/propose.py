"""A first schema for a CSV file: sniffed, typed, judged column by column."""

from __future__ import annotations

from pathlib import Path

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import Facts, propose_kind
from cleave.propose.infer import infer
from cleave.propose.sniff import sniff
from cleave.table.schema import Column, Kind, Schema
from cleave.table.source import column_names
from cleave.table.table import open_table
from cleave.table.types import decimals_of
from cleave_shared.errors import InputError


def propose(path: Path) -> Schema:
    """Raises InputError for a file that cannot be read or has no rows to judge by."""
    dialect = sniff(path)
    names = column_names(path, dialect)
    as_text = Schema(tuple(Column(name, Kind.LOCAL, "VARCHAR") for name in names), dialect)
    with open_table(path, as_text) as text:
        if text.rows == 0:
            raise InputError(
                f"{path}: has a header and no rows, so there is nothing to judge its columns by",
                hint="add rows, or write the schema by hand",
            )
        dialect, facts = infer(text)
        return Schema(with_bounds(text, list(map(_column, facts)), dialect), dialect)


def _column(facts: Facts) -> Column:
    kind, reason = propose_kind(facts)
    reason = f"{reason}; {facts.note}" if facts.note else reason
    return Column(facts.name, kind, facts.type, decimals_of(facts.type), reason=reason)
