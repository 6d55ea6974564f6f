"""Content of an exact release: totals of parts of cells, each of enough people."""

from __future__ import annotations

import json
from typing import Literal

from cleave.releases.release import MOST_TOTALS, ReleasedTotals
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.manifest import Count
from cleave.store.padding import padded
from cleave_shared.errors import InputError

MOST_ROWS = 1 << 48  # more than any table has
_LEAST_KEY = 64  # bytes


class ExactTotals(ReleasedTotals):
    """Content of an exact release.

    `counts`, `sums`, `squares`: by measure, then by part; 0 if not `shown`. `shown`: 0 none, 1 count and sum, 2 also
    the sum of squares. A part is some rows of a cell; a cell may have several. `people`: parts have a minimum number of
    people; else of rows. `times`: number and time of each release with new parts. `as_of`: by part, its index in these.
    """

    kind: Literal["exact"] = "exact"
    people: bool
    times: tuple[tuple[Count, str], ...]
    keys: tuple[Texts, ...] = ()
    rows: tuple[Count, ...] = ()
    as_of: tuple[Count, ...] = ()
    shown: tuple[tuple[Literal[0, 1, 2], ...], ...] = ()
    counts: tuple[tuple[Count, ...], ...] = ()
    sums: tuple[tuple[Count, ...], ...] = ()
    squares: tuple[tuple[Count, ...], ...] = ()

    @property
    def counted(self) -> str:
        """Name what is counted: "people" or "rows"."""
        return "people" if self.people else "rows"

    def is_consistent(self) -> bool:
        """Check whether all lists have one entry for each part, measure and by column."""
        tables = (self.shown, self.counts, self.sums, self.squares)
        by_part = [self.rows, self.as_of, *(each for table in tables for each in table)]
        return (
            all(len(each) == len(self.keys) for each in by_part)
            and all(len(each) == len(self.measures) for each in tables)
            and all(len(key) == len(self.by) for key in self.keys)
            and all(each < len(self.times) for each in self.as_of)
        )

    def dump(self) -> bytes:
        """JSON, padded to a size that follows from counts and, in powers of two, the longest key.

        Raises InputError if that is more than analysts read.
        """
        content = self.model_dump_json().encode()
        by_part = ("keys", "rows", "as_of", "shown", "counts", "sums", "squares")
        rest = self.model_copy(update=dict.fromkeys(by_part, ())).model_dump_json().encode()
        limits = [each.limit for each in of_measures.columns_of(self.measures)]
        digits = sum(len(str(each * MOST_ROWS)) + 1 for each in (*limits, *(1 for _ in self.measures), 1, 1))
        longest = max((len(json.dumps(text)) for key in self.keys for text in key), default=0)
        text = max(_LEAST_KEY, 1 << longest.bit_length()) * len(self.by)
        part = digits + text + 8 * len(self.measures) + 8
        size = padded(len(rest) + 8 * (len(self.measures) + 1) + len(self.keys) * part)
        if size > MOST_TOTALS:
            raise InputError(
                f"the release of {len(self.keys):,} parts would take more than {MOST_TOTALS:,} bytes",
                hint="store the table by fewer columns, or by columns of shorter values",
            )
        return content.ljust(size)
