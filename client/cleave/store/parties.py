"""Find the folders of a table's contributors, analysts and readers by their heads, which are in the clear.

The table's manifest names these folders. If it is damaged, refused or deleted, each head still says of which table it
is, and an analyst's or reader's head also of which owner.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cleave.ckks.owner_key import OwnerKey, encoded
from cleave.objects.storage import ForeignError, Storage
from cleave.store.contribution import folder_of
from cleave.store.newest import HEAD
from cleave_shared import limits


@dataclass(frozen=True, slots=True)
class Parties:
    """`folders`: of a table's parties. `unknown`: folders without a readable head, which may be theirs too."""

    folders: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def parties_of(store: Storage, key: OwnerKey, table_ids: Collection[str]) -> Parties:
    """The parties of the tables with these ids, which `key` owns. Reads every head of the store. Raises StoreError."""
    signing = encoded(key.signing_key().public_key().public_bytes_raw())
    folders: list[str] = []
    unknown: list[str] = []
    for top in ("tables", "releases"):
        names = set(store.names(top))
        for folder in sorted({each.rpartition("/")[0] for each in names}):
            name = f"{folder}/{HEAD}"
            if name not in names and top == "releases":  # totals that analysts read: the owner knows their folder
                continue
            head = _head(store, name) if name in names else None
            if head is None:
                unknown.append(folder)
                continue
            table_id, contributor = str(head.get("table_id")), str(head.get("contributor"))
            is_own = head.get("signing") == signing if top == "releases" else folder == folder_of(table_id, contributor)
            if table_id in table_ids and is_own:
                folders.append(folder)
    return Parties(tuple(folders), tuple(unknown))


def _head(store: Storage, name: str) -> dict[str, Any] | None:
    """The fields of a head by any writer; None if it cannot be read."""
    try:
        stored = store.read_versioned(name, limits.MAX_HEAD_BYTES)
        head = json.loads(stored[0]) if stored else None
    except (ForeignError, ValueError, RecursionError):
        return None
    return head if isinstance(head, dict) else None
