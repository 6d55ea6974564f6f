"""Refuses changes that would tell the plain place or analysts too much, unless the owner confirms."""

from __future__ import annotations

from collections.abc import Collection

from cleave.store.manifest import Manifest
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


def require_no_reader(manifest: Manifest, would: str) -> None:
    """Raise InputError if readers of the table would read what their owner has not confirmed. `would`: what."""
    if manifest.readers:
        names = [each.name for each in manifest.readers]
        raise InputError(
            f"readers of this table ({', '.join(names)}) would read {would}",
            hint=f"first: cleave reader revoke {manifest.table} {names[0]}; then add it again, with --yes",
        )
