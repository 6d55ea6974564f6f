"""A derived column of a stored table: totals of an expression, made of rows that are fetched for it."""

from __future__ import annotations

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Progress
from cleave.split import Halves
from cleave.store import measures as of_measures
from cleave.store.locate import Stores
from cleave.store.manifest import Event
from cleave.store.put import arguments_of
from cleave.store.segment import SegmentWriter, selection
from cleave.store.stored import Stored
from cleave.store.tables import Opened, Tables, now
from cleave_shared.errors import InputError


def derive(
    tables: Tables, stores: Stores, key: SecretKey, table: str, expression: str, name: str, progress: Progress
) -> Opened:
    """Keep totals of `expression`, which questions over cells then use. Raises InputError, QueryRefused."""
    opened = tables.open(table)
    manifest, stored = opened.manifest, Stored(tables, opened, key)
    taken = {each.name.lower() for each in manifest.measures} | {each.name.lower() for each in stored.schema.columns}
    if name.lower() in taken:
        raise InputError(f"there is a column {name!r} already", hint="name the derived column otherwise")
    (argument,) = arguments_of(stored.schema, [expression])
    if any(each.sql == argument.sql for each in manifest.measures):
        raise InputError("totals of this expression are kept already")
    number = len(manifest.measures)
    writer = SegmentWriter(
        stores.sensitive, stores.plain, opened.vault, Cipher(key), key.profile, tables.folder(manifest.table)
    )
    places = {keys: cell for cell, keys in enumerate(stored.cells.keys)}
    advance = progress.stage("derive", manifest.rows)
    measure, segments = None, []
    for segment in manifest.segments:
        with stored.rows.table({*argument.columns, *manifest.by}, segments=[segment]) as rows:
            halves = Halves(rows, selection(manifest, [argument]))
            (values,) = halves.values()
            measure = measure or of_measures.measure_of(name, argument, values, square=True, derived=True)
            parts = of_measures.values_of(measure, values)
            numbers = [places[each] for each in halves.keys]
            totals = writer.totals(segment.id, [measure], number, [parts], halves.counts, numbers, segment.cells)
        segments.append(segment.model_copy(update={"totals": (*segment.totals, totals)}))
        advance(segment.rows)
    if measure is None:
        raise InputError(f"stored table {table!r} has no rows")
    version = manifest.version + 1
    changed = manifest.model_copy(
        update={
            "version": version,
            "measures": (*manifest.measures, measure),
            "segments": tuple(segments),
            "history": (*manifest.history, Event(version=version, at=now(), what="derive", rows=0)),
        }
    )
    return tables.commit(changed, opened.head)
