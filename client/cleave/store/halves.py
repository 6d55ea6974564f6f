"""Which half of a segment holds a column, and the file of its sealed ones."""

from __future__ import annotations

from cleave.table.schema import Column, Kind
from cleave.table.table import Table
from cleave.table.types import is_number


def half_of(column: Column) -> str:
    """Where a column is stored: encrypted, sealed or plain. Encrypted dates and the like are sealed."""
    if column.kind is Kind.ENCRYPTED:
        return "encrypted" if is_number(column.type) or column.type == "BOOLEAN" else "sealed"
    return str(column.kind)


def columns_by_half(table: Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"plain": [], "encrypted": [], "sealed": [], "local": []}
    for column in table.schema.columns:
        found[half_of(column)].append(column.name)
    return found


def is_text_in_parquet(column: Column) -> bool:
    return column.type == "INTERVAL"
