"""Move a table to another key: every segment is opened and sealed again, then the new table appears and the old one
closes.

The new table has its own folder and objects, so the old one can be queried until it closes. A draft records finished
segments; the same command continues after the last one. The old table is only closed if it is still what was copied;
rows added in between are copied first.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Unpack

from cleave.ask.config import user
from cleave.ask.opening import key_file, kms_of, passphrase_of
from cleave.ask.options import Rotating
from cleave.ckks.key_file import describe_key, open_key
from cleave.ckks.public_key import public_side
from cleave.contributions.collect import news
from cleave.maintain.facts import StoredTable, stored_table
from cleave.maintain.task import CONTINUES, Task, operation
from cleave.objects.storage import ConflictError
from cleave.releases.releases import reseal
from cleave.share.bundle import publish_bundle
from cleave.store.basis import digest_of
from cleave.store.change import Change, ChangePlan, HeldError, held, in_the_way
from cleave.store.log import copied as copied_log
from cleave.store.making import make
from cleave.store.manifest import AnyRelease, Batches, HandledParts, Manifest, Object, Segment, Segments
from cleave.store.moving import clear, clear_discarded, close_as_moved, discard, receiving, take_spent
from cleave.store.notes import drop_note, note
from cleave.store.pieces import SegmentRows
from cleave.store.reader import LostError, Opened
from cleave.store.rows import Rows
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave_shared.errors import InputError

_TRIES = 20  # attempts to close a table while others add rows
_HOLDS = 3  # the attempt after which others may not add rows


@operation(Rotating, after=CONTINUES, again=False, writes=True)
def rotate(task: Task, name: str, new_key: str | Path, **options: Unpack[Rotating]) -> StoredTable:
    """Move a stored table to another key: all of it is sealed again.

    Until that is done the table is under the old key alone. The same call continues a rotation that was stopped;
    `undo`: it ends it instead, and the table stays under the old key.
    """
    target = key_file(new_key)
    describe_key(target)  # a missing one is reported before the prompt for a passphrase
    tables = task.tables
    other = open_key(target, passphrase_of(options["new_passphrase"]), kms_of(options["profile"]))
    new = Tables(tables.stores, other, SeenVersions(), user=user())
    if options["undo"]:  # the new key tells which copy
        return stored_table(undo(tables, new, name).manifest)
    done = move_table(tables, new, name, task.progress).manifest
    task.say(f"the fingerprint of the new key is {public_side(other).fingerprint}")
    if done.contributors:
        names = ", ".join(each.name for each in done.contributors)
        task.say(
            f"send contributors ({names}) a new public file, made by `cleave key export --table {name}` with the new "
            "key: rows put with the old file are not collected"
        )
    if done.release is not None and done.release.analysts:
        names = ", ".join(each.name for each in done.release.analysts)
        task.say(f"send analysts ({names}) the new fingerprint over another channel: they need it for --fingerprint")
    if done.readers:
        names = ", ".join(each.name for each in done.readers)
        task.say(f"send readers ({names}) the new fingerprint over another channel: they need it for --fingerprint")
    return stored_table(done)


def move_table(old: Tables, new: Tables, table: str, progress: Progress) -> Opened:
    """Move `table` to the key of `new`. Under the key of `old` nothing of it can be opened afterwards.

    Until the old head says that it moved, the table is under the old key alone. Raises InputError if the new key has
    another table of that name, or if contributors' rows are not collected; CheckFailed for damaged objects.
    """
    key_id = new.key.key_id
    if old.key.key_id == key_id:
        raise InputError("the table is already under this key", hint="make one with: cleave key new")
    for attempt in range(_TRIES):
        if old.moved_to(table) == key_id:  # only its remains must be deleted
            break
        opened = old.open(table)
        for contributor in opened.manifest.contributors:
            if news(old, opened.manifest, contributor).head is not None:
                raise InputError(
                    f"contributor {contributor.name!r} has put rows that are not collected yet",
                    hint="first `cleave contributor collect`, or `cleave contributor remove`",
                )
        if opened.manifest.revoking:
            raise HeldError(*(held(opened) or ("", "")))
        try:
            if attempt >= _HOLDS and not opened.head.moving_to:
                old.hold(opened, key_id)
                opened = old.open(table)
            with receiving(new, table, old):
                _rotate_version(old, new, opened, progress)
            close_as_moved(old, opened, key_id)
        except ConflictError:
            continue
        except LostError:  # of what was copied
            if not old.replaced(opened):
                raise
    if old.moved_to(table) != key_id:
        raise InputError(f"table {table!r} is changed faster than it can be put under another key")
    done = new.open(table)
    if done.head.moving_from is not None:
        new.record(done, "rotate ends", 0)  # its head does not need the old one any more
    clear(old, table)
    drop_note(new, table, old)
    reseal(new, table)
    done = new.open(table)
    for reader in done.manifest.readers:
        publish_bundle(new, done, reader)
    return done


def undo(old: Tables, new: Tables, table: str) -> Opened:
    """Leave `table` under the key of `old`, and delete what a rotation has copied. Raises InputError if it moved."""
    opened = old.open(table)
    restore = discard(new, table, old)
    try:
        old.hold(opened, "")  # a rotation that is under way cannot close this version any more
    except ConflictError:
        if old.moved_to(table) is not None:
            restore()
        raise
    clear_discarded(new, table)
    drop_note(old, table, new)
    return old.open(table)


def _rotate_version(old: Tables, new: Tables, opened: Opened, progress: Progress) -> None:
    """Copy one version of the old table under the new key."""
    source = opened.manifest
    table, table_id = source.table, new.key.tag(f"rotated {source.table_id}")  # the same name in every attempt

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:
        if old.replaced(opened):  # what is read of it may be deleted by now
            raise in_the_way(old)
        if base is not None and base.manifest.table_id != table_id:
            raise InputError(f"there is another table {table!r} under the new key")
        digests = {each.id: _made_from(source, each) for each in source.segments}
        copied = dict(base.manifest.copied) if base is not None else {}
        there = {each.id: each for each in base.manifest.segments} if base is not None else {}
        present = {each: there[each] for each in there.keys() & digests if copied.get(each) == digests[each]}
        fields = {
            **dict(source),
            "version": max(source.version, base.manifest.version if base else 0),
            "table_id": table_id,
            "release": _moved(old, new, opened, table_id),
            "segments": Segments.of(present.get(each.id, each) for each in source.segments),
            "batches": Batches.of(source.batches),
            "copied": tuple(digests.items()),
            "contributors": tuple(
                each.model_copy(update={"version": 0, "digest": "", "parts": HandledParts()})
                for each in source.contributors
            ),
        }
        del fields["secret"]  # the new table has its own
        if base:
            fields["secret"] = base.manifest.secret
        log = copied_log(old.log(opened), new, new.folder(table), new.vault(table_id))
        rows = stack.enter_context(closing(Rows(old, opened)))
        missing = [each for each in source.segments if each.id not in present]
        pieces = [SegmentRows(rows, (each,), id=each.id) for each in missing]
        return ChangePlan(Manifest.model_construct(**fields), pieces, old.cells(opened), 0, log)

    note(old, table, new)
    note(new, table, old)
    take_spent(new, table, old.spent(opened))
    request = [source.table_id, source.version]
    make(new, table, Change("rotate", request, plan, basis=lambda _: [table_id], stage="encrypt again"), progress)


def _moved(old: Tables, new: Tables, opened: Opened, table_id: str) -> AnyRelease | None:
    """The ledger and digests of the releases, under the new key. Totals follow once the new table exists."""
    release, table = opened.manifest.release, opened.manifest.table
    if release is None:
        return None

    def moved(which: Object) -> Object:
        content = old.unseal(opened.vault, "release", which)
        return new.seal(new.folder(table), new.vault(table_id), "release", content)

    return release.moved(moved)


def _made_from(manifest: Manifest, segment: Segment) -> str:
    """Digest of all that a copy of a segment is made from."""
    lineage = manifest.marking.lineage if manifest.marking else None
    return digest_of([segment, manifest.sealed, manifest.measures, manifest.by, manifest.scanned, lineage])
