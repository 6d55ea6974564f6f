"""Open, commit, list and drop the tables of a store by name. A change is committed for both halves by writing
one head.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, ValidationError

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.cache import WHOLE, Cache
from cleave.objects.locate import Stores
from cleave.objects.storage import (
    ConflictError,
    ForeignError,
    StoreError,
    not_stored,
    replaced,
    require_place,
)
from cleave.store import pages
from cleave.store.changed import on_newest
from cleave.store.contribution import folder_of
from cleave.store.heads import Heads, LogHead, MovedFrom, TableHead, key_moved_to, parsed
from cleave.store.log import Made, Record, digest_of, extended, pages_of, records_after, records_of
from cleave.store.manifest import Manifest, Object, Segment
from cleave.store.newest import DISCARDED, HEAD, MovedError, Newest, Seen, discarded_by
from cleave.store.parties import Parties, parties_of
from cleave.store.reader import LostError, Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.sweeping import cleaning, doomed_of, listed, not_all_stored, require_listed, unlisted, unstored
from cleave.store.vault import Vault
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.errors import DAMAGED, CheckFailed, InputError

if TYPE_CHECKING:
    from cleave.store.cells import Cells
    from cleave.store.views import Views
    from cleave.table.progress import Progress

_NOTE = "rotation."
_CHANGES = "changes"  # member of the head of a table that moved: the sealed object with ids of its newest changes
_IDS_KEPT = 1000
_NAMED = 4  # folders that an error names
_EVENT_TRIES = 8  # to write a head while only events are recorded, or an event while others change the table
_TOGETHER = 1000  # objects that are deleted at once: as many as S3 takes


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
        self._own_heads = Heads.of_owner(key, stores.sensitive.location)

    def _heads(self, tag: str) -> Heads:  # noqa: ARG002 - all tables have one owner
        return self._own_heads

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
        manifest = self.with_pages(manifest)
        written = self.seal(folder, vault, "manifest", manifest.model_dump_json().encode())
        made.wrote.add(written.name)
        if written.bytes > limits.MAX_MANIFEST_BYTES:
            raise InputError(f"table {manifest.table!r} consists of too many objects", hint="put it as several tables")
        views = self._write_views(manifest, vault, previous)
        viewed = views.written if views is not None else ()
        made.wrote.update(each.name for each in viewed)
        if unstored(self.stores, [written, *viewed]):
            raise not_all_stored(self.stores)
        replaced_views = self._viewed(previous) if previous is not None else frozenset[str]()
        shown = manifest, written, views.places if views is not None else None
        self._tags.add(tag)
        self.has_committed = True
        done = self._show(shown, previous, log, what, rows, details, made, _drawn_epsilon(manifest))
        opened = Opened(manifest, vault, *done)
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
        notes = [each for each in self.stores.sensitive.names(self.folder(opened.manifest.table)) if _is_note(each)]
        return own | opened.manifest.objects() | self._viewed(opened) | {*notes}

    def delete_doomed(self, opened: Opened, *, strict: bool = False) -> bool:
        """Delete the objects that a version says are to be deleted. True if the stores have confirmed it.

        `strict`: raise StoreError on an error; else it causes a warning.
        """
        doomed = doomed_of(opened.manifest)
        try:
            doomed.delete(self.stores)
        except StoreError as error:
            if strict:
                text = f"version {opened.manifest.version} is made, but older objects are still there: {error.message}"
                raise StoreError(text, hint=error.hint, status=error.status) from None
            with cleaning():
                raise
            return False
        return True

    def _write_views(self, manifest: Manifest, vault: Vault, before: Opened | None) -> Views | None:
        if not manifest.readers:
            return None
        from cleave.store.views import write_views  # noqa: PLC0415 - DuckDB: a list of tables does not need it

        return write_views(self, self.folder(manifest.table), manifest, vault, before)

    def spent(self, opened: Opened) -> int:
        """Return the epsilon that noisy releases of tables with this name have spent, in millionths.

        This includes tables that were dropped here.
        """
        return self._seen.spent(self.tag(opened.manifest.table), opened.head.spent)

    def take_spent(self, name: str, spent: int) -> None:
        """Note how much epsilon a table spent under another key before it comes here."""
        self._seen.remember_spent(self.tag(name), spent)

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

    def log(self, opened: Opened) -> tuple[Record, ...]:
        """Return all records of the table's log.

        If its newest page was replaced meanwhile, these include records that are newer than `opened`. Raises
        CheckFailed if the log is damaged.
        """
        latest = opened

        def begins_again(error: Exception) -> bool:
            nonlocal latest
            before, latest = latest, self.open(opened.manifest.table)
            return isinstance(error, LostError) and latest.head.log != before.head.log

        return on_newest(lambda: records_of(self, latest.vault, latest.head.log), begins_again)

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
                    spent=self._seen.spent(tag, head.spent if head else 0) + spends,
                    moving_from=self._receiving.get(tag),
                    moving_to=(head.moving_to if head else "") if moving_to is None else moving_to,
                )
                content = self._own_heads.dump(tag, shown.model_dump(exclude_defaults=True))
                follows = partial(self._follows, tag, vault, shown)
                made.expected.add(expected)
                if made.change:
                    made.ids.add(made.change)
                stored = replaced(self.stores.sensitive, f"{folder}/{HEAD}", content, expected, follows)
                break
            except (ConflictError, LostError):
                current = self._read_head(tag)
                if log or head is None or current is None or not left:
                    raise
                newer = self._head_of(tag, current[0])
                if newer.manifest != head.manifest:
                    raise self._changed() from None
                if newer.log.count <= head.log.count:
                    raise
                if made.found_in(records_after(self, vault, newer.log, head.log.count)) is not None:
                    raise
                head, expected = newer, current[1]
        self._seen.remember(tag, manifest.table_id, grown.count)
        self._seen.remember_spent(tag, shown.spent)
        made.wrote -= tried
        old = tried | ({head.log.page.name} if head and not log else set())
        old -= {grown.page.name, *([page.earlier.name] if page.earlier is not None else [])}
        with cleaning():
            self.stores.sensitive.delete(sorted(old))
        return shown, stored

    def _follows(self, tag: str, vault: Vault, mine: TableHead, content: bytes) -> bool:
        """Check whether the head `content` was written on top of `mine`: then its log has the record of `mine`."""
        fields = self._own_heads.load(tag, content)
        if key_moved_to(fields) is not None or discarded_by(fields) is not None:
            return fields.get("table_id") == mine.table_id
        head = self._own_heads.shown(fields)
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
            current = self._read_head(tag)
            if (current[1] if current else None) != expected:
                raise self._changed() from None  # the other process has deleted it
            raise not_stored(self.stores.sensitive.location) from None

    def _changed(self) -> ConflictError:
        return ConflictError(f"{self.stores.sensitive.location}: another process changed the table at the same time")

    def forget(self, name: str) -> None:
        """Accept the table as the store has it, whatever this machine or the key file remembers about it.

        Nothing in the store changes.
        """
        tag = self.tag(name)
        self._evict(name)
        with contextlib.suppress(CheckFailed):  # a damaged head is no table
            head = self._read_head(tag)
            if head is not None and (table_id := _table_id(head[0])):
                self._seen.accept_dropped(table_id)
        self._seen.accept(tag)

    def refusal(self, name: str, shown: Opened) -> tuple[str, int]:
        """Return why this machine refuses a table ("" if it does not), and how many records its log lacks."""
        seen, head = self._seen.newest(self.tag(name)), shown.head
        if self._seen.is_dropped(head.table_id):
            return "dropped", 0
        if seen is not None and seen[0] != head.table_id:
            return ("", 0) if self._seen.is_dropped(seen[0]) else ("another table", 0)
        lost = seen[1] - head.log.count if seen is not None else 0
        return ("older", lost) if lost > 0 else ("", 0)

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
                    if (opened := self._latest(tag, by_tag.get(tag), first)) is not None:
                        tables.append(opened)
        if lost:
            self._require_heads(names)
        yield from sorted(tables, key=lambda each: each.manifest.table.lower())

    def _require_heads(self, names: Iterable[str]) -> None:
        parts = [name.split("/") for name in names]
        lost = {tag for _, tag, *_ in parts} - {tag for _, tag, *last in parts if last == [HEAD]}
        seen = [each for tag in lost if (each := self._seen.newest(tag)) and not self._seen.is_dropped(each[0])]
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
        seen, stored = self._seen.newest(tag), self.stores.sensitive.read_versioned(name)
        is_own = stored is not None and parsed(stored[0]).get("key_id") == self.key.key_id
        return (seen, stored) if is_own else None

    def versions(self) -> dict[str, tuple[str, int]]:
        """Return the id and log length of every table under this key, by tag, and of dropped tables.

        A copy of the key file keeps them as the oldest acceptable states.
        """
        there = {self.tag(each.manifest.table): (each.head.table_id, each.head.log.count) for each in self.all()}
        return self._seen.dropped() | there

    def drop(self, name: str, progress: Progress | None = None, confirm: Callable[[], None] | None = None) -> None:
        """Delete a table, starting with its head: without a head there is no table.

        `confirm` is called once the table is found, and raises to keep it.

        Objects that no manifest names are deleted too, as are answers left behind and what a stopped `cleave key
        rotate` left under the other key. If the manifest cannot be opened, heads in the store tell which folders of
        contributors, analysts and readers are the table's. Raises InputError if there is no such table and never was,
        StoreError if something may be left.
        """
        tag = self.tag(name)
        own, head = f"tables/{tag}", f"tables/{tag}/{HEAD}"
        dropped = self._states(tag)  # first: it refuses tables of other releases
        is_moved = self._require_no_rotation(tag)
        opened = self._openable(tag)
        parties = self._parties(opened, dropped)
        # its own last: the notes in there find the others when a drop that was killed is repeated
        folders = [*self._left(own, copies=not is_moved), f"results/{tag}", self.drafts(name), *parties.folders, own]
        is_known = self._seen.newest(tag) is not None or self._version(head) is not None
        if not is_known and not any(sizes for _, sizes in listed(self.stores, folders)):
            raise self.no_table(name)
        if confirm is not None:
            confirm()
        before = self._version(head)
        if opened is not None:
            self._seen.remember_spent(tag, opened.head.spent)
            if self.replaced(opened):
                raise ConflictError(f"{self.stores.sensitive.location}: another process changed the table")
        # whatever is under way fails to commit from here on
        discarded = self._discard(tag, before, "drop", next(iter(dropped), ""))
        objects = listed(self.stores, folders)
        missing = unlisted(self.stores, objects, _named(opened))
        for table_id, count in dropped.items():
            self._seen.remember_dropped(table_id, count)
        total = sum(len(sizes) for _, sizes in objects)
        advance = progress.stage("delete", total, "objects") if progress else lambda _: None
        for store, sizes in reversed(objects):
            # a party's head after the rest of its folder: a drop that was killed is repeated and finds it by this
            names = sorted([*sizes, *missing], key=lambda each: (each.startswith(f"{own}/"), each.endswith(f"/{HEAD}")))
            names = [each for each in names if each != head]
            for start in range(0, len(names), _TOGETHER):
                batch = names[start : start + _TOGETHER]
                store.delete(batch)
                advance(len(batch))
        self.stores.sensitive.delete([head])
        if self._version(head) == discarded:
            raise self._undeleted(1)
        advance(1)
        deleted = {name for _, sizes in objects for name in sizes}
        if left := {name for _, sizes in listed(self.stores, folders) for name in sizes} & deleted:
            raise self._undeleted(len(left))
        if missing:
            raise StoreError(
                f"{self.stores.sensitive.location}: the table is dropped, but the store did not list "
                f"{len(missing):,} of its objects: others may be left below {own}/",
                hint="list and empty that folder by other means; docs/stored.md says what a store must do",
            )
        self._evict(name)
        self._seen.forget(tag)
        unknown = [each for each in parties.unknown if each not in folders]
        if unknown or (opened is None and before is not None and not dropped):
            where = ", ".join(unknown[:_NAMED]) if dropped else "tables/ and releases/"
            more = f" and {len(unknown) - _NAMED:,} more" if dropped and len(unknown) > _NAMED else ""
            raise StoreError(
                f"{self.stores.sensitive.location}: the table is dropped, but its manifest could not be opened: "
                f"objects of its contributors, analysts or readers may be left below {where}{more}",
                hint="empty these folders by other means if they are no other table's",
            )

    def _require_no_rotation(self, tag: str) -> bool:
        """Raise InputError if a table that is being moved must not be dropped under this key. True if it moved away."""
        with contextlib.suppress(CheckFailed):  # of a damaged head nothing is known
            loaded = self._read_head(tag)
            if loaded is None:
                return False
            fields, own = loaded[0], f"tables/{tag}"
            if key_moved_to(fields) is not None:
                for place in filter(_is_note, self.stores.sensitive.names(own)):
                    folder = self._notes(own).open("draft", place, self.stores.sensitive.read(place)).decode()
                    head = self.stores.sensitive.read_versioned(f"{folder}/{HEAD}")
                    if head is not None and _place_before(parsed(head[0])) == own:
                        raise InputError(
                            f"{self.stores.sensitive.location}: the table has just moved to another key, which needs "
                            "this note",
                            hint="run the same `cleave key rotate` again first",
                        )
                return True
            place_before = _place_before(fields)
            head = self.stores.sensitive.read_versioned(f"{place_before}/{HEAD}") if place_before else None
            if head is not None and not self._has_come(self._own_heads.shown(fields), self.key.key_id):
                raise InputError(
                    f"{self.stores.sensitive.location}: the table is still under the key that it is being moved from",
                    hint="drop it with that key, or run the same `cleave key rotate` again",
                )
        return False

    def _parties(self, opened: Opened | None, table_ids: Collection[str]) -> Parties:
        """Return the folders of a table's contributors, analysts and readers. `table_ids`: if it cannot be opened."""
        if opened is None:
            found = parties_of(self.stores.sensitive, self.key, table_ids) if table_ids else Parties(())
            return replace(found, folders=(*found.folders, *map(self.released, table_ids)))
        manifest, release = opened.manifest, opened.manifest.release
        released = [each.place for each in (*release.analysts, *release.revoked)] if release else []
        contributed = [folder_of(manifest.table_id, each.key) for each in manifest.contributors]
        readers = (each.place for each in manifest.readers)
        return Parties((*contributed, *released, *readers, self.released(manifest.table_id)))

    def _states(self, tag: str) -> dict[str, int]:
        """Return the ids and log lengths of the table that is stored, that this machine has seen, and that the key file
        knows.
        """
        states = dict(each for each in (self._seen.newest(tag), self.key.floors.get(tag)) if each)
        with contextlib.suppress(CheckFailed):  # a damaged head says nothing
            head = self._read_head(tag)
            if head is not None and (table_id := _table_id(head[0])):
                states.setdefault(table_id, 1)
        return states

    def _version(self, name: str) -> str | None:
        """Return the version of an object that changes; None if there is none, or if another kind of object is in its
        place.
        """
        with contextlib.suppress(ForeignError):
            stored = self.stores.sensitive.read_versioned(name)
            return stored[1] if stored else None
        return None

    def _undeleted(self, count: int) -> StoreError:
        return StoreError(
            f"{self.stores.sensitive.location}: the store confirmed deletions and still has {count:,} of the objects",
            hint="docs/stored.md says what a store must do; the same command goes on with what is left",
        )

    def _openable(self, tag: str) -> Opened | None:
        """Open a table to drop it; return None if it cannot be opened and its objects are known only from lists."""
        with contextlib.suppress(CheckFailed, InputError):
            return self._latest(tag)
        return None

    def moved_to(self, name: str) -> str | None:
        """Return the id of the key to which `cleave key rotate` moved a table, or None if the table was not moved."""
        loaded = self._read_head(self.tag(name))
        return key_moved_to(loaded[0]) if loaded else None

    def close_as_moved(self, opened: Opened, key_id: str) -> None:
        """Close the table under this key, so that only the key `key_id` opens it. Raises ConflictError on a change."""
        tag = self.tag(opened.manifest.table)
        opened.head.require_writable(f"{self.stores.sensitive.location}: table {opened.manifest.table!r}")
        require_listed(self.stores, listed(self.stores, self.folders(opened.manifest)), (), _named(opened))
        try:
            newest = records_after(self, opened.vault, opened.head.log, max(0, opened.head.log.count - _IDS_KEPT))
        except LostError:
            raise self._changed() from None
        ids = json.dumps([each.change for each in newest if each.change]).encode()
        changes = self.seal(f"tables/{tag}", opened.vault, "log", ids)
        head = {"moved_to": key_id, "table_id": opened.manifest.table_id, _CHANGES: changes.name}
        content = self._own_heads.dump(tag, head)
        self.stores.flush([f"tables/{tag}"])
        replaced(self.stores.sensitive, f"tables/{tag}/{HEAD}", content, opened.head_etag)
        self._seen.remember_dropped(opened.manifest.table_id, opened.head.log.count)

    def hold(self, opened: Opened, key_id: str) -> None:
        """Refuse changes of a table but deletions while it is moved to the key `key_id`; "": take them again.

        Raises ConflictError on a change.
        """
        shown, made = (opened.manifest, opened.head.manifest, opened.head.views), Made()
        what = "rotate holds" if key_id else "rotate undone"
        self._show(shown, opened, None, what, 0, {"key": key_id} if key_id else {}, made, moving_to=key_id)

    @contextlib.contextmanager
    def receiving(self, name: str, source: Tables) -> Iterator[None]:
        """In the block, versions of a table are copies of one under the key of `source`, and no table yet."""
        tag = self.tag(name)
        public = source.key.signing_key().public_key().public_bytes_raw().hex()
        self._receiving[tag] = MovedFrom(place=source.folder(name), public=public)
        try:
            yield
        finally:
            del self._receiving[tag]

    def discard(self, name: str, source: Tables) -> Callable[[], None]:
        """Replace the head of a copy that a rotation makes here, if there is one, by one that takes no more of it.

        Returns what puts the head back. Raises InputError if it is no copy of the table under the key of `source`.
        """
        tag, place = self.tag(name), f"{self.folder(name)}/{HEAD}"
        loaded = self._read_head(tag)
        if loaded is not None and discarded_by(loaded[0]) is not None:
            return lambda: None
        if loaded is None:
            self._discard(tag, None, "undo", "")
            return lambda: self.stores.sensitive.delete([place])
        if _place_before(loaded[0]) != source.folder(name):
            raise InputError(f"{self.stores.sensitive.location}: table {name!r} under the new key is no copy")
        stored = self.stores.sensitive.read_versioned(place)
        if stored is None or stored[1] != loaded[1]:
            raise ConflictError(f"{self.stores.sensitive.location}: another process is moving the table")
        version = self._discard(tag, stored[1], "undo", loaded[0]["table_id"])
        return partial(self._put_back, place, stored[0], version)

    def _discard(self, tag: str, expected: str | None, by: str, table_id: str) -> str:
        """Write a head that takes no more; return its version. Raises ConflictError if the head is not `expected`."""
        content = self._own_heads.dump(tag, {DISCARDED: by, "table_id": table_id})
        return replaced(self.stores.sensitive, f"tables/{tag}/{HEAD}", content, expected)

    def _put_back(self, place: str, content: bytes, version: str) -> None:
        replaced(self.stores.sensitive, place, content, version)

    def clear_discarded(self, name: str) -> None:
        """Delete what `discard` took; the head last."""
        tag = self.tag(name)
        loaded = self._read_head(tag)
        if loaded is None or discarded_by(loaded[0]) is None:
            return
        folders = [self.drafts(name), self.released(_table_id(loaded[0]) or ""), self.folder(name)]
        head = f"{self.folder(name)}/{HEAD}"
        for store in reversed(self.stores.distinct()):
            for folder in folders:
                store.delete([each for each in store.names(folder) if each != head])
        self.stores.sensitive.delete([head])
        self._seen.forget(tag)

    def moved_with(self, name: str) -> frozenset[str]:
        """The ids of the newest changes that a table had which moved to another key."""
        loaded = self._read_head(self.tag(name))
        fields = loaded[0] if loaded is not None and key_moved_to(loaded[0]) is not None else {}
        place, table_id = fields.get(_CHANGES), _table_id(fields)
        if not isinstance(place, str) or table_id is None:
            return frozenset()
        content = self.stores.sensitive.read(place, most=limits.MAX_HEAD_BYTES)
        return frozenset(json.loads(self.vault(table_id).open("log", place, content)))

    def was_dropped(self, table_id: str) -> bool:
        """Check whether this machine dropped a table, or another machine whose memory is in the key file."""
        return self._seen.is_dropped(table_id)

    def clear(self, name: str) -> None:
        """Delete a moved table, except its head, which says where it moved."""
        tag = self.tag(name)
        loaded = self._read_head(tag)
        if loaded is None or key_moved_to(loaded[0]) is None:
            raise InputError(f"table {name!r} was not put under another key")
        self._evict(name)
        released = [self.released(table_id)] if (table_id := _table_id(loaded[0])) else []
        folders = [*self._left(f"tables/{tag}"), self.drafts(name), *released, f"tables/{tag}"]
        for store in reversed(self.stores.distinct()):
            for folder in folders:
                kept = (f"tables/{tag}/{HEAD}", loaded[0].get(_CHANGES))
                store.delete([each for each in store.names(folder) if each not in kept])

    def note(self, name: str, other: Tables) -> None:
        """Note where the table is stored under the key of `other`, in case a rotation is stopped.

        A table has another folder under another key, whose name only that key can compute. A sealed note names this
        folder. Sweeps keep notes; the end of the rotation deletes them.
        """
        place = self._note(name, other)
        if self.stores.sensitive.read_versioned(place) is None:
            content = self._notes(self.folder(name)).seal("draft", place, other.folder(name).encode())
            self.stores.sensitive.write(place, content)
            self.stores.sensitive.flush([self.folder(name)])

    def drop_note(self, name: str, other: Tables) -> None:
        self.stores.sensitive.delete([self._note(name, other)])

    def _note(self, name: str, other: Tables) -> str:
        return f"{self.folder(name)}/{_NOTE}{other.key.key_id}"

    def _notes(self, folder: str) -> Vault:
        return self.vault(f"rotation {folder}")

    def _left(self, folder: str, *, copies: bool = False) -> Iterator[str]:
        """Yield folders under other keys that have objects of a table but no table, and those of its drafts: no table
        is there, or it moved here.

        `copies`: this one is a table that did not move, so copies of it are none.
        """
        store = self.stores.sensitive
        for place in filter(_is_note, store.names(folder)):
            with contextlib.suppress(CheckFailed):  # then it names nothing that may be deleted
                folder_left = self._notes(folder).open("draft", place, store.read(place)).decode()
                head = store.read_versioned(f"{folder_left}/{HEAD}")
                fields = parsed(head[0]) if head is not None else {}
                is_copy = copies and _place_before(fields) == folder
                if head is None or is_copy or key_moved_to(fields) == self.key.key_id:
                    yield folder_left.replace("tables/", "drafts/", 1)
                    yield folder_left

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
    release = manifest.release
    return release.epsilon if release is not None and release.drawn == manifest.version else 0


def _named(opened: Opened | None) -> set[str]:
    """Return the names of all objects that a table's head leads to, as far as its pages can be read."""
    if opened is None:
        return set()
    head = opened.head
    views = {head.views.name} if head.views else set()
    failures = pages.unreadable(opened.manifest)
    there = {each.name for each in opened.manifest.parts(failures)}
    return {*failures, *there, head.manifest.name, head.log.page.name, *views}


def _table_id(head: dict[str, Any]) -> str | None:
    table_id = head.get("table_id")
    return table_id if isinstance(table_id, str) else None


def _place_before(head: dict[str, Any]) -> str | None:
    """The folder of a table before it moves where this head is; None if no rotation is under way."""
    moving_from = head.get("moving_from")
    place = moving_from.get("place") if isinstance(moving_from, dict) else None
    return place if isinstance(place, str) else None


def _is_note(name: str) -> bool:
    return name.rpartition("/")[2].startswith(_NOTE)
