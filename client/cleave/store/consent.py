"""Refusals of changes by which the plain place or analysts would learn too much, unless their owner says yes."""

from __future__ import annotations

from collections.abc import Collection

from cleave.table.schema import Schema
from cleave_shared.errors import InputError


def require_word(schema: Schema, read: Collection[str], reveals: str, *, yes: bool) -> None:
    """Raise InputError without the owner's word for what the plain place could not know by itself."""
    if not yes and (others := sorted({*read}.difference(schema.plain))):
        raise InputError(
            f"the plain place would learn {reveals}, chosen by columns that are not plain: {', '.join(others)}",
            hint="--dry-run of delete and update shows what would change; confirm with --yes (yes=True in Python)",
        )
