"""Delete or change rows of a stored table: the segments with such rows are rewritten in one step.

If only sensitive columns change, plain objects of changed segments are read and stay unchanged. Any other change shows
the plain place which rows changed. It needs the owner's consent if the condition reads non-plain columns.

The signed record of a deletion says what was deleted, until when it can be restored, and how that is known. It has
counts, and names and digests of the deleted sealed objects. It has nothing of a row, not even a digest, because rows
can be guessed. docs/erasure.md explains how to verify it with the owner's public key.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from cleave.ckks.owner_key import OwnerKey, encoded
from cleave.maintain.facts import Changed
from cleave.objects.locate import Stores
from cleave.objects.retention import Retention, end_of
from cleave.store.change import apply, last_change
from cleave.store.compacting import merges
from cleave.store.consent import require_word
from cleave.store.manifest import Manifest, Object, now
from cleave.store.pieces import SegmentRows
from cleave.store.published import has_ended, leaving, would_end
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.constraints import broken_by, figures_of
from cleave.table.derived import Derived, UnknownColumn, checked
from cleave.table.duck import identifier, literal
from cleave.table.progress import Progress
from cleave.table.running import fetched
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Table
from cleave.table.types import FLOATS
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ONE = "it takes one expression over the columns of a row, such as age > 90 AND ward = 'B'"


Done = tuple[Changed, Manifest, Opened | None]  # (change, table before, table after or None if nothing changed)


class Assignments:
    """New values of columns, by name. Raises InputError for an unknown column, and for a text that is no expression
    over a row.
    """

    def __init__(self, schema: Schema, values: Mapping[str, str]) -> None:
        self.values: dict[str, str] = {}
        self.columns: list[Column] = []
        self.read: set[str] = set()  # columns that the new values depend on
        for name, sql in values.items():
            column = schema.column(name)
            if column.name in self.values:
                raise InputError(f"column {column.name!r} is set twice")
            value = _expression(schema, f"new value of column {column.name!r}", sql, constant=True)
            self.read.update(value.columns)
            self.columns.append(column)
            self.values[column.name] = _cast(value.sql, column)

    @property
    def plain(self) -> list[str]:
        return [each.name for each in self.columns if each.kind is Kind.PLAIN]

    def select(self, condition: str) -> str:
        """SQL of the rows, with new values where `condition` holds."""
        new = ", ".join(
            f"CASE WHEN ({condition}) THEN {value} ELSE {identifier(name)} END AS {identifier(name)}"
            for name, value in self.values.items()
        )
        return f"SELECT * REPLACE ({new}) FROM {Table.relation}"

    def check(self, table: Table, condition: str) -> None:
        """Raise InputError for a new value that does not fit its column's type or bounds."""
        for column in self.columns:
            value, name = self.values[column.name], identifier(column.name)
            rows = f"(SELECT {value} AS {name} FROM {table.relation} WHERE ({condition}))"
            figures = f"SELECT count(*), {figures_of(column)} FROM {rows}"
            ((count, filled, least, most),) = computed(table, figures, f"column {column.name!r}: its new value")
            if broken := broken_by(column, count - filled, least, most):
                raise InputError(
                    f"column {column.name!r}: its new value in some row breaks the schema: {broken.problem}",
                    hint="change the expression, or first widen the column with `cleave alter`",
                )


def _cast(sql: str, column: Column) -> str:
    """`sql` cast to the type of `column`. A number for a float is read as text: SQL reads -0.0 as a DECIMAL, which has
    no sign.
    """
    is_literal = column.type in FLOATS and _NUMBER.fullmatch(sql.strip())
    return f"CAST(({literal(sql.strip()) if is_literal else sql}) AS {column.type})"


def delete(
    tables: Tables, name: str, where: str, progress: Progress, *, dry_run: bool = False, yes: bool = False
) -> Done:
    """Delete the rows where `where` is true; rows where it is NULL stay, as in SQL.

    A call that repeats the table's last change returns that change, as long as the previous version still exists.
    Raises InputError for an invalid condition, or without `yes` where it is needed; ConflictError if another writer was
    first.
    """
    opened = tables.open(name)
    schema = load_stored_schema(opened.manifest)
    condition = _condition(schema, where)
    if not dry_run and (draft := last_change(tables, opened.manifest, "delete", [where])) and draft.head:
        changed, before = _changed(opened, {}, "", repeated=True), tables.earlier(opened, draft.head)
        if before is None:  # what the table was is not known any more
            release = opened.manifest.release
            return replace(changed, ends_releases=bool(release and release.ended)), opened.manifest, None
        ends, count = has_ended(before, opened.manifest), before.rows - opened.manifest.rows
        return replace(changed, rows=count, ends_releases=ends), before, opened
    counts = _matching(tables, opened, condition, None, progress)
    reveals = "which rows are deleted" if schema.plain else ""
    leaves = f"FROM {Table.relation} WHERE ({condition.sql})"
    gone = {each: lambda _: leaves for each in counts}
    changed = _changed(opened, counts, reveals)
    if dry_run and changed.rows:
        changed = replace(changed, ends_releases=would_end(tables, opened, gone, condition.columns))
    if not changed.rows or dry_run:
        return changed, opened.manifest, None
    if reveals:
        require_word(schema, condition.columns, reveals, yes=yes)
    remaining = f"FROM {Table.relation} WHERE ({condition.sql}) IS NOT TRUE"
    release = leaving(tables, opened, gone, condition.columns)
    touched = [each for each in opened.manifest.segments if each.id in counts]
    with closing(Rows(tables, opened)) as rows:
        pieces = [SegmentRows(rows, (each,), lambda _: remaining) for each in touched]
        manifest = opened.manifest.model_copy(update={"release": release})
        done = apply(tables, opened, manifest, pieces, "delete", [where], progress, stays=True)
    ends = has_ended(opened.manifest, done.manifest)
    return replace(changed, version=done.manifest.version, ends_releases=ends), opened.manifest, done


def update(
    tables: Tables,
    name: str,
    values: Mapping[str, str],
    where: str,
    progress: Progress,
    *,
    dry_run: bool = False,
    yes: bool = False,
    again: bool = False,
) -> Done:
    """Set columns to new values in the rows where `where` is true. Values are SQL over the row before the change.

    A call that repeats the table's last change does nothing, unless `again`. Otherwise like `delete`.
    """
    opened = tables.open(name)
    schema = load_stored_schema(opened.manifest)
    condition, new = _condition(schema, where, constant=True), Assignments(schema, values)
    release = opened.manifest.release
    twice = "; the next release then has them again, beside what it had" if release and release.is_live else ""
    if keys := [each.name for each in new.columns if each.name in opened.manifest.key]:
        raise InputError(
            f"column {keys[0]!r} is a key column: its values stay",
            hint=f"delete the rows, and append them with new keys{twice}",
        )
    if people := [each.name for each in new.columns if each.name in schema.privacy.entity]:
        raise InputError(
            f"column {people[0]!r} names whom a row is about: its values stay",
            hint=f"delete the rows, and append them with other values{twice}",
        )
    if not condition.columns and not (yes or dry_run):
        raise InputError(
            "the condition names no column: it holds for all rows or for none",
            hint="--dry-run shows what would change; confirm with --yes (yes=True in Python)",
        )
    request = [where, sorted(new.values.items())]
    if not again and not dry_run and last_change(tables, opened.manifest, "update", request):
        return _changed(opened, {}, "", repeated=True), opened.manifest, None
    counts = _matching(tables, opened, condition, new, progress)
    reveals = f"which rows change, and their new values of {', '.join(new.plain)}" if new.plain else ""
    read = "which segments have changed rows" if schema.plain else ""  # their plain objects are read
    changed = _changed(opened, counts, reveals or read)
    if not changed.rows or dry_run:
        return changed, opened.manifest, None
    if reveals:
        require_word(schema, {*condition.columns, *new.read}, reveals, yes=yes)
    selected, keeps_plain = new.select(condition.sql), not new.plain
    touched = [each for each in opened.manifest.segments if each.id in counts]
    same_cells = {each.name for each in new.columns}.isdisjoint(opened.manifest.by)
    with closing(Rows(tables, opened)) as rows:
        pieces = [SegmentRows(rows, (each,), lambda _: selected, keeps_plain, same_cells) for each in touched]
        done = apply(tables, opened, opened.manifest, pieces, "update", request, progress, stays=True)
    return replace(changed, version=done.manifest.version), opened.manifest, done


def _condition(schema: Schema, where: str, *, constant: bool = False) -> Derived:
    """`where` as a condition over a row. `constant`: also accept a condition without columns. Raises InputError."""
    expression = _expression(schema, "condition", where, constant=constant)
    if expression.type != "BOOLEAN":
        raise InputError(f"the condition is {expression.type}, and must be BOOLEAN", hint=_ONE)
    return expression


def _expression(schema: Schema, what: str, sql: str, *, constant: bool = False) -> Derived:
    """`sql` as an expression over a row. Raises InputError."""
    try:
        return checked(f"the {what}", sql, schema.find, constant=constant)
    except ValueError as error:
        near = did_you_mean(error.name, schema.names) if isinstance(error, UnknownColumn) else ""
        raise InputError(f"the {what} {error}", hint=near or _ONE) from None


def _matching(
    tables: Tables, opened: Opened, condition: Derived, new: Assignments | None, progress: Progress
) -> dict[str, int]:
    """Number of rows where the condition is true, for each segment that has any. Checks `new` values in them."""
    counts: dict[str, int] = {}
    read = {*condition.columns, *(new.read if new else ())}
    advance = progress.stage("find", opened.manifest.rows, "rows")
    with tables.changing(opened), closing(Rows(tables, opened)) as rows:
        for segment in opened.manifest.segments:
            with rows.table(read, segments=[segment]) as table:
                ((count,),) = computed(
                    table, f"SELECT count(*) FROM {table.relation} WHERE ({condition.sql})", "the condition"
                )
                if count:
                    counts[segment.id] = count
                    if new is not None:
                        new.check(table, condition.sql)
            advance(segment.rows)
    return counts


def computed(table: Table, sql: str, what: str) -> list[tuple[Any, ...]]:
    """The rows of `sql`. Raises InputError, which names `what` and quotes no value."""

    def refusal(why: str) -> InputError:
        hint = "use TRY_CAST where a value may not fit"
        return InputError(f"{what} cannot be computed in some row ({why})", hint=hint)

    rows: list[tuple[Any, ...]] = fetched(table.connection, sql, refusal)
    return rows


def _changed(opened: Opened, counts: Mapping[str, int], reveals: str, *, repeated: bool = False) -> Changed:
    manifest = opened.manifest
    touched = tuple(
        (number, counts[each.id], each.rows) for number, each in enumerate(manifest.segments, 1) if each.id in counts
    )
    return Changed(manifest.table, manifest.version, sum(counts.values()), touched, reveals, repeated)


def compact(tables: Tables, name: str, progress: Progress) -> Opened:
    """Merge small segments. Rows keep their order. Raises ConflictError if another writer was first."""
    opened = tables.open(name)
    groups = merges(opened.manifest)
    if not groups:
        return opened
    with closing(Rows(tables, opened)) as rows:
        pieces = [SegmentRows(rows, each, same_cells=True) for each in groups]
        return apply(tables, opened, opened.manifest, pieces, "compact", [], progress)


@dataclass(frozen=True, slots=True)
class OldVersions:
    """How long old versions of deleted objects are kept: as the user states, else as each store's rules say.

    `retentions`: None for a store whose rules cannot be read.
    """

    stated: int | None
    retentions: tuple[tuple[str, Retention | None], ...] = ()

    @classmethod
    def from_stores(cls, stores: Stores, stated: int | None) -> OldVersions:
        read = () if stated is not None else tuple((each.location, each.retention()) for each in stores.distinct())
        return cls(stated, read)

    def until(self, names: Collection[str], start: datetime.datetime) -> tuple[datetime.datetime | None, str, str]:
        """(End, source, note for the user). End is None if unknown or never."""
        if self.stated is not None:
            return end_of(self.stated, start), "user", ""
        ends = []
        for location, retention in self.retentions:
            if retention is None:
                return None, "unknown", f"states no end of old versions: the rules of {location} cannot be read"
            if (days := retention.days(names)) is None:
                return None, "store", f"states that {location} keeps old versions for ever: no rule removes them"
            ends.append(end_of(days, start))
        return max(ends), "store", ""


def signed_record(
    key: OwnerKey, before: Manifest, changed: Changed, after: Manifest, old_versions: OldVersions
) -> tuple[bytes, str]:
    """The record as JSON, and a note for the user about the end that it states."""
    left = after.objects()
    until, source, unsure = old_versions.until(before.objects() - left, datetime.datetime.now(datetime.UTC))
    record: dict[str, Any] = {
        "record": "cleave deletion 2",
        "key_id": key.key_id,
        "table": before.table,
        "table_id": before.table_id,
        "version": after.version,
        "at": now(),
        "rows_deleted": changed.rows,
        "rows_left": after.rows,
        "objects_gone": [each.model_dump() for each in _sealed(before) if each.name not in left],
        "restorable_until": until and until.isoformat(timespec="seconds"),
        "restorable_source": source,
    }
    signing = key.signing_key()
    signature = signing.sign(message(record)).hex()
    public = encoded(signing.public_key().public_bytes_raw())
    return json.dumps({**record, "public_key": public, "signature": signature}, indent=2).encode() + b"\n", unsure


def message(record: dict[str, Any]) -> bytes:
    return json.dumps(["cleave deletion", record], sort_keys=True, separators=(",", ":")).encode()


def _sealed(manifest: Manifest) -> list[Object]:
    """The segments' objects in the sensitive place."""
    return [part for each in manifest.segments for part in each.parts() if part != each.plain]
