"""Write segments again for the next version of a table: other rows of them, other columns, or several as one.

A draft records each segment that is written, so a change that was stopped continues. Segments that are not named stay
as they are. A new segment has a random id, and so have all its objects, except for a plain half that did not change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from cleave.objects.storage import ForeignError
from cleave.sql.rejoin import Texts
from cleave.store.by import too_many_cells
from cleave.store.cells import MOST_CELLS, Cells
from cleave.store.drafts import Draft, Drafts, Step
from cleave.store.encrypting import RowEncryptors
from cleave.store.manifest import Contributor, Count, Hex, Manifest, Measure, Object, SealedColumn, Segment, new_id
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.sweeping import cleaning
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import Schema
from cleave.table.table import Table, fetched
from cleave_shared.errors import CheckFailed, InputError

Advance = Callable[[int], None]


class PutStep(Step):
    """`keys`: the cells that came with the segment, by number."""

    segment: Segment | None = None
    keys: tuple[tuple[Count, Texts], ...] = ()


class PutDraft(Draft):
    """The draft of an owner's change of a table."""

    table_id: Hex
    measures: tuple[Measure, ...]
    sealed: tuple[SealedColumn, ...]
    secret: Object
    steps: tuple[PutStep, ...]

    def objects(self) -> set[str]:
        return super().objects() | {self.secret.name}

    def is_of(self, manifest: Manifest) -> bool:
        """Check whether the table has all segments of this draft."""
        return {each.id for each in self.steps} <= {each.id for each in manifest.segments}

    def of(self, manifest: Manifest) -> Manifest:
        """`manifest` with the random ids and scales that the draft was begun with."""
        return manifest.model_copy(update={name: getattr(self, name) for name in _GIVEN})


_GIVEN = ("table_id", "measures", "sealed", "secret")


def put_drafts(tables: Tables, name: str, version: int) -> Drafts[PutDraft, PutStep]:
    """The draft of the version `version` of table `name`."""
    return Drafts(tables.stores, *tables.draft(name, version), PutDraft, PutStep)


def new_draft(request: str, head: str | None, manifest: Manifest) -> PutDraft:
    """A draft without segments."""
    shared = {name: getattr(manifest, name) for name in _GIVEN}
    return PutDraft(id=new_id(), asked=request, head=head, steps=(), **shared)


def whole(table: Table) -> str:
    """SQL of all rows."""
    return f"FROM {table.relation}"


@dataclass(frozen=True, slots=True)
class Piece:
    """New segment of the rows that `select`, SQL over the relation of a table, returns of the rows of `segments`.

    `keeps_plain`: rows and plain columns stay, so the plain object does. `same_rows`: each is one of the old ones, with
    the values it had; else releases (cleave.share.renewal) take all of them for other rows. `id` of the new segment;
    None: a random one. `recounts`: cells are new, and have no rows of `segments` yet.
    """

    segments: tuple[Segment, ...]
    select: Callable[[Table], str] = whole
    keeps_plain: bool = False
    same_rows: bool = False
    id: str | None = None
    recounts: bool = False

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.segments)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.segments)


class Rewriter:
    """Writes pieces of one version of a table into the next one: `manifest`, whose columns the pieces' rows have."""

    def __init__(self, source: Tables, opened: Opened, writer: SegmentWriter, manifest: Manifest, cells: Cells) -> None:
        """`cells`: count the rows of `opened`, which writing keeps up to date."""
        self._source = source
        self._opened = opened
        self._writer = writer
        self._schema = load_stored_schema(manifest)
        self._by = manifest.by
        self._cells = cells

    def write(
        self,
        pieces: Iterable[Piece],
        drafts: Drafts[PutDraft, PutStep],
        draft: PutDraft,
        encryptors: RowEncryptors | None,
        advance: Advance,
    ) -> PutDraft:
        """Write every piece that `draft` does not have yet, and that has rows; return `draft` with them.

        Raises InputError for rows that cannot be computed or do not fit the table, CheckFailed, StoreError.
        """
        done = {each.replaces for each in draft.steps}
        with closing(Rows(self._source, self._opened)) as rows:
            for piece in pieces:
                if piece.ids not in done and (step := self._step(rows, piece, encryptors)) is not None:
                    draft = drafts.add(draft, step)
                advance(piece.rows)
        return draft

    def _step(self, rows: Rows, piece: Piece, encryptors: RowEncryptors | None) -> PutStep | None:
        cells = self._cells
        for each in piece.segments if not piece.recounts else ():
            cells.count(self._source.index(self._opened.vault, each), -1)
        with self._computed(rows, piece) as table:
            if not table.rows:
                return None
            before, last = list(cells.keys), piece.segments[-1]
            plain = last.plain if piece.keeps_plain else None
            left = list(cells.rows)
            partial = self._writer.begin(table, cells, piece.id, last.contributor, plain)
            if piece.same_rows and not piece.recounts:
                _stayed(cells, {at: rows - (left[at] if at < len(left) else 0) for at, rows in enumerate(cells.rows)})
            keys = fresh_keys(before, cells, self._by)
            segment = self._writer.finish(partial, encryptors).model_copy(update={"added": last.added})
        return PutStep(
            id=segment.id,
            rows=segment.rows,
            digest="",
            segment=segment,
            keys=keys,
            replaces=piece.ids,
        )

    @contextmanager
    def _computed(self, rows: Rows, piece: Piece) -> Iterator[Table]:
        """The rows of a piece in the order they were put. No error quotes a value."""
        typed = [(identifier(each.name), each.type) for each in self._schema.columns]
        selected = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in typed)
        names = [each.name for each in load_stored_schema(self._opened.manifest).columns]
        with rows.new_table(self._schema) as table:
            into = f"{table.home}.main.{table.relation}"
            with rows.table(names, ordered=True, segments=piece.segments) as old:
                select = f"CREATE TABLE {into} AS SELECT {selected} FROM ({piece.select(old)})"
                ((table.rows,),) = fetched(
                    old.connection, select, lambda why: InputError(f"the new rows cannot be computed ({why})")
                )
            yield table


def rewrite(
    tables: Tables,
    opened: Opened,
    manifest: Manifest,
    pieces: Sequence[Piece],
    what: str,
    request: Sequence[object],
    progress: Progress,
    *,
    cells: Cells | None = None,
    repeats: bool = False,
) -> Opened:
    """Write `pieces` of the table and commit `manifest` with them as its next version.

    `request`: JSON of what makes a second call the same as one that was stopped. `cells`: None: those of the table.
    `repeats`: the draft stays, by which `repeated` recognises the change.
    Raises InputError, CheckFailed, StoreError; ConflictError where another writer came first. Nothing is changed then.
    """
    request_digest = digest_of_request(what, request)
    drafts = put_drafts(tables, manifest.table, manifest.version + 1)
    with tables.changing(opened):
        cells = tables.cells(opened) if cells is None else cells
        draft = drafts.resumable(drafts.find(request_digest), opened.head.manifest.name)
        if draft is not None and (counted := counted_cells(tables, opened.vault, draft, pieces, cells)) is not None:
            cells, manifest = counted, draft.of(manifest)
        else:
            draft = new_draft(request_digest, opened.head.manifest.name, manifest)
        writer = SegmentWriter(tables, manifest)
        advance = progress.stage(what, sum(each.rows for each in pieces), "rows")
        with writer.encryptors(max((each.rows for each in pieces), default=0)) as encryptors:
            rewriter = Rewriter(tables, opened, writer, manifest, cells)
            draft = rewriter.write(pieces, drafts, draft, encryptors, advance)
        cells.left += sum(each.rows for each in pieces) - sum(each.rows for each in draft.steps)
        done = tables.commit(next_manifest(tables, manifest, pieces, draft, cells), opened, what)
    with cleaning():
        if repeats:
            drafts.finish(draft)
        elif draft.steps:
            drafts.delete(draft)
    return done


def repeated(tables: Tables, opened: Opened, what: str, request: Sequence[object]) -> str | None:
    """Return the name of the manifest before the table's last change, if that was this very one; else None.

    The draft that a change leaves names its request.
    """
    drafts = put_drafts(tables, opened.manifest.table, opened.manifest.version)
    draft = drafts.find(digest_of_request(what, request))
    return draft.head if draft is not None and draft.is_of(opened.manifest) else None


def require_word(schema: Schema, read: Collection[str], reveals: str, *, yes: bool) -> None:
    """Raise InputError without the owner's word for what the plain place could not know by itself."""
    if not yes and (others := sorted({*read}.difference(schema.plain))):
        raise InputError(
            f"the plain place would learn {reveals}, chosen by columns that are not plain: {', '.join(others)}",
            hint="--dry-run of delete and update shows what would change; confirm with --yes (yes=True in Python)",
        )


def require_no_move(columns: Collection[str]) -> None:
    """Raise InputError where rows of a released table would get other values of these by columns."""
    if columns:
        raise InputError(
            f"the table was released to analysts, and {', '.join(columns)} is one of its --by columns: totals of the "
            "cells that rows leave and enter could show single rows",
            hint="delete the rows, and append them with the new values: later releases then have no rows added since",
        )


def digest_of_request(what: str, request: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([what, *request]).encode()).hexdigest()


def counted_cells(tables: Tables, vault: Vault, draft: PutDraft, pieces: Sequence[Piece], cells: Cells) -> Cells | None:
    """A copy of `cells` with the rows of `draft` counted in place of those it replaces. None where it replaces other
    segments than `pieces` do, or an index is damaged.
    """
    by_ids = {each.ids: each for each in pieces}
    counted = cells.copy()
    try:
        for step in draft.steps:
            piece = by_ids[step.replaces] if step.replaces else None
            for each in piece.segments if piece and not piece.recounts else ():
                counted.count(tables.index(vault, each), -1)
            for number, key in step.keys:
                if number == len(counted):
                    counted.keys.append(key)
                    counted.rows.append(0)
                counted.keys[number] = key
            if step.segment:
                index = tables.index(vault, step.segment)
                counted.count(index)
                if piece and piece.same_rows:
                    _stayed(counted, dict(zip(index.cells.tolist(), index.rows.tolist(), strict=True)))
    except ForeignError:
        raise
    except (CheckFailed, KeyError):
        return None
    return counted


def _stayed(cells: Cells, rows: Mapping[int, int]) -> None:
    """Count rows of cells, by number, that were taken out and put back as not gone."""
    for number, stayed in rows.items():
        if stayed and number in cells.gone:
            cells.gone[number] -= stayed


def next_manifest(
    tables: Tables, manifest: Manifest, pieces: Sequence[Piece], draft: PutDraft, cells: Cells
) -> Manifest:
    """`manifest` with `cells` and the segments of `draft`, each in the place of what it replaces, or last."""
    replacements = {step.replaces: step.segment for step in draft.steps if step.replaces}
    news = {
        id_: replacements.get(piece.ids) if place == 0 else None
        for piece in pieces
        for place, id_ in enumerate(piece.ids)
    }
    segments = [news.get(each.id, each) for each in manifest.segments]
    segments += [step.segment for step in draft.steps if not step.replaces]
    update = {
        "cells": tables.seal_cells(manifest, cells),
        "segments": tuple(each for each in segments if each is not None),
        "contributors": tuple(_renamed(each, news) for each in manifest.contributors),
    }
    return manifest.model_copy(update=update)


def _renamed(contributor: Contributor, news: Mapping[str, Segment | None]) -> Contributor:
    """`contributor` with the new ids of the segments of its parts, so that it can still take a part back."""

    def ids(old: Sequence[str]) -> tuple[str, ...]:
        segments: list[Segment | str | None] = [news.get(each, each) for each in old]
        return tuple(each if isinstance(each, str) else each.id for each in segments if each is not None)

    parts = tuple(each.model_copy(update={"segments": ids(each.segments)}) for each in contributor.parts)
    return contributor.model_copy(update={"parts": parts})


def fresh_keys(before: Sequence[Texts], cells: Cells, by: Sequence[str]) -> tuple[tuple[int, Texts], ...]:
    """The cells that have another key than `before`. Raises InputError where there are too many."""
    if len(cells) > MOST_CELLS:
        raise too_many_cells(by)
    return tuple((at, key) for at, key in enumerate(cells.keys) if at >= len(before) or before[at] != key)
