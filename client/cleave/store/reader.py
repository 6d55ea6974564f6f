"""Objects of all tables of one key: sealed and written; read and compared with the manifest.

Objects of remote stores are read through the local cache.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.objects.cache import WHOLE, Cache
from cleave.objects.locate import Stores, scheme_of
from cleave.objects.storage import NotStoredError, Storage, read_twice
from cleave.store.heads import TableHead
from cleave.store.manifest import Manifest, Object, described, is_content, new_id
from cleave.store.vault import Purpose, Vault
from cleave_shared.errors import DAMAGED, CheckFailed
from cleave_shared.params import PROFILES, Profile

if TYPE_CHECKING:
    from cleave.store.cells import Cells

_SEALED_BYTES = 1024  # added to small objects by sealing and padding, at most


@dataclass(frozen=True, slots=True)
class Opened:
    """A table, as described by one head.

    `head_etag`: the head's version in the store. `others`: names of columns that a reader has no keys of, if it may
    know them.
    """

    manifest: Manifest
    vault: Vault
    head: TableHead
    head_etag: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cached:
    """An object in the cache. `vault` seals objects that are plain in their store."""

    cache: Cache
    table: str
    name: str
    vault: Vault | None

    def get(self, block: int | str, size: int) -> bytes | None:
        """The cached bytes of an object part with `size` bytes in the store, or None.

        Raises CheckFailed for an entry that was not sealed here.
        """
        entry = f"{self.name}-{block}"
        if self.vault is None:
            content = self.cache.get(self.table, entry, size)
            return content if content is None or len(content) == size else None
        sealed = self.cache.get(self.table, entry, 2 * size + _SEALED_BYTES)
        return None if sealed is None else self.vault.open("cache", entry, sealed)

    def put(self, block: int | str, content: bytes | None) -> None:
        entry = f"{self.name}-{block}"
        if content:
            self.cache.put(self.table, entry, self.vault.seal("cache", entry, content) if self.vault else content)


_LOST = f"{DAMAGED}; a copy or a replica whose objects are still to come is whole later"


class LostError(CheckFailed):
    """An object that a version names is missing. It is damage only if the newest version names it too
    (cleave.store.changed).

    `name`: of the object. `is_named()`: whether the newest version names it. `is_damage`: True once that was found.
    """

    name: str

    def __init__(self, message: str, name: str, is_named: Callable[[], bool], hint: str = _LOST) -> None:
        super().__init__("stored", message, hint=hint)
        self.name = name
        self.is_named = is_named
        self.is_damage = False


class Objects:
    """Objects of all tables of `key` in `stores`."""

    has_totals = True  # False for readers of some columns, who have no key of totals

    def __init__(self, stores: Stores, key: OwnerKey, cache: Cache | None = None) -> None:
        """`cache`: for objects of remote stores."""
        self.stores = stores
        self._where = stores.where
        self.key = key
        self.cache = cache
        self._counting = threading.Lock()  # threads read objects in parallel
        self.objects_read = 0
        self.bytes_read = 0

    @property
    def places(self) -> tuple[str, str]:
        """Locations of the sensitive and the plain half."""
        return self.stores.sensitive.location, self.stores.plain.location

    def close(self) -> None:
        """Trim the cache to its limit."""
        if self.cache is not None:
            self.cache.close()

    def reset_counts(self) -> None:
        """Reset the counts of objects and bytes read."""
        with self._counting:
            self.objects_read = self.bytes_read = 0

    def folder(self, name: str) -> str:
        """The folder of a table's objects, in both stores."""
        return f"tables/{self.tag(name)}"

    def released(self, table_id: str) -> str:
        """The folder of the totals that a table's analysts read."""
        return f"releases/{self.key.tag(f'releases of {table_id}')}"

    def folders(self, manifest: Manifest) -> list[str]:
        """The folders of all objects of a table."""
        more = [self.released(manifest.table_id)] if manifest.release is not None else []
        return [self.folder(manifest.table), *more]

    def vault(self, table_id: str) -> Vault:
        return Vault(self.key, table_id)

    def cells(self, opened: Opened) -> Cells:
        return self.cells_in(opened.vault, opened.manifest)

    def cells_in(self, vault: Vault, manifest: Manifest) -> Cells:
        from cleave.store.cells import load_cells  # noqa: PLC0415 - DuckDB, numpy: a list of tables does not need it

        return load_cells(self.unseal(vault, "cells", each) for each in manifest.cells)

    def write(self, folder: str, content: bytes, *, plain: bool = False) -> Object:
        """Write a new object to either store, unsealed."""
        name = f"{folder}/{new_id()}"
        self._place(plain=plain).write(name, content)
        return described(name, content)

    def seal(self, folder: str, vault: Vault, purpose: Purpose, content: bytes, longest: int = 0) -> Object:
        """Write a new sealed object to the sensitive store. `longest`: as for `cleave.store.padding.room`."""
        name = f"{folder}/{new_id()}"
        sealed = vault.seal(purpose, name, content, longest)
        self.stores.sensitive.write(name, sealed)
        return described(name, sealed)

    def seal_cells(self, manifest: Manifest, cells: Cells, before: Cells | None = None) -> tuple[Object, ...]:
        """Write the sealed pages of a table's cells.

        `before`: those of `manifest`, if rows were only added to them. Then unchanged pages are kept, unless a by
        column is not plain: which pages change must not depend on values that are not plain.
        """
        from cleave.store.schemas import load_stored_schema  # noqa: PLC0415 - as above

        old = [] if before is None else before.pages()
        if old and not {*manifest.by} <= {*load_stored_schema(manifest).plain}:
            old = []
        folder, vault, longest = self.folder(manifest.table), self.vault(manifest.table_id), cells.longest
        return tuple(
            manifest.cells[at] if old[at : at + 1] == [each] else self.seal(folder, vault, "cells", each, longest)
            for at, each in enumerate(cells.pages())
        )

    def drafts(self, name: str) -> str:
        """The folder of the drafts of changes of a table."""
        return f"drafts/{self.tag(name)}"

    def draft_vault(self, name: str) -> Vault:
        """What seals them."""
        return Vault(self.key, f"draft {self.tag(name)}")

    def read(self, which: Object, *, plain: bool = False, cached: bool = True) -> bytes:
        """An object as written. Raises CheckFailed if it is missing or damaged.

        `cached` False: do not put it into the local cache.
        """

        def written(content: bytes) -> bytes:
            if not is_content(content, which):
                place = self._place(plain=plain).location
                raise CheckFailed("stored", f"{place}: an object of the table is damaged", hint=DAMAGED)
            return content

        entry = self.cached(which, plain=plain) if cached else None
        with contextlib.suppress(CheckFailed):
            if entry is not None and (copy := entry.get(WHOLE, which.bytes)) is not None:
                return written(copy)
        content = read_twice(lambda: self._read(which, 0, None, plain=plain), written)
        if entry is not None:
            entry.put(WHOLE, content)
        return content

    def read_blocks(self, which: Object, start: int, first: int, sizes: Sequence[int], *, again: bool = False) -> bytes:
        """The sealed blocks of an object from number `first`, with these `sizes`, starting at byte `start`. They are
        not checked.

        `again`: do not use cached ones. Raises LostError.
        """
        cached = self.cached(which)
        if cached is None:
            return self._read(which, start, start + sum(sizes))
        ends = list(itertools.accumulate(sizes, initial=start))
        blocks = [None if again else cached.get(first + place, size) for place, size in enumerate(sizes)]
        for missing, places in itertools.groupby(range(len(sizes)), lambda place: blocks[place] is None):
            if not missing:
                continue
            run = list(places)
            content = self._read(which, ends[run[0]], ends[run[-1] + 1])
            for place in run:
                blocks[place] = content[ends[place] - ends[run[0]] : ends[place + 1] - ends[run[0]]]
                cached.put(first + place, blocks[place])
        return b"".join(each for each in blocks if each is not None)

    def cached(self, which: Object, *, plain: bool = False) -> _Cached | None:
        """An object's place in the cache; None for a store on this machine."""
        if self.cache is None or not scheme_of(self._place(plain=plain).location).is_remote:
            return None
        _, tag, name = which.name.split("/")
        return _Cached(self.cache, self.seen(tag), name, Vault(self.key, f"cache {tag}") if plain else None)

    @property
    def is_elsewhere(self) -> bool:
        """True if reads go over a network."""
        return any(scheme_of(place).is_remote for place in self.places)

    def _read(self, which: Object, start: int, stop: int | None, *, plain: bool = False) -> bytes:
        store = self._place(plain=plain)
        try:
            content = store.read(which.name, start, stop, which.bytes)
        except NotStoredError:
            message = f"{store.location}: an object of the table is lost"
            raise LostError(message, which.name, partial(self.is_named, which.name)) from None
        with self._counting:
            self.objects_read += 1
            self.bytes_read += len(content)
        return content

    def is_named(self, name: str) -> bool:  # noqa: ARG002 - whatever it is
        """True if the newest version of its table names an object. Here no newer version is known."""
        return True

    def _place(self, *, plain: bool) -> Storage:
        return self.stores.plain if plain else self.stores.sensitive

    def new_secret(self, name: str, table_id: str, profile: Profile) -> Object:
        """The sealed object of a new CKKS secret for table `name`."""
        return self.seal(self.folder(name), self.vault(table_id), "ckks", fresh_key(profile).secret)

    def secret(self, manifest: Manifest) -> SecretKey:
        """The CKKS secret of a table. Raises CheckFailed, StoreError."""
        secret, table_id = self.unseal(self.vault(manifest.table_id), "ckks", manifest.secret), manifest.table_id
        return SecretKey(table_id, PROFILES[manifest.profile], secret, self.key.derive(f"store/sentinels/{table_id}"))

    def unseal(self, vault: Vault, purpose: Purpose, which: Object) -> bytes:
        return vault.open(purpose, which.name, self.read(which))

    def tag(self, name: str) -> str:
        return self.key.tag(f"stored table {name.lower()}")

    def seen(self, tag: str) -> str:
        """The name under which this machine remembers the table in this store: two stores may have tables of
        one name.
        """
        return self.key.tag(f"seen {tag} {self._where}")
