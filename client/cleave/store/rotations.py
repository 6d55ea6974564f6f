"""Notes by which a key finds what a stopped rotation left under another key.

Under another key a table has another folder, whose name only that key can compute. So before a rotation writes
anything, each of the two folders gets a sealed note that names the other. The sweep keeps notes; they go with the
end of the rotation.
"""

from __future__ import annotations

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Stores
from cleave.store.heads import key_moved_to, parsed
from cleave.store.vault import Vault
from cleave_shared.errors import CheckFailed

_PREFIX = "rotation."


class Rotations:
    """The notes in `folder`, which is that of a table under `key`."""

    def __init__(self, stores: Stores, key: OwnerKey, folder: str) -> None:
        self._store = stores.sensitive
        self._key_id = key.key_id
        self._folder = folder
        self._vault = Vault(key, f"rotation {folder}")

    def note(self, folder: str, key_id: str) -> None:
        """Name the table's `folder` under the key `key_id`."""
        place = self._place(key_id)
        if self._store.read_versioned(place) is None:
            self._store.write(place, self._vault.seal("draft", place, folder.encode()))

    def remove(self, key_id: str) -> None:
        self._store.delete([self._place(key_id)])

    def left(self) -> list[str]:
        """Folders of other keys with objects of this table and no table: none is shown there, or it moved here."""
        return [each for each in map(self._noted, filter(is_note, self._store.names(self._folder))) if each]

    def _noted(self, place: str) -> str | None:
        try:
            folder = self._vault.open("draft", place, self._store.read(place)).decode()
        except CheckFailed:  # then it names nothing that may be deleted
            return None
        head = self._store.read_versioned(f"{folder}/head")
        return folder if head is None or key_moved_to(parsed(head[0])) == self._key_id else None

    def _place(self, key_id: str) -> str:
        return f"{self._folder}/{_PREFIX}{key_id}"


def is_note(name: str) -> bool:
    return name.rpartition("/")[2].startswith(_PREFIX)
