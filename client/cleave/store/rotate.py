"""A table under another key: every segment decrypted and encrypted anew, then the new table shown, then the old closed.

The new table lies in a folder of its own, so the old one is asked as before until it is closed. After each segment a
draft says how far it is; whoever asks for the same once more goes on from there. Where rows were added to the old table
meanwhile they are taken along, for it is closed only if it is still what was copied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from contextlib import closing
from functools import partial

import numpy as np

from cleave.aggregates.columns import Words
from cleave.ckks.cipher import Cipher
from cleave.ckks.pool import open_pool
from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Progress
from cleave.store import measures as of_measures
from cleave.store.chunks import split
from cleave.store.collect import news
from cleave.store.drafts import Draft, Drafts
from cleave.store.encrypting import RowEncryptors
from cleave.store.fetching import Fetched, Wanted, fetched
from cleave.store.index import parts_of
from cleave.store.lanes import Integers
from cleave.store.locate import Stores
from cleave.store.manifest import Event, Manifest, Object, Segment, Totals, new_id
from cleave.store.opening import Place, open_lane
from cleave.store.putting import Say, say_notes
from cleave.store.segment import Begun, SegmentWriter
from cleave.store.storage import ConflictError
from cleave.store.stored_lanes import columns_of_rows, lanes_of, marks_of, total_label, total_lanes
from cleave.store.tables import Opened, Tables, now
from cleave.store.vault import Vault
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, InputError

_SECONDS = 7 * 24 * 3600.0
_TRIES = 20  # to close a table that others go on adding to


@dataclass(frozen=True, slots=True)
class Keyed:
    """The tables of one key."""

    tables: Tables
    key: SecretKey


def rotate(stores: Stores, old: Keyed, new: Keyed, table: str, progress: Progress, say: Say = lambda _: None) -> Opened:
    """`table` as it is under the key of `new`; under that of `old` nothing of it can be opened any more.

    Encryptions made ahead for the new key are used up; `say` is told what was wrong with them.

    Raises InputError where there is another table of that name under the new key, or contributors have put what was
    not taken in; CheckFailed for what is damaged.
    """
    if old.key.key_id == new.key.key_id:
        raise InputError("the new key is the one that the table is under", hint="make one with: cleave key new")
    if old.key.profile != new.key.profile:
        raise InputError("the keys are of different profiles", hint="make one with: cleave key new")
    for _ in range(_TRIES):
        if old.tables.moved_to(table) == new.key.key_id:  # and what was left of it is still to be deleted
            _clear(old, new, table)
            return new.tables.open(table)
        opened = old.tables.open(table)
        _require_settled(stores, old.key, opened.manifest)
        made = _Rotation(stores, old, new, opened, progress, say).run()
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


def _require_settled(stores: Stores, key: SecretKey, manifest: Manifest) -> None:
    for each in manifest.contributors:
        if news(stores, key, manifest, each).head is not None:
            raise InputError(
                f"contributor {each.name!r} has put what is not taken in, and the new key cannot open it",
                hint="first `cleave contributor collect`, or `cleave contributor remove`",
            )


class _Rotation:
    """Of one version of the old table."""

    def __init__(self, stores: Stores, old: Keyed, new: Keyed, opened: Opened, progress: Progress, say: Say) -> None:
        self._stores = stores
        self._old = old
        self._new = new
        self._opened = opened
        self._progress = progress
        self._say = say
        self._source = opened.manifest
        self._table_id = new.key.tag(f"rotated {opened.manifest.table_id}")  # the same each time it is tried
        self._vault = Vault(new.key, self._table_id)
        self._folder = new.tables.folder(self._source.table)
        self._cipher = Cipher(old.key)
        self._new_cipher = Cipher(new.key, open_pool(new.key))
        self._writer = SegmentWriter(
            stores.sensitive, stores.plain, self._vault, self._new_cipher, new.key.profile, self._folder
        )

    def run(self) -> Opened:
        there = self._new.tables.find(self._source.table)
        if there is not None and there.manifest.table_id != self._table_id:
            raise InputError(f"there is another table {self._source.table!r} under the new key")
        self._note()
        drafts = Drafts(self._new.tables, self._source.table, self._source.version + 1)
        asked = hashlib.sha256(json.dumps(["rotate", self._source.table_id, self._source.version]).encode()).hexdigest()
        draft = drafts.load(asked, there.head if there else None)
        known = {_content(each): each for each in (*(there.manifest.segments if there else ()), *_done(draft))}
        left = [each for each in self._source.segments if _content(each) not in known]
        advance = self._progress.stage("encrypt anew", sum(each.rows for each in left), "rows")
        rows = max((each.rows for each in left), default=0)
        done = [known[_content(each)] for each in self._source.segments if _content(each) in known]
        with self._writer.encryptors(self._source, rows) as encryptors, closing(self._fetched(left)) as coming:
            for each in coming:
                made = self._segment(each, encryptors)
                advance(made.rows)
                known[_content(made)] = made
                done.append(made)
                drafts.save(self._draft(asked, there.head if there else None, done))
        say_notes([*encryptors.said, self._new_cipher.told()], self._say)
        committed = self._commit(tuple(known[_content(each)] for each in self._source.segments), there)
        drafts.delete()
        self._new.tables.sweep(committed)
        return committed

    def _note(self) -> None:
        """Let either key find what is left under the other, should this be stopped."""
        table, old, new = self._source.table, self._old, self._new
        old.tables.rotations(table).note(new.tables.folder(table), new.key.key_id)
        new.tables.rotations(table).note(old.tables.folder(table), old.key.key_id)

    def _fetched(self, segments: list[Segment]) -> Generator[Fetched, None, None]:
        wanted = []
        for each in segments:
            lanes = lanes_of(self._source, each, self._old.key.profile)
            numbers = np.arange(lanes.chunks(each.rows))
            place = Place(bytes.fromhex(each.id), lanes, marks_of(each, self._cipher))
            extras = {
                name: partial(self._old.tables.unseal, self._opened.vault, which)
                for name, which in (("index", each.index), ("order", each.order), ("sealed", each.sealed))
                if which is not None
            }
            wanted.append(Wanted(each, place, numbers, parts_of(each, range(lanes.count), numbers), extras))
        return fetched(self._old.tables, self._cipher, wanted, Deadline(_SECONDS), lambda _: None)

    def _segment(self, found: Fetched, encryptors: RowEncryptors) -> Segment:
        segment, lanes = found.wanted.segment, found.wanted.place.lanes
        columns = range(len(columns_of_rows(self._source)))
        index = json.loads(found.extras["index"])
        if sum(index["rows"]) != segment.rows:
            raise CheckFailed("stored", "a segment's index has another number of rows")
        made = segment.model_copy(
            update={
                "sentinels": None,
                "totals": tuple(self._totals(segment, each) for each in segment.totals),
                "order": self._sealed(found.extras.get("order")),
                "sealed": self._sealed(found.extras.get("sealed")),
                "plain": self._copied(segment.plain),
            }
        )
        words = [_words(lanes.combine(at, found.fields, 1), segment.rows) for at in columns]
        return self._writer.finish(Begun(words, index["cells"], index["rows"], made), encryptors)

    def _totals(self, segment: Segment, totals: Totals) -> Totals:
        measures = self._source.measures[totals.first : totals.stop]
        lanes = total_lanes(measures, self._old.key.profile)
        label = total_label(segment.id, totals.first)
        planes = {
            lane: open_lane(self._cipher, lanes, label, lane, 0, split(self._old.tables.read(each)))
            for lane, each in enumerate(totals.lanes)
        }
        sums = []
        for at in range(len(of_measures.columns_of(measures))):
            of = {lane: planes[lane] for lane in lanes.of(at)}
            sums.append(_words(lanes.decode(at, of, 1), segment.cells))
        return self._writer.write_totals(segment.id, measures, totals.first, sums, range(segment.cells), segment.cells)

    def _sealed(self, content: bytes | None) -> Object | None:
        return None if content is None else self._new.tables.seal(self._folder, self._vault, content)

    def _copied(self, plain: Object | None) -> Object | None:
        if plain is None:
            return None
        name = f"{self._folder}/{new_id()}"
        self._stores.plain.copy(plain.name, name, plain.bytes, plain.sha256)
        return plain.model_copy(update={"name": name})

    def _draft(self, asked: str, head: str | None, done: list[Segment]) -> Draft:
        return Draft(
            asked=asked,
            head=head,
            table_id=self._table_id,
            measures=self._source.measures,
            window=self._source.window,
            segments=tuple(done),
            digests=(),
            keys=(),
            rows=(),
        )

    def _commit(self, segments: tuple[Segment, ...], there: Opened | None) -> Opened:
        source, version = self._source, self._source.version + 1
        cells = self._old.tables.unseal(self._opened.vault, source.cells)
        event = Event(version=version, at=now(), what="rotate", rows=0)
        contributors = tuple(
            each.model_copy(update={"version": 0, "digest": "", "parts": ()}) for each in source.contributors
        )
        manifest = source.model_copy(
            update={
                "table_id": self._table_id,
                "version": version,
                "cells": self._new.tables.seal(self._folder, self._vault, cells),
                "segments": segments,
                "history": (*source.history, event),
                "contributors": contributors,
            }
        )
        return self._new.tables.commit(manifest, there.head if there else None)


def _done(draft: Draft | None) -> tuple[Segment, ...]:
    return draft.segments if draft else ()


def _content(segment: Segment) -> tuple[object, ...]:
    """The same for a segment under either key: its rows never change, but columns may be derived from them."""
    return (segment.id, tuple((each.first, each.stop) for each in segment.totals), segment.contributor)


def _words(entries: Integers, count: int) -> Words:
    if not len(entries):  # a column whose limit is 0
        return np.zeros((1, count), np.uint64)
    if entries.dtype == object:
        return of_measures.as_words([int(each) for each in entries[:count]])
    return entries[:count].astype(np.uint64)[None]
