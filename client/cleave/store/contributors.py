"""The contributors of a table, in the owner's sealed manifest, and which of their rows a question covers."""

from __future__ import annotations

from dataclasses import replace

from cleave.store.cells import Cells, index_of
from cleave.store.manifest import Contributor, Manifest, Segment, Segments
from cleave.store.reader import Objects, Opened
from cleave.store.schemas import load_stored_schema
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.schema import Column, Kind, Schema
from cleave.text.quantities import counted
from cleave_shared.errors import InputError, QueryRefused

OWNER = "owner"  # whose rows are those of no contributor
MIN_GROUP = 5  # rows that a group of a table with contributors has at least, where nothing else is said


def contributed(manifest: Manifest) -> str:
    """What contributors put into a table, as text; "" for nothing."""
    of = {each.name: 0 for each in manifest.contributors}
    for segment in manifest.segments:
        if segment.contributor is not None:
            of[segment.contributor] = of.get(segment.contributor, 0) + segment.rows
    rows_each = ", ".join(f"{name} ({counted(rows, 'row')})" for name, rows in of.items())
    return f"what others put into it, and their registration: {rows_each}" if of else ""


def min_group_of(manifest: Manifest) -> int:
    """Default minimum people, or rows, of every shown group. It is not 0 if the table has others' rows."""
    return MIN_GROUP if is_shared(manifest) else 0


def is_shared(manifest: Manifest) -> bool:
    return bool(manifest.contributors) or any(manifest.segments.contributors)


def with_contributor(manifest: Manifest, schema: Schema) -> Schema:
    """`schema` with the column of each row's contributor. Unchanged if no row is a contributor's, or the name
    is used.
    """
    if not is_shared(manifest) or CONTRIBUTOR in map(str.lower, schema.names):
        return schema
    return replace(schema, columns=(*schema.columns, Column(CONTRIBUTOR, Kind.PLAIN, "VARCHAR", nullable=False)))


def party_of(manifest: Manifest) -> str:
    """The column of each row's contributor; "" if no row is a contributor's.

    Raises QueryRefused if the table has another column of that name.
    """
    if not is_shared(manifest):
        return ""
    if CONTRIBUTOR in map(str.lower, load_stored_schema(manifest).names):
        raise QueryRefused(
            f"a minimum group size counts the rows of each contributor, and the table has a column "
            f"{CONTRIBUTOR!r} (rule P3)",
            hint=f"the owner renames it: cleave alter {manifest.table} --rename {CONTRIBUTOR}=NAME",
        )
    return CONTRIBUTOR


def contributors_in(manifest: Manifest) -> list[str]:
    """Names of the contributors with rows, in order."""
    return [each or OWNER for each in manifest.segments.contributors] or [OWNER]


def contributor_in(segment: Segment) -> str:
    """The value of the column CONTRIBUTOR in all rows of a segment."""
    return segment.contributor or OWNER


def segments_of(manifest: Manifest, contributor: str) -> tuple[Segment, ...]:
    return tuple(each for each in manifest.segments if contributor_in(each) == contributor)


def contributor_of(manifest: Manifest, name: str) -> Contributor:
    """Raises InputError for an unknown name."""
    for each in manifest.contributors:
        if each.name.lower() == name.lower():
            return each
    names = ", ".join(each.name for each in manifest.contributors) or "none"
    raise InputError(f"there is no contributor {name!r}", hint=f"contributors of this table: {names}")


def only(tables: Objects, opened: Opened, name: str) -> tuple[Opened, Cells]:
    """The table restricted to the rows of one contributor or the owner, and the row counts of its cells.

    A removed contributor may still have rows. Raises InputError for an unknown name without rows.
    """
    manifest = opened.manifest
    names = {each.lower() for each in manifest.segments.contributors if each is not None}
    if name.lower() not in {*names, OWNER}:
        contributor_of(manifest, name)
    chosen = Segments.of(each for each in manifest.segments if contributor_in(each).lower() == name.lower())
    cells = tables.cells(opened)
    cells.rows = [0] * len(cells)
    for segment in chosen:
        cells.count(index_of(segment))
    return replace(opened, manifest=manifest.model_copy(update={"segments": chosen})), cells
