"""Choice of small segments to merge: consecutive ones, so that rows keep their order and work stays bounded.

Each append makes a segment, which costs every query some requests and a decryption. In the long run a merged segment is
at most half of the new one. So the number of times that a row is written grows with the logarithm of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cleave.store.filling import rows_together
from cleave.store.manifest import Manifest, Segment
from cleave.store.measures import SEGMENT_ROWS
from cleave.table.stream import Survey

MOST_SMALL = 8  # small segments that appends leave
_FEWEST = 4  # segments that an append merges


def merges(manifest: Manifest) -> list[tuple[Segment, ...]]:
    """Groups of segments, each to become one: all that can be merged."""
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
    """The newest segments and those before that are not much larger, once there are too many; else none."""
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
    """Consecutive segments of one part of one contributor, or of the owner."""
    parts = {id_: part.id for each in manifest.contributors for part in each.parts for id_ in part.segments}
    for _, run in groupby(manifest.segments, lambda each: (each.contributor, parts.get(each.id))):
        yield list(run)


def _most_rows(manifest: Manifest) -> int:
    """Rows of a segment that memory has room for."""
    size = sum(each.object.bytes for segment in manifest.segments for each in segment.columns)
    size += sum(segment.plain.bytes for segment in manifest.segments if segment.plain)
    full = Survey(SEGMENT_ROWS, size * SEGMENT_ROWS // max(1, manifest.rows), {})
    return rows_together(full, manifest.scanned, sorts=True)
