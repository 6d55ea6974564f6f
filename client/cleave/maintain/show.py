"""Show a stored table to its owner: its columns, and what each party can see of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Unpack

from cleave.ask.options import Place
from cleave.maintain.facts import TableFacts
from cleave.maintain.tables import SECONDS, listed_table, unfinished
from cleave.maintain.task import Task, operation
from cleave.store.contributors import with_contributor
from cleave.store.manifest import Manifest
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.table.privacy import epsilon_text
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave.text.tabular import Heading, table


@operation(Place, seconds=SECONDS)
def show(task: Task, name: str, **_: Unpack[Place]) -> TableFacts:
    """Describe a stored table: its columns, and what each party can see of it."""
    tables = task.tables
    opened = tables.open(name)
    manifest = opened.manifest
    cells = sum(rows > 0 for rows in tables.cells(opened).rows)
    folder = tables.folder(manifest.table).removeprefix("tables/")
    schema = load_stored_schema(manifest)
    entity = schema.privacy.entity
    facts = listed_table(opened).facts | {"entity": list(entity)}
    doomed = len(manifest.doomed) + len(manifest.doomed_plain)
    facts |= {"key_id": tables.key.key_id, "set": folder, "cells": cells, "doomed": doomed}
    measures = {each.name for each in manifest.measures}
    columns = [
        [each.name, str(each.kind), each.type, _stored_as(manifest, each.name, measures, entity)]
        for each in with_contributor(manifest, schema).columns
    ] + [[each.name, "derived", each.type, each.sql] for each in manifest.measures if each.derived]
    sections = [
        f"{manifest.table}: version {manifest.version} of {manifest.changed}, {counted(manifest.rows, 'row')}, "
        f"{counted(cells, 'cell')} by "
        f"{', '.join(manifest.by) or 'nothing'}, {counted(len(manifest.segments), 'segment')}, "
        f"{sized(manifest.bytes)}, under key {tables.key.key_id}; set {folder}; "
        f"thresholds count {schema.privacy.counted}" + (f" ({', '.join(entity)})" if entity else ""),
        table([Heading(word) for word in ("column", "kind", "type", "use")], columns),
        *([contributors_text(manifest)] if manifest.contributors else []),
        *([f"noisy releases have spent epsilon {epsilon_text(spent)}"] if (spent := tables.spent(opened)) else []),
        *([f"unfinished: {command}"] if (command := unfinished(opened)) else []),
        *([f"{counted(doomed, 'replaced object')}: deleted, or will be by the next change"] if doomed else []),
        *_seen(opened, *tables.places),
    ]
    return TableFacts(facts, "\n\n".join("\n".join(map(printable, each.splitlines())) for each in sections))


def _stored_as(manifest: Manifest, name: str, measures: Collection[str], entity: Collection[str]) -> str:
    uses = (
        ("entity", name in entity),
        ("key", name in manifest.key),
        ("by", name in manifest.by),
        ("totals", name in measures),
    )
    return ", ".join(word for word, is_so in uses if is_so)


def contributors_text(manifest: Manifest, waiting: dict[str, int] | None = None) -> str:
    """The contributors of a table, as text. `waiting`: the number of their parts that are not collected yet."""
    headings = [*map(Heading, ("contributor", "key", "added")), Heading("rows", justify="right")]
    rows = [
        [each.name, f"{each.key[:16]}...", each.added, f"{rows_of(manifest, each.name):,}"]
        for each in manifest.contributors
    ]
    if waiting is not None:
        headings.append(Heading("parts waiting", justify="right"))
        rows = [[*row, f"{waiting[row[0]]:,}"] for row in rows]
    return table(headings, rows)


def rows_of(manifest: Manifest, contributor: str) -> int:
    """Number of rows of one contributor."""
    return sum(each.rows for each in manifest.segments if each.contributor == contributor)


def _seen(opened: Opened, sensitive: str, plain: str) -> list[str]:
    manifest = opened.manifest
    totals = sum(len(each.lanes) for segment in manifest.segments for each in segment.totals)
    columns = len(manifest.sealed) * len(manifest.segments)
    scans = sum(len(lane) for each in manifest.segments if each.scan for lane in each.scan.lanes)
    has_plain = any(each.plain for each in manifest.segments)
    sealed = {each.name for each in manifest.sealed}
    by = ", ".join(name for name in manifest.by if name not in sealed)
    order = f"sorted by {by}, then in the order they were put" if by else "in the order they were put"
    analysts = manifest.release.analysts if manifest.release else ()
    return [
        f"What the sensitive place, {sensitive}, holds\n"
        f"  - {counted(columns, 'object')} of sealed columns: their sizes show the number of rows, the width of the\n"
        "    declared bounds, and about how long texts are together\n"
        f"  - {counted(totals, 'object')} of encrypted totals: their sizes show about how many cells there are\n"
        + (f"  - {counted(scans, 'object')} of encrypted rows for scans\n" if scans else "")
        + ("  - sealed marks of the rows that were released\n" if any(each.marks for each in manifest.segments) else "")
        + "  - sealed objects: schema, names, cells, order of the rows\n"
        f"  - a head in the clear: ids of key and table, version {manifest.version}, number of log records, and names\n"
        f"    and sizes of objects{', spent epsilon' if opened.head.spent else ''}\n"
        + ("  - contributors' public keys, and the sizes of what each put\n" if manifest.contributors else "")
        + (
            f"  - a head for each of {counted(len(analysts), 'analyst')}: your public keys, --min-cell\n"
            if analysts
            else ""
        )
        + (
            f"  - a head and a sealed list for each of {counted(len(manifest.readers), 'reader')}: your public keys\n"
            if manifest.readers
            else ""
        )
        + "  - when it was changed, which objects are read when, and under whose credentials",
        f"What the plain place, {plain}, holds\n"
        + (
            f"  - the plain columns, with names and values, row by row, {order}\n"
            "  - nothing of any other column, nor which row is which among the ciphertexts"
            if has_plain
            else "  - nothing: no column is plain"
        ),
    ]
