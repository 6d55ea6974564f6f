"""Put rows into stored tables: a new table, more rows, and the merging of what many appends left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cleave.ask.opening import column_names, lazy
from cleave.ask.options import Appending, Place, Putting
from cleave.maintain.facts import StoredTable, stored_table
from cleave.maintain.task import CONTINUES, Task, change, operation
from cleave.store import put as putting
from cleave.store.by import estimated_bytes
from cleave.store.compacting import compact as merge
from cleave.store.manifest import Batch
from cleave.store.published import ENDS
from cleave.store.reader import Opened
from cleave.store.schemas import schema_of_rows
from cleave.table.inputs import STDIN, digest_of, in_folder, is_folder
from cleave.table.schema import schema_path
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave_shared.errors import InputError
from cleave_shared.params import DEFAULT_PROFILE

if TYPE_CHECKING:
    from cleave.ask.options import Data, SchemaLike

_LONGEST_BATCH = 200  # characters of a name


@operation(Putting, after=CONTINUES, again=False, writes=True)
def put(task: Task, data: Data, name: str, **options: Unpack[Putting]) -> StoredTable:
    """Store a DataFrame, an Arrow table or files as table `name`, as `cleave put` does.

    `by`: columns whose combinations of values have totals; None: what is proposed, `[]`: none. `key_columns`: columns
    that name one row. `entity`: columns that name whom a row is about, so that thresholds count people. `products`:
    columns whose products in pairs get totals too, as `derive` adds them. `scan`, `replace`, `drop_contributors`,
    `sheet`, `flatten`: as the options of `cleave put`.
    `say`: called with each line that the command prints. A file is read a batch at a time. A put that was stopped
    continues when it is called again with the same data. `dry_run`: check all rows and store nothing. Then `bytes` of
    the result is an estimate, `version` is the one that is there now (0: none), and `facts` also has cells and bounds.

    >>> import cleave
    >>> cleave.put("patients.csv", "trial", store="tables", by=["ward"], dry_run=True).facts["cells"]
    6
    >>> stored = cleave.put("patients.csv", "trial", store="tables", by=["ward"])
    >>> stored.rows, stored.version, stored.by
    (600, 1, ('ward',))
    >>> cleave.query("trial", "SELECT COUNT(*), SUM(bill) FROM trial", store="tables").rows
    [(600, Decimal('1534139.46'))]
    """
    if (folder := _folder(data)) is not None:
        raise is_folder(folder, "; --append takes a folder, and adds each of its files to a table that is there")
    tables, by = task.tables, column_names(options["by"])
    how: dict[str, Any] = {"key": column_names(options["key_columns"]) or (), "scan": options["scan"], "say": task.say}
    how["products"] = column_names(options["products"]) or ()
    over: dict[str, Any] = {"replace": options["replace"], "drop_contributors": options["drop_contributors"]}
    unread = lazy(data, options["schema"], name, options["sheet"], flatten=options["flatten"], entity=options["entity"])
    with unread.stream() as rows:
        if options["dry_run"]:
            existing = putting.require_new(tables, name, **over)
            planned = putting.plan_put(rows, name, by, task.progress, existing, **how)
            if existing is not None and putting.ends_releases(tables, existing, planned.manifest):
                task.warn(ENDS)
            return planned_table(planned)
        done = putting.put(tables, rows, name, by, task.progress, warn=task.warn, **how, **over)
    return stored_table(done.manifest)


def planned_table(planned: putting.PlannedPut) -> StoredTable:
    """A table that is not stored yet. `bytes` is an estimate; `version` is the current one."""
    manifest, survey, segments = planned.manifest, planned.survey, planned.segments
    size = estimated_bytes(manifest, survey, planned.cells, segments, DEFAULT_PROFILE)
    facts = {
        "table": manifest.table,
        "version": manifest.version,
        "rows": survey.rows,
        "bytes": size,
        "segments": segments,
        "by": list(manifest.by),
        "key_columns": list(manifest.key),
        "cells": planned.cells,
        "bounds": {name: [str(lower), str(upper)] for name, (lower, upper) in planned.bounds.items()},
        "not_stored": list(manifest.local),
    }
    return StoredTable(manifest.table, manifest.version, survey.rows, segments, size, manifest.by, facts)


def planned_text(table: StoredTable) -> str:
    """The lines that `cleave put --dry-run` prints."""
    facts = table.facts
    bounds = ", ".join(f"{name} {lower} to {upper}" for name, (lower, upper) in facts["bounds"].items())
    lines = {
        "rows": f"{table.rows:,} in {counted(table.segments, 'segment')}",
        "bytes": f"about {sized(table.bytes)}, {table.bytes / max(1, table.rows):,.0f} for each row",
        "groups": f"{facts['cells']:,} by {', '.join(table.by) or 'nothing'}",
        "bounds": bounds or "none",
        "not stored": f"{', '.join(facts['not_stored'])} (kind local)" if facts["not_stored"] else "",
    }
    return "\n".join(f"{name:<12}{printable(line)}" for name, line in lines.items() if line)


@change(Appending, after=CONTINUES, again=False)
def append(task: Task, data: Data, name: str, **options: Unpack[Appending]) -> Opened:
    """Add rows to a stored table. Otherwise as `put`.

    Without a schema file beside the data they have the table's schema. `batch`: names the rows; where the table has a
    batch of that name, a warning says so and nothing is added. The files of a folder are one batch each, by file name.
    If one of the table's newest changes added just these rows, nothing is added unless `again`.
    `upsert`: they replace rows with the same key, if the table has key columns; `yes`: required where the plain place
    learns which ones, by a key that is not plain.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "growing", store="tables", by=["ward"])
    >>> stored = cleave.append("patients.csv", "growing", store="tables")
    >>> stored.rows, stored.version
    (1200, 2)
    """
    parts = _batches(data, options["batch"])
    if options["again"] and parts[0][1] is not None:
        raise InputError(
            "again cannot be combined with batches", hint="give the batch another name to add its rows twice"
        )
    how = {"again": options["again"], "upsert": options["upsert"], "yes": options["yes"]}
    tables = task.tables
    table = tables.open(name)
    for part, batch in parts:
        if batch is not None and putting.has_batch(table.manifest, batch, task.warn):
            continue
        schema = _schema_of(part, options["schema"], table)
        unread = lazy(part, schema, name, options["sheet"], flatten=options["flatten"])
        with unread.stream() as rows:
            table = putting.append(tables, rows, name, task.progress, batch=batch, say=task.warn, **how)
    return table


def _batches(data: Data, name: str | None) -> list[tuple[Data, Batch | None]]:
    """Parts of `data`, each with its batch: the files of a folder, or all of it. Raises InputError."""
    path = _path(data)
    if (folder := _folder(data)) is not None:
        if name is not None:
            raise InputError(
                f"{folder}: every file of a folder is a batch of its own", hint="leave the batch's name out"
            )
        return [(each, Batch(id=each.name, digest=digest_of(each))) for each in in_folder(folder)]
    if name is None:
        return [(data, None)]
    if not 0 < len(name) <= _LONGEST_BATCH or not name.isprintable():
        raise InputError(f"the name of a batch has 1 to {_LONGEST_BATCH} characters that can be printed")
    return [(data, Batch(id=name, digest=digest_of(path) if path is not None and os.path.isfile(path) else ""))]


def _path(data: Data) -> Path | None:
    """The path of data that is one file or folder."""
    one = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    return Path(one) if isinstance(one, str | Path) else None


def _folder(data: Data) -> Path | None:
    path = _path(data)
    return path if path is not None and os.path.isdir(path) else None


def _schema_of(data: Data, stated: SchemaLike | None, opened: Opened) -> SchemaLike | None:
    """The schema of appended rows: the stated one, or that of a file beside theirs, else the table's."""
    listed = [data] if isinstance(data, str | Path) else data
    names = [each for each in listed if isinstance(each, str | Path)] if isinstance(listed, list | tuple) else []
    if stated is not None or (names and STDIN not in map(str, names) and os.path.isfile(schema_path(names))):
        return stated
    return schema_of_rows(opened.manifest)


@change(Place, after=CONTINUES)
def compact(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Merge small segments of a stored table, as an append does if there are more than 8."""
    return merge(task.tables, name, task.progress)
