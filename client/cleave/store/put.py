"""A table into a store: looked at, told what it will take, then stored segment after segment (`putting`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Stores
from cleave.store import measures as of_measures
from cleave.store.by import count_cells, describe, propose
from cleave.store.cells import Cells, load_cells
from cleave.store.columns import row_numbers, sealed_column
from cleave.store.contributors import contributed
from cleave.store.halves import half_of
from cleave.store.manifest import FORMAT, Manifest, Measure, SealedColumn, new_id
from cleave.store.names import ROW
from cleave.store.putting import Putting, Say
from cleave.store.schemas import (
    arguments_of,
    check_by,
    check_fits,
    derived_arguments,
    load_stored_schema,
    stored_schema,
)
from cleave.store.tables import Opened, Tables
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import Column, Kind, Schema, dump_schema
from cleave.table.stream import Extent, Stream, Survey, stream_of
from cleave.table.table import Table
from cleave_shared.errors import InputError
from cleave_shared.params import DEFAULT_PROFILE, Profile


def _silent(_: str) -> None:
    """Print nothing."""


def put(
    tables: Tables,
    stores: Stores,
    key: OwnerKey,
    rows: Table | Stream,
    name: str,
    by: Sequence[str] | None,
    progress: Progress,
    *,
    scan: bool = False,
    replace: bool = False,
    drop_contributors: bool = False,
    segment_rows: int = of_measures.SEGMENT_ROWS,
    say: Say = _silent,
    profile: Profile = DEFAULT_PROFILE,
) -> Opened:
    """Store `rows` as `name`, its cells by `by` (None: what is proposed), `segment_rows` rows at once at most.

    `scan`: the rows are stored as ciphertexts too, which services may add up by any plain column.
    Where a put of the same rows was killed, its segments are kept. `say` is told what will be stored before it is.
    Raises InputError for a table that is there and not to be replaced, or has contributors that are not to be dropped
    with it, and for rows that do not fit the schema; ConflictError where somebody else puts the same table.
    """
    if not name.strip():
        raise InputError("the table has no name", hint="name it with --table")
    there = require_new(tables, stores, name, replace=replace, drop_contributors=drop_contributors)
    with as_stream(rows) as stream:
        schema = stored_schema(stream.schema, name)
        chosen = None if by is None else check_by(by, schema)
        survey = stream.survey(progress)
        if chosen is None:
            chosen = check_by(propose(stream, survey.rows), schema)
        found = count_cells(stream, chosen)
        measures = measures_of(schema, survey, stream)
        manifest = Manifest.model_construct(
            format=FORMAT,
            table=name,
            table_id=there.manifest.table_id if there else new_id(),
            version=there.manifest.version + 1 if there else 1,
            profile=profile.name,
            schema_toml=dump_schema(schema),
            by=chosen,
            measures=measures,
            sealed=sealed_columns(schema, chosen),
            scanned=len(measures) if scan else 0,
            segments=(),
            history=there.manifest.history if there else (),
        )
        say(describe(manifest, survey.rows, found, profile))
        putting = Putting(tables, stores, key, manifest, Cells(), there.head if there else None, "put", say)
        return putting.run(stream, survey, segment_rows, progress)


def require_new(
    tables: Tables, stores: Stores, name: str, *, replace: bool, drop_contributors: bool = False
) -> Opened | None:
    """The table of that name, which is to be replaced. Raises InputError for one that is not to be."""
    there = tables.find(name)
    if there is not None and not replace:
        raise InputError(
            f"{stores.sensitive.location}: table {name!r} is there already",
            hint="--append adds rows to it, --replace puts it anew",
        )
    if there is not None and not drop_contributors and (lost := contributed(there.manifest)):
        raise InputError(
            f"table {name!r} would lose {lost}",
            hint="--append adds rows and keeps theirs; --drop-contributors replaces it all the same",
        )
    return there


def append(
    tables: Tables,
    stores: Stores,
    key: OwnerKey,
    rows: Table | Stream,
    name: str,
    progress: Progress,
    *,
    again: bool = False,
    segment_rows: int = of_measures.SEGMENT_ROWS,
    say: Say = _silent,
) -> Opened:
    """Add rows to a stored table, whose schema `rows` must have. Otherwise as `put`.

    Rows that the table's last change appended are not added a second time, for that is how an append repeats that was
    stopped after its work was done; `again` adds them all the same.
    """
    there = tables.open(name)
    with tables.changing(there), as_stream(rows) as stream:
        check_fits(stored_schema(stream.schema, name), load_stored_schema(there.manifest), name)
        survey = stream.survey(progress)
        check_extents(there.manifest.measures, survey)
        count_cells(stream, there.manifest.by)
        manifest = there.manifest.model_copy(update={"version": there.manifest.version + 1})
        cells = load_cells(tables.unseal(there.vault, "cells", there.manifest.cells))
        putting = Putting(tables, stores, key, manifest, cells, there.head, "append", say)
        if not again and putting.is_done(stream, survey):
            return there
        return putting.run(stream, survey, segment_rows, progress)


@contextlib.contextmanager
def as_stream(rows: Table | Stream) -> Iterator[Stream]:
    """A stream stays open, for it is its owner's; the rows of a table are one only here."""
    if isinstance(rows, Stream):
        yield rows
    else:
        with stream_of(rows) as stream:
            yield stream


def sealed_columns(schema: Schema, by: Sequence[str]) -> tuple[SealedColumn, ...]:
    """How the rows of every column that is not plain are stored; row numbers, too, where plain by columns sort them."""
    found = [sealed_column(each) for each in schema.columns if each.kind is not Kind.PLAIN]
    if any(schema.column(name).kind is Kind.PLAIN for name in by):
        found.append(row_numbers(ROW))
    return tuple(found)


def measures_of(schema: Schema, survey: Survey, stream: Stream) -> tuple[Measure, ...]:
    """Those of the schema's encrypted columns, then the derived ones; where the doubles lie chooses their centres and
    scales.
    """
    columns: list[Column] = [each for each in schema.columns if half_of(each) == "encrypted"]
    arguments = arguments_of(schema, [identifier(each.name) for each in columns])
    found = [
        of_measures.measure_of(column.name, argument, survey.floats.get(column.name))
        for column, argument in zip(columns, arguments, strict=True)
    ]
    for each, argument in derived_arguments(schema):
        extent = None if argument.decimals is not None else _extent(stream, each.columns, argument.sql)
        found.append(of_measures.measure_of(each.name, argument, extent, derived=True))
    return tuple(found)


def _extent(stream: Stream, columns: Sequence[str], sql: str) -> Extent | None:
    """Where an expression's doubles lie: looked for in all rows."""
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
