"""Chooses small segments, and merges them. They are consecutive, so rows keep their order and work is limited.

Each append makes a segment, which costs every query some requests and a decryption. In the long run a merged segment is
at most half of the new one. So a row is rewritten a number of times that grows with the logarithm of all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby

from cleave.objects.storage import ConflictError, StoreError
from cleave.store.change import Change, ChangePlan, always
from cleave.store.filling import rows_together
from cleave.store.making import make
from cleave.store.manifest import Manifest, Segment, SegmentPage, Segments, new_id
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.paged import Page
from cleave.store.pieces import SegmentRows
from cleave.store.reader import LostError, Opened
from cleave.store.rows import Rows
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave.table.stream import Survey
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError

MOST_SMALL = 8  # small segments allowed after an append
_FEWEST = 4  # minimum segments that an append merges


def compact(tables: Tables, name: str, progress: Progress) -> Opened:
    """Merge small segments, and delete what stopped changes left. Rows keep their order.

    Others may change the table meanwhile; segments that they add are not merged. Raises ConflictError if they change
    the merged segments again and again.
    """
    chosen: list[tuple[Segment, ...]] = []

    def unchanged(manifest: Manifest) -> list[tuple[Segment, ...]]:
        """Groups chosen before, of which no segment changed: what is merged of them counts. If none is left, others."""
        nonlocal chosen
        runs = list(_runs(manifest))
        chosen = [each for each in chosen if any(_has(run, each) for run in runs)] or merges(manifest)
        return chosen

    change = Change("compact", [], partial(_plan, tables, name, unchanged), always, sweeps=True)
    return make(tables, name, change, progress).opened


def _has(run: Sequence[Segment], group: Sequence[Segment]) -> bool:
    """True if the segments of `group` are consecutive in `run`."""
    start = run.index(group[0]) if group[0] in run else 0
    return tuple(run[start : start + len(group)]) == tuple(group)


def merged(tables: Tables, opened: Opened, progress: Progress) -> Opened:
    """Merge the newest segments of a table after an append, if there are too many.

    An error only causes a warning: the rows are there. It gives way to others who change the table, without one.
    """

    def due(manifest: Manifest) -> list[tuple[Segment, ...]]:
        return [each for each in [merge_due(manifest)] if each]

    # an id of its own: many writers may merge at once, and none takes over what another one is just writing
    change = Change("merge", [new_id()], partial(_plan, tables, opened.manifest.table, due), always, rounds=1)
    try:
        if not merge_due(opened.manifest):
            return opened
        return make(tables, opened.manifest.table, change, progress).opened
    except (ConflictError, InputError, LostError):  # others changed, moved or dropped it: they merge what is left
        return opened
    except (StoreError, CheckFailed) as error:
        warnings.warn(f"small segments are not merged: {error.message}", CleaveWarning, stacklevel=2)
        return opened


def _plan(
    tables: Tables,
    name: str,
    choose: Callable[[Manifest], Sequence[Sequence[Segment]]],
    base: Opened | None,
    stack: ExitStack,
) -> ChangePlan:
    if base is None:
        raise tables.no_table(name)
    groups = choose(base.manifest)
    rows = stack.enter_context(closing(Rows(tables, base)))
    return ChangePlan(
        base.manifest, [SegmentRows(rows, tuple(each), same_cells=True) for each in groups], idle=not groups
    )


def merges(manifest: Manifest) -> list[tuple[Segment, ...]]:
    """All groups of segments that can be merged into one each."""
    most = _most_rows(manifest)
    groups = []
    for run in _runs(manifest):
        together: list[Segment] = []
        for segment in run:
            if sum(one.rows for one in together) + segment.rows > most:
                groups.append(together)
                together = []
            together.append(segment)
        groups.append(together)
    return [tuple(each) for each in groups if len(each) > 1]


def merge_due(manifest: Manifest) -> tuple[Segment, ...]:
    """The newest segments, and earlier ones that are not much larger, if there are too many; else none.

    Pages whose segments are large are not read.
    """
    most = _most_rows(manifest)
    if len(manifest.segments) <= MOST_SMALL or (left := _small(manifest.segments, most)) <= MOST_SMALL:
        return ()
    part_of = _parts(manifest)
    newest = reversed(manifest.segments)
    seen: list[Segment] = []  # from the newest
    start = 0
    while left:
        rows, stop = 0, start
        while each := _at(seen, stop, newest):
            if stop > start and (
                part_of(each) != part_of(seen[start]) or each.rows > 2 * rows or rows + each.rows > most
            ):
                break
            rows += each.rows
            stop += 1
        if stop - start >= _FEWEST:
            return tuple(reversed(seen[start:stop]))
        if stop == start:
            return ()
        left -= 2 * seen[start].rows < most
        start += 1
    return ()


def _at(seen: list[Segment], place: int, more: Iterator[Segment]) -> Segment | None:
    """`seen[place]`, after it is taken from `more` if it is the next; None if there is none."""
    if place == len(seen) and (each := next(more, None)) is not None:
        seen.append(each)
    return seen[place] if place < len(seen) else None


def _small(segments: Segments, most: int) -> int:
    """Number of segments with less than half of `most` rows. None is looked for in a page whose mean has more."""
    small = [each for page in segments.pages if 2 * _mean(page) < most for each in page.items]
    return sum(2 * each.rows < most for each in (*small, *segments.last))


def _mean(page: Page[Segment, SegmentPage]) -> float:
    """Mean rows of the segments of a page."""
    rows = page.stored.rows if page.stored is not None else sum(each.rows for each in page.items)
    return rows / page.count


def _parts(manifest: Manifest) -> Callable[[Segment], tuple[str | None, str | None]]:
    """Whose a segment is: the contributor, and its part."""
    parts = {id_: part.id for each in manifest.contributors for part in each.parts for id_ in part.segments}
    return lambda each: (each.contributor, parts.get(each.id))


def _runs(manifest: Manifest) -> Iterator[Sequence[Segment]]:
    """Consecutive segments of the owner, or of one part of one contributor."""
    for _, run in groupby(manifest.segments, _parts(manifest)):
        yield list(run)


def _most_rows(manifest: Manifest) -> int:
    """Rows of a segment that fit in memory."""
    size = manifest.segments.columns + manifest.segments.plain
    full = Survey(SEGMENT_ROWS, size * SEGMENT_ROWS // max(1, manifest.rows), {})
    return rows_together(full, manifest.scanned, sorts=True)
