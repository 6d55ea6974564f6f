"""The newest versions of tables by name: heads are verified, and compared with what was seen here before.

Their owner opens what a head names (cleave.store.tables), and so does a reader of some columns (cleave.ask.reader).
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.cache import WHOLE, Cache
from cleave.objects.locate import Stores
from cleave.objects.storage import read_twice, require_place
from cleave.store.heads import Heads, key_moved_to
from cleave.store.manifest import Manifest, TableHead
from cleave.store.reader import LostError, Objects, Opened
from cleave.store.seen_tables import SeenTables
from cleave.store.seen_versions import SeenVersions
from cleave.store.sweeping import listed
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import DAMAGED, CheckFailed, CleaveError, InputError

HEAD = "head"
TRIES = 4  # to read a table that others change meanwhile


Seen = tuple[tuple[str, int] | None, tuple[bytes, str] | None]
"""The id of a table and the length of its log, as last seen here; then its head and that one's version in the store."""


class MovedError(InputError):
    """A head names another key."""


class Newest(Objects):
    """Tables in `stores` in their newest versions. `key` seals what is noted here, and opens what `_open` does."""

    MOVED: ClassVar[str]  # what to do about a table that is under another key
    GONE: ClassVar[str]  # about one that is gone

    def __init__(self, stores: Stores, key: OwnerKey, memory: SeenVersions, cache: Cache | None = None) -> None:
        """`cache`: see Objects."""
        super().__init__(stores, key, cache)
        self._seen = SeenTables(memory, key, self.seen)
        self._heads_read: dict[str, tuple[bytes, str]] = {}  # by tag, as they were read last

    @abstractmethod
    def _heads(self, tag: str) -> Heads:
        """Heads of the owner of a table."""

    @abstractmethod
    def _open(self, tag: str, head: TableHead, stored: str) -> Opened:
        """Open what `head`, whose version in the store is `stored`, names. Raises CheckFailed, InputError."""

    @abstractmethod
    def all(self, held: Iterable[Opened] = ()) -> Iterator[Opened]:
        """Open every table that this key finds, by name. `held`: versions, yielded where they are still the newest."""

    @abstractmethod
    def _accepting(self, version: int) -> str:
        """Say how to go on with a version that is refused."""

    def find(self, name: str, held: Opened | None = None) -> Opened | None:
        """Open a table; None where there is none of that name, or all of it is gone. Raises CheckFailed, StoreError.

        `held`: a version of it, which is returned where it is still the newest.
        """
        tag = self.tag(name)
        opened = self._latest(tag, held)
        if opened is None and (seen := self._seen.newest(tag)) and not self._seen.is_dropped(seen[0]):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {name!r} was there and is gone",
                hint=self.GONE,
            )
        if opened is not None and opened.manifest.table.lower() != name.lower():
            raise CheckFailed("stored", "a table's manifest is another table's", hint=DAMAGED)
        return opened

    def _latest(self, tag: str, held: Opened | None = None, first: Seen | None = None) -> Opened | None:
        """`first`: the head as it was read, and what was seen here before."""
        for left in reversed(range(TRIES)):
            # what was seen here before the head: others here may commit in between
            seen, stored = first or (self._seen.newest(tag), None)
            loaded, first = self._read_head(tag, stored), None
            if loaded is None:
                return None
            try:
                return self._believed(tag, *loaded, seen, held)
            except LostError:  # a later commit has deleted what this head named
                if not left:
                    raise
        return None

    def _read_head(self, tag: str, stored: tuple[bytes, str] | None = None) -> tuple[dict[str, Any], str] | None:
        """The head, which bears the owner's mark, and its version in the store. Raises CheckFailed.

        One that was read before is not sent again. `stored`: as it was just read.
        """
        given = [stored] if stored else []

        def read() -> tuple[bytes, str] | None:
            if given:
                return given.pop()
            earlier = self._heads_read.pop(tag, None)
            return self.stores.sensitive.read_versioned(f"tables/{tag}/{HEAD}", earlier=earlier)

        def marked(stored: tuple[bytes, str] | None) -> tuple[dict[str, Any], str] | None:
            if stored is None:
                return None
            fields = self._heads(tag).load(tag, stored[0])
            self._heads_read[tag] = stored
            return fields, stored[1]

        return read_twice(read, marked)

    def _believed(
        self, tag: str, fields: dict[str, Any], stored: str, seen: tuple[str, int] | None, held: Opened | None = None
    ) -> Opened:
        """Return the facts of a head, unless a newer state or another table was seen here in its place, or the table
        was dropped here.
        """
        head = self._head_of(tag, fields)
        if seen and seen[0] == head.table_id and head.log.count < seen[1]:
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: shows an older state of a table: its log has {head.log.count} "
                f"records, and {seen[1]} were here before",
                hint=f"restore the newest copy; if this is the newest, {self._accepting(head.version)} goes on with it",
            )
        if held is not None and held.head.manifest == head.manifest:
            opened, is_cached = held, True
        else:
            cached = self.cached(head.manifest)
            is_cached = cached is not None and cached.is_there
            opened = self._open(tag, head, stored)
        if seen and seen[0] != head.table_id and not self._seen.is_dropped(seen[0]):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} is not the one seen here before",
                hint=f"if it was dropped and put again elsewhere, {self._accepting(head.version)} goes on with it here",
            )
        if self._seen.is_dropped(head.table_id):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} was dropped, and is back",
                hint=f"`cleave drop NAME` deletes it again; {self._accepting(head.version)}, or "
                "`cleave drop NAME --forget`, accepts what is there",
            )
        self._seen.remember(tag, head.table_id, head.log.count)
        if not is_cached:
            self._evict_older(tag, opened.manifest, head.manifest.name)
        return opened

    def _head_of(self, tag: str, fields: dict[str, Any]) -> TableHead:
        """Return what a head says of its table. Raises MovedError if that is under another key."""
        if (key_id := key_moved_to(fields)) is not None:
            raise MovedError(
                f"{self.stores.sensitive.location}: the table is under another key now, {key_id}",
                hint=self.MOVED,
            )
        return self._heads(tag).shown(fields)

    def shown(self, name: str) -> Opened:
        """Return the table as the store has it, whatever this machine remembers about it. Raises InputError,
        CheckFailed, StoreError.
        """
        tag = self.tag(name)
        loaded = self._read_head(tag)
        if loaded is None:
            raise self.no_table(name)
        fields, stored = loaded
        return self._open(tag, self._head_of(tag, fields), stored)

    def open(self, name: str) -> Opened:
        """Raises InputError where there is no such table under this key."""
        opened = self.find(name)
        if opened is None:
            raise self.no_table(name)
        return opened

    def no_table(self, name: str) -> InputError:
        require_place(self.stores.sensitive)
        near = ""
        with contextlib.suppress(CleaveError):  # of other tables, which may be damaged
            near = did_you_mean(name, [each.manifest.table for each in self.all()])
        return InputError(
            f"{self.stores.sensitive.location}: there is no table {name!r} under this key",
            hint=near or "`cleave ls --store ...` lists the tables there are",
        )

    def _evict_older(self, tag: str, manifest: Manifest, name: str) -> None:
        """Delete from the cache what a version does not name."""
        if self.cache is not None and self.is_elsewhere:
            names = {each.rpartition("/")[2] for each in (*manifest.objects(), name)}
            self.cache.open_version(self.seen(tag), f"{name.rpartition('/')[2]}-{WHOLE}", names)

    def _evict(self, name: str) -> None:
        """Delete from the cache all of a table."""
        if self.cache is not None and self.is_elsewhere:
            self.cache.evict(self.seen(self.tag(name)))

    def replaced(self, opened: Opened) -> bool:
        """Check whether the table has another version by now."""
        current = self._read_head(self.tag(opened.manifest.table))
        return current is None or current[0].get("manifest") != opened.head.manifest.model_dump()

    def missing(self, opened: Opened) -> int:
        """Return how many objects of a version are not in the stores any more."""
        there = listed(self.stores, self.folders(opened.manifest))
        return len(opened.manifest.objects().difference(*(sizes for _, sizes in there)))
