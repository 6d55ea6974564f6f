"""Additions to a stored table, made of rows that are fetched for them: totals of an expression, rows for scans."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from cleave.sql.read import spellings
from cleave.store import measures as of_measures
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import arguments_of, load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.sums import Summing, extent_of
from cleave.store.tables import Tables
from cleave.table.derived import checked
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import dump_schema
from cleave.table.types import is_number
from cleave_shared.errors import InputError


def derive(tables: Tables, table: str, expression: str, name: str, progress: Progress) -> Opened:
    """Store totals of `expression`, which questions over cells then use.

    Raises InputError, QueryRefused; ConflictError where somebody else changes the table meanwhile.
    """
    opened = tables.open(table)
    manifest, schema = opened.manifest, load_stored_schema(opened.manifest)
    with tables.changing(opened), closing(Rows(tables, opened)) as rows:
        taken = {each.name.lower() for each in manifest.measures} | {each.lower() for each in schema.names}
        if name.lower() in taken:
            raise InputError(f"column {name!r} already exists", hint="give the derived column another name")
        try:
            derived = checked(name, expression, {each.name: each.type for each in schema.columns})
        except ValueError as error:
            raise InputError(f"the expression {error}") from None
        if not (is_number(derived.type) or derived.type == "BOOLEAN"):
            raise InputError(f"the expression is {derived.type}, and only numbers have totals")
        schema = replace(schema, derived=(*schema.derived, derived))
        arguments = arguments_of(schema, [identifier(name)])
        if not arguments:
            raise InputError("the expression reads no encrypted column", hint="the plain service adds it up as it is")
        (argument,) = arguments
        if not spellings([argument.sql]).keys().isdisjoint(spellings([each.sql for each in manifest.measures])):
            raise InputError("totals of this expression are stored already")
        number = len(manifest.measures)
        writer = SegmentWriter(tables, manifest)
        places = {keys: cell for cell, keys in enumerate(tables.cells(opened).keys)}
        advance = progress.stage("derive", manifest.rows, "rows")
        measure, segments = None, []
        for segment in manifest.segments:
            with rows.table({*argument.columns, *manifest.by}, segments=[segment]) as fetched:
                if measure is None:
                    extent = None if argument.decimals is not None else extent_of(fetched, argument)
                    measure = of_measures.measure_of(name, argument, extent, derived=True)
                summed = Summing(fetched, manifest.by, [measure]).sums()
                numbers = [places[each] for each in summed.keys]
                totals = writer.write_totals(segment.id, [measure], number, summed.columns, numbers, segment.cells)
            segments.append(segment.model_copy(update={"totals": (*segment.totals, totals)}))
            advance(segment.rows)
        if measure is None:
            raise InputError(
                f"stored table {manifest.table!r} has no rows",
                hint="put rows first, or name it under [derived] of the schema",
            )
        update = {
            "schema_toml": dump_schema(schema),
            "measures": (*manifest.measures, measure),
            "segments": tuple(segments),
        }
        return tables.commit(manifest.model_copy(update=update), opened, "derive", column=name)


def add_scan(tables: Tables, name: str, progress: Progress) -> Opened:
    """Encrypt the rows of every segment for scans, from its sealed columns, and show all of them at once.

    Raises InputError for a table that has them; ConflictError where another writer changes the table meanwhile.
    """
    opened = tables.open(name)
    if opened.manifest.scanned:
        raise InputError(f"table {name!r} has rows for scans already", hint="`cleave scan drop` deletes them")
    if not opened.manifest.measures:
        raise InputError(f"table {name!r} has no encrypted numbers to scan")
    with tables.changing(opened):
        manifest = opened.manifest.model_copy(update={"scanned": len(opened.manifest.measures)})
        writer = SegmentWriter(tables, manifest)
        advance = progress.stage("encrypt for scans", manifest.rows, "rows")
        most = max((each.rows for each in manifest.segments), default=0)
        names, segments = [each.name for each in load_stored_schema(manifest).columns], []
        with writer.encryptors(most) as encryptors, closing(Rows(tables, opened).tables(names)) as opened_segments:
            for segment, table in zip(manifest.segments, opened_segments, strict=True):
                segments.append(writer.finish(writer.for_scans(table, segment), encryptors, advance))
        return tables.commit(manifest.model_copy(update={"segments": tuple(segments)}), opened, "scan add")


def drop_scan(tables: Tables, name: str) -> Opened:
    """Forget the rows for scans; the sweep that follows deletes them. Raises InputError for a table without any."""
    opened = tables.open(name)
    if not opened.manifest.scanned:
        raise InputError(f"table {name!r} has no rows for scans", hint="`cleave scan add` makes them")
    segments = tuple(each.model_copy(update={"scan": None}) for each in opened.manifest.segments)
    manifest = opened.manifest.model_copy(update={"scanned": 0, "segments": segments})
    return tables.commit(manifest, opened, "scan drop")
