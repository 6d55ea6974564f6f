"""Store rows segment after segment, each recorded in a draft once it is stored.

While a segment is sealed and written, a thread reads the next. A second try with the same rows goes on after those that
its draft records.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cleave.store.drafts import D, Drafts, S, Step
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.slices import Slices, digest_of
from cleave.table.schema import Schema
from cleave.table.stream import Stream, Survey
from cleave.table.table import Table
from cleave.text.quantities import counted

_SECONDS = 3600.0  # for the rows of one segment to be read and put in their order
_SEGMENT_BYTES = 256 << 20  # of a segment while it is written, and of the next one, which is read meanwhile
_MEASURE_BYTES = 96  # of a measure's value for scans: its parts as DuckDB has them and as words, in two orders
_FEWEST_ROWS = 1 << 12

Say = Callable[[str], None]
T = TypeVar("T")


def rows_together(survey: Survey, scanned: int, most: int = SEGMENT_ROWS, *, sorts: bool = False) -> int:
    """Rows of a segment that memory has room for: all of a full one, unless they are wide.

    `scanned`: measures whose rows are stored for scans. `sorts`: rows are put in another order.
    """
    copies = 4 if sorts else 2
    each = copies * survey.bytes / max(1, survey.rows) + scanned * _MEASURE_BYTES
    room = int(_SEGMENT_BYTES / max(1.0, each))
    return min(most, max(_FEWEST_ROWS, room), max(1, survey.rows))


def fill(
    stream: Stream,
    schema: Schema,
    drafts: Drafts[D, S],
    draft: D,
    rows: int,
    begin: Callable[[Table], T],
    finish: Callable[[str, T], S],
    advance: Callable[[int], None],
    say: Say,
) -> D | None:
    """Store the `schema` columns of all rows, `rows` in a segment; return `draft` with them.

    `begin` gets a segment's rows, in a thread of its own; `finish` their digest and what `begin` made of them. None,
    and nothing is stored, where the rows that `draft` records are others by now.
    """
    with Slices(stream, schema) as slices:
        if not are_those(slices, draft.put):
            say("the rows differ from those of the interrupted put: all of them are stored again")
            return None
        if draft.put:
            say(f"resuming an interrupted put of the same rows: {counted(draft.rows, 'row')} are stored")
            advance(draft.rows)

        def prepared() -> Iterator[tuple[str, T]]:
            for piece in pieces:
                table = slices.table(piece)
                yield digest_of(table), begin(table)

        with (
            _ahead(iter(lambda: slices.next(rows), None), stream.interrupt) as pieces,
            _ahead(prepared(), stream.interrupt) as segments,
        ):
            for each in segments:
                draft = drafts.add(draft, finish(*each))
    return draft


def are_those(slices: Slices, steps: Sequence[Step]) -> bool:
    """Return whether the next rows are those of the segments of `steps`, by their digests."""
    for step in steps:
        batch = slices.next(step.rows, sys.maxsize)
        if batch is None or batch.rows != step.rows or digest_of(slices.table(batch)) != step.digest:
            return False
    return True


@contextlib.contextmanager
def _ahead(items: Iterator[T], interrupt: Callable[[], None]) -> Iterator[Iterator[T]]:
    """The same items, each made by a thread while the one before it is used."""

    def each(pool: ThreadPoolExecutor) -> Iterator[T]:
        coming = pool.submit(next, items, None)
        while (item := coming.result(_SECONDS)) is not None:
            coming = pool.submit(next, items, None)
            yield item

    with ThreadPoolExecutor(1) as pool:
        try:
            yield each(pool)
        except BaseException:
            interrupt()
            raise
