"""Descriptions of a stored table for its owner."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave.text.tabular import Heading, table
from cleave_shared.errors import extra

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd
    import pyarrow as pa

    from cleave.store.manifest import Manifest
    from cleave.store.put import PlannedPut
    from cleave.store.reader import Opened
    from cleave.store.tables import Tables


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in its current version; `version` counts its changes. `facts`: the JSON of `cleave ls --json`."""

    name: str
    version: int
    rows: int
    segments: int
    bytes: int
    by: tuple[str, ...]
    facts: dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A stored table in detail. `text`: what `cleave show` prints; `facts`: what `cleave show --json` prints."""

    facts: dict[str, Any]
    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Contribution:
    """The last put of a contributor, with its rows. `version` counts its puts. `contributor`: its public key,
    in hex. `added` is False if an earlier put had added the same rows.
    """

    name: str
    contributor: str
    version: int
    rows: int
    added: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that a delete or update changed, or a dry run would change.

    `segments`: those with such rows, as (number from 1, changed rows, all rows). `reveals`: what the plain place
    learns, "" for nothing. `version`: the table's newest version. `repeated`: nothing was changed, because this was
    already the last change but for appends. `ends_releases`: the change ends, or would end, the table's releases.
    """

    name: str
    version: int
    rows: int
    segments: tuple[tuple[int, int, int], ...]
    reveals: str
    repeated: bool = False
    ends_releases: bool = False

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any], *, repeated: bool) -> Changed:
        """The change that has these `facts`."""
        segments = tuple((number, rows, all_) for number, rows, all_ in facts["segments"])
        return cls(**{**facts, "segments": segments, "repeated": repeated})

    @property
    def text(self) -> str:
        """One line per segment, and one for the plain place."""
        lines = [f"segment {number}: {rows:,} of {counted(all_, 'row')}" for number, rows, all_ in self.segments]
        return "\n".join([*lines, f"the plain place learns: {self.reveals or 'nothing'}"])


class Pulled:
    """Decrypted rows of a stored table, in the order in which they were put."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    def arrow(self) -> pa.Table:
        return self._table

    def df(self) -> pd.DataFrame:
        """A pandas DataFrame. Decimals stay Decimal; whole numbers with NULLs become Int64.

        Raises InputError without pandas.
        """
        with extra("pandas", "data frames"):
            import pandas as pd  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415 - always installed if there is a table

        series = {}
        for name, column in zip(self._table.column_names, self._table.columns, strict=True):
            nullable = pa.types.is_integer(column.type) and column.null_count
            series[name] = pd.Series(column.to_pylist(), dtype="Int64") if nullable else column.to_pandas()
        return pd.DataFrame(series)


def stored_table(manifest: Manifest) -> StoredTable:
    facts = {
        "table": manifest.table,
        "version": manifest.version,
        "changed": manifest.changed,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "segments": len(manifest.segments),
        "by": list(manifest.by),
        "key_columns": list(manifest.key),
        "measures": [each.model_dump(include={"name", "sql", "type", "derived"}) for each in manifest.measures],
        "contributors": [each.model_dump(include={"name", "key", "added"}) for each in manifest.contributors],
    }
    counts = manifest.version, manifest.rows, len(manifest.segments), manifest.bytes
    return StoredTable(manifest.table, *counts, manifest.by, facts)


def listed_table(opened: Opened) -> StoredTable:
    """A table as `cleave ls` lists it: its facts have `unfinished`, a command to repeat, if one was stopped within."""
    stored, unfinished = stored_table(opened.manifest), _unfinished(opened)
    return replace(stored, facts=stored.facts | {"unfinished": unfinished}) if unfinished else stored


def _unfinished(opened: Opened) -> str:
    """The stopped command that holds back all changes but deletions; "" if there is none."""
    table, revoking = shlex.quote(opened.manifest.table), opened.manifest.revoking
    if revoking:  # one command seals the columns of all
        return f"cleave reader revoke {table} {shlex.quote(revoking[0].name)}"
    return f"cleave key rotate {table}" if opened.head.moving_to else ""


def adding_to(stored: StoredTable, names: Sequence[str], size: int) -> StoredTable:
    """A table as it is, with what a change would add: totals of `names`, and about `size` bytes."""
    return replace(stored, facts={**stored.facts, "adds": list(names), "adds_bytes": size})


def planned_table(planned: PlannedPut) -> StoredTable:
    """A table that is not stored yet. `bytes` is an estimate; `version` is the current one."""
    from cleave.store.by import estimated_bytes  # noqa: PLC0415 - as below
    from cleave_shared.params import DEFAULT_PROFILE  # noqa: PLC0415

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


def facts_of(tables: Tables, opened: Opened) -> TableFacts:
    """Everything about a stored table except its rows. Reads its schema and its cells."""
    from cleave.store.contributors import with_contributor  # noqa: PLC0415 - as below
    from cleave.store.schemas import load_stored_schema  # noqa: PLC0415 - a question over a file does not need it
    from cleave.table.privacy import epsilon_text  # noqa: PLC0415 - as above

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
        *([f"unfinished: {unfinished}"] if (unfinished := _unfinished(opened)) else []),
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
