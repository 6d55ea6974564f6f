"""Find the newest versions of tables by name. Heads are verified and compared with what this machine saw before.

Subclasses open what a head names: for the owner (cleave.store.tables), and for a reader of some columns
(cleave.ask.reader).
"""

from __future__ import annotations

import contextlib
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.cache import Cache
from cleave.objects.locate import Stores
from cleave.objects.storage import StoreError, read_twice, require_place
from cleave.store import pages
from cleave.store.changed import on_newest
from cleave.store.heads import Heads, MovedFrom, TableHead, key_moved_to
from cleave.store.manifest import Manifest, Object
from cleave.store.reader import LostError, Objects, Opened
from cleave.store.seen_tables import SeenTables
from cleave.store.seen_versions import SeenVersions
from cleave.store.sweeping import changed_names, listed
from cleave.text.nearest import did_you_mean
from cleave.text.quantities import counted
from cleave_shared.errors import DAMAGED, CheckFailed, CleaveError, InputError

HEAD = "head"


Seen = tuple[tuple[str, int] | None, tuple[bytes, str] | None]
"""The id and log length of a table as last seen here; then its head, and that head's version in the store."""


class MovedError(InputError):
    """A head names another key."""


DISCARDED = "discarded"  # member of a head that takes no more: it names what deletes its objects
DISCARDS = {
    "drop": "run `cleave drop` again: it was stopped, or is under way",
    "undo": "run the same `cleave key rotate --undo` again: it was stopped, or is under way",
}


def discarded_by(head: dict[str, Any]) -> str | None:
    """What deletes the objects of a head's table; None for a table."""
    by = head.get(DISCARDED)
    return by if by in DISCARDS else None


class DiscardedError(MovedError):
    """A table is being deleted."""


class Newest(Objects):
    """The newest versions of the tables in `stores`. `key` names what this machine remembers of them."""

    MOVED: ClassVar[str]  # hint for a table that is under another key
    GONE: ClassVar[str]  # hint for a table that is gone

    def __init__(self, stores: Stores, key: OwnerKey, memory: SeenVersions, cache: Cache | None = None) -> None:
        """`cache`: see Objects."""
        super().__init__(stores, key, cache)
        self.memory = SeenTables(memory, key, self.seen)
        self._heads_read: dict[str, tuple[bytes, str]] = {}  # by tag, as they were read last
        self._tags: set[str] = set()  # of tables that were opened or committed here
        self._names: dict[str, tuple[Opened, frozenset[str]]] = {}  # by tag: a version, and what it leads to
        self._pages: dict[str, pages.Pages] = {}  # by tag: those of the version that was opened last
        self.receiving: dict[str, MovedFrom] = {}  # by tag: tables that a rotation copies here
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

    def _with_pages(self, tag: str, manifest: Manifest, read: Callable[[Object], bytes], head: TableHead) -> Manifest:
        """`manifest` whose pages are read when they are first used, except those that were read here before."""
        manifest = pages.opened(manifest, read, head.extra, self._pages.get(tag, {}))
        self._pages[tag] = pages.pages_of(manifest)
        return manifest

    def find(self, name: str, held: Opened | None = None) -> Opened | None:
        """Open a table; return None if there is none of that name. Raises CheckFailed, StoreError.

        `held`: a version of it, which is returned if it is still the newest.
        """
        tag = self.tag(name)
        opened = self.latest(tag, held)
        if opened is None and (seen := self.memory.newest(tag)) and not self.memory.is_dropped(seen[0]):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {name!r} was there and is gone",
                hint=self.GONE,
            )
        if opened is not None and opened.manifest.table.lower() != name.lower():
            raise CheckFailed("stored", "a table's manifest is another table's", hint=DAMAGED)
        return opened

    def latest(self, tag: str, held: Opened | None = None, first: Seen | None = None) -> Opened | None:
        """`first`: what was seen here before, and the head as it was read."""
        given = [first] if first else []
        shown: dict[str, Any] = {}

        def opened() -> Opened | None:
            nonlocal shown
            # read what was seen before the head: other processes here may commit in between
            seen, stored = given.pop() if given else (self.memory.newest(tag), None)
            loaded = self.read_head(tag, stored)
            if loaded is None:
                return None
            shown = loaded[0]
            newest = self._believed(tag, *loaded, seen, held)
            self._tags.add(tag)
            return newest

        return on_newest(opened, lambda error: self._shows_newer(tag, shown, error))

    def _shows_newer(self, tag: str, head: dict[str, Any], error: Exception) -> bool:
        """True if `error` is a lost object of what `head` shows, and the head in the store shows another manifest."""
        return isinstance(error, LostError) and self._shows_other(tag, head.get("manifest"))

    def _shows_other(self, tag: str, manifest: object) -> bool:
        """True if the head does not show this manifest, or if there is no head now."""
        current = self.read_head(tag)
        return current is None or current[0].get("manifest") != manifest

    def is_named(self, name: str) -> bool:
        """True if the newest version of a table that was opened here leads to an object. Raises as `find`."""
        own = {name.removeprefix("tables/").rpartition("/")[0]} & self._tags
        return any(name in self._names_now(tag) for tag in own or self._tags)  # totals of releases lie elsewhere

    def _names_now(self, tag: str) -> frozenset[str]:
        """The names of all objects that the newest version of a table leads to, except older pages of its log."""
        before, known = self._names.get(tag, (None, frozenset()))
        newest: Opened | None = None

        def named() -> frozenset[str]:
            nonlocal newest
            newest = self.latest(tag, before)
            return known if newest is before else self._named_by(newest)

        def begins_again(error: Exception) -> bool:
            is_older = newest is not None and self.replaced(newest)
            return isinstance(error, LostError) and is_older

        names = on_newest(named, begins_again)
        if newest is None or (current := self.read_head(tag)) is None:
            return frozenset()
        self._names[tag] = newest, names
        return names | {self._head_of(tag, current[0]).log.page.name}  # every record has a new page

    def _named_by(self, opened: Opened | None) -> frozenset[str]:
        if opened is None:
            return frozenset()
        failures = pages.unreadable(opened.manifest)
        for failure in failures.values():
            if isinstance(failure, LostError) and self.replaced(opened):
                raise failure
        names = {opened.head.manifest.name, *failures, *(each.name for each in opened.manifest.parts(failures))}
        if opened.head.views is not None:
            from cleave.store.views import views_in  # noqa: PLC0415 - DuckDB: a list of tables does not need it

            views = views_in(self.read(opened.head.views)).values()
            names |= {opened.head.views.name, *(each.name for each in views)}
        return frozenset(names)

    def read_head(self, tag: str, stored: tuple[bytes, str] | None = None) -> tuple[dict[str, Any], str] | None:
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
        is_newest = held is not None and held.head.manifest == head.manifest
        opened = held if held is not None and is_newest else self._open(tag, head, stored)
        table = shlex.quote(opened.manifest.table)
        accepting = self._accepting(table, head.version)
        if seen and seen[0] != head.table_id and not self.memory.is_dropped(seen[0]):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} is not the one seen here before",
                hint=f"if it was dropped and put again elsewhere, {accepting} goes on with it here",
            )
        if self.memory.is_dropped(head.table_id):
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: table {opened.manifest.table!r} was dropped, and is back",
                hint=f"`cleave drop {table}` deletes it again; {accepting}, or `cleave drop {table} --forget`, "
                "accepts what is there",
            )
        self.memory.remember(tag, head.table_id, head.log.count)
        if opened is not held:
            self._evict_older(tag, opened.manifest, head.manifest.name)
        return opened

    def _head_of(self, tag: str, fields: dict[str, Any]) -> TableHead:
        """Return what a head says of its table. Raises MovedError if that is under another key, or not here yet."""
        if (key_id := key_moved_to(fields)) is not None:
            raise MovedError(
                f"{self.stores.sensitive.location}: the table is under another key now, {key_id}",
                hint=self.MOVED,
            )
        if (by := discarded_by(fields)) is not None:
            raise DiscardedError(f"{self.stores.sensitive.location}: the table is being deleted", hint=DISCARDS[by])
        head = self._heads(tag).shown(fields)
        if head.moving_from is not None and tag not in self.receiving and not self.has_come(head, fields["key_id"]):
            raise MovedError(
                f"{self.stores.sensitive.location}: the table is being moved to this key, and is not here yet",
                hint="run the same `cleave key rotate` again",
            )
        return head

    def has_come(self, head: TableHead, key_id: str) -> bool:
        """True if the head under the key that a table leaves says that it moved to the key `key_id`."""
        source = head.moving_from
        stored = self.stores.sensitive.read_versioned(f"{source.place}/{HEAD}") if source else None
        if source is None or stored is None:
            return source is None
        heads = Heads(bytes.fromhex(source.public), self.stores.sensitive.location)
        return key_moved_to(heads.load(source.place.removeprefix("tables/"), stored[0])) == key_id

    def shown(self, name: str) -> Opened:
        """Return the table as the store has it, whatever this machine remembers about it. Raises InputError,
        CheckFailed, StoreError.
        """
        tag = self.tag(name)
        shown: dict[str, Any] = {}

        def opened() -> Opened:
            nonlocal shown
            loaded = self.read_head(tag)
            if loaded is None:
                raise self.no_table(name)
            shown, stored = loaded
            return self._open(tag, self._head_of(tag, shown), stored)

        return on_newest(opened, lambda error: self._shows_newer(tag, shown, error))

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
            name=name,
        )

    def _evict_older(self, tag: str, manifest: Manifest, name: str, before: Opened | None = None) -> None:
        """Delete from the cache what a version does not name. `name`: of its manifest. `before`: the version before it,
        if that was open here.
        """
        if self.cache is None or not self.is_elsewhere:
            return
        table, id_ = self.seen(tag), _id_of(name)
        if self.cache.is_in_use(table, id_):
            return
        in_use = self.cache.versions(table)
        if len(in_use) == 1:
            is_open = before is not None and in_use == [_id_of(before.head.manifest.name)]
            old = before.manifest if before and is_open else self._cached_version(manifest, tag, in_use[0])
            with contextlib.suppress(CheckFailed, StoreError):  # of pages of the older version
                if old is not None:
                    gone = changed_names(old, manifest)[0]
                    ids = {_id_of(each) for each in (*gone.sensitive, *gone.plain)}
                    self.cache.open_version(table, id_, gone=ids.union(in_use))
                    return
        names = {_id_of(each) for each in (*manifest.objects(), name)}
        self.cache.open_version(table, id_, names=names)

    def _cached_version(self, newest: Manifest, tag: str, id_: str) -> Manifest | None:  # noqa: ARG002 - no cache
        """An older version than `newest`, if the cache has its manifest, whose id is `id_`."""
        return None

    def evict(self, name: str) -> None:
        """Delete everything of a table from the cache."""
        if self.cache is not None and self.is_elsewhere:
            self.cache.evict(self.seen(self.tag(name)))

    def replaced(self, opened: Opened) -> bool:
        """Check whether the table has another version now."""
        return self._shows_other(self.tag(opened.manifest.table), opened.head.manifest.model_dump())

    def missing(self, opened: Opened) -> set[str]:
        """Return the names of a version's objects that are no longer in the stores."""
        there = {name for _, sizes in listed(self.stores, self.folders(opened.manifest)) for name in sizes}
        lost = pages.pages_of(opened.manifest).keys() - there
        return lost | {each.name for each in opened.manifest.parts(lost)} - there

    def has_deleted(self, opened: Opened) -> bool:
        """True if objects of a version are deleted because the newest version does not name them."""
        missing = self.missing(opened)
        return bool(missing) and bool(missing - self._names_now(self.tag(opened.manifest.table)))


def _id_of(name: str) -> str:
    return name.rpartition("/")[2]
