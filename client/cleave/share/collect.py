"""Take what contributors have put into their owner's table: one new version for each contributor.

Nothing of a contributor's counts until then. Its rows are opened, checked and sealed again under the owner's keys and
new ids, and their totals are encrypted with them: nothing is copied as it is. A contributor whose rows are refused
stops no other. Its objects are deleted either way, so that it cannot see whether its rows were accepted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pydantic import ValidationError

from cleave.ckks.cipher import Cipher
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import open_sealed, public_side
from cleave.objects.locate import Stores
from cleave.objects.storage import StoreError, read_twice
from cleave.share.contributed import ContributedRows
from cleave.share.invitation import invite
from cleave.share.share import Incoming, require_room
from cleave.sql.rejoin import Texts
from cleave.store.cells import MOST_CELLS, load_cells
from cleave.store.contribution import (
    Entry,
    Head,
    PartManifest,
    context_of,
    folder_of,
    names_of,
    read_head,
)
from cleave.store.contributors import contributor_of, without
from cleave.store.manifest import Contributor, Event, Manifest, Segment, Taken
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.tables import LostError, Opened, Tables, now
from cleave.table.progress import Progress
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, InputError


@dataclass(frozen=True, slots=True)
class News:
    """What a contributor's head has that the table has not: parts to take in, and parts that it took back.

    `head` None: nothing was put since, or ever.
    """

    contributor: Contributor
    head: Head | None
    added: tuple[Entry, ...]
    gone: tuple[Taken, ...]


def news(stores: Stores, key: OwnerKey, manifest: Manifest, who: Contributor) -> News:
    """Raises CheckFailed for a head that is not the contributor's, or is older than what was taken in."""
    place = f"{folder_of(manifest.table_id, who.key)}/head"

    def signed(found: tuple[bytes, str] | None) -> Head | None:
        return read_head(found[0], who.key, manifest.table_id, key.key_id) if found else None

    try:
        head = read_twice(lambda: stores.sensitive.read_versioned(place), signed)
        if head is None:
            if who.version:
                raise CheckFailed("stored", "what was put is gone from the store", hint=_RESTORE)
            return News(who, None, (), ())
        if head.version < who.version or (head.version == who.version and head.digest != who.digest):
            raise CheckFailed(
                "stored", f"the store shows another state than version {who.version}, which was seen", hint=_RESTORE
            )
    except CheckFailed as failure:
        raise CheckFailed(failure.check, f"contributor {who.name!r}: {failure.message}", hint=failure.hint) from None
    if head.version == who.version:
        return News(who, None, (), ())
    known, there = {each.id for each in who.parts}, {each.id for each in head.parts}
    return News(
        who,
        head,
        tuple(each for each in head.parts if each.id not in known),
        tuple(each for each in who.parts if each.id not in there),
    )


def newest_versions(stores: Stores, key: OwnerKey, manifest: Manifest) -> dict[str, int]:
    """The version of each contributor's head in the store, by its key; none of a head that is refused."""
    found: dict[str, int] = {}
    for who in manifest.contributors:
        with contextlib.suppress(CheckFailed):  # one contributor stops no other's invitation
            head = news(stores, key, manifest, who).head
            found[who.key] = head.version if head else who.version
    return found


_RESTORE = "somebody put an old state back, or deleted it: restore the newest one"


def collect(
    tables: Tables, stores: Stores, key: OwnerKey, table: str, progress: Progress, names: Sequence[str] = ()
) -> tuple[Opened, list[News]]:
    """Take in what there is, of the contributors `names` (none: of all). Returns the table as it is then.

    Raises CheckFailed or InputError with the contributor's name where one was refused, once all others are taken in.
    """
    opened = tables.open(table)
    chosen = [contributor_of(opened.manifest, name) for name in names] or list(opened.manifest.contributors)
    done: list[News] = []
    failures: list[CheckFailed | InputError] = []
    for who in chosen:
        try:
            found = news(stores, key, opened.manifest, who)
        except CheckFailed as failure:
            failures.append(failure)
            continue
        if found.head is None:
            continue
        collecting = _Collecting(tables, stores, key, opened, progress)
        try:
            opened = collecting.take(found)
            done.append(found)
        except LostError as failure:  # nothing is refused: the store may find it again
            failures.append(_told(who, failure))
            continue
        except (CheckFailed, InputError) as failure:
            failures.append(_told(who, failure))
            opened = _Collecting(tables, stores, key, opened, progress).refuse(found)
        _delete_taken(stores, found.head)
    if failures:
        raise failures[0]
    return opened, done


def _delete_taken(stores: Stores, head: Head) -> None:
    """The objects of parts that were dealt with. Where they cannot be deleted, the next time they are."""
    for entry in head.parts:
        with contextlib.suppress(StoreError, CheckFailed):
            names = names_of(entry, stores.sensitive.read(entry.names.name, most=entry.names.bytes))
            stores.sensitive.delete(names)


class _Collecting:
    """One contributor's news on top of `opened`."""

    def __init__(self, tables: Tables, stores: Stores, key: OwnerKey, opened: Opened, progress: Progress) -> None:
        self._tables = tables
        self._key = key
        self._opened = opened
        self._progress = progress
        self._stores = stores
        self._schema = load_stored_schema(opened.manifest)
        self._folder = tables.folder(opened.manifest.table)

    def take(self, found: News) -> Opened:
        """Check everything, then write. Raises CheckFailed, InputError; nothing of it counts then."""
        who, head, manifest = found.contributor, found.head, self._opened.manifest
        assert head is not None  # noqa: S101 - the caller looked
        folder = folder_of(manifest.table_id, who.key)
        parts = [self._open_part(entry, who) for entry in found.added]
        rows = [ContributedRows(self._tables, part, self._schema, folder) for part in parts]
        require_room(self._tables, self._opened, [Incoming(who, self._keys(rows), self._gone(found))])
        manifest = without(self._tables, self._opened, manifest, list(self._gone(found)))
        taken = []
        for part, each in zip(parts, rows, strict=True):
            manifest, one = self._written(manifest, part, each, who)
            taken.append(one)
        return self._commit(manifest, found, taken)

    def refuse(self, found: News) -> Opened:
        """Record that the parts which are new were dealt with, and take nothing in."""
        taken = [Taken(id=entry.id, segments=()) for entry in found.added]
        manifest = without(self._tables, self._opened, self._opened.manifest, list(self._gone(found)))
        return self._commit(manifest, found, taken)

    def _keys(self, rows: Sequence[ContributedRows]) -> frozenset[Texts]:
        keys: set[Texts] = set()
        for each in rows:
            for found in each.keys(self._opened.manifest.by):
                keys |= found
                if len(keys) > MOST_CELLS:  # they are too many whatever follows
                    return frozenset(keys)
        return frozenset(keys)

    def _gone(self, found: News) -> tuple[Segment, ...]:
        ids = {segment for each in found.gone for segment in each.segments}
        return tuple(each for each in self._opened.manifest.segments if each.id in ids)

    def _commit(self, manifest: Manifest, found: News, taken: Sequence[Taken]) -> Opened:
        who, head = found.contributor, found.head
        assert head is not None  # noqa: S101 - as above
        kept = [each for each in who.parts if each not in found.gone]
        changed = who.model_copy(update={"version": head.version, "digest": head.digest, "parts": (*kept, *taken)})
        version = manifest.version + 1
        rows = manifest.rows - self._opened.manifest.rows
        manifest = manifest.model_copy(
            update={
                "version": version,
                "contributors": tuple(changed if each == who else each for each in manifest.contributors),
                "history": (*manifest.history, Event(version=version, at=now(), what="collect", rows=rows)),
            }
        )
        opened = self._tables.commit(manifest, self._opened.head)
        self._tables.sweep(opened)
        return opened

    def _open_part(self, entry: Entry, who: Contributor) -> PartManifest:
        name, invitation = entry.manifest.name, invite(self._opened.manifest)
        context = context_of(
            public_side(self._key).fingerprint,
            invitation.table_id,
            who.key,
            who.registration,
            invitation.terms,
            entry.id,
            name,
        )
        try:
            content = self._tables.read(entry.manifest)
        except LostError:
            raise CheckFailed(
                "stored",
                "a part is lost, or was taken in before the contributor was removed",
                hint="have its contributor put the rows again with --replace",
            ) from None
        try:
            part = PartManifest.model_validate_json(open_sealed(self._key, context, content, limits.MAX_FACTS_BYTES))
        except ValidationError:
            raise CheckFailed("stored", "a part is not of this release, or damaged") from None
        except CheckFailed as failure:
            hint = "if it was made by another invitation: export the public key again, and have the rows put again"
            raise CheckFailed(failure.check, failure.message, hint=f"{hint} with --replace") from None
        stated = (part.id, part.table_id, part.contributor, part.registration, part.terms)
        if stated != (entry.id, invitation.table_id, who.key, who.registration, invitation.terms):
            raise CheckFailed("signature", "a part is another contributor's, or another part")
        return part

    def _written(
        self, manifest: Manifest, part: PartManifest, rows: ContributedRows, who: Contributor
    ) -> tuple[Manifest, Taken]:
        """The rows of a part as segments of the table, and the manifest with them."""
        vault, folder = self._opened.vault, self._folder
        secret = self._tables.secret(manifest)
        writer = SegmentWriter(
            self._stores.sensitive, self._stores.plain, vault, Cipher(secret), secret.profile, folder
        )
        cells = load_cells(self._tables.unseal(vault, "cells", manifest.cells))
        advance = self._progress.stage(f"take in {who.name}", sum(each.rows for each in part.segments), "rows")
        added: list[Segment] = []
        with writer.encryptors(manifest, max((each.rows for each in part.segments), default=0)) as encryptors:
            for each in part.segments:
                with rows.table(each) as table:
                    begun = writer.begin(table, manifest, cells, contributor=who.name)
                    added.append(writer.finish(begun, encryptors, advance))
        update = {
            "segments": (*manifest.segments, *added),
            "cells": self._tables.seal(folder, vault, "cells", cells.dump()),
        }
        return manifest.model_copy(update=update), Taken(id=part.id, segments=tuple(each.id for each in added))


def _told(who: Contributor, failure: CheckFailed | InputError) -> CheckFailed | InputError:
    message = failure.message.removeprefix(f"contributor {who.name!r}: ")
    if isinstance(failure, CheckFailed):
        return CheckFailed(failure.check, f"contributor {who.name!r}: {message}", hint=failure.hint)
    return InputError(f"contributor {who.name!r}: {message}", hint=failure.hint)
