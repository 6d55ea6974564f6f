"""Tables of a store by name: opened, committed, listed, dropped. The head is the one commit point of both halves."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cleave.ckks.secret_key import SecretKey
from cleave.store.locate import Stores
from cleave.store.manifest import FORMAT, Manifest, Object, described, new_id
from cleave.store.memory import Memory
from cleave.store.storage import NotStoredError
from cleave.store.vault import DAMAGED, Vault
from cleave_shared.errors import CheckFailed, InputError

_HEAD = "head"
_DRAFT = "draft"
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as one head has it. `head` is what the next commit must still find."""

    manifest: Manifest
    vault: Vault
    head: str


class Tables:
    """What `key` owns in `stores`."""

    def __init__(self, stores: Stores, key: SecretKey, memory: Memory) -> None:
        self._stores = stores
        self._key = key
        self._memory = memory
        self._mac = key.derive("store/head")
        self.objects_read = 0
        self.bytes_read = 0

    def find(self, name: str) -> Opened | None:
        """None where there is none of that name, or all of it is gone. Raises CheckFailed, StoreError."""
        tag = self._tag(name)
        found = self._stores.sensitive.read_versioned(f"tables/{tag}/{_HEAD}")
        seen = self._memory.newest(tag)
        if found is None:
            if seen:
                raise CheckFailed(
                    "stored",
                    f"{self._stores.sensitive.location}: table {name!r} was there and is gone",
                    hint="restore the store; if it was dropped elsewhere, `cleave drop` here forgets it",
                )
            return None
        content, version = found
        head = self._read_head(tag, content)
        if seen and seen[0] == head["table_id"] and head["version"] < seen[1]:
            raise CheckFailed(
                "stored",
                f"{self._stores.sensitive.location}: shows version {head['version']} of table {name!r}, "
                f"and {seen[1]} was here before",
                hint="somebody put an old state back: restore the newest one",
            )
        opened = self._open(head, version)
        if opened.manifest.table.lower() != name.lower():
            raise CheckFailed("stored", "a table's manifest is another table's", hint=DAMAGED)
        self._memory.remember(tag, head["table_id"], head["version"])
        return opened

    def open(self, name: str) -> Opened:
        """Raises InputError where there is no such table under this key."""
        opened = self.find(name)
        if opened is None:
            raise InputError(
                f"{self._stores.sensitive.location}: there is no table {name!r} under this key",
                hint="`cleave ls --store ...` lists the tables there are",
            )
        return opened

    def commit(self, manifest: Manifest, expected: str | None) -> Opened:
        """Make `manifest`, all of whose objects are there, the table's. Raises ConflictError if another came first.

        `expected`: `Opened.head`, None for a new table.
        """
        tag = self._tag(manifest.table)
        vault = Vault(self._key, manifest.table_id)
        written = self.seal(self.folder(manifest.table), vault, manifest.model_dump_json().encode())
        head = {
            "cleave_table": FORMAT,
            "key_id": self._key.key_id,
            "table_id": manifest.table_id,
            "version": manifest.version,
            "manifest": written.model_dump(),
        }
        content = json.dumps({**head, "mac": self._mark(tag, head)}).encode()
        version = self._stores.sensitive.replace(f"tables/{tag}/{_HEAD}", content, expected)
        self._memory.remember(tag, manifest.table_id, manifest.version)
        return Opened(manifest, vault, version)

    def folder(self, name: str) -> str:
        """Where the objects of a table lie, in both stores."""
        return f"tables/{self._tag(name)}"

    def seal(self, folder: str, vault: Vault, content: bytes) -> Object:
        """A new sealed object of the sensitive store."""
        name = f"{folder}/{new_id()}"
        sealed = vault.seal(name, content)
        self._stores.sensitive.write(name, sealed)
        return described(name, sealed)

    def read(self, which: Object, *, plain: bool = False) -> bytes:
        """An object as it was written. Raises CheckFailed for one that is lost or damaged."""
        store = self._stores.plain if plain else self._stores.sensitive
        try:
            content = store.read(which.name)
        except NotStoredError:
            raise CheckFailed("stored", f"{store.location}: an object of the table is lost", hint=DAMAGED) from None
        self.objects_read += 1
        self.bytes_read += len(content)
        if hashlib.sha256(content).hexdigest() != which.sha256:
            raise CheckFailed("stored", f"{store.location}: an object of the table is damaged", hint=DAMAGED)
        return content

    def unseal(self, vault: Vault, which: Object) -> bytes:
        return vault.open(which.name, self.read(which))

    def all(self) -> Iterator[Opened]:
        """Every table under this key, by name; those of other keys are passed over."""
        found = []
        for name in self._stores.sensitive.names("tables"):
            folder, _, last = name.rpartition("/")
            if last == _HEAD and (head := self._stores.sensitive.read_versioned(name)) is not None:
                tag = folder.removeprefix("tables/")
                if _key_id(head[0]) == self._key.key_id:
                    found.append(self._open(self._read_head(tag, head[0]), head[1]))
        yield from sorted(found, key=lambda each: each.manifest.table.lower())

    def drop(self, name: str) -> None:
        """Head first: without it nothing of a table is a table. Objects that nobody names any more go with it."""
        tag = self._tag(name)
        self._stores.sensitive.delete([f"tables/{tag}/{_HEAD}"])
        for store in {id(each): each for each in (self._stores.sensitive, self._stores.plain)}.values():
            store.delete(list(store.names(f"tables/{tag}")))
        self._memory.forget(tag)

    def sweep(self, opened: Opened) -> int:
        """Delete what no manifest names: leftovers of writers that died, and of versions past. Returns how many."""
        tag = self._tag(opened.manifest.table)
        head = self._read_head(tag, self._stores.sensitive.read(f"tables/{tag}/{_HEAD}"))
        kept = opened.manifest.objects() | {head["manifest"]["name"], f"tables/{tag}/{_HEAD}", f"tables/{tag}/{_DRAFT}"}
        swept = 0
        for store in {id(each): each for each in (self._stores.sensitive, self._stores.plain)}.values():
            left = [name for name in store.names(f"tables/{tag}") if name not in kept]
            store.delete(left)
            swept += len(left)
        return swept

    def _tag(self, name: str) -> str:
        return self._key.tag(f"stored table {name.lower()}")

    def _mark(self, tag: str, head: dict[str, Any]) -> str:
        text = json.dumps([tag, head], sort_keys=True, separators=(",", ":"))
        return hmac.digest(self._mac, text.encode(), "sha256").hex()

    def _read_head(self, tag: str, content: bytes) -> dict[str, Any]:
        failed = CheckFailed("stored", f"{self._stores.sensitive.location}: a table's head is damaged", hint=DAMAGED)
        try:
            head: dict[str, Any] = _json(content)
            mark = head.pop("mac")
            if head["cleave_table"] != FORMAT:
                raise failed
            if not hmac.compare_digest(str(mark), self._mark(tag, head)):
                raise failed
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise failed from None
        return head

    def _open(self, head: dict[str, Any], version: str) -> Opened:
        vault = Vault(self._key, head["table_id"])
        content = self.unseal(vault, Object.model_validate(head["manifest"]))
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError:
            raise InputError(
                f"{self._stores.sensitive.location}: a table's manifest is not of this release",
                hint="use the release that wrote it, or a later one",
            ) from None
        if (manifest.table_id, manifest.version) != (head["table_id"], head["version"]):
            raise CheckFailed("stored", "a table's manifest is not its head's", hint=DAMAGED)
        return Opened(manifest, vault, version)


def _json(head: bytes) -> Any:
    if len(head) > _HEAD_BYTES:
        raise ValueError
    return json.loads(head)


def _key_id(head: bytes) -> str | None:
    try:
        content = _json(head)
    except (ValueError, RecursionError):
        return None
    return content.get("key_id") if isinstance(content, dict) else None


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
