"""Find the newest versions of tables by name. Heads are verified and compared with what this machine saw before.

Subclasses open what a head names: for the owner (cleave.store.tables), and for a reader of some columns
(cleave.ask.reader).
"""

from __future__ import annotations

import contextlib
import shlex
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
from cleave.text.quantities import counted
from cleave_shared.errors import DAMAGED, CheckFailed, CleaveError, InputError

HEAD = "head"
TRIES = 4  # to read a table that others change meanwhile


Seen = tuple[tuple[str, int] | None, tuple[bytes, str] | None]
"""The id and log length of a table as last seen here; then its head, and that head's version in the store."""


class MovedError(InputError):
    """A head names another key."""


class Newest(Objects):
    """The newest versions of the tables in `stores`. `key` names what this machine remembers of them."""

    MOVED: ClassVar[str]  # hint for a table that is under another key
    GONE: ClassVar[str]  # hint for a table that is gone

    def __init__(self, stores: Stores, key: OwnerKey, memory: SeenVersions, cache: Cache | None = None) -> None:
        """`cache`: see Objects."""
        super().__init__(stores, key, cache)
        self._seen = SeenTables(memory, key, self.seen)
        self._heads_read: dict[str, tuple[bytes, str]] = {}  # by tag, as they were read last
        self.writes = False  # True: tables that this release may not change are refused when their heads are read

    @abstractmethod
    def _heads(self, tag: str) -> Heads:
        """Return the heads of the owner of a table."""

    @abstractmethod
    def _open(self, tag: str, head: TableHead, stored: str) -> Opened:
        """Open what `head` names; `stored` is the head's version in the store. Raises CheckFailed, InputError."""

    @abstractmethod
    def all(self, held: Iterable[Opened] = ()) -> Iterator[Opened]:
        """Open every table that this key finds, by name. `held`: versions, yielded if they are still the newest."""

    @abstractmethod
    def _accepting(self, table: str, version: int) -> str:
        """Return the command that accepts a refused version. `table`: its name, as a shell reads it."""

    def find(self, name: str, held: Opened | None = None) -> Opened | None:
        """Open a table; return None if there is none of that name. Raises CheckFailed, StoreError.

        `held`: a version of it, which is returned if it is still the newest.
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
        """`first`: what was seen here before, and the head as it was read."""
        for left in reversed(range(TRIES)):
            # read what was seen before the head: other processes here may commit in between
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
        """Return the head, after a check of the owner's signature, and its version in the store. Raises CheckFailed.

        If it did not change since the last read, the store does not send it again. `stored`: a head that was just read.
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
            heads = self._heads(tag)
            fields = heads.load(tag, stored[0])
            if self.writes:
                heads.require_writable(fields)
            self._heads_read[tag] = stored
            return fields, stored[1]

        return read_twice(read, marked)

    def _believed(
        self, tag: str, fields: dict[str, Any], stored: str, seen: tuple[str, int] | None, held: Opened | None = None
    ) -> Opened:
        """Open what a head names.

        Raises CheckFailed if this machine saw a newer state or another table in its place, or dropped the table;
        MovedError if it is under another key.
        """
        head = self._head_of(tag, fields)
        if seen and seen[0] == head.table_id and head.log.count < seen[1]:
            accepting = self._accepting(self._shown_name(tag, head, stored), head.version)
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: shows an older state of a table: its log has "
                f"{counted(head.log.count, 'record')}, and {seen[1]:,} were here before",
                hint=f"restore the newest copy; if this is the newest, {accepting} goes on with it",
            )
        if held is not None and held.head.manifest == head.manifest:
            opened, is_cached = held, True
        else:
            cached = self.cached(head.manifest)
            is_cached = cached is not None and cached.is_there
            opened = self._open(tag, head, stored)
        table = shlex.quote(opened.manifest.table)
        accepting = self._accepting(table, head.version)
        if seen and seen[0] != head.table_id and not self._seen.is_dropped(seen[0]):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} is not the one seen here before",
                hint=f"if it was dropped and put again elsewhere, {accepting} goes on with it here",
            )
        if self._seen.is_dropped(head.table_id):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} was dropped, and is back",
                hint=f"`cleave drop {table}` deletes it again; {accepting}, or `cleave drop {table} --forget`, "
                "accepts what is there",
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

    def _shown_name(self, tag: str, head: TableHead, stored: str) -> str:
        """Return the name of a table that is refused, as a shell reads it, or NAME if its manifest cannot be read."""
        with contextlib.suppress(CleaveError):
            return shlex.quote(self._open(tag, head, stored).manifest.table)
        return "NAME"

    def open(self, name: str) -> Opened:
        """Open a table. Raises InputError if there is no such table under this key."""
        opened = self.find(name)
        if opened is None:
            raise self.no_table(name)
        return opened

    def no_table(self, name: str) -> InputError:
        require_place(self.stores.sensitive)
        near = ""
        with contextlib.suppress(CleaveError):  # other tables may be damaged
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
        """Delete everything of a table from the cache."""
        if self.cache is not None and self.is_elsewhere:
            self.cache.evict(self.seen(self.tag(name)))

    def replaced(self, opened: Opened) -> bool:
        """Check whether the table has another version now."""
        current = self._read_head(self.tag(opened.manifest.table))
        return current is None or current[0].get("manifest") != opened.head.manifest.model_dump()

    def missing(self, opened: Opened) -> int:
        """Return how many objects of a version are no longer in the stores."""
        there = listed(self.stores, self.folders(opened.manifest))
        return len(opened.manifest.objects().difference(*(sizes for _, sizes in there)))
