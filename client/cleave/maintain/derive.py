"""Additions to a stored table, computed from its fetched rows: totals of an expression, and rows for scans."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cleave.sql.read import spellings
from cleave.store import measures as of_measures
from cleave.store.change import apply
from cleave.store.manifest import Manifest
from cleave.store.pieces import Addition, ChangeStep
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import arguments_of, load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.sums import Summing, extent_of
from cleave.store.tables import Tables
from cleave.table.derived import UnknownColumn, checked
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import dump_schema
from cleave.table.types import is_number
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError


def derive(tables: Tables, table: str, expression: str, name: str, progress: Progress) -> Opened:
    """Store totals of `expression`, for questions over cells.

    Raises InputError, QueryRefused, ConflictError if another writer changes the table.
    """
    opened = tables.open(table)
    manifest, schema = opened.manifest, load_stored_schema(opened.manifest)
    taken = {each.name.lower() for each in manifest.measures} | {each.lower() for each in schema.names}
    if name.lower() in taken:
        raise InputError(f"column {name!r} already exists", hint="give the derived column another name")
    try:
        derived = checked(name, expression, schema.find)
    except ValueError as error:
        hint = did_you_mean(error.name, schema.names) if isinstance(error, UnknownColumn) else ""
        raise InputError(f"the expression {error}", hint=hint or f"`cleave show {table}` lists its columns") from None
    if not (is_number(derived.type) or derived.type == "BOOLEAN"):
        raise InputError(f"the expression is {derived.type}, and only numbers have totals")
    schema = replace(schema, derived=(*schema.derived, derived))
    arguments = arguments_of(schema, [identifier(name)])
    if not arguments:
        raise InputError("the expression reads no encrypted column", hint="the plain service adds it up as it is")
    (argument,) = arguments
    if not spellings((argument.sql,)).keys().isdisjoint(spellings(tuple(each.sql for each in manifest.measures))):
        raise InputError("totals of this expression are stored already")
    if not manifest.segments:
        raise InputError(
            f"stored table {manifest.table!r} has no rows",
            hint="put rows first, or name it under [derived] of the schema",
        )
    with tables.changing(opened), closing(Rows(tables, opened)) as rows:
        extent = None
        if argument.decimals is None:
            with rows.table(argument.columns, segments=manifest.segments[:1]) as first:
                extent = extent_of(first, argument)
        measure = of_measures.measure_of(name, argument, extent, derived=True)
        columns = {*argument.columns, *manifest.by}
        update = {"schema_toml": dump_schema(schema), "measures": (*manifest.measures, measure)}
        manifest = manifest.model_copy(update=update)
        pieces = [_Totals(each, rows, manifest, columns) for each in manifest.segments]
        return apply(tables, opened, manifest, pieces, "derive", [expression, name], progress, details={"column": name})


@dataclass(frozen=True, slots=True)
class _Totals(Addition):
    """Totals of the last measure of `manifest`, which reads `columns` besides the by columns."""

    manifest: Manifest
    columns: Collection[str]

    @property
    def most_rows(self) -> int:
        return 0

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        segment, measures = self.segment, self.manifest.measures[-1:]
        places = {keys: cell for cell, keys in enumerate(writer.cells.keys)}
        with self.source.table(self.columns, segments=[segment]) as table:
            summed = Summing(table, self.manifest.by, measures).sums()
            numbers, first = [places[each] for each in summed.keys], len(self.manifest.measures) - 1
            totals = writer.write_totals(segment.id, measures, first, summed.columns, numbers, segment.cells)
        yield self.step(segment.model_copy(update={"totals": (*segment.totals, totals)}))
        writer.advance(segment.rows)


@dataclass(frozen=True, slots=True)
class _ScanRows(Addition):
    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        with self.source.table(self.source.schema.names, segments=[self.segment]) as table:
            partial = writer.for_scans(table, self.segment)
        yield self.step(writer.finish(partial))


def add_scan(tables: Tables, name: str, progress: Progress) -> Opened:
    """Encrypt the rows of every segment for scans, from its sealed columns. They become visible all at once.

    Raises InputError if the table has them, ConflictError if another writer changes the table.
    """
    opened = tables.open(name)
    if opened.manifest.scanned:
        raise InputError(f"table {name!r} has rows for scans already", hint="`cleave scan drop` deletes them")
    if not opened.manifest.measures:
        raise InputError(f"table {name!r} has no encrypted numbers to scan")
    manifest = opened.manifest.model_copy(update={"scanned": len(opened.manifest.measures)})
    with closing(Rows(tables, opened)) as rows:
        pieces = [_ScanRows(each, rows) for each in manifest.segments]
        return apply(tables, opened, manifest, pieces, "scan add", [], progress, stage="encrypt for scans")


def drop_scan(tables: Tables, name: str) -> Opened:
    """Remove the rows for scans from the manifest; the following sweep deletes them. Raises InputError if there are
    none.
    """
    opened = tables.open(name)
    if not opened.manifest.scanned:
        raise InputError(f"table {name!r} has no rows for scans", hint="`cleave scan add` makes them")
    segments = tuple(each.model_copy(update={"scan": None}) for each in opened.manifest.segments)
    manifest = opened.manifest.model_copy(update={"scanned": 0, "segments": segments})
    return tables.commit(manifest, opened, "scan drop")
