"""The evaluation key that the sensitive service packs results with: made when a question first needs it, stored once.

    keys/SET/HASH   the key, in the clear: the first 32 hex digits of its SHA-256 are its name
    keys/SET/head   sealed: which of them is the table's

It is no part of a version of the table, for a question changes none: whoever appends meanwhile would fail. Where it
cannot be stored, results come back one by one.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from cleave.store.manifest import Hex, Object, folder_of_keys
from cleave.store.storage import ConflictError, NotStoredError, Storage, StoreError
from cleave.store.stored import Stored
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, ServiceError
from cleave_shared.packing import PACKING_KEY

_ANOTHER = "questions that need it make another"


class PackingKey(Object):
    """What the owner wrote, under seal."""

    name: Annotated[str, Field(pattern=r"^keys/[0-9a-f]{32}/[0-9a-f]{32}$")]
    format: Literal[1] = 1
    key_id: Hex
    levels: int


class PackingKeys:
    """Of one table, for one question. `folder`: of the table's objects, tables/SET."""

    def __init__(self, storage: Storage, folder: str, stored: Stored) -> None:
        self._storage = storage
        self._folder = folder_of_keys(folder)
        self._head = f"{self._folder}/head"
        self._stored = stored
        self._looked = False
        self._key: PackingKey | None = None

    def key(self) -> PackingKey | None:
        """The table's, made if there is none. None where it cannot be stored; looked for once."""
        if not self._looked:
            self._looked = True
            with contextlib.suppress(StoreError):
                found = self._storage.read_versioned(self._head)
                self._key = (self._opened(found[0]) if found else None) or self._made(found[1] if found else None)
        return self._key

    def damage(self) -> str:
        """What is wrong with the key that is stored; "" where nothing is, or none was made yet. Raises StoreError."""
        found = self._storage.read_versioned(self._head)
        if found is None:
            return ""
        known = self._opened(found[0])
        try:
            content = self._storage.read(known.name, most=known.bytes) if known else b""
        except NotStoredError:
            return f"lost; {_ANOTHER}"
        whole = known is not None and hashlib.sha256(content).hexdigest() == known.sha256
        return "" if whole else f"damaged; {_ANOTHER}"

    @contextlib.contextmanager
    def forgotten_where_refused(self) -> Iterator[None]:
        """A key that a service refuses is deleted: the next question makes another."""
        try:
            yield
        except ServiceError as error:
            if self._key is None or PACKING_KEY not in error.message:
                raise
            with contextlib.suppress(StoreError):
                self._storage.delete(list(self._storage.names(self._folder)))
            raise ServiceError(
                f"{error.message}; it is deleted", hint="ask again: another is made", status=error.status
            ) from None

    def _made(self, expected: str | None) -> PackingKey | None:
        """One in the place of the head that is of version `expected`; or another asker's, whose came first."""
        levels = limits.MAX_PACKING_LEVELS
        content = self._stored.new_packing_key(levels)
        digest = hashlib.sha256(content).hexdigest()
        name = f"{self._folder}/{digest[:32]}"
        self._storage.write(name, content)
        made = PackingKey(name=name, bytes=len(content), sha256=digest, key_id=self._stored.key_id, levels=levels)
        sealed = self._stored.vault.seal(self._head, made.model_dump_json().encode())
        try:
            self._storage.replace(self._head, sealed, expected)
        except ConflictError:
            self._storage.delete([name])
            found = self._storage.read_versioned(self._head)
            return self._opened(found[0]) if found else None
        others = (each for each in self._storage.names(self._folder) if each not in (name, self._head))
        self._storage.delete(list(others))  # what no head tells of any more, or did not yet: its asker uses this one
        return made

    def _opened(self, sealed: bytes) -> PackingKey | None:
        """None for what is not this key's, or of another release, or damaged."""
        try:
            known = PackingKey.model_validate_json(self._stored.vault.open(self._head, sealed))
        except (CheckFailed, ValidationError):
            return None
        fits = known.key_id == self._stored.key_id and known.levels == limits.MAX_PACKING_LEVELS
        return known if fits and known.name.startswith(f"{self._folder}/") else None
