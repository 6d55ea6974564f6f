"""A table into a store: segment after segment, then the head."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Progress
from cleave.split import Halves
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.planner import plan_query
from cleave.store import measures as of_measures
from cleave.store.cells import Cells, load_cells
from cleave.store.locate import Stores
from cleave.store.manifest import Event, Manifest, Measure, new_id
from cleave.store.segment import ROW, SegmentWriter, half_of, selection
from cleave.store.tables import Opened, Tables, now
from cleave.store.vault import Vault
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind, Schema, dump_schema, read_schema
from cleave.table.table import Table
from cleave.table.types import FLOATS
from cleave_shared.errors import InputError

_SLICE = "slice"


def slices(table: Table, rows: int = of_measures.SEGMENT_ROWS) -> Iterator[Table]:
    """`table` `rows` rows at a time, numbered from 0 in the column ROW; one slice at least, be it empty."""
    for start in range(0, max(1, table.rows), rows):
        taken = min(rows, table.rows - start)
        table.connection.execute(
            f"CREATE OR REPLACE TABLE {_SLICE} AS SELECT *, row_number() OVER () - 1 AS {identifier(ROW)} "
            f"FROM (SELECT * FROM {table.relation} LIMIT {taken} OFFSET {start})"
        )
        yield table.of_rows(_SLICE, taken)
    table.connection.execute(f"DROP TABLE IF EXISTS {_SLICE}")


def stored_schema(schema: Schema, name: str) -> Schema:
    """What is stored of a schema: columns of kind local stay here and are not part of the stored table."""
    columns = tuple(column for column in schema.columns if column.kind is not Kind.LOCAL)
    if not columns:
        raise InputError(
            "every column is local: nothing may be stored", hint="make the others plain, encrypted or sealed"
        )
    return Schema(columns, schema.dialect, name)


def load_stored_schema(manifest: Manifest) -> Schema:
    return read_schema(tomllib.loads(manifest.schema_toml, parse_float=Decimal), f"stored table {manifest.table!r}")


def check_by(by: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The by columns as the schema spells them. Raises InputError for one that cells cannot be told apart by."""
    found = []
    for name in by:
        column = schema.column(name)
        if column.type in FLOATS:
            raise InputError(f"column {column.name!r} is {column.type}: equal values of it are no cell", hint=_BY)
        if column.name in found:
            raise InputError(f"column {column.name!r} is named twice", hint=_BY)
        found.append(column.name)
    return tuple(found)


_BY = "--by takes columns of few values: categories, dates, whole numbers"


def arguments_of(schema: Schema, expressions: Sequence[str]) -> tuple[Argument, ...]:
    """The expressions as arguments of sums. Raises QueryRefused for one that is no number over encrypted columns."""
    if not expressions:
        return ()
    sums = ", ".join(f"SUM({each})" for each in expressions)
    plan = plan_query(f"SELECT {sums} FROM t", schema, "t", cloud_only=True)
    if not isinstance(plan, QueryPlan):
        raise InputError("a measure must be an expression over the table's columns")
    return plan.arguments


class Putting:
    """Rows on their way into one table. `put` and `append` make one."""

    def __init__(
        self, tables: Tables, stores: Stores, key: SecretKey, manifest: Manifest, cells: Cells, head: str | None
    ) -> None:
        self._tables = tables
        self._manifest = manifest
        self._cells = cells
        self._head = head
        self._vault = Vault(key, manifest.table_id)
        self._folder = tables.folder(manifest.table)
        self._writer = SegmentWriter(
            stores.sensitive, stores.plain, self._vault, Cipher(key), key.profile, self._folder
        )
        self._added = 0

    def add(self, table: Table) -> None:
        """One more segment, of at most SEGMENT_ROWS rows with their numbers in ROW."""
        if not self._manifest.measures and not self._manifest.segments:
            self._manifest = self._manifest.model_copy(update={"measures": _measures(table, self._manifest)})
        segment = self._writer.write(table, self._manifest, self._cells)
        self._added += segment.rows
        self._manifest = self._manifest.model_copy(update={"segments": (*self._manifest.segments, segment)})

    def commit(self, what: str) -> Opened:
        """Show everything that was added, at once. Raises ConflictError if the table changed meanwhile."""
        version = self._manifest.version
        event = Event(version=version, at=now(), what=what, rows=self._added)
        manifest = self._manifest.model_copy(
            update={
                "cells": self._tables.seal(self._folder, self._vault, self._cells.dump()),
                "history": (*self._manifest.history, event),
            }
        )
        return self._tables.commit(manifest, self._head)


def put(
    tables: Tables,
    stores: Stores,
    key: SecretKey,
    table: Table,
    name: str,
    by: Sequence[str],
    progress: Progress,
    *,
    lossless: bool = False,
    replace: bool = False,
) -> Opened:
    """Store `table` as `name`, its cells by `by`. Raises InputError for one that is there and not to be replaced."""
    there = require_new(tables, stores, name, replace=replace)
    schema = stored_schema(table.schema, name)
    manifest = Manifest.model_construct(
        format=1,
        table=name,
        table_id=there.manifest.table_id if there else new_id(),
        version=there.manifest.version + 1 if there else 1,
        profile=key.profile.name,
        schema_toml=dump_schema(schema),
        by=check_by(by, schema),
        measures=(),
        lossless=lossless,
        segments=(),
        history=there.manifest.history if there else (),
    )
    return _fill(Putting(tables, stores, key, manifest, Cells(), there.head if there else None), table, progress, "put")


def require_new(tables: Tables, stores: Stores, name: str, *, replace: bool) -> Opened | None:
    """The table of that name, which is to be replaced. Raises InputError for one that is not to be."""
    there = tables.find(name)
    if there is not None and not replace:
        raise InputError(
            f"{stores.sensitive.location}: table {name!r} is there already",
            hint="--append adds rows to it, --replace puts it anew",
        )
    return there


def append(tables: Tables, stores: Stores, key: SecretKey, table: Table, name: str, progress: Progress) -> Opened:
    """More rows for a stored table, whose schema `table` must have."""
    there = tables.open(name)
    if stored_schema(table.schema, name).hash() != load_stored_schema(there.manifest).hash():
        raise InputError(f"the schema is not that of stored table {name!r}", hint=f"`cleave show {name}` has it")
    manifest = there.manifest.model_copy(update={"version": there.manifest.version + 1})
    cells = load_cells(tables.unseal(there.vault, there.manifest.cells))
    return _fill(Putting(tables, stores, key, manifest, cells, there.head), table, progress, "append")


def _fill(putting: Putting, table: Table, progress: Progress, what: str) -> Opened:
    advance: Callable[[int], None] = progress.stage("encrypt and store", table.rows)
    for piece in slices(table):
        putting.add(piece)
        advance(piece.rows)
    return putting.commit(what)


def _measures(table: Table, manifest: Manifest) -> tuple[Measure, ...]:
    """Those of the schema's encrypted columns; the first rows choose centre and scale of doubles."""
    columns: list[Column] = [each for each in table.schema.columns if half_of(each) == "encrypted"]
    arguments = arguments_of(table.schema, [identifier(each.name) for each in columns])
    halves = Halves(table, selection(manifest, arguments))
    values = halves.values()
    halves.close()
    return tuple(
        of_measures.measure_of(column.name, argument, each, square=True)
        for column, argument, each in zip(columns, arguments, values, strict=True)
    )
