"""Changes a table: `apply` writes the pieces of the next version, commits it, and records finished segments in a draft.

A stopped change continues from the draft. The draft stays until the next version if a repeated change must be
recognised: an append, deletion or update must not happen twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType

from pydantic import JsonValue

from cleave.objects.storage import ForeignError
from cleave.store.cells import Cells
from cleave.store.drafts import Draft, Drafts
from cleave.store.manifest import Contributor, Hex, LogHead, Manifest, Measure, Object, SealedColumn, Segment, new_id
from cleave.store.pieces import ChangeStep, Piece
from cleave.store.reader import Opened
from cleave.store.segment import SegmentWriter
from cleave.store.sweeping import cleaning
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave_shared.errors import CheckFailed
from cleave_shared.params import PROFILES


class ChangeDraft(Draft):
    """The draft of an owner's change of a table."""

    table_id: Hex
    measures: tuple[Measure, ...]
    sealed: tuple[SealedColumn, ...]
    secret: Object
    steps: tuple[ChangeStep, ...]

    def objects(self) -> set[str]:
        return super().objects() | {self.secret.name}

    def is_of(self, manifest: Manifest) -> bool:
        """True if the table has all segments of this draft."""
        return {each.id for each in self.steps} <= {each.id for each in manifest.segments}

    def begun(self, manifest: Manifest) -> Manifest:
        """`manifest` with the random ids and scales with which the draft began."""
        return manifest.model_copy(update={name: getattr(self, name) for name in _GIVEN})


_GIVEN = ("table_id", "measures", "sealed", "secret")


def change_drafts(tables: Tables, name: str, version: int) -> Drafts[ChangeDraft, ChangeStep]:
    return Drafts(tables.stores, *tables.draft(name, version), ChangeDraft, ChangeStep)


def apply(
    tables: Tables,
    previous: Opened | None,
    manifest: Manifest,
    pieces: Sequence[Piece],
    what: str,
    request: Sequence[object],
    progress: Progress,
    *,
    cells: Cells | None = None,
    stays: bool = False,
    stage: str = "",
    rows: int | None = None,
    log: LogHead | None = None,
    details: Mapping[str, JsonValue] = MappingProxyType({}),
) -> Opened:
    """Write `pieces`, and commit `manifest` with their segments as the next version; see `Tables.commit` too.

    `manifest`: without a secret if the table is new. `request`: JSON that identifies the change; a call with an equal
    request continues a stopped one. `cells`: of the rows that no piece writes; None: those of `previous`. `stays`: keep
    the draft, for `last_change`. `stage`: name for `progress`, default `what`.

    Raises InputError, CheckFailed, StoreError; ConflictError if another writer was first. Then nothing is changed.
    """
    head = previous.head.manifest.name if previous else None
    drafts, digest = change_drafts(tables, manifest.table, manifest.version + 1), digest_of_request(what, request)
    with tables.changing(previous):
        stored = None if cells is not None or previous is None else tables.cells(previous)
        if cells is None:
            cells = Cells() if stored is None else stored.copy()
        draft = drafts.resumable(drafts.find(digest), head)
        counted = _continued(tables, draft, pieces, cells) if draft else None
        if draft is not None and counted is not None:
            manifest, cells = draft.begun(manifest), counted
        else:
            manifest = _with_secret(tables, manifest)
            given = {name: getattr(manifest, name) for name in _GIVEN}
            draft = ChangeDraft(id=new_id(), asked=digest, head=head, steps=(), **given)
        advance = progress.stage(stage or what, sum(each.rows for each in pieces), "rows")
        most_rows = max((each.most_rows for each in pieces), default=0)
        with SegmentWriter(tables, manifest, cells, most_rows, advance) as writer:
            draft = drafts.write(draft, _steps(pieces, draft, writer))
        manifest = _next(manifest, pieces, draft)
        if stored is None or not all(each.same_cells for each in pieces):
            manifest = manifest.model_copy(update={"cells": tables.seal_cells(manifest, cells)})
        done = tables.commit(manifest, previous, what, rows, log, **details)
    with cleaning():
        if stays:
            drafts.finish(draft)
        else:
            drafts.delete(draft)
    return done


def _with_secret(tables: Tables, manifest: Manifest) -> Manifest:
    if "secret" in manifest.__dict__:
        return manifest
    secret = tables.new_secret(manifest.table, manifest.table_id, PROFILES[manifest.profile])
    return manifest.model_copy(update={"secret": secret})


def _steps(pieces: Sequence[Piece], draft: ChangeDraft, writer: SegmentWriter) -> Generator[ChangeStep]:
    for piece in pieces:
        done = _done(piece, draft)
        if piece.replaces and done:
            writer.advance(piece.rows)
        else:
            yield from piece.write(writer, done)


def _done(piece: Piece, draft: ChangeDraft) -> list[ChangeStep]:
    return [each for each in draft.steps if each.replaces == piece.replaces]


def last_change(tables: Tables, manifest: Manifest, what: str, request: Sequence[object]) -> ChangeDraft | None:
    """The draft of the table's last change if it was this change; else None."""
    drafts = change_drafts(tables, manifest.table, manifest.version)
    draft = drafts.find(digest_of_request(what, request))
    if draft is None or not draft.is_of(manifest):
        return None
    with cleaning():  # left by a killed process
        drafts.finish(draft)
    return draft


def digest_of_request(what: str, request: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([what, *request]).encode()).hexdigest()


def _continued(tables: Tables, draft: ChangeDraft, pieces: Sequence[Piece], cells: Cells) -> Cells | None:
    """A copy of `cells` with the rows of `draft`. None if the draft is not of `pieces`, or an index is damaged."""
    counted, vault = cells.copy(), tables.vault(draft.table_id)
    by_segments = {each.replaces: each for each in pieces}
    try:
        for step in draft.steps:
            piece = by_segments[step.replaces]
            piece.take_out(counted)
            for number, key in step.keys:
                if number == len(counted):
                    counted.keys.append(key)
                    counted.rows.append(0)
                counted.keys[number] = key
            if step.segment is not None:
                counted.count(tables.index(vault, step.segment))
    except ForeignError:
        raise
    except (CheckFailed, KeyError):
        return None
    return counted if all(each.can_resume(_done(each, draft)) for each in pieces) else None


def _next(manifest: Manifest, pieces: Sequence[Piece], draft: ChangeDraft) -> Manifest:
    """`manifest` with the segments of `draft`. Each replaces its old segment, or is appended."""
    replacements = {step.replaces: step.segment for step in draft.steps if step.replaces}
    news = {
        id_: replacements.get(piece.replaces) if place == 0 else None
        for piece in pieces
        for place, id_ in enumerate(piece.replaces)
    }
    ids = {each.id for each in manifest.segments}
    segments = [news.get(each.id, each) for each in manifest.segments]
    segments += [step.segment for step in draft.steps if ids.isdisjoint(step.replaces)]
    update = {
        "segments": tuple(each for each in segments if each is not None),
        "contributors": tuple(_renamed(each, news) for each in manifest.contributors),
    }
    return manifest.model_copy(update=update)


def _renamed(contributor: Contributor, news: Mapping[str, Segment | None]) -> Contributor:
    """`contributor` with the new ids of its parts' segments, so that it can still replace a part."""

    def ids(old: Sequence[str]) -> tuple[str, ...]:
        segments: list[Segment | str | None] = [news.get(each, each) for each in old]
        return tuple(each if isinstance(each, str) else each.id for each in segments if each is not None)

    parts = tuple(each.model_copy(update={"segments": ids(each.segments)}) for each in contributor.parts)
    return contributor.model_copy(update={"parts": parts})
