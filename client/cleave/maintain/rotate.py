"""Put a table under another key: every segment is opened and sealed again, the new table shown, the old one closed.

The new table has a folder and objects of its own, so the old one is queried as before until it is closed. A draft
records each finished segment, and the same command goes on after the last one. Rows that are added to the old table
meanwhile are taken along, for it is closed only if it is still what was copied.
"""

from __future__ import annotations

from contextlib import closing

from cleave.objects.storage import ConflictError
from cleave.share.collect import news
from cleave.share.releases import reseal
from cleave.store.change import apply
from cleave.store.log import copied
from cleave.store.manifest import Manifest, Object, Release, Segment
from cleave.store.pieces import SegmentRows
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave_shared.errors import InputError

_TRIES = 20  # to close a table that others go on adding to


def rotate(old: Tables, new: Tables, table: str, progress: Progress) -> Opened:
    """`table` as it is under the key of `new`; under that of `old` nothing of it can be opened any more.

    Raises InputError where there is another table of that name under the new key, or contributors have put what was
    not taken in; CheckFailed for what is damaged.
    """
    key_id = new.key.key_id
    if old.key.key_id == key_id:
        raise InputError("the table is already under this key", hint="make one with: cleave key new")
    for _ in range(_TRIES):
        if old.moved_to(table) != key_id:  # else what was left of it is still to be deleted
            opened = old.open(table)
            for each in opened.manifest.contributors:
                if news(old, opened.manifest, each).head is not None:
                    raise InputError(
                        f"contributor {each.name!r} has put rows that are not collected yet",
                        hint="first `cleave contributor collect`, or `cleave contributor remove`",
                    )
            _rotate_version(old, new, opened, progress)
            try:
                old.close_as_moved(opened, key_id)
            except ConflictError:
                continue
        old.clear(table)
        new.drop_note(table, old)
        reseal(new, table)
        return new.open(table)
    raise InputError(f"table {table!r} is changed faster than it can be put under another key")


def _rotate_version(old: Tables, new: Tables, opened: Opened, progress: Progress) -> None:
    """Put one version of the old table under the new key."""
    source = opened.manifest
    table, table_id = source.table, new.key.tag(f"rotated {source.table_id}")  # the same each time it is tried
    existing = new.find(table)
    if existing is not None and existing.manifest.table_id != table_id:
        raise InputError(f"there is another table {table!r} under the new key")
    old.note(table, new)
    new.note(table, old)
    present = {_content(each): each for each in (existing.manifest.segments if existing else ())}
    if existing is not None and _lineage(existing.manifest) != _lineage(source):  # marks of another
        present = {}
    fields = {
        **dict(source),
        "table_id": table_id,
        "release": _moved(old, new, opened, table_id),
        "segments": tuple(present.get(_content(each), each) for each in source.segments),
        "contributors": tuple(
            each.model_copy(update={"version": 0, "digest": "", "parts": ()}) for each in source.contributors
        ),
    }
    del fields["secret"]  # the new table has one of its own
    if existing:
        fields["secret"] = existing.manifest.secret
    target = Manifest.model_construct(**fields)
    cells, log = old.cells(opened), copied(old.log(opened), new, new.folder(table), new.vault(table_id))
    with closing(Rows(old, opened)) as rows:
        missing = [each for each in source.segments if _content(each) not in present]
        pieces = [SegmentRows(rows, (each,), id=each.id) for each in missing]
        request = [source.table_id, source.version]
        done = apply(
            new,
            existing,
            target,
            pieces,
            "rotate",
            request,
            progress,
            cells=cells,
            stage="encrypt again",
            rows=0,
            log=log,
        )
    new.sweep(done)


def _moved(old: Tables, new: Tables, opened: Opened, table_id: str) -> Release | None:
    """Ledger and digests of the releases under the new key. Totals follow once the table is there."""
    release, table = opened.manifest.release, opened.manifest.table
    if release is None:
        return None

    def moved(which: Object) -> Object:
        content = old.unseal(opened.vault, "release", which)
        return new.seal(new.folder(table), new.vault(table_id), "release", content)

    digests = None if release.digests is None else moved(release.digests)
    update = {"ledger": moved(release.ledger), "digests": digests, "totals": None, "before": None}
    return release.model_copy(update=update)


def _lineage(manifest: Manifest) -> str | None:
    return manifest.release.lineage if manifest.release else None


def _content(segment: Segment) -> tuple[object, ...]:
    """The same for a segment under either key: its rows never change, but columns may be derived from them, and rows
    published.
    """
    return (segment.id, segment.totals[-1].stop, segment.contributor, segment.unpublished)
