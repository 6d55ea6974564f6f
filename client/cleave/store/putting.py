"""Rows on their way into a table: segment after segment, then the head.

While a segment is sealed and written, a thread reads the next; rows for scans are encrypted beside both. After each
segment a draft records it: the same call made again goes on from there. The draft of an append stays until the
next version of the table, so that an append repeated after it was killed is recognised and adds nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cleave.ckks.cipher import Cipher
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey
from cleave.objects.locate import Stores
from cleave.objects.storage import ForeignError
from cleave.sql.rejoin import Texts
from cleave.store.by import too_many_cells
from cleave.store.cells import MOST_CELLS, Cells
from cleave.store.drafts import Step
from cleave.store.manifest import Event, Manifest, new_id
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.put_draft import PutDraft, PutStep, put_drafts
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import Begun, SegmentWriter, plain_by
from cleave.store.slices import Slices, digest_of
from cleave.store.tables import Opened, Tables, now
from cleave.store.vault import Vault
from cleave.table.batches import Batch
from cleave.table.progress import Progress
from cleave.table.stream import Stream, Survey, changed
from cleave.text.quantities import counted
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed
from cleave_shared.params import PROFILES

_SECONDS = 3600.0  # for the rows of one segment to be read and put in their order
_SEGMENT_BYTES = 256 << 20  # of a segment while it is written, and of the next one, which is read meanwhile
_MEASURE_BYTES = 96  # of a measure's value for scans: its parts as DuckDB has them and as words, in two orders
_FEWEST_ROWS = 1 << 12

Say = Callable[[str], None]
T = TypeVar("T")


def rows_together(survey: Survey, scanned: int, most: int = SEGMENT_ROWS, *, sorts: bool = False) -> int:
    """Rows of a segment that memory has room for: all of a full one, unless they are wide.

    `scanned`: measures of which rows are kept for scans. `sorts`: rows are put in another order.
    """
    copies = 4 if sorts else 2
    each = copies * survey.bytes / max(1, survey.rows) + scanned * _MEASURE_BYTES
    room = int(_SEGMENT_BYTES / max(1.0, each))
    return min(most, max(_FEWEST_ROWS, room))


@dataclass(frozen=True, slots=True)
class _Next:
    """A segment begun; the digest of its rows, and the cells that came with them, by number."""

    begun: Begun
    digest: str
    keys: tuple[tuple[int, Texts], ...]


class Putting:
    """One put or append (`what`), on top of the table that `head` shows."""

    def __init__(
        self,
        tables: Tables,
        stores: Stores,
        key: OwnerKey,
        manifest: Manifest,
        cells: Cells,
        head: str | None,
        what: str,
        say: Say,
    ) -> None:
        """`manifest` without cells, of the version that is made; `cells` there are already."""
        self._tables = tables
        self._stores = stores
        self._key = key
        self._manifest = manifest
        self._cells = cells
        self._head = head
        self._what = what
        self._say = say
        self._drafts = put_drafts(tables, stores, manifest.table, manifest.version)

    def is_done(self, stream: Stream, survey: Survey) -> bool:
        """Check whether the last change of the table was to append just these rows: the draft of that version tells."""
        done = self._manifest.version - 1
        drafts = put_drafts(self._tables, self._stores, self._manifest.table, done)
        draft = drafts.left(self._asked())
        if draft is None or draft.rows != survey.rows:
            return False
        if not {each.id for each in draft.steps} <= {each.id for each in self._manifest.segments}:
            return False
        with Slices(stream, load_stored_schema(self._manifest)) as slices:
            if not are_those(slices, draft.steps, lambda _: None):
                return False
        drafts.finish(draft)  # where it was killed before
        self._say(f"version {done} added these very rows: nothing is added now (--again adds them once more)")
        return True

    def run(self, stream: Stream, survey: Survey, segment_rows: int, progress: Progress) -> Opened:
        """Raises InputError, StoreError, ConflictError. What was stored before an error no manifest names."""
        advance = progress.stage("encrypt and store", survey.rows, "rows")
        draft = self._drafts.stands(self._drafts.left(self._asked()), self._head)
        if draft is not None and (done := self._fill(stream, survey, segment_rows, advance, draft)) is not None:
            return done
        done = self._fill(stream, survey, segment_rows, advance, None)
        assert done is not None  # noqa: S101 - only a draft can be of other rows
        return done

    def _fill(
        self, stream: Stream, survey: Survey, segment_rows: int, advance: Callable[[int], None], draft: PutDraft | None
    ) -> Opened | None:
        """Put all rows, those of `draft` aside. None, and nothing is changed, if these are other rows by now, or an
        index of `draft` is damaged.
        """
        manifest, cells = self._manifest, self._cells.copy()
        if draft is not None:
            manifest = manifest.model_copy(
                update={
                    "table_id": draft.table_id,
                    "measures": draft.measures,
                    "sealed": draft.sealed,
                    "secret": draft.secret,
                }
            )
        schema = load_stored_schema(manifest)
        sorts = bool(plain_by(manifest, schema.columns))
        rows = rows_together(survey, manifest.scanned, segment_rows, sorts=sorts)
        vault = Vault(self._key, manifest.table_id)
        stores, folder = self._stores, self._tables.folder(manifest.table)
        secret, manifest = self._secret(manifest)
        writer = SegmentWriter(stores.sensitive, stores.plain, vault, Cipher(secret), secret.profile, folder)
        with writer.encryptors(manifest, min(rows, survey.rows)) as encryptors, Slices(stream, schema) as slices:
            if draft is not None:
                if not are_those(slices, draft.steps, advance):
                    self._say("the rows are not those of the put that was stopped: all of them are stored anew")
                    advance(-draft.rows)
                    return None
                if not self._counted(draft, cells, vault):
                    advance(-draft.rows)
                    return None
                told = f"{counted(draft.rows, 'row')} are stored already"
                self._say(f"going on where an earlier put of the same rows was stopped: {told}")
            draft = draft or self._begun(manifest)
            with (
                _ahead(iter(lambda: slices.next(rows), None), stream.interrupt) as pieces,
                _ahead(_begun(pieces, slices, writer, manifest, cells), stream.interrupt) as segments,
            ):
                for each in segments:
                    made = writer.finish(each.begun, encryptors, advance)
                    step = PutStep(id=made.id, rows=made.rows, digest=each.digest, segment=made, keys=each.keys)
                    draft = self._drafts.add(draft, step)
        if draft.rows != survey.rows:
            raise changed(stream.name)
        return self._commit(manifest, draft, cells)

    def _counted(self, draft: PutDraft, cells: Cells, vault: Vault) -> bool:
        """Add the rows of `draft` to `cells`. False where an index is damaged."""
        try:
            draft.count(cells, self._tables, vault)
        except ForeignError:
            raise
        except CheckFailed:
            return False
        return True

    def _secret(self, manifest: Manifest) -> tuple[SecretKey, Manifest]:
        """The table's CKKS secret, which is made with it, and `manifest` with its object."""
        if "secret" in manifest.__dict__:
            return self._tables.secret(manifest), manifest
        profile = PROFILES[manifest.profile]
        secret, which = self._tables.new_secret(manifest.table, manifest.table_id, profile)
        return secret, manifest.model_copy(update={"secret": which})

    def _begun(self, manifest: Manifest) -> PutDraft:
        """A draft without segments."""
        return PutDraft(
            id=new_id(),
            asked=self._asked(),
            head=self._head,
            table_id=manifest.table_id,
            measures=manifest.measures,
            sealed=manifest.sealed,
            secret=manifest.secret,
            steps=(),
        )

    def _commit(self, manifest: Manifest, draft: PutDraft, cells: Cells) -> Opened:
        """Show everything that was added, at once."""
        vault, folder = Vault(self._key, manifest.table_id), self._tables.folder(manifest.table)
        event = Event(version=manifest.version, at=now(), what=self._what, rows=draft.rows)
        opened = self._tables.commit(
            manifest.model_copy(
                update={
                    "segments": (*manifest.segments, *draft.segments),
                    "cells": self._tables.seal(folder, vault, "cells", cells.dump()),
                    "history": (*manifest.history, event),
                }
            ),
            self._head,
        )
        if self._what == "put":  # repeated, it finds the table there, or replaces it by the same rows
            self._drafts.delete(draft)
        else:
            self._drafts.finish(draft)
        return opened

    def _asked(self) -> str:
        """Digest of what makes a second put the same as a first, but for the rows."""
        manifest = self._manifest
        exact = [each.model_dump(exclude={"centre", "exponent"}) for each in manifest.measures]
        asked = [self._what, manifest.schema_toml, manifest.by, manifest.profile, exact]
        return hashlib.sha256(json.dumps([*asked, manifest.scanned]).encode()).hexdigest()


def are_those(slices: Slices, steps: Sequence[Step], advance: Callable[[int], None]) -> bool:
    """Whether the next rows are those of the segments of `steps`, by their digests."""
    for step in steps:
        found = slices.next(step.rows, sys.maxsize)
        if found is None or found.rows != step.rows or digest_of(slices.table(found)) != step.digest:
            return False
        advance(step.rows)
    return True


def _begun(
    pieces: Iterable[Batch], slices: Slices, writer: SegmentWriter, manifest: Manifest, cells: Cells
) -> Iterator[_Next]:
    """Segment after segment of what is left of the rows. Raises InputError for more cells than a table may have."""
    for piece in pieces:
        table = slices.table(piece)
        digest, before = digest_of(table), list(cells.keys)
        begun = writer.begin(table, manifest, cells)
        if len(cells) > MOST_CELLS:
            raise too_many_cells(manifest.by)
        fresh = [(at, key) for at, key in enumerate(cells.keys) if at >= len(before) or before[at] != key]
        yield _Next(begun, digest, tuple(fresh))


@contextlib.contextmanager
def _ahead(items: Iterator[T], interrupt: Callable[[], None]) -> Iterator[Iterator[T]]:
    """The same items, each made by a thread while the one before it is used."""

    def each(pool: ThreadPoolExecutor) -> Iterator[T]:
        coming = pool.submit(next, items, None)
        while (item := coming.result(_SECONDS)) is not None:
            coming = pool.submit(next, items, None)
            yield item

    with ThreadPoolExecutor(1) as pool:
        try:
            yield each(pool)
        except BaseException:
            interrupt()
            raise
