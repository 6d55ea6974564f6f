"""A derived column of a stored table: totals of an expression, made of rows that are fetched for it."""

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
    """Keep totals of `expression`, which questions over cells then use.

    Raises InputError, QueryRefused; ConflictError where somebody else changes the table meanwhile.
    """
    opened = tables.open(table)
    manifest, schema = opened.manifest, load_stored_schema(opened.manifest)
    with tables.changing(opened), closing(Rows(tables, opened)) as rows:
        taken = {each.name.lower() for each in manifest.measures} | {each.lower() for each in schema.names}
        if name.lower() in taken:
            raise InputError(f"there is a column {name!r} already", hint="name the derived column otherwise")
        try:
            derived = checked(name, expression, {each.name: each.type for each in schema.columns})
        except ValueError as error:
            raise InputError(f"the expression {error}") from None
        if not (is_number(derived.type) or derived.type == "BOOLEAN"):
            raise InputError(f"the expression is {derived.type}, and totals are kept of numbers")
        schema = replace(schema, derived=(*schema.derived, derived))
        found = arguments_of(schema, [identifier(name)])
        if not found:
            raise InputError("the expression reads no encrypted column", hint="the plain service adds it up as it is")
        (argument,) = found
        if not spellings([argument.sql]).keys().isdisjoint(spellings([each.sql for each in manifest.measures])):
            raise InputError("totals of this expression are kept already")
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
