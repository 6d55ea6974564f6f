"""How many cells a contributor may add to a table: a share of its limit, so that no one fills the table for all.

A share is the limit divided by the number of contributors and their owner. What counts are cells in which a contributor
has rows and the owner has none. Rows left by contributors who were removed count as the owner's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cleave.sql.rejoin import Texts
from cleave.store.cells import MOST_CELLS, Cells, load_cells
from cleave.store.contributors import rows_of_cells
from cleave.store.manifest import Contributor, Segment
from cleave.store.tables import Opened, Tables
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError


@dataclass(frozen=True, slots=True)
class Incoming:
    """What `collect` would take in of one contributor: the keys of the cells of new rows, and segments to take out."""

    who: Contributor
    keys: frozenset[Texts]
    gone: tuple[Segment, ...]


def require_room(tables: Tables, opened: Opened, incoming: Sequence[Incoming]) -> None:
    """Raises InputError where a contributor would exceed its share, or the table its limit. Nothing is written."""
    cells = load_cells(tables.unseal(opened.vault, "cells", opened.manifest.cells))
    share = MOST_CELLS // (len(opened.manifest.contributors) + 1)
    there = _remaining(tables, opened, cells, incoming)
    if len(there.union(*(each.keys for each in incoming))) <= share:
        return  # so no one has more
    names = {each.name for each in opened.manifest.contributors}
    owned = _keys(tables, opened, cells, (each for each in opened.manifest.segments if each.contributor not in names))
    for each in incoming:
        if each.keys <= there:  # it fills no cell that is empty
            continue
        gone = {segment.id for segment in each.gone}
        kept = [s for s in opened.manifest.segments if s.contributor == each.who.name and s.id not in gone]
        added = len((each.keys | _keys(tables, opened, cells, kept)) - owned)
        if added > share:
            raise _refused(each.who, opened, f"{added:,} that the owner has no rows in, and its share is {share:,}")
        there |= each.keys
        if len(there) > MOST_CELLS:
            raise _refused(each.who, opened, f"with those of others there would be {len(there):,} of {MOST_CELLS:,}")


def _remaining(tables: Tables, opened: Opened, cells: Cells, incoming: Iterable[Incoming]) -> set[Texts]:
    """Keys of the cells that have rows once segments were taken out."""
    rows = list(cells.rows)
    for segment in (gone for each in incoming for gone in each.gone):
        for cell, fewer in rows_of_cells(tables, opened, segment):
            rows[cell] -= fewer
    return {key for key, left in zip(cells.keys, rows, strict=True) if left}


def _keys(tables: Tables, opened: Opened, cells: Cells, segments: Iterable[Segment]) -> set[Texts]:
    return {cells.keys[cell] for each in segments for cell, _ in rows_of_cells(tables, opened, each)}


def _refused(who: Contributor, opened: Opened, why: str) -> InputError:
    return InputError(
        f"contributor {who.name!r}: too many combinations of {', '.join(opened.manifest.by)} in its rows: {why}",
        hint="take the others in by name; have it put fewer with --replace, or remove it",
    )
