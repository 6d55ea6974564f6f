"""Tables of a store by name: opened, committed, listed, dropped. The head is the one commit point of both halves."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.objects.cache import WHOLE, Cache
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError, NotStoredError, Storage, read_twice, replaced
from cleave.store.cells import Cells, load_cells
from cleave.store.contribution import folder_of
from cleave.store.heads import Heads, key_moved_to, parsed
from cleave.store.index import Index, load_index
from cleave.store.manifest import Manifest, Object, Segment, described, new_id
from cleave.store.memory import Memory
from cleave.store.rotations import Rotations, is_note
from cleave.store.vault import Purpose, Vault
from cleave.text.nearest import did_you_mean
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import DAMAGED, CheckFailed, CleaveError, InputError
from cleave_shared.params import PROFILES, Profile

if TYPE_CHECKING:
    from cleave.table.progress import Progress

_HEAD = "head"
_DRAFT = "draft"
_TOGETHER = 1000  # objects that are deleted at once: as many as S3 takes
_SEALED_BYTES = 1024  # that sealing and padding add to small objects, at most
_TRIES = 4  # to read a table that others change meanwhile


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as one head has it. `head` is what the next commit must still find; `before`: the objects of its folder,
    by store, that were there before it was committed here.
    """

    manifest: Manifest
    vault: Vault
    head: str
    before: tuple[tuple[Storage, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Cached:
    """One object in the cache. `vault` seals what is plain in its store, and would be plain here too."""

    cache: Cache
    table: str
    name: str
    vault: Vault | None

    @property
    def is_there(self) -> bool:
        return self.cache.has(self.table, f"{self.name}-{WHOLE}")

    def get(self, block: int | str, size: int) -> bytes | None:
        """What has `size` bytes in the store. Raises CheckFailed for an entry that was not sealed here."""
        entry = f"{self.name}-{block}"
        if self.vault is None:
            found = self.cache.get(self.table, entry, size)
            return found if found is None or len(found) == size else None
        sealed = self.cache.get(self.table, entry, 2 * size + _SEALED_BYTES)
        return None if sealed is None else self.vault.open("cache", entry, sealed)

    def put(self, block: int | str, content: bytes | None) -> None:
        entry = f"{self.name}-{block}"
        if content:
            self.cache.put(self.table, entry, self.vault.seal("cache", entry, content) if self.vault else content)


class LostError(CheckFailed):
    """An object that a manifest names is not there: harmed, or of a version that a later one has replaced."""


class Tables:
    """What `key` owns in `stores`."""

    def __init__(self, stores: Stores, key: OwnerKey, memory: Memory, cache: Cache | None = None) -> None:
        """`cache`: what was read of stores that are not folders of this machine, where it is to be kept or deleted."""
        self.stores = stores
        self.key = key
        self._memory = memory
        self._cache = cache
        self._heads = Heads(key, stores.sensitive.location)
        self._counting = threading.Lock()  # objects are read side by side
        self.objects_read = 0
        self.bytes_read = 0

    @property
    def places(self) -> tuple[str, str]:
        """Where the sensitive and the plain half rest."""
        return self.stores.sensitive.location, self.stores.plain.location

    def close(self) -> None:
        """Hold the cache to its limit."""
        if self._cache is not None:
            self._cache.close()

    def count_anew(self) -> None:
        """What is read from here on is counted from nothing."""
        with self._counting:
            self.objects_read = self.bytes_read = 0

    def find(self, name: str) -> Opened | None:
        """None where there is none of that name, or all of it is gone. Raises CheckFailed, StoreError."""
        tag = self._tag(name)
        opened = self._latest(tag)
        if opened is None and self._newest(tag):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {name!r} was there and is gone",
                hint="restore the store; if it was dropped elsewhere, `cleave drop NAME --forget` here",
            )
        if opened is not None and opened.manifest.table.lower() != name.lower():
            raise CheckFailed("stored", "a table's manifest is another table's", hint=DAMAGED)
        return opened

    def _latest(self, tag: str) -> Opened | None:
        for left in reversed(range(_TRIES)):
            seen = self._newest(tag)  # before the head: others here may commit in between
            found = self._found_head(tag)
            if found is None:
                return None
            try:
                return self._believed(tag, *found, seen)
            except LostError:  # whoever committed since has deleted what this head named
                if not left:
                    raise
        return None

    def _found_head(self, tag: str) -> tuple[dict[str, Any], str] | None:
        """The head, which bears the owner's mark, and its version in the store. Raises CheckFailed."""

        def marked(found: tuple[bytes, str] | None) -> tuple[dict[str, Any], str] | None:
            return (self._heads.load(tag, found[0]), found[1]) if found else None

        return read_twice(lambda: self.stores.sensitive.read_versioned(f"tables/{tag}/{_HEAD}"), marked)

    def _believed(self, tag: str, head: dict[str, Any], version: str, seen: tuple[str, int] | None) -> Opened:
        """What a head shows, unless a newer version or another table was seen here in its place."""
        self._require_not_moved(head)
        if seen and seen[0] == head["table_id"] and head["version"] < seen[1]:
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: shows version {head['version']} of a table, "
                f"and {seen[1]} was here before",
                hint="somebody put an old state back: restore the newest one",
            )
        cached = self._cached(Object.model_validate(head["manifest"]))
        known = cached is not None and cached.is_there
        opened = self._open(head, version)
        if seen and seen[0] != head["table_id"]:
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} is not the one seen here before",
                hint="if it was dropped and put anew elsewhere, `cleave drop NAME --forget` here, and ask again",
            )
        self._memory.remember(self._seen(tag), head["table_id"], head["version"])
        if not known:
            self._evict_older(tag, opened.manifest, head["manifest"]["name"])
        return opened

    def _newest(self, tag: str) -> tuple[str, int] | None:
        """The newest version that was seen here, or that the key file was copied with."""
        seen, floor = self._memory.newest(self._seen(tag)), self.key.floors.get(tag)
        if floor:
            forgotten = self._memory.newest(self._forgotten(tag))
            if forgotten and forgotten[0] == floor[0] and forgotten[1] >= floor[1]:
                floor = None
        return max((each for each in (seen, floor) if each), key=lambda each: each[1], default=None)

    def open(self, name: str) -> Opened:
        """Raises InputError where there is no such table under this key."""
        opened = self.find(name)
        if opened is None:
            raise self._no_table(name)
        return opened

    def _no_table(self, name: str) -> InputError:
        near = ""
        with contextlib.suppress(CleaveError):  # of other tables, which may be damaged
            near = did_you_mean(name, [each.manifest.table for each in self.all()])
        return InputError(
            f"{self.stores.sensitive.location}: there is no table {name!r} under this key",
            hint=near or "`cleave ls --store ...` lists the tables there are",
        )

    def commit(self, manifest: Manifest, expected: str | None) -> Opened:
        """Make `manifest`, all of whose objects are there, the table's. Raises ConflictError if another came first.

        `expected`: `Opened.head`, None for a new table.
        """
        tag = self._tag(manifest.table)
        before = tuple((store, tuple(store.names(f"tables/{tag}"))) for store in self.stores.apart())
        vault = self.vault(manifest.table_id)
        written = self.seal(self.folder(manifest.table), vault, "manifest", manifest.model_dump_json().encode())
        if written.bytes > limits.MAX_MANIFEST_BYTES:
            raise InputError(f"table {manifest.table!r} consists of too many objects", hint="put it as several tables")
        head = {
            "table_id": manifest.table_id,
            "version": manifest.version,
            "manifest": written.model_dump(),
        }
        content = self._heads.dump(tag, head)
        version = replaced(self.stores.sensitive, f"tables/{tag}/{_HEAD}", content, expected)
        self._memory.remember(self._seen(tag), manifest.table_id, manifest.version)
        self._evict_older(tag, manifest, written.name)
        return Opened(manifest, vault, version, before)

    def change(self, before: Opened, manifest: Manifest, what: str, *, rows: int | None = None) -> Opened:
        """Commit `manifest`, made of that of `before`, as its next version. `rows`: that were added; None: those more
        than before. Raises ConflictError if another change came first.
        """
        more = manifest.rows - before.manifest.rows if rows is None else rows
        return self.commit(manifest.next(what, more), before.head)

    def _evict_older(self, tag: str, manifest: Manifest, name: str) -> None:
        """Delete from the cache what a version does not name."""
        if self._cache is not None and self.is_elsewhere:
            names = {each.rpartition("/")[2] for each in (*manifest.objects(), name)}
            self._cache.open_version(self._seen(tag), f"{name.rpartition('/')[2]}-{WHOLE}", names)

    def _evict(self, name: str) -> None:
        """Delete from the cache all of a table."""
        if self._cache is not None and self.is_elsewhere:
            self._cache.evict(self._seen(self._tag(name)))

    def forget(self, name: str) -> None:
        """Forget what was seen of a table here, and what the key file says of it. Nothing in the store changes."""
        tag = self._tag(name)
        self._evict(name)
        self._memory.forget(self._seen(tag))
        if tag in self.key.floors:  # the key file stays as it is: it may be wrapped
            self._memory.remember(self._forgotten(tag), *self.key.floors[tag])

    def replaced(self, opened: Opened) -> bool:
        """Whether the table has another head by now."""
        found = self.stores.sensitive.read_versioned(f"tables/{self._tag(opened.manifest.table)}/{_HEAD}")
        return found is None or found[1] != opened.head

    @contextlib.contextmanager
    def changing(self, opened: Opened) -> Iterator[None]:
        """What is lost to a writer because another came first, and deleted it, is a ConflictError."""
        try:
            yield
        except LostError:
            if not self.replaced(opened):
                raise
            location = self.stores.sensitive.location
            raise ConflictError(f"{location}: the table was changed by somebody else meanwhile") from None

    def folder(self, name: str) -> str:
        """Where the objects of a table lie, in both stores."""
        return f"tables/{self._tag(name)}"

    def vault(self, table_id: str) -> Vault:
        """What seals the objects of a table."""
        return Vault(self.key, table_id)

    def cells(self, opened: Opened) -> Cells:
        return load_cells(self.unseal(opened.vault, "cells", opened.manifest.cells))

    def index(self, opened: Opened, segment: Segment) -> Index:
        return load_index(self.unseal(opened.vault, "cells", segment.index), segment)

    def write(self, folder: str, content: bytes, *, plain: bool = False) -> Object:
        """A new object of either store, as it is."""
        name = f"{folder}/{new_id()}"
        self._place(plain=plain).write(name, content)
        return described(name, content)

    def seal(self, folder: str, vault: Vault, purpose: Purpose, content: bytes) -> Object:
        """A new sealed object of the sensitive store."""
        name = f"{folder}/{new_id()}"
        sealed = vault.seal(purpose, name, content)
        self.stores.sensitive.write(name, sealed)
        return described(name, sealed)

    def draft(self, name: str, version: int) -> tuple[str, Vault]:
        """Where the draft of a version is stored, and what seals it."""
        tag = self._tag(name)
        return f"tables/{tag}/{_DRAFT}.{version}", Vault(self.key, f"draft {tag}")

    def read(self, which: Object, *, plain: bool = False) -> bytes:
        """An object as it was written. Raises CheckFailed for one that is lost or damaged."""

        def written(content: bytes) -> bytes:
            if hashlib.sha256(content).hexdigest() != which.sha256:
                place = self._place(plain=plain).location
                raise CheckFailed("stored", f"{place}: an object of the table is damaged", hint=DAMAGED)
            return content

        cached = self._cached(which, plain=plain)
        with contextlib.suppress(CheckFailed):
            if cached is not None and (found := cached.get(WHOLE, which.bytes)) is not None:
                return written(found)
        content = read_twice(lambda: self._read(which, 0, None, plain=plain), written)
        if cached is not None:
            cached.put(WHOLE, content)
        return content

    def read_blocks(self, which: Object, start: int, first: int, sizes: Sequence[int], *, again: bool = False) -> bytes:
        """The sealed blocks `first` and following of an object, of these `sizes`, from its byte `start` on; unchecked.

        `again`: what the cache has of them is not to be used. Raises LostError.
        """
        cached = self._cached(which)
        if cached is None:
            return self._read(which, start, start + sum(sizes))
        ends = list(itertools.accumulate(sizes, initial=start))
        found = [None if again else cached.get(first + place, size) for place, size in enumerate(sizes)]
        for missing, places in itertools.groupby(range(len(sizes)), lambda place: found[place] is None):
            if not missing:
                continue
            run = list(places)
            content = self._read(which, ends[run[0]], ends[run[-1] + 1])
            for place in run:
                found[place] = content[ends[place] - ends[run[0]] : ends[place + 1] - ends[run[0]]]
                cached.put(first + place, found[place])
        return b"".join(each for each in found if each is not None)

    def _cached(self, which: Object, *, plain: bool = False) -> _Cached | None:
        """Where an object is in the cache; None for one that is on this machine anyway."""
        if self._cache is None or "://" not in self._place(plain=plain).location:
            return None
        _, tag, name = which.name.split("/")
        return _Cached(self._cache, self._seen(tag), name, Vault(self.key, f"cache {tag}") if plain else None)

    @property
    def is_elsewhere(self) -> bool:
        """Whether a read takes the time of a network."""
        return any("://" in place for place in self.places)

    def _read(self, which: Object, start: int, stop: int | None, *, plain: bool = False) -> bytes:
        store = self._place(plain=plain)
        try:
            content = store.read(which.name, start, stop, which.bytes)
        except NotStoredError:
            raise LostError("stored", f"{store.location}: an object of the table is lost", hint=DAMAGED) from None
        with self._counting:
            self.objects_read += 1
            self.bytes_read += len(content)
        return content

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

    def all(self) -> Iterator[Opened]:
        """Every table under this key, by name; those of other keys, or put under another, are passed over."""
        found = []
        for name in self.stores.sensitive.names("tables"):
            folder, _, last = name.rpartition("/")
            if last != _HEAD or (head := self.stores.sensitive.read_versioned(name)) is None:
                continue
            if parsed(head[0]).get("key_id") != self.key.key_id:
                continue
            tag = folder.removeprefix("tables/")
            if (signed := self._found_head(tag)) is None or key_moved_to(signed[0]) is not None:
                continue
            if (opened := self._latest(tag)) is not None:
                found.append(opened)
        yield from sorted(found, key=lambda each: each.manifest.table.lower())

    def versions(self) -> dict[str, tuple[str, int]]:
        """The id and version of every table under this key, by tag: floors for a copy of the key file."""
        return {self._tag(each.manifest.table): (each.manifest.table_id, each.manifest.version) for each in self.all()}

    def drop(self, name: str, progress: Progress | None = None) -> None:
        """Delete a table, its head first: without it nothing of a table is a table. Objects that no manifest names go
        with it, answers that were left behind, and what a stopped `key rotate` left under the other key.

        Raises InputError where there is nothing, nor was.
        """
        tag = self._tag(name)
        own = f"tables/{tag}"
        # its own last: the notes in there find the others when a drop that was killed is repeated
        folders = [*self.rotations(name).left(), f"results/{tag}", *self._contributed(tag), own]
        there = [  # not of a put that follows
            (store, [each for folder in folders for each in store.names(folder)]) for store in self.stores.apart()
        ]
        if not any(names for _, names in there) and self._newest(tag) is None:
            raise self._no_table(name)
        self.stores.sensitive.delete([f"tables/{tag}/{_HEAD}"])
        total = sum(len(names) for _, names in there)
        advance = progress.stage("delete", total, "objects") if progress else lambda _: None
        for store, names in reversed(there):
            for start in range(0, len(names), _TOGETHER):
                batch = names[start : start + _TOGETHER]
                store.delete(batch)
                advance(len(batch))
        self.forget(name)

    def _contributed(self, tag: str) -> list[str]:
        """The folders of the table's contributors; of one that cannot be opened they are not known."""
        try:
            opened = self._latest(tag)
        except (CheckFailed, InputError):
            return []
        manifest = opened.manifest if opened else None
        return [folder_of(manifest.table_id, each.key) for each in manifest.contributors] if manifest else []

    def moved_to(self, name: str) -> str | None:
        """The id of the key that a table of this one's was put under by `cleave key rotate`; None for any other."""
        found = self._found_head(self._tag(name))
        return key_moved_to(found[0]) if found else None

    def close_as_moved(self, opened: Opened, key_id: str) -> None:
        """From here on the table can be opened under the key `key_id` alone. Raises ConflictError if it was changed."""
        tag = self._tag(opened.manifest.table)
        head = {"moved_to": key_id, "table_id": opened.manifest.table_id}
        content = self._heads.dump(tag, head)
        replaced(self.stores.sensitive, f"tables/{tag}/{_HEAD}", content, opened.head)

    def clear(self, name: str) -> None:
        """Delete all of a table that was moved but its head, which says so."""
        tag = self._tag(name)
        found = self._found_head(tag)
        if found is None or key_moved_to(found[0]) is None:
            raise InputError(f"table {name!r} was not put under another key")
        self._evict(name)
        folders = [*self.rotations(name).left(), f"tables/{tag}"]
        for store in reversed(self.stores.apart()):
            for folder in folders:
                store.delete([each for each in store.names(folder) if each != f"tables/{tag}/{_HEAD}"])

    def rotations(self, name: str) -> Rotations:
        return Rotations(self.stores, self.key, self.folder(name))

    def sweep(self, opened: Opened) -> int:
        """Delete what was there before `opened` was committed and it does not name. Returns how many.

        That is what writers left who died, and versions past. A writer that is still at work read the head before, so
        its commit will fail in any case; what came after the commit is not touched: the next version may name it.
        """
        tag = self._tag(opened.manifest.table)
        own = self.draft(opened.manifest.table, opened.manifest.version)[0]  # it goes with the next version
        kept = opened.manifest.objects() | {f"tables/{tag}/{_HEAD}", own}
        swept = 0
        for store, names in opened.before:
            left = [name for name in names if name not in kept and not is_note(name)]
            store.delete(left)
            swept += len(left)
        return swept

    def _tag(self, name: str) -> str:
        return self.key.tag(f"stored table {name.lower()}")

    def _seen(self, tag: str) -> str:
        """Under which name this store's table is remembered: two stores may have tables of one name."""
        place = self.stores.sensitive.location
        return self.key.tag(f"seen {tag} {place if '://' in place else Path(place).resolve()}")

    def _forgotten(self, tag: str) -> str:
        """Under which name the floor of this store's table is noted as forgotten."""
        return self.key.tag(f"forgotten {self._seen(tag)}")

    def _require_not_moved(self, head: dict[str, Any]) -> None:
        if (key_id := key_moved_to(head)) is not None:
            raise InputError(
                f"{self.stores.sensitive.location}: the table is under another key now, {key_id}",
                hint="name that key with --key; `cleave drop` under this one deletes this note",
            )

    def _open(self, head: dict[str, Any], version: str) -> Opened:
        vault = self.vault(head["table_id"])
        content = self.unseal(vault, "manifest", Object.model_validate(head["manifest"]))
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError:
            raise InputError(
                f"{self.stores.sensitive.location}: a table's manifest is not of this release",
                hint="use the release that wrote it, or a later one",
            ) from None
        if (manifest.table_id, manifest.version) != (head["table_id"], head["version"]):
            raise CheckFailed("stored", "a table's manifest is not its head's", hint=DAMAGED)
        return Opened(manifest, vault, version)
