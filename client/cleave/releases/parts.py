"""The parts of exact releases: those that unpublished rows form, and all of a ledger as analysts read them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from cleave.disclosure.joining import Part, parts_of
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.ledger import Ledger, MeasureTotals
from cleave.releases.unpublished import ReadSegment, Unpublished, UnpublishedColumns
from cleave.sql.catalog import Catalog
from cleave.sql.read import expression_of, spellings
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.manifest import Manifest, Measure
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.sums.combination import combination_of
from cleave.table.privacy import NO_PRIVACY
from cleave.table.schema import Schema, dump_schema


@dataclass(frozen=True, slots=True)
class NewPart:
    """`cell`: its number in the table."""

    key: Texts
    cell: int
    rows: int
    rule: Part
    sums: tuple[MeasureTotals, ...]


@dataclass(frozen=True, slots=True)
class NewParts:
    """`measures`: those that the parts have. `waiting`: key of a cell -> its rows that are in no part. `read`: segments
    that were read.
    """

    measures: tuple[Measure, ...] = ()
    parts: tuple[NewPart, ...] = ()
    waiting: Mapping[Texts, int] = field(default_factory=dict)
    read: tuple[ReadSegment, ...] = ()


def new_parts(tables: Tables, opened: Opened, schema: Schema, least: int, *, all_rows: bool) -> NewParts:
    """The parts that would be published. `all_rows`: also of published rows; else of the others.

    Reads every segment that is not wholly published. Raises CheckFailed, StoreError.
    """
    manifest = opened.manifest
    measures, reads = released_measures(manifest, schema)
    privacy = schema.privacy
    wanted = UnpublishedColumns(manifest.by, measures, reads, privacy.entity, privacy.dominance is not None)
    segments = [each for each in manifest.segments if all_rows or each.unpublished != 0]
    with closing(Unpublished(tables, opened, wanted, segments, ignores_marks=all_rows)) as rows:
        squared = [not each.derived for each in measures]
        dominated = rows.dominated(privacy.dominance) if privacy.dominance is not None else {}
        rules = parts_of(rows.classes, rows.crowd(), wanted.bits, squared, dominated, least)
        by_cell = rows.by_cell()
        parts = tuple(
            NewPart(rows.cells.keys[cell], cell, by_cell[cell], rule, rows.sums_of(cell, by_cell[cell], rule.shown))
            for cell, rule in rules.items()
        )
        waiting = {rows.cells.keys[cell]: count for cell, count in by_cell.items() if cell not in rules}
        return NewParts(measures, parts, waiting, tuple(rows.read))


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


def released_totals(manifest: Manifest, ledger: Ledger) -> ExactTotals:
    """Return what analysts read: every part of the ledger, with the measures that the table has now."""
    schema = load_stored_schema(manifest)
    measures, _ = released_measures(manifest, schema)
    numbers = list(ledger.times)
    sums = [ledger.sums(each) for each in measures]
    return ExactTotals(
        table=manifest.table,
        schema_toml=dump_schema(_without_reasons(schema)),
        by=manifest.by,
        measures=measures,
        people=bool(ledger.entity),
        times=tuple(ledger.times.items()),
        keys=tuple(each.key for each in ledger.parts),
        rows=tuple(each.rows for each in ledger.parts),
        as_of=tuple(numbers.index(each.release) for each in ledger.parts),
        shown=tuple(tuple(each.shown for each in of) for of in sums),
        counts=tuple(tuple(each.count if each.shown else 0 for each in of) for of in sums),
        sums=tuple(tuple(each.sum if each.shown else 0 for each in of) for of in sums),
        squares=tuple(tuple(each.square if each.shown > 1 else 0 for each in of) for of in sums),
    )


def _without_reasons(schema: Schema) -> Schema:
    """`schema` without privacy and reasons. `cleave schema` wrote reasons from all rows, also from unpublished ones."""
    columns = tuple(replace(each, reason="") for each in schema.columns)
    derived = tuple(replace(each, reason="") for each in schema.derived)
    return replace(schema, columns=columns, derived=derived, privacy=NO_PRIVACY)
