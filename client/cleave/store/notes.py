"""Notes of a rotation: they name the folder that a table has under another key, in case the rotation is stopped.

A table has another folder under another key, whose name only that key can compute. A sealed note names this folder.
Sweeps keep notes; the end of the rotation deletes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cleave.store.heads import key_moved_to, parsed, place_before
from cleave.store.newest import HEAD
from cleave.store.reader import Objects
from cleave.store.vault import Vault
from cleave_shared.errors import CheckFailed

_NOTE = "rotation."


def note(tables: Objects, name: str, other: Objects) -> None:
    """Note where the table is stored under the key of `other`."""
    place = _note(tables, name, other)
    if tables.stores.sensitive.read_versioned(place) is None:
        content = _vault(tables, tables.folder(name)).seal("draft", place, other.folder(name).encode())
        tables.stores.sensitive.write(place, content)
        tables.stores.sensitive.flush([tables.folder(name)])


def drop_note(tables: Objects, name: str, other: Objects) -> None:
    tables.stores.sensitive.delete([_note(tables, name, other)])


def notes_in(tables: Objects, folder: str) -> list[str]:
    """The names of the notes in a folder. Raises StoreError."""
    return [each for each in tables.stores.sensitive.names(folder) if each.rpartition("/")[2].startswith(_NOTE)]


def folder_noted(tables: Objects, note: str) -> str:
    """The folder that a note names. Raises CheckFailed, StoreError."""
    content = tables.stores.sensitive.read(note)
    return _vault(tables, note.rpartition("/")[0]).open("draft", note, content).decode()


def left_elsewhere(tables: Objects, folder: str, *, copies: bool = False) -> Iterator[str]:
    """Yield folders under other keys that have objects of a table but no table, and those of its drafts: no table
    is there, or it moved here.

    `copies`: this one is a table that did not move, so copies of it are none.
    """
    for place in notes_in(tables, folder):
        with contextlib.suppress(CheckFailed):  # then it names nothing that may be deleted
            folder_left = folder_noted(tables, place)
            head = tables.stores.sensitive.read_versioned(f"{folder_left}/{HEAD}")
            fields = parsed(head[0]) if head is not None else {}
            is_copy = copies and place_before(fields) == folder
            if head is None or is_copy or key_moved_to(fields) == tables.key.key_id:
                yield folder_left.replace("tables/", "drafts/", 1)
                yield folder_left


def _note(tables: Objects, name: str, other: Objects) -> str:
    return f"{tables.folder(name)}/{_NOTE}{other.key.key_id}"


def _vault(tables: Objects, folder: str) -> Vault:
    return tables.vault(f"rotation {folder}")
