"""Put a table under another key: every segment is opened and sealed again, the new table shown, the old one closed.

The new table has a folder and objects of its own, so the old one is queried as before until it is closed. A draft
records each finished segment, and the same command goes on after the last one. Rows that are added to the old table
meanwhile are taken along, for it is closed only if it is still what was copied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import closing

from cleave.ckks.cipher import Cipher
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError
from cleave.share.collect import news
from cleave.store.cells import Cells, load_cells
from cleave.store.manifest import Event, Manifest, Object, Segment, new_id
from cleave.store.put_draft import PutDraft, PutStep, put_drafts
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.tables import Opened, Tables, now
from cleave.store.vault import Vault
from cleave.table.progress import Progress
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError
from cleave_shared.params import PROFILES

_TRIES = 20  # to close a table that others go on adding to


@dataclass(frozen=True, slots=True)
class Keyed:
    """The tables of one key."""

    tables: Tables
    key: OwnerKey


def rotate(stores: Stores, old: Keyed, new: Keyed, table: str, progress: Progress) -> Opened:
    """`table` as it is under the key of `new`; under that of `old` nothing of it can be opened any more.

    Raises InputError where there is another table of that name under the new key, or contributors have put what was
    not taken in; CheckFailed for what is damaged.
    """
    if old.key.key_id == new.key.key_id:
        raise InputError("the new key is the one that the table is under", hint="make one with: cleave key new")
    for _ in range(_TRIES):
        if old.tables.moved_to(table) == new.key.key_id:  # and what was left of it is still to be deleted
            _clear(old, new, table)
            return new.tables.open(table)
        opened = old.tables.open(table)
        _require_settled(stores, old.key, opened.manifest)
        made = _Rotation(stores, old, new, opened, progress).run()
        try:
            old.tables.close_as_moved(opened, new.key.key_id)
        except ConflictError:
            continue
        _clear(old, new, table)
        return made
    raise InputError(f"table {table!r} is changed faster than it can be put under another key")


def _clear(old: Keyed, new: Keyed, table: str) -> None:
    old.tables.clear(table)
    new.tables.rotations(table).remove(old.key.key_id)


def _require_settled(stores: Stores, key: OwnerKey, manifest: Manifest) -> None:
    for each in manifest.contributors:
        if news(stores, key, manifest, each).head is not None:
            raise InputError(
                f"contributor {each.name!r} has put what is not taken in, and the new key cannot open it",
                hint="first `cleave contributor collect`, or `cleave contributor remove`",
            )


class _Rotation:
    """Of one version of the old table."""

    def __init__(self, stores: Stores, old: Keyed, new: Keyed, opened: Opened, progress: Progress) -> None:
        self._stores = stores
        self._old = old
        self._new = new
        self._opened = opened
        self._progress = progress
        self._source = opened.manifest
        self._table_id = new.key.tag(f"rotated {opened.manifest.table_id}")  # the same each time it is tried
        self._vault = Vault(new.key, self._table_id)
        self._folder = new.tables.folder(self._source.table)

    def run(self) -> Opened:
        there = self._new.tables.find(self._source.table)
        if there is not None and there.manifest.table_id != self._table_id:
            raise InputError(f"there is another table {self._source.table!r} under the new key")
        self._note()
        head = there.head if there else None
        drafts = put_drafts(self._new.tables, self._stores, self._source.table, self._source.version + 1)
        asked = hashlib.sha256(json.dumps(["rotate", self._source.table_id, self._source.version]).encode()).hexdigest()
        draft = drafts.stands(drafts.left(asked), head)
        known = {
            _content(each): each
            for each in (*(there.manifest.segments if there else ()), *(draft.segments if draft else ()))
        }
        left = [each for each in self._source.segments if _content(each) not in known]
        advance = self._progress.stage("encrypt anew", sum(each.rows for each in left), "rows")
        target, writer = self._target(draft.secret if draft else there.manifest.secret if there else None)
        draft = draft or self._begun(asked, head, target.secret)
        cells = load_cells(self._old.tables.unseal(self._opened.vault, "cells", self._source.cells))
        with closing(self._written(left, cells.copy(), target, writer)) as written:
            for made in written:
                advance(made.rows)
                known[_content(made)] = made
                draft = drafts.add(draft, PutStep(id=made.id, rows=made.rows, digest="", segment=made))
        segments = tuple(known[_content(each)] for each in self._source.segments)
        committed = self._commit(target, segments, there)
        drafts.delete(draft)
        self._new.tables.sweep(committed)
        return committed

    def _target(self, secret: Object | None) -> tuple[Manifest, SegmentWriter]:
        """The new table's manifest, with the old segments, and a writer of new ones. `secret`: of an earlier try."""
        target = self._source.model_copy(update={"table_id": self._table_id})
        if secret is None:
            key, secret = self._new.tables.new_secret(target.table, target.table_id, PROFILES[target.profile])
            target = target.model_copy(update={"secret": secret})
        else:
            target = target.model_copy(update={"secret": secret})
            key = self._new.tables.secret(target)
        stores = self._stores
        writer = SegmentWriter(stores.sensitive, stores.plain, self._vault, Cipher(key), key.profile, self._folder)
        return target, writer

    def _note(self) -> None:
        """Let either key find what is left under the other, should this be stopped."""
        table, old, new = self._source.table, self._old, self._new
        old.tables.rotations(table).note(new.tables.folder(table), new.key.key_id)
        new.tables.rotations(table).note(old.tables.folder(table), old.key.key_id)

    def _written(
        self, segments: Sequence[Segment], cells: Cells, target: Manifest, writer: SegmentWriter
    ) -> Generator[Segment, None, None]:
        """The rows of `segments` under the new key, one after the other."""
        rows = Rows(self._old.tables, self._opened.vault, self._source, load_stored_schema(self._source))
        names = [each.name for each in load_stored_schema(self._source).columns]
        most = max((each.rows for each in segments), default=0)
        with (
            writer.encryptors(target, most) as encryptors,
            closing(rows.tables(names, ordered=True, segments=segments)) as tables,
        ):
            for segment, table in zip(segments, tables, strict=True):
                begun = writer.begin(table, target, cells, segment.id, segment.contributor)
                yield writer.finish(begun, encryptors).model_copy(update={"added": segment.added})

    def _begun(self, asked: str, head: str | None, secret: Object) -> PutDraft:
        """A draft without segments."""
        return PutDraft(
            id=new_id(),
            asked=asked,
            head=head,
            table_id=self._table_id,
            measures=self._source.measures,
            sealed=self._source.sealed,
            secret=secret,
            steps=(),
        )

    def _commit(self, target: Manifest, segments: tuple[Segment, ...], there: Opened | None) -> Opened:
        source, version = self._source, self._source.version + 1
        cells = self._old.tables.unseal(self._opened.vault, "cells", source.cells)
        event = Event(version=version, at=now(), what="rotate", rows=0)
        contributors = tuple(
            each.model_copy(update={"version": 0, "digest": "", "parts": ()}) for each in source.contributors
        )
        manifest = target.model_copy(
            update={
                "version": version,
                "cells": self._new.tables.seal(self._folder, self._vault, "cells", cells),
                "segments": segments,
                "history": (*source.history, event),
                "contributors": contributors,
            }
        )
        return self._new.tables.commit(manifest, there.head if there else None)


def _content(segment: Segment) -> tuple[object, ...]:
    """The same for a segment under either key: its rows never change, but columns may be derived from them."""
    return (segment.id, segment.totals[-1].stop, segment.contributor)
