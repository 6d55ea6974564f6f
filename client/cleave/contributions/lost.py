"""Contributions that `collect` does not read, because their registration, key or table no longer exists.

Anyone with an old public file can still put rows with it, and does not learn that they are never collected. Heads of
contributions are signed and not encrypted, so the owner finds these parts and can delete them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from cleave.formats import AnotherRelease
from cleave.objects.storage import StoreError
from cleave.store.contribution import ContributionHead, folder_of, read_head
from cleave.store.manifest import Manifest
from cleave.store.tables import Tables
from cleave.text.quantities import counted
from cleave_shared.errors import CheckFailed


@dataclass(frozen=True, slots=True)
class Lost:
    """A folder with parts that are never collected. `key`: its contributor's. `objects`: all in it except the head.

    The head stays, because the contributor's machine would refuse a store without it.
    """

    key: str
    parts: int
    objects: tuple[str, ...]


def lost_parts(tables: Tables, manifest: Manifest) -> list[Lost]:
    """List what was put for a table by removed contributors, for its previous key, or for a table dropped here.

    Lists the sensitive place, and reads the head of each contribution.
    """
    folders: dict[str, list[str]] = {}
    for name in tables.stores.sensitive.names("tables"):
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    for each in manifest.contributors:
        folders.pop(folder_of(manifest.table_id, each.key), None)
    found: list[Lost] = []
    for folder, names in folders.items():
        place = f"{folder}/head"
        head = _head(tables, folder) if place in names else None
        if head is None or not _is_over(tables, manifest, head):
            continue
        parts = len({each.manifest.name for each in head.parts}.intersection(names))  # others were collected
        if parts:
            found.append(Lost(head.contributor, parts, tuple(each for each in names if each != place)))
    return found


def lost_text(manifest: Manifest, lost: Sequence[Lost]) -> str:
    """Say which contributors' parts cannot be collected, how many, and what to do."""
    names = {each.key: each.name for each in manifest.contributors}
    of = ", ".join(f"{names.get(each.key, each.key[:16] + '...')} ({counted(each.parts, 'part')})" for each in lost)
    return (
        f"not collected, put for an earlier registration or key, or a dropped table: {of}. Have these rows put again "
        f"with a new public file; `cleave contributor clear {manifest.table}` deletes the parts"
    )


def clear(tables: Tables, table: str) -> list[Lost]:
    """Delete the lost parts of a table. Returns what they were."""
    lost = lost_parts(tables, tables.open(table).manifest)
    for each in lost:
        tables.stores.sensitive.delete(each.objects)
    return lost


def _head(tables: Tables, folder: str) -> ContributionHead | None:
    """The head of a contribution in its own folder; None for any other."""
    try:
        read = tables.stores.sensitive.read_versioned(f"{folder}/head")
        fields = json.loads(read[0]) if read else {}
        head = read_head(read[0] if read else b"", fields["contributor"], fields["table_id"], fields["owner"])
    except (AnotherRelease, CheckFailed, StoreError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return head if folder == folder_of(head.table_id, head.contributor) else None


def _is_over(tables: Tables, manifest: Manifest, head: ContributionHead) -> bool:
    """True if a contribution was put for this table, or the table it was before a rotation, or one dropped here."""
    if manifest.table_id in (head.table_id, tables.key.tag(f"rotated {head.table_id}")):
        return True
    return head.owner == tables.key.key_id and tables.was_dropped(head.table_id)
