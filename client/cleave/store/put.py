"""Puts rows into a store: check and describe them, store segment after segment, and write the head last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic import JsonValue

from cleave.formats import FORMAT
from cleave.sql.plan import Argument
from cleave.store import measures as of_measures
from cleave.store.basis import basis_of, marking_of
from cleave.store.by import count_cells, describe, propose
from cleave.store.cells import Cells
from cleave.store.change import Change, ChangePlan, always, committed_after, require_no_reader, require_word
from cleave.store.columns import sealed_column
from cleave.store.compacting import merged
from cleave.store.contributors import contributed
from cleave.store.filling import NewRows, Say, rows_together, silent
from cleave.store.keys import Keys, keys_of
from cleave.store.log import PAGE
from cleave.store.making import make
from cleave.store.manifest import (
    ROW,
    AnyRelease,
    Batch,
    Manifest,
    Measure,
    Reader,
    SealedColumn,
    Segment,
    Segments,
    new_id,
)
from cleave.store.pieces import SegmentRows, StreamRows
from cleave.store.products import measures_of_products, products_of
from cleave.store.published import ENDS, all_rows, leaving, would_end
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import (
    check_by,
    check_fits,
    check_key,
    load_stored_schema,
    measured,
    stored_schema,
)
from cleave.store.segment import plain_by
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave.table.schema import Kind, Schema, dump_schema
from cleave.table.stream import Extent, Stream, Survey, stream_of
from cleave.table.table import Table
from cleave.text.quantities import counted, listed
from cleave_shared.errors import InputError
from cleave_shared.params import DEFAULT_PROFILE, PROFILES, Profile

_NAMED = 8  # number of bounds that `put` lists
_STAGE = "encrypt and store"


def put(
    tables: Tables,
    rows: Table | Stream,
    name: str,
    by: Sequence[str] | None,
    progress: Progress,
    *,
    key: Sequence[str] = (),
    products: Sequence[str] = (),
    scan: bool = False,
    replace: bool = False,
    drop_contributors: bool = False,
    segment_rows: int = of_measures.SEGMENT_ROWS,
    say: Say = silent,
    warn: Say = silent,
    profile: Profile = DEFAULT_PROFILE,
) -> Opened:
    """Store `rows` as table `name`, with cells by `by` (None: a proposal), in segments of at most `segment_rows` rows.

    `key`: columns that together identify a row: no two rows may have equal values in them, now or later. `products`:
    columns whose products get totals too. `scan`: also store the rows as ciphertexts, which services can add up by any
    plain column. A put of the same rows that was killed continues after its last segment. `say` gets what will be
    stored; `warn` is told if the table's releases end.

    Raises InputError for an existing table without `replace`, for one with contributors without `drop_contributors`,
    and for rows that do not fit the schema; ConflictError if another process puts the same table.
    """
    if not name.strip():
        raise InputError("the table has no name", hint="name it with --table")
    over = {"replace": replace, "drop_contributors": drop_contributors}
    existing = require_new(tables, name, **over)
    with as_stream(rows) as stream:
        how: dict[str, Any] = {"key": key, "products": products, "scan": scan, "say": say, "profile": profile}
        planned = plan_put(stream, name, by, progress, existing, **how)
        _describe(planned, say)
        new = _rows_of(stream, planned.survey, planned.manifest, segment_rows, say)

        def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
            nonlocal planned
            if base is not existing:  # another process was faster
                require_replaceable(tables, name, base, **over)
                planned = plan_put(stream, name, by, progress, base, **{**how, "say": silent})
            manifest = planned.manifest
            if base is not None:
                manifest = manifest.model_copy(update={"release": _replaced(tables, base, manifest, warn)})
            return ChangePlan(manifest, [StreamRows(new)], Cells(), planned.survey.rows)

        change = Change(
            "put",
            [*_request(planned.manifest), planned.survey.rows],
            plan,
            _may_replace,
            new.continues,
            new.digests,
            basis=marking_of,
            stage=_STAGE,
        )
        return make(tables, name, change, progress).opened


def _describe(planned: PlannedPut, say: Say) -> None:
    """Say what will be stored."""
    manifest = planned.manifest
    if entity := planned.schema.privacy.entity:
        say(f"people are counted by {', '.join(entity)}")
    if manifest.local:
        say(f"not stored: {', '.join(manifest.local)} (kind local)")
    if bounds := [f"{each} {lower} to {upper}" for each, (lower, upper) in planned.bounds.items()]:
        rest = f" and {len(bounds) - _NAMED} more" if len(bounds) > _NAMED else ""
        say(f"these bounds now hold for all rows, until `cleave alter`: {', '.join(bounds[:_NAMED])}{rest}")
    profile = PROFILES[manifest.profile]
    say(describe(manifest, planned.survey, planned.cells, planned.segments, profile))


def _may_replace(before: Manifest | None, newest: Manifest) -> bool:
    """Whether a put may replace what others made of the table meanwhile. If there was none, its plan refuses."""
    return before is None or not any(each.release or each.readers or each.contributors for each in (before, newest))


@dataclass(frozen=True, slots=True)
class PlannedPut:
    """Plan of a put: a `manifest` without segments yet, whose version is the replaced table's."""

    manifest: Manifest
    schema: Schema
    survey: Survey
    cells: int

    @property
    def bounds(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Stated bounds of encrypted columns."""
        return {
            each.name: (each.lower, each.upper)
            for each in self.schema.columns
            if each.kind is Kind.ENCRYPTED and each.lower is not None and each.upper is not None
        }

    @property
    def segments(self) -> int:
        sorts = bool(plain_by(self.manifest, self.schema.columns))
        together = rows_together(self.survey, self.manifest.scanned, sorts=sorts)
        return -(-self.survey.rows // together)


def plan_put(
    stream: Stream,
    name: str,
    by: Sequence[str] | None,
    progress: Progress,
    existing: Opened | None = None,
    *,
    key: Sequence[str] = (),
    products: Sequence[str] = (),
    scan: bool = False,
    say: Say = silent,
    profile: Profile = DEFAULT_PROFILE,
) -> PlannedPut:
    """Check all rows as `put` does, and plan what it stores. `existing`: the table that is replaced.

    `say` is told which columns could also be `by` columns. Raises InputError for rows that do not fit the schema.
    """
    schema = stored_schema(stream.schema, name)
    own = [of_measures.unscaled(each, argument) for each, argument, _ in measured(schema)]
    needed = products_of(schema, products, own) if products else []
    if existing is not None:
        _require_same_entity(load_stored_schema(existing.manifest), schema, name)
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
    measures += tuple(measures_of_products(schema, needed, measures, partial(_extents, stream)))
    if needed:
        names = listed([each.name for each in needed])
        say(f"with totals of {counted(len(needed), 'expression')} for products: {names}")
    manifest = Manifest.model_construct(
        format=FORMAT,
        table=name,
        table_id=existing.manifest.table_id if existing else new_id(),
        version=existing.manifest.version if existing else 0,  # the version that it replaces
        profile=profile.name,
        schema_toml=dump_schema(schema),
        by=chosen,
        key=key,
        measures=measures,
        sealed=sealed_columns(schema, chosen),
        scanned=len(measures) if scan else 0,
        segments=Segments(),
        local=tuple(each.name for each in stream.schema.columns if each.kind is Kind.LOCAL),
        readers=_readers(existing.manifest, schema) if existing else (),
    )
    return PlannedPut(manifest, load_stored_schema(manifest), survey, cells)


def require_new(tables: Tables, name: str, *, replace: bool, drop_contributors: bool = False) -> Opened | None:
    """The table that `name` replaces; None if there is none. Raises InputError if it must not be replaced."""
    existing = tables.find(name)
    require_replaceable(tables, name, existing, replace=replace, drop_contributors=drop_contributors)
    return existing


def require_replaceable(
    tables: Tables, name: str, existing: Opened | None, *, replace: bool, drop_contributors: bool
) -> None:
    """Raise InputError if a put must not replace this table."""
    if existing is not None and not replace:
        raise InputError(
            f"{tables.places[0]}: table {name!r} already exists",
            hint="--append adds rows to it, --replace replaces it",
        )
    if existing is not None and not drop_contributors and (lost := contributed(existing.manifest)):
        raise InputError(
            f"table {name!r} would lose {lost}",
            hint="--append adds rows and keeps theirs; --drop-contributors replaces it all the same",
        )


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
    say: Say = silent,
) -> Opened:
    """Add rows to a stored table. `rows` must have its schema. Otherwise like `put`.

    `batch`: names these rows; they are added only if the table has no batch of that name. `upsert`: they replace rows
    with the same key; without it such rows are refused. `yes`: the plain place may learn which ones.

    Rows that one of the newest changes appended are not added again: that is a stopped append whose work was done.
    `again` adds them anyway, and continues no stopped call. Others may change the table meanwhile: the rows are added
    to what they made of it.
    """
    opened = tables.open(name)
    if upsert and not opened.manifest.key:
        raise InputError(f"table {name!r} has no key columns", hint="declare them with put --key-columns")
    if batch is not None and has_batch(opened.manifest, batch, say):
        return opened
    with as_stream(rows) as stream:
        adding = _Adding(tables, name, stream, opened.manifest, progress, batch, say, upsert=upsert, yes=yes)
        new = _rows_of(stream, adding.survey, opened.manifest, segment_rows, say)
        request = [adding.digest, new.rows, batch and batch.id, upsert]
        change = Change(
            "append",
            request,
            lambda base, stack: adding.plan(base, stack, segment_rows),
            always,
            new.continues,
            new.digests,
            once=0 if batch is not None or again else 1 if upsert else PAGE,
            stage=_STAGE,
            again=again,
            columns=_request(opened.manifest),
        )
        done = make(tables, name, change, progress)
    if done.record is not None:
        say(f"version {done.record.version} added the same rows: nothing is added (--again adds them again)")
    if told := committed_after(done):
        say(told)
    return merged(tables, done.opened, progress) if done.made else done.opened


class _Adding:
    """Plans an append on any version. What was found of a segment is not looked for again."""

    def __init__(
        self,
        tables: Tables,
        name: str,
        stream: Stream,
        manifest: Manifest,
        progress: Progress,
        batch: Batch | None,
        say: Say,
        *,
        upsert: bool,
        yes: bool,
    ) -> None:
        self._tables = tables
        self._name = name
        self._stream = stream
        self._batch = batch
        self._say = say
        self._upsert = upsert
        self._yes = yes
        self._touched: dict[tuple[str, Segment], int] = {}  # rows with the new keys, by schema and segment
        self._checked: Manifest | None = None  # what rows and keys were checked against
        self._keys: Keys | None = None
        check_fits(stream.schema, load_stored_schema(manifest), name)
        self.survey = stream.survey(progress)
        self._check(manifest)

    @property
    def digest(self) -> str:
        """Of the keys; "" without any."""
        return self._keys.digest if self._keys else ""

    def _check(self, manifest: Manifest) -> None:
        before = self._checked
        if before is not None and basis_of(before) == basis_of(manifest):
            return
        schema = load_stored_schema(manifest)
        check_fits(self._stream.schema, schema, self._name)
        check_extents(manifest.measures, self.survey)
        count_cells(self._stream, manifest.by)
        self._keys = _keys(self._stream, schema, manifest.key)
        self._checked = manifest

    def plan(self, base: Opened | None, stack: ExitStack, segment_rows: int) -> ChangePlan:
        if base is None:
            raise self._tables.no_table(self._name)
        manifest, batch = base.manifest, self._batch
        if batch is not None and has_batch(manifest, batch, self._say):
            return ChangePlan(manifest, idle=True)
        self._check(manifest)
        new = StreamRows(_rows_of(self._stream, self.survey, manifest, segment_rows, self._say))
        details: dict[str, JsonValue] = {}
        if batch is not None:
            manifest = manifest.model_copy(update={"batches": manifest.batches.extended([batch])})
            details["batch"] = batch.id
        keys, touched = self._keys, self._rows_with_keys(base)
        if keys is None or not touched:
            return ChangePlan(manifest, [new], details=details)
        _check_upsert(manifest, touched, upsert=self._upsert, yes=self._yes)
        self._say(f"replacing {counted(sum(touched.values()), 'row')} by rows with the same key")
        release = leaving(self._tables, base, dict.fromkeys(touched, keys.replaced))
        stored = stack.enter_context(closing(Rows(self._tables, base)))
        pieces = [SegmentRows(stored, (each,), keys.others) for each in manifest.segments if each.id in touched]
        details["replaced"] = sum(touched.values())
        return ChangePlan(manifest.model_copy(update={"release": release}), [*pieces, new], details=details)

    def _rows_with_keys(self, base: Opened) -> dict[str, int]:
        """Number of rows with one of the new keys, by segment id; segments without any are omitted."""
        if self._keys is None:
            return {}
        names = {each: (base.manifest.schema_toml, each) for each in base.manifest.segments}
        due = [each for each in base.manifest.segments if names[each] not in self._touched]
        found = self._keys.count_in(self._tables, base, due)
        self._touched |= {names[each]: found.get(each.id, 0) for each in due}
        counts = {each.id: self._touched[names[each]] for each in base.manifest.segments}
        return {each: count for each, count in counts.items() if count}


def _rows_of(stream: Stream, survey: Survey, manifest: Manifest, segment_rows: int, say: Say) -> NewRows:
    """All rows of `stream`, in segments of at most `segment_rows` rows."""
    schema, scanned = load_stored_schema(manifest), manifest.scanned
    sorts = bool(plain_by(manifest, schema.columns))
    return NewRows(stream, schema, survey, segment_rows, say, scanned=scanned, sorts=sorts)


def _request(manifest: Manifest) -> list[object]:
    """Settings that a second put or append must share with the first to continue it."""
    exact = [each.model_dump(exclude={"centre", "exponent"}) for each in manifest.measures]
    return [manifest.schema_toml, manifest.by, manifest.profile, exact, manifest.key, manifest.scanned]


def ends_releases(tables: Tables, existing: Opened, new: Manifest) -> bool:
    """True if replacing the table by `new` ends its releases: all its rows leave."""
    if existing.manifest.lineage is None:
        return False
    gone = {each.id: all_rows for each in existing.manifest.segments}
    return not _is_named_alike(existing.manifest, new) or would_end(tables, existing, gone)


def _replaced(tables: Tables, existing: Opened, new: Manifest, warn: Say) -> AnyRelease | None:
    """The release of a replaced table. `warn` is told if its releases end."""
    lineage = existing.manifest.lineage
    if lineage is not None and ends_releases(tables, existing, new):
        warn(ENDS)
        return lineage.model_copy(update={"ended": 1})
    return leaving(tables, existing, {each.id: all_rows for each in existing.manifest.segments})


def _is_named_alike(old: Manifest, new: Manifest) -> bool:
    """True if rows and cells of both tables are identified by columns of the same names and types."""
    before, schema = load_stored_schema(old), load_stored_schema(new)
    entity = before.privacy.entity
    if (new.by, new.key, schema.privacy.entity) != (old.by, old.key, entity):
        return False
    columns = {*old.by, *old.key, *entity} & {*before.names}
    return all((column := schema.find(each)) and column.type == before.column(each).type for each in columns)


def _check_upsert(manifest: Manifest, touched: Mapping[str, int], *, upsert: bool, yes: bool) -> None:
    """Raise InputError if rows with these keys exist and must not be replaced."""
    schema = load_stored_schema(manifest)
    if not upsert:
        raise InputError(
            f"table {manifest.table!r} already has {counted(sum(touched.values()), 'key')} of these rows",
            hint="--upsert replaces them (upsert=True in Python)",
        )
    if schema.plain:
        require_word(schema, manifest.key, "which rows are replaced", yes=yes)


def _keys(stream: Stream, schema: Schema, key: Sequence[str]) -> Keys | None:
    """The keys of the rows; None without key columns or rows."""
    return keys_of(stream.batches(schema.only(key).columns), schema, key, stream.place) if key else None


def has_batch(manifest: Manifest, batch: Batch, say: Say) -> bool:
    """True if a table has the batch, which `say` is told. Raises InputError if it came from another file."""
    present = next((each for each in manifest.batches if each.id == batch.id), None)
    if present is not None and present.digest and batch.digest and present.digest != batch.digest:
        raise InputError(
            f"batch {batch.id!r} of table {manifest.table!r} was added from a file with other bytes",
            hint="give the new rows a file, or --batch, of another name",
        )
    if present is not None:
        say(f"batch {batch.id!r} already exists: nothing is added")
    return present is not None


@contextmanager
def as_stream(rows: Table | Stream) -> Iterator[Stream]:
    """The stream of a table, for the block. A given stream is not closed here."""
    if isinstance(rows, Stream):
        yield rows
    else:
        with stream_of(rows) as stream:
            yield stream


def sealed_columns(schema: Schema, by: Sequence[str]) -> tuple[SealedColumn, ...]:
    """The sealed columns: those that are not plain, and row numbers if rows are sorted by plain by columns."""
    sealed = [sealed_column(each) for each in schema.columns if each.kind is not Kind.PLAIN]
    if not set(schema.plain).isdisjoint(by):
        sealed.append(SealedColumn(name=ROW, id=new_id(), type="INTEGER", width=4, nullable=False))
    return tuple(sealed)


def _require_same_entity(old: Schema, new: Schema, name: str) -> None:
    """Raise InputError if rows would no longer be about the same people."""
    entity = old.privacy.entity
    if entity and [each.lower() for each in entity] != [each.lower() for each in new.privacy.entity]:
        raise InputError(
            f"rows of table {name!r} are about {', '.join(entity)}, and the new rows are not (rule P1)",
            hint=f"add --entity {','.join(entity)}, or drop the table first",
        )


def _readers(old: Manifest, schema: Schema) -> tuple[Reader, ...]:
    """The readers of a replaced table: they may read the new rows. Raises InputError if a column of theirs is missing,
    or if the new schema adds thresholds.
    """
    for reader in old.readers:
        if lost := [name for name in reader.columns if name not in schema.names]:
            raise InputError(
                f"reader {reader.name!r} has column {lost[0]!r}, which is missing in the new rows",
                hint=f"name it as before, or first: cleave reader revoke {old.table} {reader.name}",
            )
    before, after = load_stored_schema(old).privacy, schema.privacy
    if (after.entity and not before.entity) or after.min_group > before.min_group:
        require_no_reader(old, "rows of people whom thresholds protect from now on")
    return old.readers


def measures_of(schema: Schema, survey: Survey, stream: Stream) -> tuple[Measure, ...]:
    """Measures of the encrypted columns, then of the derived ones. The extent of doubles determines their centre and
    scale.
    """
    measures = []
    for name, argument, derived in measured(schema):
        extent = survey.floats.get(name) if derived is None else None
        if derived is not None and argument.decimals is None:
            (extent,) = _extents(stream, [argument])
        measures.append(of_measures.measure_of(name, argument, extent, derived=derived is not None))
    return tuple(measures)


def _extents(stream: Stream, arguments: Sequence[Argument]) -> list[Extent | None]:
    """Extents of the doubles of expressions over all rows, which are read once."""
    if not arguments:
        return []
    columns = dict.fromkeys(name for each in arguments for name in each.columns)
    figures = [of_measures.EXTENT.format(each.sql, number) for number, each in enumerate(arguments)]
    stream.gather([*columns], f"SELECT {', '.join(figures)} FROM rows", "extents")
    found = ", ".join(f"min(least{at}), any_value(middle{at}), max(largest{at})" for at in range(len(arguments)))
    (values,) = stream.query(f"SELECT {found} FROM extents")
    triples = zip(values[::3], values[1::3], values[2::3], strict=True)
    return [None if least is None else Extent(*map(float, (least, *rest))) for least, *rest in triples]


def check_extents(measures: Sequence[Measure], survey: Survey) -> None:
    """Raises InputError for doubles outside the range that the table was created with."""
    for measure in measures:
        extent = survey.floats.get(measure.name)
        if extent is not None and not measure.derived:
            of_measures.require_within(measure, survey.rows, survey.rows, extent.least, extent.largest)
