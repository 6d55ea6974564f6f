"""Cuts a stream of rows into segments. While one is sealed and written, a thread reads the next.

A second attempt with the same rows continues after the segments in its draft.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cleave.store.drafts import Step
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.slices import Slices, digest_of
from cleave.table.faults import changed
from cleave.table.schema import Schema
from cleave.table.stream import Stream, Survey
from cleave.table.table import Table
from cleave.text.quantities import counted

_SECONDS = 3600.0  # to read and sort the rows of one segment
_SEGMENT_BYTES = 256 << 20  # of a segment during writing, and of the next one, which is read at the same time
_MEASURE_BYTES = 96  # memory for one value of a measure for scans: DuckDB's parts, and words in two orders
_FEWEST_ROWS = 1 << 12

Say = Callable[[str], None]


def silent(_: str) -> None:
    """Print nothing."""


T = TypeVar("T")


def rows_together(survey: Survey, scanned: int, most: int = SEGMENT_ROWS, *, sorts: bool = False) -> int:
    """Rows of a segment that fit in memory: `most`, or fewer if rows are wide.

    `scanned`: number of measures with rows for scans. `sorts`: rows are sorted.
    """
    copies = 4 if sorts else 2
    each = copies * survey.bytes / max(1, survey.rows) + scanned * _MEASURE_BYTES
    room = int(_SEGMENT_BYTES / max(1.0, each))
    return min(most, max(_FEWEST_ROWS, room), max(1, survey.rows))


class NewRows:
    """New rows: the `schema` columns of a stream, in segments of at most `segment_rows` rows.

    `scanned`, `sorts`: see `rows_together`. `say` gets a line about an earlier attempt.
    """

    def __init__(
        self,
        stream: Stream,
        schema: Schema,
        survey: Survey,
        segment_rows: int,
        say: Say,
        *,
        scanned: int = 0,
        sorts: bool = False,
    ) -> None:
        self.rows = survey.rows
        self.together = rows_together(survey, scanned, segment_rows, sorts=sorts)
        self._stream = stream
        self._schema = schema
        self._say = say

    def are(self, steps: Sequence[Step]) -> bool:
        """True if these rows are exactly those of `steps`, compared by digests."""
        return self.rows == sum(each.rows for each in steps) and self._begin_with(steps)

    def continues(self, steps: Sequence[Step]) -> bool:
        """True if `steps` were stored from the first of these rows by a call that was stopped. It also says so."""
        if not self._begin_with(steps):
            return False
        if steps:
            self._say(f"resuming an interrupted put of the same rows: {self._stored(steps)} are stored")
        return True

    def digests(self) -> list[str]:
        """The digest of each segment of these rows. Reads all of them."""
        with Slices(self._stream, self._schema) as slices:
            return [digest_of(slices.table(each)) for each in iter(lambda: slices.next(self.together), None)]

    def can_resume(self, steps: Sequence[Step]) -> bool:
        """True if `steps` were stored from the first of these rows. It also says what happens next."""
        if not steps:
            return True
        if not self._begin_with(steps):
            self._say("the rows differ from those of the interrupted put: all of them are stored again")
            return False
        self._say(f"resuming an interrupted put of the same rows: {self._stored(steps)} are stored")
        return True

    @staticmethod
    def _stored(steps: Sequence[Step]) -> str:
        return counted(sum(each.rows for each in steps), "row")

    def _begin_with(self, steps: Sequence[Step]) -> bool:
        with Slices(self._stream, self._schema) as slices:
            for step in steps:
                batch = slices.next(step.rows, sys.maxsize)
                if batch is None or batch.rows != step.rows or digest_of(slices.table(batch)) != step.digest:
                    return False
        return True

    def segments(self, done: Sequence[Step], begin: Callable[[Table], T]) -> Generator[tuple[str, T]]:
        """Cut the rows after those of `done` into segments.

        Yields each segment's digest, and what `begin` made of its rows in a thread. Raises InputError.
        """
        rows = sum(each.rows for each in done)
        with Slices(self._stream, self._schema) as slices:
            for step in done:
                slices.next(step.rows, sys.maxsize)

            def prepared() -> Iterator[tuple[str, T]]:
                nonlocal rows
                for each in batches:
                    rows += each.rows
                    table = slices.table(each)
                    yield digest_of(table), begin(table)

            with (
                _ahead(iter(lambda: slices.next(self.together), None), self._stream.interrupt) as batches,
                _ahead(prepared(), self._stream.interrupt) as segments,
            ):
                yield from segments
        if rows != self.rows:
            raise changed(self._stream.name)


@contextlib.contextmanager
def _ahead(items: Iterator[T], interrupt: Callable[[], None]) -> Iterator[Iterator[T]]:
    """The same items; a thread makes each while the previous one is used."""

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
