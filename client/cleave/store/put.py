"""Put rows into a store: check and describe them, store segment after segment, write the head last.

The draft of an append stays until the next version of the table. By it an append that repeats a killed one is
recognised, and adds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed_in
from functools import partial
from typing import Any

from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.by import count_cells, describe, propose
from cleave.store.cells import Cells
from cleave.store.columns import sealed_column
from cleave.store.compacting import merge_due
from cleave.store.contributors import contributed
from cleave.store.drafts import Drafts
from cleave.store.filling import Say, are_those, fill, rows_together
from cleave.store.keys import Keys, keys_of
from cleave.store.manifest import FORMAT, ROW, Batch, Manifest, Measure, SealedColumn, Segment, new_id
from cleave.store.reader import Opened
from cleave.store.rewrite import (
    Piece,
    PutDraft,
    PutStep,
    Rewriter,
    counted_cells,
    digest_of_request,
    fresh_keys,
    new_draft,
    next_manifest,
    put_drafts,
    require_no_move,
    require_word,
)
from cleave.store.schemas import (
    check_by,
    check_fits,
    check_key,
    load_stored_schema,
    measured,
    stored_schema,
)
from cleave.store.segment import PartialSegment, SegmentWriter, plain_by
from cleave.store.slices import Slices
from cleave.store.sweeping import cleaning
from cleave.store.tables import Tables
from cleave.table.batches import joined
from cleave.table.faults import changed
from cleave.table.progress import Progress
from cleave.table.schema import Kind, Schema, dump_schema
from cleave.table.stream import Extent, Stream, Survey, stream_of
from cleave.table.table import Table
from cleave.text.quantities import counted
from cleave_shared.errors import InputError
from cleave_shared.params import DEFAULT_PROFILE, PROFILES, Profile

_NAMED = 8  # bounds that `put` lists


def _silent(_: str) -> None:
    """Print nothing."""


def put(
    tables: Tables,
    rows: Table | Stream,
    name: str,
    by: Sequence[str] | None,
    progress: Progress,
    *,
    key: Sequence[str] = (),
    scan: bool = False,
    replace: bool = False,
    drop_contributors: bool = False,
    segment_rows: int = of_measures.SEGMENT_ROWS,
    say: Say = _silent,
    profile: Profile = DEFAULT_PROFILE,
) -> Opened:
    """Store `rows` as `name`, its cells by `by` (None: what is proposed), `segment_rows` rows at once at most.

    `key`: columns that together name one row: no two rows may have the same values of them, now or later. `scan`: the
    rows are stored as ciphertexts too, which services may add up by any plain column.
    A put of the same rows that was killed continues after its last segment. `say` gets what will be stored.
    Raises InputError for an existing table without `replace`, for one with contributors without `drop_contributors`,
    and for rows that do not fit the schema; ConflictError where another process puts the same table.
    """
    if not name.strip():
        raise InputError("the table has no name", hint="name it with --table")
    existing = require_new(tables, name, replace=replace, drop_contributors=drop_contributors)
    with as_stream(rows) as stream:
        schema = stored_schema(stream.schema, name)
        chosen = None if by is None else check_by(by, schema)
        key = check_key(key, schema)
        survey = stream.survey(progress)
        _keys(stream, schema, key)
        if chosen is None:
            plain, more = propose(stream, survey.rows)
            chosen = check_by(plain, schema)
            if more:
                say(
                    f"by is proposed of plain columns; {', '.join(more)} have few values too: queries that group by "
                    f"them need no rows with --by {','.join([*chosen, *more])}"
                )
        cells = count_cells(stream, chosen)
        measures = measures_of(schema, survey, stream)
        local = tuple(each.name for each in stream.schema.columns if each.kind is Kind.LOCAL)
        manifest = Manifest.model_construct(
            format=FORMAT,
            table=name,
            table_id=existing.manifest.table_id if existing else new_id(),
            version=existing.manifest.version if existing else 0,  # that it is put on top of
            profile=profile.name,
            schema_toml=dump_schema(schema),
            by=chosen,
            key=key,
            measures=measures,
            sealed=sealed_columns(schema, chosen),
            scanned=len(measures) if scan else 0,
            segments=(),
            local=local,
        )
        if local:
            say(f"not stored: {', '.join(local)} (kind local)")
        if bounds := [
            f"{each.name} {each.lower} to {each.upper}"
            for each in schema.columns
            if each.kind is Kind.ENCRYPTED and each.lower is not None and each.upper is not None
        ]:
            rest = f" and {len(bounds) - _NAMED} more" if len(bounds) > _NAMED else ""
            say(f"these bounds now hold for all rows, until `cleave alter`: {', '.join(bounds[:_NAMED])}{rest}")
        say(describe(manifest, survey.rows, cells, profile))
        putting = _Putting(tables, manifest, Cells(), existing, "put", say)
        return putting.run(stream, survey, segment_rows, progress)


def require_new(tables: Tables, name: str, *, replace: bool, drop_contributors: bool = False) -> Opened | None:
    """Return the table that `name` replaces; None where there is none. Raises InputError for one that must stay."""
    existing = tables.find(name)
    if existing is not None and not replace:
        raise InputError(
            f"{tables.places[0]}: table {name!r} already exists",
            hint="--append adds rows to it, --replace replaces it",
        )
    if existing is not None and existing.manifest.release is not None:
        raise InputError(
            f"table {name!r} was released to analysts: releases of other rows under its name could show single rows",
            hint="`cleave drop` deletes it with its releases; what analysts have copied stays open to them",
        )
    if existing is not None and not drop_contributors and (lost := contributed(existing.manifest)):
        raise InputError(
            f"table {name!r} would lose {lost}",
            hint="--append adds rows and keeps theirs; --drop-contributors replaces it all the same",
        )
    return existing


def append(
    tables: Tables,
    rows: Table | Stream,
    name: str,
    progress: Progress,
    *,
    again: bool = False,
    batch: Batch | None = None,
    upsert: bool = False,
    yes: bool = False,
    segment_rows: int = of_measures.SEGMENT_ROWS,
    say: Say = _silent,
) -> Opened:
    """Add rows to a stored table, whose schema `rows` must have. Otherwise as `put`.

    `batch`: names these rows; they are added only if the table has no batch of that name. `upsert`: they take the place
    of rows with the same key, which are refused otherwise; `yes`: the plain place may learn which ones.
    Rows that the table's last change appended are not added a second time: that is an append which was stopped after
    its work was done. `again` adds them all the same.
    """
    opened = tables.open(name)
    if upsert and not opened.manifest.key:
        raise InputError(f"table {name!r} has no key columns", hint="declare them with put --key-columns")
    if batch is not None and has_batch(opened.manifest, batch, say):
        return opened
    with tables.changing(opened), as_stream(rows) as stream:
        schema = load_stored_schema(opened.manifest)
        check_fits(stored_schema(stream.schema, name), schema, name)
        survey = stream.survey(progress)
        check_extents(opened.manifest.measures, survey)
        count_cells(stream, opened.manifest.by)
        keys = _keys(stream, schema, opened.manifest.key)
        putting = _Putting(tables, opened.manifest, tables.cells(opened), opened, "append", say, batch, keys)
        if batch is None and not again and putting.is_done(stream, survey):
            return opened
        pieces = merge_due(opened.manifest)
        if keys and (touched := keys.count_in(tables, opened, opened.manifest.segments)):
            replaced = sum(touched.values())
            if not upsert:
                raise InputError(
                    f"table {name!r} already has {counted(replaced, 'key')} of these rows",
                    hint="--upsert replaces them (upsert=True in Python)",
                )
            if schema.plain:
                require_word(schema, opened.manifest.key, "which rows are replaced", yes=yes)
            segments = [each for each in opened.manifest.segments if each.id in touched]
            if opened.manifest.release is not None:
                of_cells = schema.only([*opened.manifest.key, *opened.manifest.by])
                new = joined([*stream.batches(of_cells.columns)])
                require_no_move(keys.moved_in(tables, opened, segments, of_cells, new))
            say(f"replacing {counted(replaced, 'row')} by rows with the same key")
            pieces = _without(keys, pieces, segments)
            return putting.run(stream, survey, segment_rows, progress, pieces, replaced=replaced)
        return putting.run(stream, survey, segment_rows, progress, pieces)


def _keys(stream: Stream, schema: Schema, key: Sequence[str]) -> Keys | None:
    """Return the keys of the rows; None without key columns or rows."""
    return keys_of(stream.batches(schema.only(key).columns), schema, key, stream.place) if key else None


def _without(keys: Keys, merged: Sequence[Piece], touched: Sequence[Segment]) -> list[Piece]:
    """`merged`, and the other segments of `touched`, without the rows of `keys`."""
    together = {id_ for piece in merged for id_ in piece.ids}
    alone = [Piece((each,), same_rows=True) for each in touched if each.id not in together]
    return [changed_in(each, select=lambda table: f"({keys.others(table)})") for each in (*merged, *alone)]


def has_batch(manifest: Manifest, batch: Batch, say: Say) -> bool:
    """Check whether a table has a batch, and say so. Raises InputError for one of that name from another file."""
    present = next((each for each in manifest.batches if each.id == batch.id), None)
    if present is not None and present.digest and batch.digest and present.digest != batch.digest:
        raise InputError(
            f"batch {batch.id!r} of table {manifest.table!r} was added from a file with other bytes",
            hint="give the new rows a file, or --batch, of another name",
        )
    if present is not None:
        say(f"batch {batch.id!r} already exists: nothing is added")
    return present is not None


@dataclass(frozen=True, slots=True)
class _Putting:
    """Put or append (`what`) on top of `previous`.

    `manifest` and `cells` of the version before; without segments and secret for a new table.
    """

    tables: Tables
    manifest: Manifest
    cells: Cells
    previous: Opened | None
    what: str
    say: Say
    batch: Batch | None = None
    keys: Keys | None = None

    def is_done(self, stream: Stream, survey: Survey) -> bool:
        """Check by the draft of the table's version whether its last change was to append just these rows."""
        done = self.manifest.version
        drafts = put_drafts(self.tables, self.manifest.table, done)
        draft = drafts.find(self._request())
        if draft is None or draft.rows != survey.rows or not draft.is_of(self.manifest):
            return False
        with Slices(stream, load_stored_schema(self.manifest)) as slices:
            if not are_those(slices, draft.put):
                return False
        with cleaning():  # where it was killed before
            drafts.finish(draft)
        self.say(f"version {done} added the same rows: nothing is added (--again adds them again)")
        return True

    def run(
        self,
        stream: Stream,
        survey: Survey,
        segment_rows: int,
        progress: Progress,
        pieces: Sequence[Piece] = (),
        **details: Any,
    ) -> Opened:
        """Put the rows, and write `pieces`, segments of the table before, again in the same step.

        `details`: of the record in the log.
        Raises InputError, StoreError, ConflictError. What was stored before an error no manifest names.
        """
        advance = progress.stage("encrypt and store", survey.rows, "rows")
        drafts = put_drafts(self.tables, self.manifest.table, self.manifest.version + 1)
        fill = partial(self._fill, stream, survey, segment_rows, advance, pieces, drafts)
        head = self.previous.head.manifest.name if self.previous else None
        left = drafts.resumable(drafts.find(self._request()), head)
        written = (fill(head, left) if left else None) or fill(head, None)
        assert written is not None  # noqa: S101 - only a draft can be of other rows
        manifest, draft = written
        if self.batch is not None:
            manifest = manifest.model_copy(update={"batches": (*manifest.batches, self.batch)})
            details["batch"] = self.batch.id
        rows = draft.rows if self.what == "put" else None
        opened = self.tables.commit(manifest, self.previous, self.what, rows, **details)
        with cleaning():
            if self.what == "put":  # repeated, it finds the table there, or replaces it by the same rows
                drafts.delete(draft)
            else:
                drafts.finish(draft)
        return opened

    def _fill(
        self,
        stream: Stream,
        survey: Survey,
        segment_rows: int,
        advance: Callable[[int], None],
        pieces: Sequence[Piece],
        drafts: Drafts[PutDraft, PutStep],
        head: str | None,
        draft: PutDraft | None,
    ) -> tuple[Manifest, PutDraft] | None:
        """Write all rows, those of `draft` aside; return the next manifest and the whole draft.

        None, and nothing is changed, if the rows of `draft` are others by now, or an index of it is damaged.
        """
        tables, manifest, cells = self.tables, self.manifest, self.cells.copy()
        if draft is not None:
            manifest = draft.of(manifest)
            vault = tables.vault(manifest.table_id)
            counted = counted_cells(tables, vault, draft, pieces, cells)
            if counted is None:
                return None
            cells = counted
        elif "secret" not in manifest.__dict__:
            secret = tables.new_secret(manifest.table, manifest.table_id, PROFILES[manifest.profile])
            manifest = manifest.model_copy(update={"secret": secret})
        schema = load_stored_schema(manifest)
        rows = rows_together(survey, manifest.scanned, segment_rows, sorts=bool(plain_by(manifest, schema.columns)))
        writer = SegmentWriter(tables, manifest)
        with writer.encryptors(max(rows, *(each.rows for each in pieces), 0)) as encryptors:

            def begin(table: Table) -> tuple[PartialSegment, tuple[tuple[int, Texts], ...]]:
                before = list(cells.keys)
                unfinished = writer.begin(table, cells)
                return unfinished, fresh_keys(before, cells, manifest.by)

            def finish(digest: str, unfinished: tuple[PartialSegment, tuple[tuple[int, Texts], ...]]) -> PutStep:
                segment = writer.finish(unfinished[0], encryptors, advance)
                return PutStep(id=segment.id, rows=segment.rows, digest=digest, segment=segment, keys=unfinished[1])

            draft = draft or new_draft(self._request(), head, manifest)
            if self.previous is not None and pieces:
                rewriter = Rewriter(tables, self.previous, writer, manifest, cells)
                draft = rewriter.write(pieces, drafts, draft, encryptors, lambda _: None)
            draft = fill(stream, schema, drafts, draft, rows, begin, finish, advance, self.say)
        if draft is None:
            return None
        if draft.rows != survey.rows:
            raise changed(stream.name)
        return next_manifest(tables, manifest, pieces, draft, cells), draft

    def _request(self) -> str:
        """Digest of what makes a second put the same as a first, but for the rows."""
        manifest = self.manifest
        exact = [each.model_dump(exclude={"centre", "exponent"}) for each in manifest.measures]
        request = [manifest.schema_toml, manifest.by, manifest.profile, exact, manifest.key]
        request += [self.keys.digest] if self.keys else []  # on which the segments that are written again depend
        return digest_of_request(self.what, [*request, manifest.scanned])


@contextlib.contextmanager
def as_stream(rows: Table | Stream) -> Iterator[Stream]:
    """Stream the rows of a table within the block. A stream stays open: its owner closes it."""
    if isinstance(rows, Stream):
        yield rows
    else:
        with stream_of(rows) as stream:
            yield stream


def sealed_columns(schema: Schema, by: Sequence[str]) -> tuple[SealedColumn, ...]:
    """Describe the columns that are sealed: those that are not plain, and row numbers where plain by columns sort."""
    sealed = [sealed_column(each) for each in schema.columns if each.kind is not Kind.PLAIN]
    if not set(schema.plain).isdisjoint(by):
        sealed.append(SealedColumn(name=ROW, id=new_id(), type="INTEGER", width=4, nullable=False))
    return tuple(sealed)


def measures_of(schema: Schema, survey: Survey, stream: Stream) -> tuple[Measure, ...]:
    """Measures of the encrypted columns, then of the derived ones. The extent of doubles chooses their centres and
    scales.
    """
    measures = []
    for name, argument, derived in measured(schema):
        extent = survey.floats.get(name) if derived is None else None
        if derived is not None and argument.decimals is None:
            extent = _extent(stream, derived.columns, argument.sql)
        measures.append(of_measures.measure_of(name, argument, extent, derived=derived is not None))
    return tuple(measures)


def _extent(stream: Stream, columns: Sequence[str], sql: str) -> Extent | None:
    """Extent of an expression's doubles over all rows."""
    stream.gather(columns, f"SELECT {of_measures.EXTENT.format(sql)} FROM rows", "extents")
    ((least, middle, largest),) = stream.query(
        "SELECT min(least), any_value(middle), max(largest) FROM extents WHERE least IS NOT NULL"
    )
    return None if least is None else Extent(float(least), float(middle), float(largest))


def check_extents(measures: Sequence[Measure], survey: Survey) -> None:
    """Raises InputError for doubles that lie farther out than the table was made for."""
    for measure in measures:
        extent = survey.floats.get(measure.name)
        if extent is not None and not measure.derived:
            of_measures.require_within(measure, survey.rows, survey.rows, extent.least, extent.largest)
