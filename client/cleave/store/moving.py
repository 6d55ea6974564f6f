"""What a rotation does to a table under the key that it leaves, and to the copy under the other key."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import partial

from cleave.objects.storage import ConflictError, replaced
from cleave.store.dropping import discard_head
from cleave.store.heads import MovedFrom, key_moved_to, place_before, table_id_of
from cleave.store.log import records_after
from cleave.store.newest import HEAD, discarded_by
from cleave.store.notes import left_elsewhere
from cleave.store.reader import LostError, Opened
from cleave.store.sweeping import listed, readable_names, require_listed
from cleave.store.tables import Tables
from cleave_shared import limits
from cleave_shared.errors import InputError

_CHANGES = "changes"  # member of the head of a table that moved: the sealed object with ids of its newest changes
_IDS_KEPT = 1000


@contextlib.contextmanager
def receiving(tables: Tables, name: str, source: Tables) -> Iterator[None]:
    """In the block, versions of a table are copies of one under the key of `source`, and no table yet."""
    tag = tables.tag(name)
    public = source.key.signing_key().public_key().public_bytes_raw().hex()
    tables.receiving[tag] = MovedFrom(place=source.folder(name), public=public)
    try:
        yield
    finally:
        del tables.receiving[tag]


def take_spent(tables: Tables, name: str, spent: int) -> None:
    """Note how much epsilon a table spent under another key before it comes here."""
    tables.memory.remember_spent(tables.tag(name), spent)


def close_as_moved(tables: Tables, opened: Opened, key_id: str) -> None:
    """Close the table under this key, so that only the key `key_id` opens it. Raises ConflictError on a change."""
    tag = tables.tag(opened.manifest.table)
    opened.head.require_writable(f"{tables.stores.sensitive.location}: table {opened.manifest.table!r}")
    require_listed(tables.stores, listed(tables.stores, tables.folders(opened.manifest)), (), readable_names(opened))
    try:
        newest = records_after(tables, opened.vault, opened.head.log, max(0, opened.head.log.count - _IDS_KEPT))
    except LostError:
        raise tables.changed_by_others() from None
    ids = json.dumps([each.change for each in newest if each.change]).encode()
    changes = tables.seal(f"tables/{tag}", opened.vault, "log", ids)
    head = {"moved_to": key_id, "table_id": opened.manifest.table_id, _CHANGES: changes.name}
    content = tables.own_heads.dump(tag, head)
    tables.stores.flush([f"tables/{tag}"])
    replaced(tables.stores.sensitive, f"tables/{tag}/{HEAD}", content, opened.head_etag)
    tables.memory.remember_dropped(opened.manifest.table_id, opened.head.log.count)


def clear(tables: Tables, name: str) -> None:
    """Delete a moved table, except its head, which says where it moved."""
    tag = tables.tag(name)
    loaded = tables.read_head(tag)
    if loaded is None or key_moved_to(loaded[0]) is None:
        raise InputError(f"table {name!r} was not put under another key")
    tables.evict(name)
    released = [tables.released(table_id)] if (table_id := table_id_of(loaded[0])) else []
    folders = [*left_elsewhere(tables, f"tables/{tag}"), tables.drafts(name), *released, f"tables/{tag}"]
    for store in reversed(tables.stores.distinct()):
        for folder in folders:
            kept = (f"tables/{tag}/{HEAD}", loaded[0].get(_CHANGES))
            store.delete([each for each in store.names(folder) if each not in kept])


def is_gone(tables: Tables, name: str) -> bool:
    """True if the head of a table says that it moved to another key, or is being deleted."""
    loaded = tables.read_head(tables.tag(name))
    return loaded is not None and (key_moved_to(loaded[0]) is not None or discarded_by(loaded[0]) is not None)


def moved_with(tables: Tables, name: str) -> frozenset[str]:
    """The ids of the newest changes that a table had which moved to another key."""
    loaded = tables.read_head(tables.tag(name))
    fields = loaded[0] if loaded is not None and key_moved_to(loaded[0]) is not None else {}
    place, table_id = fields.get(_CHANGES), table_id_of(fields)
    if not isinstance(place, str) or table_id is None:
        return frozenset()
    content = tables.stores.sensitive.read(place, most=limits.MAX_HEAD_BYTES)
    return frozenset(json.loads(tables.vault(table_id).open("log", place, content)))


def discard(tables: Tables, name: str, source: Tables) -> Callable[[], None]:
    """Replace the head of a copy that a rotation makes here, if there is one, by one that takes no more of it.

    Returns what puts the head back. Raises InputError if it is no copy of the table under the key of `source`.
    """
    tag, place = tables.tag(name), f"{tables.folder(name)}/{HEAD}"
    loaded = tables.read_head(tag)
    if loaded is not None and discarded_by(loaded[0]) is not None:
        return lambda: None
    if loaded is None:
        discard_head(tables, tag, None, "undo", "")
        return lambda: tables.stores.sensitive.delete([place])
    if place_before(loaded[0]) != source.folder(name):
        raise InputError(f"{tables.stores.sensitive.location}: table {name!r} under the new key is no copy")
    stored = tables.stores.sensitive.read_versioned(place)
    if stored is None or stored[1] != loaded[1]:
        raise ConflictError(f"{tables.stores.sensitive.location}: another process is moving the table")
    version = discard_head(tables, tag, stored[1], "undo", loaded[0]["table_id"])
    return partial(_put_back, tables, place, stored[0], version)


def _put_back(tables: Tables, place: str, content: bytes, version: str) -> None:
    replaced(tables.stores.sensitive, place, content, version)


def clear_discarded(tables: Tables, name: str) -> None:
    """Delete what `discard` took; the head last."""
    tag = tables.tag(name)
    loaded = tables.read_head(tag)
    if loaded is None or discarded_by(loaded[0]) is None:
        return
    folders = [tables.drafts(name), tables.released(table_id_of(loaded[0]) or ""), tables.folder(name)]
    head = f"{tables.folder(name)}/{HEAD}"
    for store in reversed(tables.stores.distinct()):
        for folder in folders:
            store.delete([each for each in store.names(folder) if each != head])
    tables.stores.sensitive.delete([head])
    tables.memory.forget(tag)
