"""Refuses changes that would tell the plain place or analysts too much, unless the owner confirms."""

from __future__ import annotations

from collections.abc import Collection

from cleave.table.schema import Schema
from cleave_shared.errors import InputError


def require_word(schema: Schema, read: Collection[str], reveals: str, *, yes: bool) -> None:
    """Raise InputError, without `yes`, if a change tells the plain place something that depends on other than plain
    columns.

    `read`: columns that select the rows. `reveals`: what it would learn.
    """
    if not yes and (others := sorted({*read}.difference(schema.plain))):
        raise InputError(
            f"the plain place would learn {reveals}, chosen by columns that are not plain: {', '.join(others)}",
            hint="--dry-run of delete and update shows what would change; confirm with --yes (yes=True in Python)",
        )
