"""Chooses small segments to merge. They are consecutive, so rows keep their order and work is limited.

Each append makes a segment, which costs every query some requests and a decryption. In the long run a merged segment is
at most half of the new one. So a row is rewritten a number of times that grows with the logarithm of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cleave.store.filling import rows_together
from cleave.store.manifest import Manifest, Segment
from cleave.store.measures import SEGMENT_ROWS
from cleave.table.stream import Survey

MOST_SMALL = 8  # small segments allowed after an append
_FEWEST = 4  # minimum segments that an append merges


def merges(manifest: Manifest) -> list[tuple[Segment, ...]]:
    """All groups of segments that can be merged into one each."""
    most = _most_rows(manifest)
    groups = []
    for run in _runs(manifest):
        together: list[Segment] = []
        for each in run:
            if sum(one.rows for one in together) + each.rows > most:
                groups.append(together)
                together = []
            together.append(each)
        groups.append(together)
    return [tuple(each) for each in groups if len(each) > 1]


def merge_due(manifest: Manifest) -> tuple[Segment, ...]:
    """The newest segments, and earlier ones that are not much larger, if there are too many; else none."""
    most = _most_rows(manifest)
    if sum(2 * each.rows < most for each in manifest.segments) <= MOST_SMALL:
        return ()
    for run in reversed(list(_runs(manifest))):
        for stop in range(len(run), _FEWEST - 1, -1):
            start, rows = stop - 1, run[stop - 1].rows
            while start and run[start - 1].rows <= 2 * rows and rows + run[start - 1].rows <= most:
                start -= 1
                rows += run[start].rows
            if stop - start >= _FEWEST:
                return tuple(run[start:stop])
    return ()


def _runs(manifest: Manifest) -> Iterator[Sequence[Segment]]:
    """Consecutive segments of the owner, or of one part of one contributor."""
    parts = {id_: part.id for each in manifest.contributors for part in each.parts for id_ in part.segments}
    for _, run in groupby(manifest.segments, lambda each: (each.contributor, parts.get(each.id))):
        yield list(run)


def _most_rows(manifest: Manifest) -> int:
    """Rows of a segment that fit in memory."""
    size = sum(each.object.bytes for segment in manifest.segments for each in segment.columns)
    size += sum(segment.plain.bytes for segment in manifest.segments if segment.plain)
    full = Survey(SEGMENT_ROWS, size * SEGMENT_ROWS // max(1, manifest.rows), {})
    return rows_together(full, manifest.scanned, sorts=True)
