"""Draft a release: find the rows that no release has published, and the parts they form."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from cleave.ckks.public_key import PublicKey
from cleave.disclosure.joining import Part, parts_of
from cleave.releases.analysts import joined
from cleave.releases.ledger import Ledger, MeasureTotals, load_ledger
from cleave.releases.unpublished import ReadSegment, Unpublished, UnpublishedColumns
from cleave.sql.catalog import Catalog
from cleave.sql.read import expression_of, spellings
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.contributors import MIN_GROUP
from cleave.store.log import records_of
from cleave.store.manifest import Analyst, Manifest, Measure, Release
from cleave.store.published import ENDED, identity_of
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.sums.combination import combination_of
from cleave.table.privacy import LEAST
from cleave.table.schema import Schema
from cleave_shared.errors import InputError


@dataclass(frozen=True, slots=True)
class NewPart:
    """`cell`: its number in the table."""

    key: Texts
    cell: int
    rows: int
    rule: Part
    sums: tuple[MeasureTotals, ...]


@dataclass(frozen=True, slots=True)
class ReleaseDraft:
    """A release that was computed and not yet made.

    `measures`: those that it releases. `waiting`: key of a cell -> its rows that are not published. `read`: segments
    that were read for it.
    """

    tables: Tables
    opened: Opened
    what: str
    least: int
    analysts: tuple[Analyst, ...]
    revoked: tuple[Analyst, ...]
    ledger: Ledger
    publishes: bool
    begins: bool
    measures: tuple[Measure, ...] = ()
    parts: tuple[NewPart, ...] = ()
    waiting: Mapping[Texts, int] = field(default_factory=dict)
    read: tuple[ReadSegment, ...] = ()
    accepted: int = 0  # see Release

    @property
    def ends(self) -> bool:
        """True if it may end an earlier lineage: of this table, or of a copy that lacked later changes."""
        newest = self.opened.manifest.release
        was_exact = newest is not None and (not newest.epsilon or bool(newest.ended))
        return self.begins and (was_exact or self.accepted > (newest.accepted if newest else 0))

    @property
    def counted(self) -> str:
        return "people" if self.ledger.entity else "rows"

    @property
    def number(self) -> int:
        return self.opened.manifest.next_release


def drafted(
    tables: Tables,
    table: str,
    to: Mapping[str, PublicKey],
    least: int | None = None,
    *,
    new_lineage: bool = False,
    yes: bool = False,
) -> ReleaseDraft:
    """What `cleave.releases.releases.release` would publish. Raises the same InputErrors."""
    opened = tables.open(table)
    manifest, newest = opened.manifest, opened.manifest.release
    noisy = newest.epsilon if newest else tables.spent(opened)  # of a table that was dropped too
    if noisy and not yes:
        raise exclusion(table, "noisy", "an exact one")
    schema = load_stored_schema(manifest)
    analysts, revoked = joined(table, newest, to)
    past = ledger_of(tables, opened)
    before = newest.lineage if newest else None
    begins = new_lineage or before is None
    accepted = accepted_copies(tables, opened)
    is_restored = accepted > (newest.accepted if newest else 0)
    if new_lineage and not yes and (before is not None or is_restored):
        raise InputError(
            f"releases of table {table!r} that follow could be subtracted from those before",
            hint="confirm with --yes (yes=True in Python): differences of both show fewer people than --min-cell",
        )
    if newest is not None and newest.epsilon and newest.ended and not new_lineage:
        raise InputError(
            f"table {table!r} had exact releases before its noisy ones: their rows would be released again",
            hint="--new-lineage --yes publishes all rows; both can be subtracted",
        )
    is_known = newest is not None and newest.analysts == analysts
    publishes = begins or is_known
    is_over = newest is not None and past is not None and (bool(newest.ended) or not _is_named_alike(manifest, past))
    if publishes and not begins and is_over:
        raise InputError(
            f"table {table!r} gets no further parts: {ENDED}",
            hint="--new-lineage --yes publishes all rows; both can be subtracted",
        )
    if publishes and not new_lineage and is_restored:
        raise InputError(
            f"table {table!r} gets no parts: it was restored, and releases made after that copy are not known here",
            hint="--new-lineage --yes publishes all rows; those releases can be subtracted, if there were any",
        )
    least = _least(table, schema, None if begins else newest, least)
    if begins or past is None:
        past = Ledger(b"", least, manifest.by, identity_of(manifest), schema.privacy.entity)
    draft = ReleaseDraft(
        tables, opened, "release", least, analysts, revoked, past, publishes, begins, accepted=accepted
    )
    return _with_parts(draft, schema) if publishes else draft


def accepted_copies(tables: Tables, opened: Opened) -> int:
    """How often `cleave accept` accepted a copy of the table that lacked later changes."""
    records = records_of(tables, opened.vault, opened.head.log)
    return sum(each.what == "accept" and bool(each.details.get("lost_records")) for each in records)


def _is_named_alike(manifest: Manifest, past: Ledger) -> bool:
    """True if the same columns name rows, cells and people as in the ledger of the releases."""
    named = manifest.by, identity_of(manifest), load_stored_schema(manifest).privacy.entity
    return named == (past.by, past.identity, past.entity)


def paused(tables: Tables, before: Opened, after: Opened) -> str:
    """Warn that releases get no further parts because a change gave the table other by columns; "" if not so."""
    release, old, new = before.manifest.release, ledger_of(tables, before), ledger_of(tables, after)
    if release is None or not release.is_live or old is None or new is None:
        return ""
    if not _is_named_alike(before.manifest, old) or _is_named_alike(after.manifest, new):
        return ""
    return (
        f"no further rows are released unless the table is by {', '.join(new.by) or 'no columns'} again, or `cleave "
        "release new NAME --new-lineage --yes` releases all of them"
    )


def exclusion(table: str, there: str, other: str) -> InputError:
    """The error for a release if the table has releases of the other kind."""
    return InputError(
        f"table {table!r} has {there} releases: with {other} besides, the promise of the noisy one is void",
        hint="confirm with --yes (yes=True in Python): analysts can then subtract what exact releases show",
    )


def _least(table: str, schema: Schema, newest: Release | None, least: int | None) -> int:
    floor = max(LEAST, schema.privacy.min_group)
    if least is None:
        return max(newest.least if newest else MIN_GROUP, floor)
    if least < floor:
        counted = schema.privacy.counted
        raise InputError(
            f"a part of {least} {counted} is too small: at least {floor}",
            hint="two values follow from their sum and the sum of their squares"
            if floor == LEAST
            else "[privacy] min_group of the table's schema",
        )
    if newest is not None and least < newest.least:
        raise InputError(
            f"releases of table {table!r} have parts of at least {newest.least} {schema.privacy.counted}",
            hint="leave --min-cell out: it falls only with --new-lineage",
        )
    return least


def _with_parts(draft: ReleaseDraft, schema: Schema) -> ReleaseDraft:
    """`draft` with the parts that would be published. Reads every segment that is not wholly published."""
    manifest = draft.opened.manifest
    measures, reads = released_measures(manifest, schema)
    privacy = schema.privacy
    wanted = UnpublishedColumns(manifest.by, measures, reads, privacy.entity, privacy.dominance is not None)
    segments = [each for each in manifest.segments if draft.begins or each.unpublished != 0]
    with closing(Unpublished(draft.tables, draft.opened, wanted, segments, ignores_marks=draft.begins)) as rows:
        squared = [not each.derived for each in measures]
        dominated = rows.dominated(privacy.dominance) if privacy.dominance is not None else {}
        rules = parts_of(rows.classes, rows.crowd(), wanted.bits, squared, dominated, draft.least)
        by_cell = rows.by_cell()
        parts = tuple(
            NewPart(rows.cells.keys[cell], cell, by_cell[cell], rule, rows.sums_of(cell, by_cell[cell], rule.shown))
            for cell, rule in rules.items()
        )
        waiting = {rows.cells.keys[cell]: count for cell, count in by_cell.items() if cell not in rules}
        read = tuple(rows.read)
    return replace(draft, measures=measures, parts=parts, waiting=waiting, read=read)


def released_measures(manifest: Manifest, schema: Schema) -> tuple[tuple[Measure, ...], tuple[tuple[str, ...], ...]]:
    """The measures of a release, and for each the stored columns that it reads.

    Measures are stored numbers, and derived sums of several of them with constant factors. Totals of other sums follow
    from those of their one column. Centre and scale of doubles come from bounds, because those of the table come from
    values of rows. Doubles without bounds have no measure.
    """
    stored = tuple(each for each in manifest.measures if not each.derived)
    numbers = dict(spellings(tuple(each.sql for each in stored)))
    never_null = [each.model_copy(update={"nullable": False}) for each in stored]
    measures = [bounded for each in stored if (bounded := of_measures.of_bounds(each)) is not None]
    reads = [*map(_itself, measures)]
    names = {each.name for each in measures}
    with closing(Catalog(manifest.table, schema.columns)) as catalog:
        for measure in manifest.measures:
            if not measure.derived:
                continue
            linear = combination_of(expression_of(measure.sql), numbers, never_null, catalog.types)
            bounded = of_measures.of_bounds(measure)
            is_linear = linear is not None and not linear.squares
            read = tuple(stored[number].name for number, _ in linear.terms) if linear and is_linear else ()
            if bounded is not None and len(read) > 1 and names.issuperset(read):
                measures.append(bounded)
                reads.append(read)
    return tuple(measures), tuple(reads)


def _itself(measure: Measure) -> tuple[str, ...]:
    return (measure.name,)


def ledger_of(tables: Tables, opened: Opened) -> Ledger | None:
    """The ledger of a table's lineage. None if it has no lineage."""
    newest = opened.manifest.release
    if newest is None or newest.lineage is None:
        return None
    return load_ledger(tables.unseal(opened.vault, "release", newest.ledger))
