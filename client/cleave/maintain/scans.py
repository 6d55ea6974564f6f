"""Add rows for scans to a stored table, or drop them: `put --scan` for a table that is stored already."""

from __future__ import annotations

from contextlib import closing

from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave_shared.errors import InputError


def add_scan(tables: Tables, name: str, progress: Progress) -> Opened:
    """Encrypt the rows of every segment for scans, from its sealed columns, and show all of them at once.

    Raises InputError for a table that has them; ConflictError where another writer changes the table meanwhile.
    """
    opened = tables.open(name)
    if opened.manifest.scanned:
        raise InputError(f"table {name!r} has rows for scans already", hint="`cleave scan drop` deletes them")
    if not opened.manifest.measures:
        raise InputError(f"table {name!r} has no encrypted numbers to scan")
    with tables.changing(opened):
        manifest = opened.manifest.model_copy(update={"scanned": len(opened.manifest.measures)})
        writer = SegmentWriter(tables, manifest)
        advance = progress.stage("encrypt for scans", manifest.rows, "rows")
        most = max((each.rows for each in manifest.segments), default=0)
        names, segments = [each.name for each in load_stored_schema(manifest).columns], []
        with writer.encryptors(most) as encryptors, closing(Rows(tables, opened).tables(names)) as found:
            for segment, table in zip(manifest.segments, found, strict=True):
                segments.append(writer.finish(writer.for_scans(table, segment), encryptors, advance))
        return tables.commit(manifest.model_copy(update={"segments": tuple(segments)}), opened, "scan add")


def drop_scan(tables: Tables, name: str) -> Opened:
    """Forget the rows for scans; the sweep that follows deletes them. Raises InputError for a table without any."""
    opened = tables.open(name)
    if not opened.manifest.scanned:
        raise InputError(f"table {name!r} has no rows for scans", hint="`cleave scan add` makes them")
    segments = tuple(each.model_copy(update={"scan": None}) for each in opened.manifest.segments)
    manifest = opened.manifest.model_copy(update={"scanned": 0, "segments": segments})
    return tables.commit(manifest, opened, "scan drop")
