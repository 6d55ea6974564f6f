"""Drop a table: its head first takes no more, then its objects are deleted, the head last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import replace

from cleave.objects.storage import ConflictError, ForeignError, StoreError, replaced
from cleave.store.contribution import folder_of
from cleave.store.heads import key_moved_to, parsed, place_before, table_id_of
from cleave.store.newest import DISCARDED, HEAD
from cleave.store.notes import folder_noted, left_elsewhere, notes_in
from cleave.store.parties import Parties, parties_of
from cleave.store.reader import Opened
from cleave.store.sweeping import listed, readable_names, unlisted
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave_shared.errors import CheckFailed, InputError

_NAMED = 4  # folders that an error names
_TOGETHER = 1000  # objects that are deleted at once: as many as S3 takes


def drop(
    tables: Tables, name: str, progress: Progress | None = None, confirm: Callable[[], None] | None = None
) -> None:
    """Delete a table, starting with its head: without a head there is no table.

    `confirm` is called once the table is found, and raises to keep it.

    Objects that no manifest names are deleted too, as are answers left behind and what a stopped `cleave key
    rotate` left under the other key. If the manifest cannot be opened, heads in the store tell which folders of
    contributors, analysts and readers are the table's. Raises InputError if there is no such table and never was,
    StoreError if something may be left.
    """
    tag = tables.tag(name)
    own, head = f"tables/{tag}", f"tables/{tag}/{HEAD}"
    dropped = _states(tables, tag)  # first: it refuses tables of other releases
    is_moved = _require_no_rotation(tables, tag)
    opened = _openable(tables, tag)
    parties = _parties(tables, opened, dropped)
    # its own last: the notes in there find the others when a drop that was killed is repeated
    folders = [
        *left_elsewhere(tables, own, copies=not is_moved),
        f"results/{tag}",
        tables.drafts(name),
        *parties.folders,
        own,
    ]
    is_known = tables.memory.newest(tag) is not None or _version(tables, head) is not None
    if not is_known and not any(sizes for _, sizes in listed(tables.stores, folders)):
        raise tables.no_table(name)
    if confirm is not None:
        confirm()
    before = _version(tables, head)
    if opened is not None:
        tables.memory.remember_spent(tag, opened.head.spent)
        if opened.manifest.had_exact:
            tables.memory.remember_exact(tag)
        if tables.replaced(opened):
            raise ConflictError(f"{tables.stores.sensitive.location}: another process changed the table")
    # whatever is under way fails to commit from here on
    discarded = discard_head(tables, tag, before, "drop", next(iter(dropped), ""))
    objects = listed(tables.stores, folders)
    missing = unlisted(tables.stores, objects, readable_names(opened))
    for table_id, count in dropped.items():
        tables.memory.remember_dropped(table_id, count)
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
    tables.stores.sensitive.delete([head])
    if _version(tables, head) == discarded:
        raise _undeleted(tables, 1)
    advance(1)
    deleted = {name for _, sizes in objects for name in sizes}
    if left := {name for _, sizes in listed(tables.stores, folders) for name in sizes} & deleted:
        raise _undeleted(tables, len(left))
    if missing:
        raise StoreError(
            f"{tables.stores.sensitive.location}: the table is dropped, but the store did not list "
            f"{len(missing):,} of its objects: others may be left below {own}/",
            hint="list and empty that folder by other means; docs/stored.md says what a store must do",
        )
    tables.evict(name)
    tables.memory.forget(tag)
    unknown = [each for each in parties.unknown if each not in folders]
    if unknown or (opened is None and before is not None and not dropped):
        where = ", ".join(unknown[:_NAMED]) if dropped else "tables/ and releases/"
        more = f" and {len(unknown) - _NAMED:,} more" if dropped and len(unknown) > _NAMED else ""
        raise StoreError(
            f"{tables.stores.sensitive.location}: the table is dropped, but its manifest could not be opened: "
            f"objects of its contributors, analysts or readers may be left below {where}{more}",
            hint="empty these folders by other means if they are no other table's",
        )


def discard_head(tables: Tables, tag: str, expected: str | None, by: str, table_id: str) -> str:
    """Write a head that takes no more; return its version. Raises ConflictError if the head is not `expected`."""
    content = tables.own_heads.dump(tag, {DISCARDED: by, "table_id": table_id})
    return replaced(tables.stores.sensitive, f"tables/{tag}/{HEAD}", content, expected)


def _require_no_rotation(tables: Tables, tag: str) -> bool:
    """Raise InputError if a table that is being moved must not be dropped under this key. True if it moved away."""
    with contextlib.suppress(CheckFailed):  # of a damaged head nothing is known
        loaded = tables.read_head(tag)
        if loaded is None:
            return False
        fields, own = loaded[0], f"tables/{tag}"
        if key_moved_to(fields) is not None:
            for place in notes_in(tables, own):
                folder = folder_noted(tables, place)
                head = tables.stores.sensitive.read_versioned(f"{folder}/{HEAD}")
                if head is not None and place_before(parsed(head[0])) == own:
                    raise InputError(
                        f"{tables.stores.sensitive.location}: the table has just moved to another key, which needs "
                        "this note",
                        hint="run the same `cleave key rotate` again first",
                    )
            return True
        old_place = place_before(fields)
        head = tables.stores.sensitive.read_versioned(f"{old_place}/{HEAD}") if old_place else None
        if head is not None and not tables.has_come(tables.own_heads.shown(fields), tables.key.key_id):
            raise InputError(
                f"{tables.stores.sensitive.location}: the table is still under the key that it is being moved from",
                hint="drop it with that key, or run the same `cleave key rotate` again",
            )
    return False


def _parties(tables: Tables, opened: Opened | None, table_ids: Collection[str]) -> Parties:
    """Return the folders of a table's contributors, analysts and readers. `table_ids`: if it cannot be opened."""
    if opened is None:
        found = parties_of(tables.stores.sensitive, tables.key, table_ids) if table_ids else Parties(())
        return replace(found, folders=(*found.folders, *map(tables.released, table_ids)))
    manifest, release = opened.manifest, opened.manifest.release
    released = [each.place for each in (*release.analysts, *release.revoked)] if release else []
    contributed = [folder_of(manifest.table_id, each.key) for each in manifest.contributors]
    readers = (each.place for each in manifest.readers)
    return Parties((*contributed, *released, *readers, tables.released(manifest.table_id)))


def _states(tables: Tables, tag: str) -> dict[str, int]:
    """Return the ids and log lengths of the table that is stored, that this machine has seen, and that the key file
    knows.
    """
    states = dict(each for each in (tables.memory.newest(tag), tables.key.floors.get(tag)) if each)
    with contextlib.suppress(CheckFailed):  # a damaged head says nothing
        head = tables.read_head(tag)
        if head is not None and (table_id := table_id_of(head[0])):
            states.setdefault(table_id, 1)
    return states


def _version(tables: Tables, name: str) -> str | None:
    """Return the version of an object that changes; None if there is none, or if another kind of object is in its
    place.
    """
    with contextlib.suppress(ForeignError):
        stored = tables.stores.sensitive.read_versioned(name)
        return stored[1] if stored else None
    return None


def _undeleted(tables: Tables, count: int) -> StoreError:
    return StoreError(
        f"{tables.stores.sensitive.location}: the store confirmed deletions and still has {count:,} of the objects",
        hint="docs/stored.md says what a store must do; the same command goes on with what is left",
    )


def _openable(tables: Tables, tag: str) -> Opened | None:
    """Open a table to drop it; return None if it cannot be opened and its objects are known only from lists."""
    with contextlib.suppress(CheckFailed, InputError):
        return tables.latest(tag)
    return None
