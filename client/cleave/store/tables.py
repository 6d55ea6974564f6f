"""Open, commit and list the tables of a store by name. A change is committed for both halves by writing one head."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.cache import WHOLE, Cache
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError, ForeignError, StoreError, not_stored, replaced, require_place
from cleave.store import pages
from cleave.store.changed import on_newest
from cleave.store.heads import Heads, LogHead, TableHead, key_moved_to, parsed, table_id_of
from cleave.store.log import Made, Record, digest_of, extended, pages_of, records_after
from cleave.store.manifest import Manifest, Object, Segment
from cleave.store.newest import HEAD, MovedError, Newest, Seen, discarded_by
from cleave.store.notes import notes_in
from cleave.store.reader import LostError, Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.sweeping import cleaning, not_all_stored, unstored
from cleave.store.vault import Vault
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.errors import DAMAGED, CheckFailed, InputError

if TYPE_CHECKING:
    from cleave.store.cells import Cells
    from cleave.store.views import Views

_EVENT_TRIES = 8  # to write a head while only events are recorded, or an event while others change the table


class Tables(Newest):
    """The tables that `key` owns in `stores`."""

    MOVED = "name that key with --key; `cleave drop` under this one deletes this note"
    GONE = (
        "if `cleave drop` was stopped, run it again; if others dropped it, `cleave drop NAME --forget`; "
        "else restore the store"
    )

    def __init__(
        self, stores: Stores, key: OwnerKey, memory: SeenVersions, cache: Cache | None = None, user: str = ""
    ) -> None:
        """Prepare the tables of a key. `cache` is as for Objects; `user` is the name that audit logs give to
        this user.
        """
        super().__init__(stores, key, memory, cache)
        self.has_committed = False
        self._user = user
        self.own_heads = Heads.of_owner(key, stores.sensitive.location)

    def _heads(self, tag: str) -> Heads:  # noqa: ARG002 - all tables have one owner
        return self.own_heads

    def _accepting(self, table: str, version: int) -> str:
        return f"`cleave accept {table} --version {version}`"

    def commit(
        self,
        manifest: Manifest,
        previous: Opened | None,
        what: str,
        rows: int | None = None,
        log: LogHead | None = None,
        *,
        made: Made | None = None,
        details: Mapping[str, JsonValue] = MappingProxyType({}),
    ) -> Opened:
        """Make `manifest`, whose objects are all stored, the table's next version, and record it in the log.

        `previous` is the version that it replaces; None for a new table. `rows` is the number of rows that came with
        it, by default the difference between both. `log` is the log to continue, by default that of `previous`.
        `details` go into the record. If a noisy release was drawn for this version, the head shows the epsilon that it
        spends. Manifest, views and page of the log of `previous` are deleted. Raises ConflictError if another version
        came first.
        """
        made, manifest = made or Made(), manifest.next()
        tag, vault, folder = self.tag(manifest.table), self.vault(manifest.table_id), self.folder(manifest.table)
        if rows is None:
            rows = manifest.rows - (previous.manifest.rows if previous else 0)
        had_exact = manifest.had_exact or manifest.marking is not None or self.memory.had_exact(tag)
        had_exact = had_exact or (previous is not None and bool(previous.manifest.had_exact))
        manifest = self.with_pages(manifest.model_copy(update={"had_exact": int(had_exact)}))
        written = self.seal(folder, vault, "manifest", manifest.model_dump_json().encode())
        made.wrote.add(written.name)
        if written.bytes > limits.MAX_MANIFEST_BYTES:
            raise InputError(f"table {manifest.table!r} consists of too many objects", hint="put it as several tables")
        views = self._write_views(manifest, vault, previous)
        viewed = views.written if views is not None else ()
        made.wrote.update(each.name for each in viewed)
        if unstored(self.stores, [written, *viewed]):
            raise self._unless_moved(not_all_stored(self.stores), tag, previous.head_etag if previous else None)
        replaced_views = self._viewed(previous) if previous is not None else frozenset[str]()
        shown = manifest, written, views.places if views is not None else None
        self._tags.add(tag)
        self.has_committed = True
        done = self._show(shown, previous, log, what, rows, details, made, _drawn_epsilon(manifest))
        opened = Opened(manifest, vault, *done)
        if had_exact:
            self.memory.remember_exact(tag)
        self._pages[tag] = pages.pages_of(manifest)
        self._evict_older(tag, manifest, written.name, previous)
        made.wrote.difference_update((written.name, *(each.name for each in viewed)))
        if previous is not None and previous.head.manifest != written:
            left = replaced_views - (views.names if views is not None else frozenset())
            with cleaning():
                self.stores.sensitive.delete([previous.head.manifest.name, *sorted(left)])
        return opened

    def with_pages(self, manifest: Manifest, cells: Cells | None = None) -> Manifest:
        """`manifest` with all pages of its lists stored. `cells`: its cells, if they were read."""
        folder, vault = self.folder(manifest.table), self.vault(manifest.table_id)

        def choosing(segments: Sequence[Segment]) -> str | None:
            nonlocal cells
            from cleave.store.cells import choosing_cells  # noqa: PLC0415 - DuckDB: a list of tables does not need it
            from cleave.store.schemas import load_stored_schema  # noqa: PLC0415 - as above

            if cells is None:
                cells = self.cells_in(vault, manifest)
            plain = load_stored_schema(manifest).plain
            return choosing_cells(segments, cells, [at for at, name in enumerate(manifest.by) if name in plain])

        return pages.stored(manifest, partial(self.seal, folder, vault, "manifest"), choosing)

    def _viewed(self, opened: Opened) -> frozenset[str]:
        """The names of the views of a version and of their pages, and of the list of them."""
        if opened.head.views is None:
            return frozenset()
        from cleave.store.views import read_views  # noqa: PLC0415 - as above

        return read_views(self, opened).names

    def named(self, opened: Opened) -> set[str]:
        """Return the names of all objects that a table's head leads to, and of the head. Reads the whole log."""
        head = opened.head
        logged = pages_of(self, opened.vault, head.log)
        own = {f"{self.folder(opened.manifest.table)}/{HEAD}", head.manifest.name, *(each.name for each in logged)}
        notes = notes_in(self, self.folder(opened.manifest.table))
        return own | opened.manifest.objects() | self._viewed(opened) | {*notes}

    def _write_views(self, manifest: Manifest, vault: Vault, before: Opened | None) -> Views | None:
        if not manifest.readers:
            return None
        from cleave.store.views import write_views  # noqa: PLC0415 - DuckDB: a list of tables does not need it

        return write_views(self, self.folder(manifest.table), manifest, vault, before)

    def spent(self, opened: Opened) -> int:
        """Return the epsilon that noisy releases of tables with this name have spent, in millionths.

        This includes tables that were dropped here.
        """
        return self.memory.spent(self.tag(opened.manifest.table), opened.head.spent)

    def had_exact(self, opened: Opened) -> bool:
        """True if tables with this name had exact releases, also ones that were dropped here, or that a copy lacks."""
        manifest = opened.manifest
        return bool(manifest.had_exact) or self.memory.had_exact(self.tag(manifest.table))

    def record(self, opened: Opened, what: str, rows: int, **details: JsonValue) -> None:
        """Record an event in the log that changes nothing in the table, whatever others change meanwhile."""
        for left in reversed(range(_EVENT_TRIES)):
            try:
                shown = opened.manifest, opened.head.manifest, opened.head.views
                self._show(shown, opened, None, what, rows, details, Made())
                return
            except (ConflictError, LostError):
                newest = self.open(opened.manifest.table)
                if not left or newest.manifest.table_id != opened.manifest.table_id:
                    raise
                opened = newest

    def log(self, opened: Opened, after: int = 0) -> tuple[Record, ...]:
        """Return the records of the table's log after record `after`.

        If its newest page was replaced meanwhile, these include records that are newer than `opened`. Raises
        CheckFailed if the log is damaged.
        """
        latest = opened

        def begins_again(error: Exception) -> bool:
            nonlocal latest
            before, latest = latest, self.open(opened.manifest.table)
            return isinstance(error, LostError) and latest.head.log != before.head.log

        return on_newest(lambda: records_after(self, latest.vault, latest.head.log, after), begins_again)

    def _show(
        self,
        show: tuple[Manifest, Object, Object | None],
        previous: Opened | None,
        log: LogHead | None,
        what: str,
        rows: int,
        details: Mapping[str, JsonValue],
        made: Made,
        spends: int = 0,
        moving_to: str | None = None,
    ) -> tuple[TableHead, str]:
        """Write a head that shows a manifest, its object and the list of its views, and a log with one more record.

        Returns the head and its version in the store. If only the log grew since `previous`, the record is appended to
        what was added. The page of the log that this replaces is deleted. `moving_to`: for the head; None: as before.
        """
        manifest, written, views = show
        tag, folder, vault = self.tag(manifest.table), self.folder(manifest.table), self.vault(manifest.table_id)
        head = previous.head if previous else None
        if head is not None:
            head.require_writable(f"{self.stores.sensitive.location}: table {manifest.table!r}")
        expected = previous.head_etag if previous else None
        record = {"table": manifest.table, "version": manifest.version, "user": self._user}
        record |= {"what": what, "rows": rows, "details": dict(details), **made.fields}
        tried: set[str] = set()
        for left in reversed(range(_EVENT_TRIES)):
            try:
                grown, page = extended(self, folder, vault, log or (head.log if head else None), record)
                made.wrote.add(grown.page.name)
                tried.add(grown.page.name)
                self._require_stored(grown.page, tag, expected)
                self.stores.flush(self.folders(manifest))
                shown = TableHead(
                    table_id=manifest.table_id,
                    version=manifest.version,
                    manifest=written,
                    log=grown,
                    views=views,
                    spent=self.memory.spent(tag, head.spent if head else 0) + spends,
                    moving_from=self.receiving.get(tag),
                    moving_to=(head.moving_to if head else "") if moving_to is None else moving_to,
                )
                content = self.own_heads.dump(tag, shown.model_dump(exclude_defaults=True))
                follows = partial(self._follows, tag, vault, shown)
                made.expected.add(expected)
                if made.change:
                    made.ids.add(made.change)
                stored = replaced(self.stores.sensitive, f"{folder}/{HEAD}", content, expected, follows)
                break
            except (ConflictError, LostError):
                current = self.read_head(tag)
                if log or head is None or current is None or not left:
                    raise
                newer = self._head_of(tag, current[0])
                if newer.manifest != head.manifest:
                    raise self.changed_by_others() from None
                if newer.log.count <= head.log.count:
                    raise
                if made.found_in(records_after(self, vault, newer.log, head.log.count)) is not None:
                    raise
                head, expected = newer, current[1]
        self.memory.remember(tag, manifest.table_id, grown.count)
        self.memory.remember_spent(tag, shown.spent)
        made.wrote -= tried
        old = tried | ({head.log.page.name} if head and not log else set())
        old -= {grown.page.name, *([page.earlier.name] if page.earlier is not None else [])}
        with cleaning():
            self.stores.sensitive.delete(sorted(old))
        return shown, stored

    def _follows(self, tag: str, vault: Vault, mine: TableHead, content: bytes) -> bool:
        """Check whether the head `content` was written on top of `mine`: then its log has the record of `mine`."""
        fields = self.own_heads.load(tag, content)
        if key_moved_to(fields) is not None or discarded_by(fields) is not None:
            return fields.get("table_id") == mine.table_id
        head = self.own_heads.shown(fields)
        if head.table_id != mine.table_id or head.log.count <= mine.log.count:
            return False
        return digest_of(records_after(self, vault, head.log, mine.log.count - 1)[0]) == mine.log.last

    def _require_stored(self, written: Object, tag: str, expected: str | None) -> None:
        """Raise StoreError unless the store returns what was just written; ConflictError if another writer came first.

        `expected`: the version of the head that is replaced.
        """
        try:
            self.read(written, cached=False)
        except ForeignError:
            raise
        except CheckFailed:
            raise self._unless_moved(not_stored(self.stores.sensitive.location), tag, expected) from None

    def _unless_moved(self, error: StoreError, tag: str, expected: str | None) -> StoreError:
        """`error` for an object that is not stored; ConflictError if another writer came first, who deleted it.

        `expected`: the version of the head that is replaced.
        """
        current = self.read_head(tag)
        return self.changed_by_others() if (current[1] if current else None) != expected else error

    def changed_by_others(self) -> ConflictError:
        return ConflictError(f"{self.stores.sensitive.location}: another process changed the table at the same time")

    def forget(self, name: str) -> None:
        """Accept the table as the store has it, whatever this machine or the key file remembers about it.

        Nothing in the store changes.
        """
        tag = self.tag(name)
        self.evict(name)
        with contextlib.suppress(CheckFailed):  # a damaged head is no table
            head = self.read_head(tag)
            if head is not None and (table_id := table_id_of(head[0])):
                self.memory.accept_dropped(table_id)
        self.memory.accept(tag)

    def all(self, held: Iterable[Opened] = (), *, lost: bool = False) -> Iterator[Opened]:
        """Open every table under this key, by name, except those that were moved to another key.

        `held` are versions of them, which are returned if they are still the newest. Raises InputError if there is no
        such folder; with `lost`, CheckFailed if objects are left of a table that was here and was not dropped here, and
        its head is gone.
        """
        require_place(self.stores.sensitive)
        by_tag = {self.tag(each.manifest.table): each for each in held}
        tables = []
        names = list(self.stores.sensitive.names("tables"))
        for name in names:
            folder, _, last = name.rpartition("/")
            tag = folder.removeprefix("tables/")
            if last != HEAD:
                continue
            first = None if tag in by_tag else self._own(name, tag)
            if first or tag in by_tag:
                with contextlib.suppress(MovedError):
                    if (opened := self.latest(tag, by_tag.get(tag), first)) is not None:
                        tables.append(opened)
        if lost:
            self._require_heads(names)
        yield from sorted(tables, key=lambda each: each.manifest.table.lower())

    def _require_heads(self, names: Iterable[str]) -> None:
        parts = [name.split("/") for name in names]
        lost = {tag for _, tag, *_ in parts} - {tag for _, tag, *last in parts if last == [HEAD]}
        seen = [each for tag in lost if (each := self.memory.newest(tag)) and not self.memory.is_dropped(each[0])]
        if seen:
            raise CheckFailed(
                "stored",
                f"{self.stores.sensitive.location}: {counted(len(seen), 'table')} of this key lost "
                f"{'its head' if len(seen) == 1 else 'their heads'}",
                hint=self.GONE,
            )

    def _own(self, name: str, tag: str) -> Seen | None:
        """Return a table as this machine has seen it, and its head if that names this key. The signature is not
        checked.
        """
        seen, stored = self.memory.newest(tag), self.stores.sensitive.read_versioned(name)
        is_own = stored is not None and parsed(stored[0]).get("key_id") == self.key.key_id
        return (seen, stored) if is_own else None

    def versions(self) -> dict[str, tuple[str, int]]:
        """Return the id and log length of every table under this key, by tag, and of dropped tables.

        A copy of the key file keeps them as the oldest acceptable states.
        """
        there = {self.tag(each.manifest.table): (each.head.table_id, each.head.log.count) for each in self.all()}
        return self.memory.dropped() | there

    def moved_to(self, name: str) -> str | None:
        """Return the id of the key to which `cleave key rotate` moved a table, or None if the table was not moved."""
        loaded = self.read_head(self.tag(name))
        return key_moved_to(loaded[0]) if loaded else None

    def hold(self, opened: Opened, key_id: str) -> None:
        """Refuse changes of a table but deletions while it is moved to the key `key_id`; "": take them again.

        Raises ConflictError on a change.
        """
        shown, made = (opened.manifest, opened.head.manifest, opened.head.views), Made()
        what = "rotate holds" if key_id else "rotate undone"
        self._show(shown, opened, None, what, 0, {"key": key_id} if key_id else {}, made, moving_to=key_id)

    def was_dropped(self, table_id: str) -> bool:
        """Check whether this machine dropped a table, or another machine whose memory is in the key file."""
        return self.memory.is_dropped(table_id)

    def _cached_version(self, newest: Manifest, tag: str, id_: str) -> Manifest | None:
        table, vault, name = self.seen(tag), self.vault(newest.table_id), f"tables/{tag}/{id_}"
        entry = self.cache.get(table, f"{id_}-{WHOLE}", limits.MAX_MANIFEST_BYTES) if self.cache else None
        if entry is None:
            return None
        with contextlib.suppress(CheckFailed, ValidationError):
            manifest = Manifest.model_validate_json(vault.open("manifest", name, entry), extra="ignore")
            read = partial(self.unseal, vault, "manifest")
            return pages.opened(manifest, read, "ignore", self._pages.get(tag, {}))
        return None

    def _open(self, tag: str, head: TableHead, stored: str) -> Opened:
        vault = self.vault(head.table_id)
        content = self.unseal(vault, "manifest", head.manifest)
        try:
            manifest = Manifest.model_validate_json(content, extra=head.extra)
        except ValidationError:
            raise CheckFailed("stored", "a table's manifest is not of its head's format", hint=DAMAGED) from None
        if (manifest.table_id, manifest.version) != (head.table_id, head.version):
            raise CheckFailed("stored", "a table's manifest is not its head's", hint=DAMAGED)
        manifest = self._with_pages(tag, manifest, partial(self.unseal, vault, "manifest"), head)
        return Opened(manifest, vault, head, stored)


def _drawn_epsilon(manifest: Manifest) -> int:
    """Return the epsilon of the noisy release that was drawn for this version, in millionths; 0 if there was none."""
    return manifest.release.spends(manifest.version) if manifest.release is not None else 0
