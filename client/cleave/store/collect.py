"""What contributors have put, taken into their owner's table: one new version with all of it, or an error and the old.

Nothing of a contributor's counts until then. The lanes of rows and the plain half are copied, by the store itself where
it can; index, order and sealed columns are sealed anew under the owner's key, and the totals are encrypted by the
owner's cells. So a question over several contributors' rows reads one table, and no contributor can change what was
taken in, or delete it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pydantic import ValidationError

from cleave.ckks.cipher import Cipher
from cleave.ckks.public_key import open_sealed
from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Progress
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.cells import MOST_CELLS, load_cells
from cleave.store.chunks import directory, split
from cleave.store.contributed import Unsealed, check_half, keys_of, unseal
from cleave.store.contribution import (
    Contributed,
    Entry,
    Head,
    PartManifest,
    folder_of,
    names_of,
    read_head,
)
from cleave.store.contributors import contributor_of, without
from cleave.store.invitation import invite
from cleave.store.locate import Stores
from cleave.store.manifest import Contributor, Event, Manifest, Object, Segment, Taken, Totals, new_id
from cleave.store.recount import check_rows, parts_of_rows
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.share import Incoming, require_room
from cleave.store.storage import NotStoredError, Storage, StoreError, read_twice
from cleave.store.tables import LostError, Opened, Tables, now
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

_COPIES = 8  # at once
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class News:
    """What a contributor's head has that the table has not: parts to take in, and parts that it took back.

    `head` None: nothing was put since, or ever.
    """

    contributor: Contributor
    head: Head | None
    added: tuple[Entry, ...]
    gone: tuple[Taken, ...]


def news(stores: Stores, key: SecretKey, manifest: Manifest, who: Contributor) -> News:
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
        raise _told(who, failure) from None
    if head.version == who.version:
        return News(who, None, (), ())
    known, there = {each.id for each in who.parts}, {each.id for each in head.parts}
    return News(
        who,
        head,
        tuple(each for each in head.parts if each.id not in known),
        tuple(each for each in who.parts if each.id not in there),
    )


_RESTORE = "somebody put an old state back, or deleted it: restore the newest one"


def collect(
    tables: Tables,
    stores: Stores,
    key: SecretKey,
    table: str,
    progress: Progress,
    names: Sequence[str] = (),
    *,
    trust_rows: bool = False,
) -> tuple[Opened, list[News]]:
    """Take in what there is, of the contributors `names` (none: of all); the table as it is then.

    Every row is read and compared with what the contributor tells of it, unless `trust_rows`. Raises CheckFailed with
    the contributor's name.
    """
    opened = tables.open(table)
    chosen = [contributor_of(opened.manifest, name) for name in names] or list(opened.manifest.contributors)
    found = [news(stores, key, opened.manifest, who) for who in chosen]
    changed = [each for each in found if each.head is not None]
    if not changed:
        return opened, []
    collecting = _Collecting(tables, stores, key, opened, progress, trust_rows=trust_rows)
    incoming = [_named(each, collecting.open) for each in changed]
    require_room(tables, opened, incoming)
    for each in changed:
        _named(each, collecting.take)
    committed = collecting.commit()
    for each in changed:
        _delete_taken(stores, each.head)
    return committed, changed


def _named(each: News, step: Callable[[News], T]) -> T:
    """Do a step, whose failure is to bear the contributor's name."""
    try:
        return step(each)
    except CheckFailed as failure:
        raise _told(each.contributor, failure) from None


def _delete_taken(stores: Stores, head: Head | None) -> None:
    """Of what is copied now. Where they cannot be deleted, the next time they are."""
    for entry in head.parts if head else ():
        with contextlib.suppress(StoreError, CheckFailed):
            names = names_of(entry, stores.sensitive.read(entry.names.name, most=entry.names.bytes))
            for store in stores.apart():
                store.delete(names)


class _Collecting:
    def __init__(
        self, tables: Tables, stores: Stores, key: SecretKey, opened: Opened, progress: Progress, *, trust_rows: bool
    ) -> None:
        self._tables = tables
        self._stores = stores
        self._key = key
        self._opened = opened
        self._progress = progress
        self._trust_rows = trust_rows
        self._manifest = opened.manifest
        self._parts: dict[str, list[PartManifest]] = {}  # by the contributor's key
        self._schema = load_stored_schema(opened.manifest)
        self._terms = invite(opened.manifest).terms
        self._folder = tables.folder(opened.manifest.table)
        self._writer = SegmentWriter(
            stores.sensitive, stores.plain, opened.vault, Cipher(key), key.profile, self._folder
        )

    def open(self, found: News) -> Incoming:
        """Open the parts that would be taken in; nothing is written."""
        parts = [self._open_part(entry, found.contributor) for entry in found.added]
        self._parts[found.contributor.key] = parts
        keys: set[Texts] = set()
        for part, each in ((one, each) for one in parts for each in one.segments):
            if len(keys) <= MOST_CELLS:  # else they are too many whatever follows
                keys.update(keys_of(self._tables, self._key, each, part.measures, self._manifest))
        return Incoming(found.contributor, frozenset(keys), self._gone(found))

    def _gone(self, found: News) -> tuple[Segment, ...]:
        ids = {segment for each in found.gone for segment in each.segments}
        return tuple(each for each in self._opened.manifest.segments if each.id in ids)

    def take(self, found: News) -> None:
        who, head = found.contributor, found.head
        if head is None:
            return
        self._manifest = without(self._tables, self._opened, self._manifest, self._gone(found))
        folder = folder_of(self._manifest.table_id, who.key)
        taken = [self._take_part(part, who, folder) for part in self._parts[who.key]]
        kept = [each for each in who.parts if each not in found.gone]
        changed = who.model_copy(
            update={"version": head.version, "digest": head.digest, "parts": (*kept, *taken)},
        )
        everyone = tuple(changed if each == who else each for each in self._manifest.contributors)
        self._manifest = self._manifest.model_copy(update={"contributors": everyone})

    def commit(self) -> Opened:
        version = self._manifest.version + 1
        rows = self._manifest.rows - self._opened.manifest.rows
        event = Event(version=version, at=now(), what="collect", rows=rows)
        history = (*self._manifest.history, event)
        manifest = self._manifest.model_copy(update={"version": version, "history": history})
        return self._tables.commit(manifest, self._opened.head)

    def _open_part(self, entry: Entry, who: Contributor) -> PartManifest:
        name = entry.manifest.name
        try:
            content = open_sealed(self._key, name, self._tables.read(entry.manifest), limits.MAX_FACTS_BYTES)
        except LostError:
            raise CheckFailed(
                "stored",
                "a part is lost, or was taken in before the contributor was removed",
                hint="have its contributor put the rows again with --replace",
            ) from None
        try:
            part = PartManifest.model_validate_json(content)
        except ValidationError:
            raise CheckFailed("stored", "a part is not of this release, or damaged") from None
        if (part.id, part.contributor) != (entry.id, who.key):
            raise CheckFailed("signature", "a part is another contributor's, or another part")
        measures = self._manifest.measures
        if part.terms != self._terms or part.measures != measures[: len(part.measures)]:
            raise CheckFailed(
                "stored",
                "a part was made by another invitation than this table's",
                hint="export the public key anew, and have the rows put again with --replace",
            )
        return part

    def _take_part(self, part: PartManifest, who: Contributor, folder: str) -> Taken:
        there = {each.id for each in self._manifest.segments}
        ids = [each.segment.id for each in part.segments]
        if there & {*ids} or len({*ids}) != len(ids):
            raise CheckFailed("stored", "a part holds rows that are in the table already")
        advance = self._progress.stage(f"take in {who.name}", sum(each.segment.rows for each in part.segments), "rows")
        for each in part.segments:
            segment = self._take_segment(each, part, who.name, folder)
            self._manifest = self._manifest.model_copy(update={"segments": (*self._manifest.segments, segment)})
            advance(segment.rows)
        return Taken(id=part.id, segments=tuple(ids))

    def _take_segment(self, contributed: Contributed, part: PartManifest, name: str, folder: str) -> Segment:
        manifest, vault = self._manifest, self._opened.vault
        unsealed = unseal(self._tables, self._key, contributed, part.measures, manifest, self._schema, folder)
        copied = self._copied(contributed.segment)
        cells = load_cells(self._tables.unseal(vault, manifest.cells))
        numbers = cells.add(unsealed.facts.keys, unsealed.facts.rows)
        index: dict[str, object] = {"cells": [numbers[cell] for cell in unsealed.cells], "rows": unsealed.rows}
        if not self._trust_rows:
            index["chunks"] = self._directory(copied)
        segment = copied.model_copy(
            update={
                "contributor": name,
                "cells": len(cells),
                "index": self._tables.seal(self._folder, vault, json.dumps(index, separators=(",", ":")).encode()),
                "order": self._tables.seal(self._folder, vault, unsealed.order),
                "sealed": self._tables.seal(self._folder, vault, unsealed.sealed) if unsealed.sealed else None,
            }
        )
        self._manifest = manifest.model_copy(update={"cells": self._tables.seal(self._folder, vault, cells.dump())})
        rows = Rows(self._tables, vault, self._key, self._manifest, self._schema, cells)
        if not self._trust_rows:
            if segment.plain is not None:
                plain = self._tables.read(segment.plain, plain=True)
                check_half(plain, "plain", self._manifest, self._schema, unsealed)
            check_rows(rows, segment, self._manifest, unsealed.facts)
        return segment.model_copy(update={"totals": self._totals(rows, segment, unsealed, numbers, len(cells))})

    def _directory(self, segment: Segment) -> list[list[tuple[int, str]]]:
        """Of the ciphertexts as they are: what the contributor's index says of them is not read."""
        return [
            [entry for each in lane for entry in directory(split(self._tables.read(each)))] for lane in segment.lanes
        ]

    def _copied(self, segment: Segment) -> Segment:
        """With copies of what the contributor wrote and stays as it is."""
        every = [(self._stores.sensitive, each) for lane in segment.lanes for each in lane]
        if segment.plain is not None:
            every.append((self._stores.plain, segment.plain))

        def copy(which: tuple[Storage, Object]) -> Object:
            store, there = which
            name = f"{self._folder}/{new_id()}"
            try:
                store.copy(there.name, name, there.bytes, there.sha256)
            except NotStoredError:
                raise LostError("stored", "an object of its rows is lost", hint=_RESTORE) from None
            return there.model_copy(update={"name": name})

        with ThreadPoolExecutor(_COPIES) as pool:
            made = iter(list(pool.map(copy, every)))
        lanes = tuple(tuple(next(made) for _ in lane) for lane in segment.lanes)
        return segment.model_copy(update={"lanes": lanes, "plain": next(made, None)})

    def _totals(
        self, rows: Rows, segment: Segment, unsealed: Unsealed, numbers: Sequence[int], cells: int
    ) -> tuple[Totals, ...]:
        """Of what the contributor tells, and of what was derived since it was invited, made of its rows."""
        facts, measures = unsealed.facts, self._manifest.measures
        sums = [of_measures.as_words(each) for each in facts.totals]
        told = self._writer.write_totals(segment.id, facts.measures, 0, sums, numbers, cells)
        first = len(facts.measures)
        if first == len(measures):
            return (told,)
        found = parts_of_rows(rows, segment, self._manifest, measures[first:])
        places = dict(zip(facts.keys, numbers, strict=True))
        at = [places[each] for each in found.keys]
        derived = self._writer.totals(segment.id, measures[first:], first, found.parts, found.counts, at, cells)
        return (told, derived)


def _told(who: Contributor, failure: CheckFailed) -> CheckFailed:
    return CheckFailed(failure.check, f"contributor {who.name!r}: {failure.message}", hint=failure.hint)
