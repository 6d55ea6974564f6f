"""Delete or change rows of a stored table: the segments with such rows are rewritten in one step.

If only sensitive columns change, plain objects of changed segments are read and stay unchanged. Any other change shows
the plain place which rows changed. It needs the owner's consent if the condition reads non-plain columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from cleave.ask.options import Deleting, Updating
from cleave.files import require_target, write_atomically
from cleave.maintain.facts import Changed
from cleave.maintain.record import Deleted, OldVersions, signed_record
from cleave.maintain.task import CONTINUES, Task, operation
from cleave.store.change import Change, ChangePlan, Done, always, require_word
from cleave.store.log import PAGE
from cleave.store.making import make
from cleave.store.manifest import Manifest, Object, Segment
from cleave.store.pieces import SegmentRows
from cleave.store.published import ENDS, has_ended, leaving, would_end
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.blaming import not_computable
from cleave.table.constraints import broken_by, figures_of
from cleave.table.derived import Derived, UnknownColumn, checked
from cleave.table.duck import identifier, literal
from cleave.table.progress import Progress
from cleave.table.running import fetched
from cleave.table.schema import Column, Kind, Schema
from cleave.table.table import Table
from cleave.table.types import FLOATS
from cleave_shared.duckdb_errors import Fault
from cleave_shared.errors import InputError, UsageError

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_DAYS = 36_500
_ONE = "it takes one expression over the columns of a row, such as age > 90 AND ward = 'B'"


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


@operation(Deleting, after=CONTINUES, writes=True)
def delete(task: Task, name: str, where: str, **options: Unpack[Deleting]) -> Changed:
    """Delete the rows of a stored table that `where` holds for, as SQL's DELETE does.

    `where`: an expression over the row, with columns of any kind. `dry_run`: change nothing. `yes`: required if `where`
    reads columns that are not plain and the plain place learns which rows were deleted. `record`: a new file for the
    signed record. `old_version_days`: how long the bucket keeps old versions; by default its lifecycle is read.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "shrinking", store="tables", by=["ward"])
    >>> cleave.delete("shrinking", "ward = 'Surgery'", store="tables").rows
    95
    """
    path = None if options["record"] is None or options["dry_run"] else Path(options["record"])
    if path is not None:
        require_target(path)
    days = options["old_version_days"]
    if days is not None and not 0 <= days <= _MOST_DAYS:
        raise UsageError(f"--old-version-days takes 0 to {_MOST_DAYS:,} days", name="--old-version-days")
    tables = task.tables
    # read before anything is changed
    old_versions = None if path is None else OldVersions.from_stores(tables.stores, days)

    def write_record(deleted: Deleted) -> None:
        assert path is not None and old_versions is not None  # noqa: S101, PT018 - it is called only then
        record, unsure = signed_record(tables.key, deleted, old_versions)
        write_atomically(path, record, error=InputError)
        if unsure:
            task.warn(f"{path}: {unsure}")

    how: dict[str, Any] = {"dry_run": options["dry_run"], "yes": options["yes"]}
    finish = None if path is None else write_record
    changed = delete_rows(tables, name, where, task.progress, finish=finish, **how)
    if changed.ends_releases:
        task.warn(ENDS)
    return changed


def delete_rows(
    tables: Tables,
    name: str,
    where: str,
    progress: Progress,
    *,
    dry_run: bool = False,
    yes: bool = False,
    finish: Callable[[Deleted], None] | None = None,
) -> Changed:
    """Delete the rows where `where` is true; rows where it is NULL stay, as in SQL.

    Others may change the table meanwhile: their rows are deleted too where `where` is true. So are copies that writers
    are just making, and what nobody names. A call that repeats one that was stopped after its commit returns what that
    one did. `finish` gets what was deleted, once that is gone.

    Raises InputError for an invalid condition, or without `yes` where it is needed; ConflictError if others changed the
    rows that it reads again and again.
    """
    found = _Found(tables, name, progress)
    if dry_run:
        opened = tables.open(name)
        condition = _condition(load_stored_schema(opened.manifest), where)
        counts = found.counts(opened, condition, None)
        changed = _changed(opened.manifest, counts, _deleting(opened))
        gone = _leaving(condition, counts)
        ends = bool(counts) and would_end(tables, opened, gone, condition.columns)
        return replace(changed, ends_releases=ends)
    planned = Changed(name, 0, 0, (), "")

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:
        nonlocal planned
        if base is None:
            raise tables.no_table(name)
        manifest, schema = base.manifest, load_stored_schema(base.manifest)
        condition = _condition(schema, where)
        counts = found.counts(base, condition, None)
        planned = _changed(manifest, counts, _deleting(base))
        if not counts:  # what writers are just making may have such rows all the same
            version = manifest.version + 1
            return ChangePlan(manifest, idle=True, facts=_facts(replace(planned, version=version), manifest, ()))
        if planned.reveals:
            require_word(schema, condition.columns, planned.reveals, yes=yes)
        remaining = f"FROM {Table.relation} WHERE ({condition.sql}) IS NOT TRUE"
        release = leaving(tables, base, _leaving(condition, counts), condition.columns)
        rows = stack.enter_context(closing(Rows(tables, base)))
        touched = [each for each in manifest.segments if each.id in counts]
        after = manifest.model_copy(update={"release": release})
        planned = replace(planned, version=manifest.version + 1, ends_releases=has_ended(manifest, after))
        pieces = [SegmentRows(rows, (each,), lambda _: remaining) for each in touched]
        return ChangePlan(after, pieces, facts=_facts(planned, manifest, touched))

    def finished(done: Done) -> None:
        if finish is not None:
            finish(deleted(done))

    def deleted(done: Done) -> Deleted:
        facts: dict[str, Any] = dict(done.facts)
        kept = {each.name for each in done.opened.manifest.parts()}
        gone = [Object.model_validate(each) for each in facts["gone"]]
        changed = Changed.of(facts["changed"], repeated=done.record is not None)
        table_id = done.opened.manifest.table_id
        return Deleted(changed, tuple(each for each in gone if each.name not in kept), facts["left"], table_id)

    change = Change("delete", [where], plan, always, finish=finished, erases=True, strict=finish is not None)
    done = make(tables, name, change, progress)
    return deleted(done).changed if done.made else planned


def _facts(planned: Changed, manifest: Manifest, touched: Sequence[Segment]) -> dict[str, Any]:
    """What a repeated call says of a deletion that was stopped after its commit."""
    gone = [each.model_dump() for segment in touched for each in _sealed(segment)]
    return {"changed": planned.facts(), "left": manifest.rows - planned.rows, "gone": gone}


def _leaving(condition: Derived, counts: Collection[str]) -> dict[str, Callable[[Table], str]]:
    leaves = f"FROM {Table.relation} WHERE ({condition.sql})"
    return {each: lambda _: leaves for each in counts}


def _deleting(opened: Opened) -> str:
    """What the plain place learns of a deletion."""
    return "which rows are deleted" if load_stored_schema(opened.manifest).plain else ""


@operation(Updating, after=CONTINUES, writes=True)
def update(task: Task, name: str, values: Mapping[str, str], where: str, **options: Unpack[Updating]) -> Changed:
    """Set columns of the rows of a stored table that `where` holds for, as SQL's UPDATE does.

    `values`: column -> SQL over the row as it was. `where`: "TRUE" means all rows, and requires `yes`. A call that
    repeats the last change that was no append changes nothing, unless `again`. Otherwise as `delete`.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "corrected", store="tables", by=["ward"])
    >>> cleave.update("corrected", {"bill": "bill * 2"}, "age > 90", store="tables").reveals
    'which segments have changed rows'
    """
    how = {"dry_run": options["dry_run"], "yes": options["yes"], "again": options["again"]}
    return update_rows(task.tables, name, values, where, task.progress, **how)


def update_rows(
    tables: Tables,
    name: str,
    values: Mapping[str, str],
    where: str,
    progress: Progress,
    *,
    dry_run: bool = False,
    yes: bool = False,
    again: bool = False,
) -> Changed:
    """Set columns to new values in the rows where `where` is true. Values are SQL over the row before the change.

    A call that repeats one of the table's newest changes does nothing, unless `again`. Otherwise like `delete_rows`.
    """
    opened = tables.open(name)
    found = _Found(tables, name, progress)
    condition, new = _checked_update(opened.manifest, values, where)
    if not condition.columns and not (yes or dry_run):
        raise InputError(
            "the condition names no column: it holds for all rows or for none",
            hint="--dry-run shows what would change; confirm with --yes (yes=True in Python)",
        )
    if dry_run:
        return _changed(opened.manifest, found.counts(opened, condition, new), _updating(opened, new))
    planned = Changed(name, 0, 0, (), "")

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:
        nonlocal planned
        if base is None:
            raise tables.no_table(name)
        manifest = base.manifest
        condition, new = _checked_update(manifest, values, where)
        counts = found.counts(base, condition, new)
        planned = _changed(manifest, counts, _updating(base, new))
        if not counts:
            return ChangePlan(manifest, idle=True)
        if new.plain:
            require_word(load_stored_schema(manifest), {*condition.columns, *new.read}, planned.reveals, yes=yes)
        selected, keeps_plain = new.select(condition.sql), not new.plain
        same_cells = {each.name for each in new.columns}.isdisjoint(manifest.by)
        rows = stack.enter_context(closing(Rows(tables, base)))
        touched = [each for each in manifest.segments if each.id in counts]
        planned = replace(planned, version=manifest.version + 1)
        pieces = [SegmentRows(rows, (each,), lambda _: selected, keeps_plain, same_cells) for each in touched]
        return ChangePlan(manifest, pieces, facts={"changed": planned.facts()})

    request = [where, sorted(new.values.items())]
    change = Change("update", request, plan, always, once=0 if again else PAGE, past=("append", "compact"))
    done = make(tables, name, change, progress)
    if done.record is not None:
        facts: dict[str, Any] = dict(done.facts)
        if not facts:
            return replace(_changed(done.opened.manifest, {}, ""), version=done.record.version, repeated=True)
        return Changed.of(facts["changed"], repeated=True)
    return planned


def _checked_update(manifest: Manifest, values: Mapping[str, str], where: str) -> tuple[Derived, Assignments]:
    """The condition, and the new values. Raises InputError if these must not be set."""
    schema = load_stored_schema(manifest)
    condition, new = _condition(schema, where, constant=True), Assignments(schema, values)
    twice = "; the next release then has them again, beside what it had" if manifest.lineage else ""
    if keys := [each.name for each in new.columns if each.name in manifest.key]:
        raise InputError(
            f"column {keys[0]!r} is a key column: its values stay",
            hint=f"delete the rows, and append them with new keys{twice}",
        )
    if people := [each.name for each in new.columns if each.name in schema.privacy.entity]:
        raise InputError(
            f"column {people[0]!r} names whom a row is about: its values stay (rule P1)",
            hint=f"delete the rows, and append them with other values{twice}",
        )
    return condition, new


def _updating(opened: Opened, new: Assignments) -> str:
    """What the plain place learns of an update."""
    if new.plain:
        return f"which rows change, and their new values of {', '.join(new.plain)}"
    # their plain objects are read
    return "which segments have changed rows" if load_stored_schema(opened.manifest).plain else ""


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
        hint = error.hint(schema.names) if isinstance(error, UnknownColumn) else ""
        raise InputError(f"the {what} {error}", hint=hint or _ONE) from None


class _Found:
    """Counts matching rows of any version. What was found of a segment is not looked for again."""

    def __init__(self, tables: Tables, name: str, progress: Progress) -> None:
        self._tables = tables
        self._name = name
        self._progress = progress
        self._counts: dict[tuple[str, Segment], int] = {}  # by schema and segment

    def counts(self, opened: Opened, condition: Derived, new: Assignments | None) -> dict[str, int]:
        """Number of rows where the condition is true, for each segment that has any. Checks `new` values in them."""
        manifest = opened.manifest
        due = [each for each in manifest.segments if (manifest.schema_toml, each) not in self._counts]
        read = {*condition.columns, *(new.read if new else ())}
        advance = self._progress.stage("find", sum(each.rows for each in due), "rows")
        with closing(Rows(self._tables, opened)) as rows:
            for segment in due:
                with rows.table(read, segments=[segment]) as table:
                    ((count,),) = computed(
                        table, f"SELECT count(*) FROM {table.relation} WHERE ({condition.sql})", "the condition"
                    )
                    if count and new is not None:
                        new.check(table, condition.sql)
                self._counts[manifest.schema_toml, segment] = count
                advance(segment.rows)
        every = {each.id: self._counts[manifest.schema_toml, each] for each in manifest.segments}
        return {each: count for each, count in every.items() if count}


def computed(table: Table, sql: str, what: str) -> list[tuple[Any, ...]]:
    """The rows of `sql`. Raises InputError, which names `what` and quotes no value."""

    def refusal(fault: Fault) -> InputError:
        return not_computable(f"{what} cannot be computed in some row", fault)

    rows: list[tuple[Any, ...]] = fetched(table.connection, sql, refusal)
    return rows


def _changed(manifest: Manifest, counts: Mapping[str, int], reveals: str) -> Changed:
    touched = tuple(
        (number, counts[each.id], each.rows) for number, each in enumerate(manifest.segments, 1) if each.id in counts
    )
    return Changed(manifest.table, manifest.version, sum(counts.values()), touched, reveals)


def _sealed(segment: Segment) -> list[Object]:
    """The objects of a segment in the sensitive place."""
    return [part for part in segment.parts() if part != segment.plain]
