"""Additions to a stored table, computed from its fetched rows: totals of expressions, and rows for scans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from cleave.ask.opening import column_names
from cleave.ask.options import Deriving, Place
from cleave.maintain.facts import StoredTable, stored_table
from cleave.maintain.task import CONTINUES, Task, change, operation
from cleave.sql.plan import Argument
from cleave.sql.read import spellings
from cleave.store import measures as of_measures
from cleave.store.by import bytes_of_totals
from cleave.store.change import Change, ChangePlan
from cleave.store.filling import silent
from cleave.store.making import make
from cleave.store.manifest import Manifest, Measure, Segment, Segments
from cleave.store.pieces import Addition, ChangeStep
from cleave.store.products import Extents, arguments_of_products, measures_of_products, products_of
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import arguments_of, load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.sums import Summing, extent_of
from cleave.store.tables import Tables
from cleave.table.derived import UnknownColumn, checked
from cleave.table.duck import identifier
from cleave.table.progress import Progress, Silent
from cleave.table.schema import Schema, dump_schema
from cleave.table.stream import Extent
from cleave.table.types import is_number
from cleave.text.quantities import counted, listed, sized
from cleave_shared.errors import InputError, UsageError
from cleave_shared.params import PROFILES


@dataclass(frozen=True, slots=True)
class PlannedTotals:
    """Totals to add to a table, of `arguments`. `schema`: the table's afterwards. `measures`: makes them, from rows
    where doubles have no bounds.

    `details`: for the table's log.
    """

    opened: Opened
    schema: Schema
    names: tuple[str, ...]
    arguments: tuple[Argument, ...]
    measures: Callable[[Extents], Sequence[Measure]]
    details: Mapping[str, str]

    @property
    def bytes(self) -> int:
        """Bytes of their ciphertexts, which follow from the schema and the number of cells."""
        manifest = self.opened.manifest
        measures = [of_measures.unscaled("", each, derived=True) for each in self.arguments]
        return bytes_of_totals(measures, [each.cells for each in manifest.segments], PROFILES[manifest.profile])

    @property
    def text(self) -> str:
        """One line: what is added, and the bytes to be stored."""
        cells = max((each.cells for each in self.opened.manifest.segments), default=0)
        return (
            f"totals of {counted(len(self.names), 'expression')} for {counted(cells, 'cell')}, "
            f"about {sized(self.bytes)} will be stored: {listed(self.names)}"
        )


@operation(Deriving, after=CONTINUES, writes=True)
def derive(
    task: Task, name: str, expression: str | None = None, alias: str | None = None, **options: Unpack[Deriving]
) -> StoredTable:
    """Store totals of `expression` too, as column `alias`: questions over it then need no rows.

    `products`: instead, columns whose products in pairs get totals, so that COVAR_*, CORR and REGR_* of two of them
    need no rows either. Those that are stored already are not stored again. `dry_run`: say what would be stored, store
    nothing, and add it to `facts`.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "paired", store="tables", by=["ward"])
    >>> planned = cleave.derive("paired", products=["age", "bill"], store="tables", dry_run=True)
    >>> planned.facts["adds"], planned.version
    (['age*bill'], 1)
    >>> cleave.derive("paired", products=["age", "bill"], store="tables").version
    2
    """
    products = column_names(options["products"])
    if (products is None) == (expression is None) or (expression is None) != (alias is None):
        raise UsageError("derive takes an expression and its name, or products")
    tables = task.tables
    if options["dry_run"]:
        opened = tables.open(name)
        if products is None:
            planned = plan_expression(opened, str(expression), str(alias))
        else:
            planned = plan_products(opened, products)
            task.say(planned.text)
        stored = stored_table(opened.manifest)
        adds = {"adds": list(planned.names), "adds_bytes": planned.bytes}
        return replace(stored, facts=stored.facts | adds)
    if products is None:
        done = derive_expression(tables, name, str(expression), str(alias), task.progress)
    else:
        done = derive_products(tables, name, products, task.progress, task.say)
    return stored_table(done.manifest)


def derive_expression(tables: Tables, table: str, expression: str, name: str, progress: Progress) -> Opened:
    """Store totals of `expression`, for questions over cells.

    Raises InputError, QueryRefused, ConflictError if another writer changes the table.
    """
    return _store(tables, table, [expression, name], lambda opened: plan_expression(opened, expression, name), progress)


def derive_products(
    tables: Tables, table: str, columns: Sequence[str], progress: Progress, say: Callable[[str], None] = silent
) -> Opened:
    """Store the totals that products of `columns` need. `say` gets what will be stored.

    Raises as `derive_expression`.
    """

    def plan(opened: Opened) -> PlannedTotals:
        planned = plan_products(opened, columns)
        say(planned.text)
        return planned

    return _store(tables, table, ["products", *columns], plan, progress)


def plan_expression(opened: Opened, expression: str, name: str) -> PlannedTotals:
    """Plan the totals of an expression. Raises InputError, QueryRefused."""
    table = opened.manifest.table
    manifest, schema = opened.manifest, load_stored_schema(opened.manifest)
    taken = {each.name.lower() for each in manifest.measures} | {each.lower() for each in schema.names}
    if name.lower() in taken:
        raise InputError(f"column {name!r} already exists", hint="give the derived column another name")
    try:
        derived = checked(name, expression, schema.find)
    except ValueError as error:
        hint = error.hint(schema.names) if isinstance(error, UnknownColumn) else ""
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
    _require_rows(manifest)

    def measures(extents: Extents) -> list[Measure]:
        (extent,) = (None,) if argument.decimals is not None else extents([argument])
        return [of_measures.measure_of(name, argument, extent, derived=True)]

    return PlannedTotals(opened, schema, (name,), (argument,), measures, {"column": name})


def plan_products(opened: Opened, columns: Sequence[str]) -> PlannedTotals:
    """Plan the totals that products of `columns` need and the table does not have. No row is read.

    Raises InputError if it has all of them, and as `products_of` does.
    """
    manifest, schema = opened.manifest, load_stored_schema(opened.manifest)
    products = products_of(schema, columns, manifest.measures)
    if not products:
        raise InputError(f"totals for the products of {', '.join(columns)} are stored already")
    _require_rows(manifest)
    names = tuple(each.name for each in products)
    measures = partial(measures_of_products, schema, products, manifest.measures)
    arguments = tuple(arguments_of_products(schema, products))
    details = {"products": ", ".join(columns)}
    return PlannedTotals(opened, schema, names, arguments, measures, details)


def _require_rows(manifest: Manifest) -> None:
    if not manifest.segments:
        raise InputError(
            f"stored table {manifest.table!r} has no rows",
            hint="put rows first, with --products or with [derived] in the schema",
        )


def _store(
    tables: Tables, table: str, request: Sequence[str], plan: Callable[[Opened], PlannedTotals], progress: Progress
) -> Opened:
    """Store the planned totals, all in one change.

    Raises InputError for values outside the range of a column, ConflictError if another writer changes the table.
    """

    def planned_on(base: Opened | None, stack: ExitStack) -> ChangePlan:
        if base is None:
            raise tables.no_table(table)
        planned, manifest = plan(base), base.manifest
        rows = stack.enter_context(closing(Rows(tables, base)))
        measures = planned.measures(partial(_extents, rows, manifest.segments[:1]))
        columns = {*manifest.by, *(name for each in planned.arguments for name in each.columns)}
        update = {"schema_toml": dump_schema(planned.schema), "measures": (*manifest.measures, *measures)}
        changed = manifest.model_copy(update=update)
        pieces = [_Totals(each, rows, changed, len(measures), columns) for each in manifest.segments]
        return ChangePlan(changed, pieces, details=planned.details)

    return make(tables, table, Change("derive", request, planned_on), progress).opened


def _extents(rows: Rows, first: Sequence[Segment], arguments: Sequence[Argument]) -> list[Extent | None]:
    """The extents of doubles in the first segment, which determine their scale."""
    if not arguments:
        return []
    with rows.table({name for each in arguments for name in each.columns}, segments=first) as table:
        return [extent_of(table, each) for each in arguments]


@dataclass(frozen=True, slots=True)
class _Totals(Addition):
    """Totals of the last `count` measures of `manifest`, which read `columns`."""

    manifest: Manifest
    count: int
    columns: Collection[str]

    @property
    def most_rows(self) -> int:
        return 0

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        segment, measures = self.segment, self.manifest.measures[-self.count :]
        places = {keys: cell for cell, keys in enumerate(writer.cells.keys)}
        with self.source.table(self.columns, segments=[segment]) as table:
            summed = Summing(table, self.manifest.by, measures).sums()
            numbers, first = [places[each] for each in summed.keys], len(self.manifest.measures) - self.count
            totals = writer.write_totals(measures, first, summed.columns, numbers, segment.cells)
        yield self.step(segment.model_copy(update={"totals": (*segment.totals, totals)}))
        writer.advance(segment.rows)


@dataclass(frozen=True, slots=True)
class _ScanRows(Addition):
    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        with self.source.table(self.source.schema.names, segments=[self.segment]) as table:
            partial = writer.for_scans(table, self.segment)
        yield self.step(writer.finish(partial))


@change(Place, after=CONTINUES)
def add_scan(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Encrypt the rows of a stored table for scans, as `put` with `scan` does."""
    return add_scan_rows(task.tables, name, task.progress)


def add_scan_rows(tables: Tables, name: str, progress: Progress) -> Opened:
    """Encrypt the rows of every segment for scans, from its sealed columns. They become visible all at once.

    Raises InputError if the table has them, ConflictError if another writer changes the table.
    """

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:
        if base is None:
            raise tables.no_table(name)
        if base.manifest.scanned:
            raise InputError(f"table {name!r} has rows for scans already", hint="`cleave scan drop` deletes them")
        if not base.manifest.measures:
            raise InputError(f"table {name!r} has no encrypted numbers to scan")
        rows = stack.enter_context(closing(Rows(tables, base)))
        manifest = base.manifest.model_copy(update={"scanned": len(base.manifest.measures)})
        return ChangePlan(manifest, [_ScanRows(each, rows) for each in manifest.segments])

    return make(tables, name, Change("scan add", [], plan, stage="encrypt for scans"), progress).opened


@change(Place)
def drop_scan(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Delete the rows for scans of a stored table; it keeps everything else."""
    return drop_scan_rows(task.tables, name)


def drop_scan_rows(tables: Tables, name: str) -> Opened:
    """Remove the rows for scans. Raises InputError if there are none, ConflictError if another writer changes the
    table.
    """

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(name)
        if not base.manifest.scanned:
            raise InputError(f"table {name!r} has no rows for scans", hint="`cleave scan add` makes them")
        segments = Segments.of(each.model_copy(update={"scan": None}) for each in base.manifest.segments)
        return ChangePlan(base.manifest.model_copy(update={"scanned": 0, "segments": segments}))

    return make(tables, name, Change("scan drop", [], plan), Silent()).opened
