"""Change the columns of a stored table: wider bounds or types; columns added, renamed or dropped; new by columns.

If no stored byte changes, only the manifest is written. Otherwise every segment is rewritten in one step; plain objects
stay unless a plain column or the order of rows changes.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Unpack

from cleave.ask.opening import column_names
from cleave.ask.options import Altering
from cleave.maintain.task import CONTINUES, Task, change
from cleave.releases.exact import paused
from cleave.releases.releases import renamed
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.change import Change, ChangePlan, require_no_reader
from cleave.store.filling import Say, silent
from cleave.store.making import make
from cleave.store.manifest import MARK, Manifest, Measure, Reader, SealedColumn
from cleave.store.pieces import SegmentRows
from cleave.store.products import Product, measures_of_products, products_in
from cleave.store.put import sealed_columns
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import (
    check_by,
    load_stored_schema,
    measured,
    stored_schema,
)
from cleave.store.segment import plain_by
from cleave.store.tables import Tables
from cleave.table.duck import identifier
from cleave.table.privacy import CONTRIBUTOR, Privacy
from cleave.table.progress import Progress
from cleave.table.schema import Column, Kind, Schema, dump_schema, read_column, read_schema
from cleave.table.types import FLOATS, canonical, decimals_of, is_number, range_of
from cleave_shared.errors import InputError

_BOUNDS = "write --widen COLUMN=LOWER..UPPER or COLUMN=TYPE; a bound that is left out stays"


@dataclass(frozen=True, slots=True)
class Alteration:
    """Column changes, written as in the command. `by`: None keeps the by columns. `entity`: empty keeps the entity.

    `drop`: columns, and products by the names that `cleave show` prints.
    """

    widen: Sequence[str] = ()
    add: Sequence[str] = ()
    rename: Sequence[str] = ()
    drop: Sequence[str] = ()
    by: Sequence[str] | None = None
    entity: Sequence[str] = ()

    @property
    def request(self) -> list[list[str]]:
        """What a draft of this change is found by."""
        request = [list(each or ()) for each in (self.widen, self.add, self.rename, self.drop, self.by)]
        return [*request, list(self.entity)] if self.entity else request


@change(Altering, after=CONTINUES)
def alter(task: Task, name: str, **options: Unpack[Altering]) -> Opened:
    """Change the columns of a stored table, all changes in one step.

    `widen`: "age=0..200" or "age=BIGINT". `add`: "note VARCHAR sealed"; it is NULL in rows that are there. `rename`:
    "old=new". `drop`: names of columns, and of products as `show` lists them. `by`: the columns whose combinations have
    totals. `entity`: columns that name whom a row is about, where none do yet.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "altered", store="tables", by=["ward"])
    >>> cleave.alter("altered", add=["note VARCHAR"], rename=["bill=cost"], store="tables").version
    2
    """
    wanted = Alteration(
        widen=options["widen"] or (),
        add=options["add"] or (),
        rename=options["rename"] or (),
        drop=options["drop"] or (),
        by=column_names(options["by"]),
        entity=column_names(options["entity"]) or (),
    )
    return alter_columns(task.tables, name, wanted, task.progress, task.warn)


def alter_columns(tables: Tables, name: str, wanted: Alteration, progress: Progress, warn: Say = silent) -> Opened:
    """Raises InputError for impossible changes, ConflictError if another writer was first. `warn` is told if no more
    rows will be released.
    """

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:
        if base is None:
            raise tables.no_table(name)
        return _planned(tables, name, base, wanted, stack, warn)

    return make(tables, name, Change("alter", wanted.request, plan), progress).opened


def _planned(tables: Tables, name: str, opened: Opened, wanted: Alteration, stack: ExitStack, warn: Say) -> ChangePlan:
    old = opened.manifest
    before = load_stored_schema(old)
    if wanted.entity and old.lineage is not None:
        raise InputError(
            f"table {name!r} was released by parts of enough rows: whom they are about is fixed",
            hint="put the table under another name with --entity",
        )
    asked, (wanted, products) = wanted, _products_apart(old, before, wanted)
    columns = _columns(before, wanted)  # each with the SQL of its values in an existing row
    altered = replace(before, columns=tuple(each for each, _ in columns), privacy=_privacy(before, wanted))
    schema = _checked(altered.about(wanted.entity) if wanted.entity else altered, name)
    by = _by(old, schema, wanted)
    manifest = old.model_copy(
        update={
            "schema_toml": dump_schema(schema),
            "by": by,
            "key": _key(old, wanted),
            "measures": _measures(schema, old, wanted, products),
            "sealed": sealed_columns(schema, by),
        }
    )
    dropped = {each.strip().lower() for each in wanted.drop}
    if manifest.schema_toml == old.schema_toml and by == old.by and not asked.drop:
        return ChangePlan(old, idle=True)
    released = renamed(tables, opened, _news(wanted), dropped)
    manifest = manifest.model_copy(update={"release": released, "readers": _readers(old, wanted)})
    if why := paused(tables, opened, replace(opened, manifest=manifest)):
        warn(why)
    same_plain = _plain(before) == _plain(schema) and _order(old) == _order(manifest)
    same_plain &= dropped.isdisjoint(name.lower() for name, _ in _plain(before))  # one may be added under its name
    if same_plain and not (dropped and wanted.add) and _is_stored_alike(old, manifest, wanted):
        sealed = tuple(
            each.model_copy(update={"name": new.name}) for each, new in zip(old.sealed, manifest.sealed, strict=True)
        )
        return ChangePlan(manifest.model_copy(update={"sealed": sealed}))
    if old.scanned:
        manifest = manifest.model_copy(update={"scanned": len(manifest.measures)})
    selected = ", ".join(f"{sql} AS {identifier(each.name)}" for each, sql in columns)
    if manifest.marking is not None:
        selected += f", {identifier(MARK)}"
    rows = stack.enter_context(closing(Rows(tables, opened)))
    pieces = [
        SegmentRows(
            rows,
            (each,),
            lambda table: f"SELECT {selected} FROM {table.relation}",
            keeps_plain=same_plain,
            recounts=wanted.by is not None,
        )
        for each in old.segments
    ]
    return ChangePlan(manifest, pieces, Cells() if wanted.by is not None else None)


def _products_apart(old: Manifest, schema: Schema, wanted: Alteration) -> tuple[Alteration, list[Product]]:
    """`wanted` with only columns to drop, and the products that stay."""
    names = {each.strip().lower() for each in wanted.drop}
    products = products_in(old.measures, schema)
    gone = {each.lower() for each in products} & names
    columns = tuple(each for each in wanted.drop if each.strip().lower() not in gone)
    return replace(wanted, drop=columns), [of for each, of in products.items() if each.lower() not in gone]


def _columns(schema: Schema, wanted: Alteration) -> list[tuple[Column, str]]:
    """The new columns, each with the SQL of its values in an existing row. Raises InputError."""
    altered = {each.name: (each, identifier(each.name)) for each in schema.columns}
    used = {column: derived.name for derived in schema.derived for column in derived.columns}
    for text in wanted.widen:
        name, value = _pair(text, _BOUNDS)
        column = schema.column(name)
        altered[column.name] = (_widened(altered[column.name][0], value), altered[column.name][1])
    for text in wanted.rename:
        name, value = _pair(text, "write --rename OLD=NEW")
        column = schema.column(name)
        _require_unused(column, used, "renamed")
        altered[column.name] = (replace(altered[column.name][0], name=value), altered[column.name][1])
    for name in wanted.drop:
        column = schema.column(name)
        _require_unused(column, used, "dropped")
        altered.pop(column.name)
    columns = [*altered.values()]
    for text in wanted.add:
        name, _, rest = text.strip().partition(" ")
        type_, _, kind = rest.strip().rpartition(" ")
        if kind not in list(Kind):
            type_, kind = rest, ""
        column = read_column(name, {"kind": kind or "sealed", "type": type_.strip()}, f"--add {text}")
        if column.kind is Kind.LOCAL:
            raise InputError(f"column {name!r}: a local column is not stored", hint="make it sealed, or leave it out")
        columns.append((column, "NULL"))
    names = Counter(each.name.lower() for each, _ in columns)
    if twice := next((each.name for each, _ in columns if names[each.name.lower()] > 1), None):
        raise InputError(f"there would be two columns {twice!r}", hint="choose another name")
    return columns


def _privacy(before: Schema, wanted: Alteration) -> Privacy:
    """The privacy of the altered table. An existing entity can only be renamed. Raises InputError."""
    entity = before.privacy.entity
    if entity and wanted.entity:
        raise InputError(
            f"rows are about {', '.join(entity)}: what names them is set once (rule P1)",
            hint="--rename gives its column another name; else put the table under another name",
        )
    people = {each.lower() for each in entity}
    if lost := [each for each in wanted.drop if each.lower() in people]:
        raise InputError(f"column {lost[0]!r} cannot be dropped: it names whom a row is about (rule P1)")
    for name, value in (_pair(each, _BOUNDS) for each in wanted.widen):
        if name.lower() in people and before.column(name).type in FLOATS and ".." not in value:
            raise InputError(
                f"column {name!r} names whom a row is about: 0.1 as {value} is not what 0.1 as FLOAT is (rule P1)",
                hint="put the table under another name with a text or a decimal",
            )
    news = _news(wanted)
    names = [*news.values(), *(each.strip().partition(" ")[0] for each in wanted.add)]
    if before.find(CONTRIBUTOR) is None and CONTRIBUTOR in people & {each.lower() for each in names}:
        raise InputError(f"{CONTRIBUTOR!r} names whom a row is about: no column can have this name")
    return before.privacy.renamed({each.name: news.get(each.name.lower(), each.name) for each in before.columns})


def _require_unused(column: Column, used: dict[str, str], what: str) -> None:
    if column.name in used:
        raise InputError(f"column {column.name!r} cannot be {what}: derived column {used[column.name]!r} reads it")


def _pair(text: str, hint: str) -> tuple[str, str]:
    name, equals, value = (each.strip() for each in text.partition("="))
    if not (name and equals and value):
        raise InputError(f"{text!r} is not one name, = and a value", hint=hint)
    return name, value


def _widened(column: Column, text: str) -> Column:
    """`column` with wider bounds or a wider type. Raises InputError if a value might not fit."""
    if ".." in text:
        lower, upper = (_bound(column, each) for each in text.split("..", 1))
        widened = replace(column, lower=column.lower if lower is None else lower)
        widened = replace(widened, upper=column.upper if upper is None else upper)
        pairs = ((widened.lower, column.lower), (column.upper, widened.upper))
        if any(one is not other and (one is None or other is None or one > other) for one, other in pairs):
            raise InputError(f"column {column.name!r}: its bounds can only be widened", hint=_BOUNDS)
        return widened
    try:
        type_ = canonical(text)
    except ValueError as error:
        raise InputError(f"column {column.name!r}: the type {error}", hint=_BOUNDS) from None
    if not _holds(type_, column.type):
        raise InputError(f"column {column.name!r}: {type_} does not hold every {column.type}", hint=_BOUNDS)
    return replace(column, type=type_)


def _bound(column: Column, text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise InputError(f"column {column.name!r}: a bound is no number", hint=_BOUNDS) from None


def _holds(wide: str, narrow: str) -> bool:
    """True if type `wide` can hold every value of type `narrow`. The two differ."""
    if (narrow, wide) == ("FLOAT", "DOUBLE"):
        return True
    more, fewer = decimals_of(wide), decimals_of(narrow)
    if not (is_number(wide) and is_number(narrow)) or more is None or fewer is None or wide == narrow or more < fewer:
        return False
    scale = 10 ** (more - fewer)
    low, high = range_of(narrow)
    least, most = range_of(wide)
    return bool(least <= scale * low and scale * high <= most)


def _checked(schema: Schema, name: str) -> Schema:
    """`schema` written and read back. Raises InputError if no schema may say that."""
    return stored_schema(read_schema(tomllib.loads(dump_schema(schema), parse_float=Decimal), f"table {name!r}"), name)


def _by(old: Manifest, schema: Schema, wanted: Alteration) -> tuple[str, ...]:
    if wanted.by is not None:
        return check_by(wanted.by, schema)
    news = _news(wanted)
    by = [news.get(each.lower(), each) for each in old.by]
    if missing := [each for each in by if each not in schema.names]:
        raise InputError(f"column {missing[0]!r} is one of --by", hint="name the others with --by")
    return check_by(by, schema)


def _key(old: Manifest, wanted: Alteration) -> tuple[str, ...]:
    """The key columns under their new names. Raises InputError if one would be dropped."""
    dropped = {each.lower() for each in wanted.drop}
    if lost := [each for each in old.key if each.lower() in dropped]:
        raise InputError(f"column {lost[0]!r} is a key column", hint="put the table again with other --key-columns")
    news = _news(wanted)
    return tuple(news.get(each.lower(), each) for each in old.key)


def _readers(old: Manifest, wanted: Alteration) -> tuple[Reader, ...]:
    """The readers, with the new names of their columns. Raises InputError where one would have none left."""
    readers = []
    news, dropped = _news(wanted), {each.strip().lower() for each in wanted.drop}
    if wanted.entity:
        require_no_reader(old, "rows of people whom thresholds protect from now on")
    for reader in old.readers:
        columns = tuple(news.get(name.lower(), name) for name in reader.columns if name.lower() not in dropped)
        if not columns:
            raise InputError(
                f"reader {reader.name!r} has no other column",
                hint=f"first: cleave reader revoke {old.table} {reader.name}",
            )
        readers.append(reader.model_copy(update={"columns": columns}))
    return tuple(readers)


def _news(wanted: Alteration) -> dict[str, str]:
    """New names of columns, by their old names in lower case."""
    return {name.lower(): new for name, new in (_pair(each, "") for each in wanted.rename)}


def _measures(schema: Schema, old: Manifest, wanted: Alteration, products: Sequence[Product]) -> tuple[Measure, ...]:
    """Measures of the new columns, and of those `products` whose columns stay.

    Doubles keep centre and scale, unless the bounds of their column changed.
    """
    names = _measure_names(old, wanted)
    widened = _widened_names(wanted)
    previous = {names[each.name]: each for each in old.measures}
    measures = []
    for name, argument, derived in measured(schema):
        measure = of_measures.measure_of(name, argument, None, derived=derived is not None)
        if (before := previous.get(name)) and measure.decimals is None and (derived or name not in widened):
            measure = measure.model_copy(update={"centre": before.centre, "exponent": before.exponent})
        measures.append(measure)
    products = _renamed(products, wanted)
    try:
        made = measures_of_products(schema, products, measures, lambda of: [None] * len(of))
    except InputError as error:
        raise InputError(
            error.message, hint="`cleave put --replace` without --products stores the table anew, with wider bounds"
        ) from None
    for product, measure in zip(products, made, strict=True):
        before = previous[product.name]
        is_widened = not widened.isdisjoint(product.factors) and of_measures.of_bounds(measure) is not None
        scale = (
            {} if measure.decimals is not None or is_widened else {"centre": before.centre, "exponent": before.exponent}
        )
        measures.append(measure.model_copy(update=scale))
    taken = Counter(each.name.lower() for each in measures)
    if twice := next((each.name for each in measures if taken[each.name.lower()] > 1), None):
        raise InputError(f"there would be two columns {twice!r}, one a product", hint="choose another name")
    order = [names[each.name] for each in old.measures]
    if sorted(order) == sorted(each.name for each in measures):
        measures.sort(key=lambda each: order.index(each.name))
    return tuple(measures)


def _widened_names(wanted: Alteration) -> set[str]:
    """New names of the columns that are widened."""
    news = _news(wanted)
    return {news.get(name.lower(), name) for name in (_pair(each, _BOUNDS)[0] for each in wanted.widen)}


def _renamed(products: Sequence[Product], wanted: Alteration) -> list[Product]:
    """Those of `products` whose columns stay, with the new names."""
    dropped = {each.strip().lower() for each in wanted.drop}
    return [each.renamed(_news(wanted)) for each in products if dropped.isdisjoint(map(str.lower, each.columns))]


def _measure_names(old: Manifest, wanted: Alteration) -> dict[str, str]:
    """New names of measures, by the old ones."""
    news, products = _news(wanted), products_in(old.measures, load_stored_schema(old))
    return {
        each.name: products[each.name].renamed(news).name
        if each.name in products
        else news.get(each.name.lower(), each.name)
        for each in old.measures
    }


def _is_stored_alike(old: Manifest, new: Manifest, wanted: Alteration) -> bool:
    """True if the stored objects are the same: the measures are the old ones under new names, in their order."""
    is_named_alike = [*_measure_names(old, wanted).values()] == [each.name for each in new.measures]
    return is_named_alike and _format(old) == _format(new)


def _plain(schema: Schema) -> list[tuple[str, str]]:
    return [(each.name, each.type) for each in schema.columns if each.kind is Kind.PLAIN]


def _order(manifest: Manifest) -> list[Column]:
    return [replace(each, reason="") for each in plain_by(manifest, load_stored_schema(manifest).columns)]


def _format(manifest: Manifest) -> object:
    """Everything that determines the stored objects. Names do not."""

    def stored_form(column: SealedColumn) -> object:
        return column.type, column.width, column.nullable

    measures = [each.model_dump(exclude={"name", "sql"}) for each in manifest.measures]
    places = [load_stored_schema(manifest).names.index(each) for each in manifest.by]
    return [stored_form(each) for each in manifest.sealed], measures, places
