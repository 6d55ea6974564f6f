"""The totals of all segments, cell by cell: read and decrypted here, or first added up by the sensitive service.

A single segment is read directly. For several, the service adds the ciphertexts, so the answer does not grow with their
number. Three checks protect the answer, and the service knows none of them: the sum of the segments' sentinels in every
ciphertext; each lane's sum of entries; and the sum of entries times secret weights, which changes if an offset moves to
another cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.checks import require_sentinels
from cleave.ckks.cipher import Cipher
from cleave.store import measures as of_measures
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Integers, LaneEntries, Lanes, total_label, total_lanes
from cleave.store.manifest import Object, Segment, TotalsObjects
from cleave.store.reader import Objects, Opened
from cleave.store.segment import lane_checks
from cleave.sums.combination import TotalOf
from cleave.sums.remote import DIRECT_SUMS, Remote, RemoteSum, divided
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.params import PROFILES

SegmentTotals = tuple[Segment, TotalsObjects]


@dataclass(frozen=True, slots=True)
class _SegmentRun:
    """Segments with the same layout, whose totals are added up together. A single one is read.

    `columns` are in `lanes`; only the lanes `needed` are requested.
    """

    columns: list[of_measures.TotalsColumn]
    lanes: Lanes
    needed: list[int]
    segments: list[SegmentTotals]

    @property
    def cells(self) -> int:
        return max(segment.cells for segment, _ in self.segments)

    def sums(self) -> Iterator[RemoteSum]:
        """The sums to request, lane after lane."""
        chunks = self.lanes.chunks(self.cells)
        step = chunks if chunks <= DIRECT_SUMS else limits.MAX_STORED_SUMS
        for lane in self.needed:
            objects = tuple(totals.lanes[lane] for _, totals in self.segments)
            for start in range(0, chunks, step):
                yield RemoteSum(objects, start, min(start + step, chunks))


class TotalsReader:
    """Reads totals of some segments of one version of one table."""

    def __init__(
        self, tables: Objects, opened: Opened, segments: Sequence[Segment], cipher: Callable[[], Cipher]
    ) -> None:
        """`cipher`: opens the table's CKKS secret at first use."""
        self._tables = tables
        self._vault = opened.vault
        self._cipher = cipher
        self._manifest = opened.manifest
        self._segments = segments

    def read(self, wanted: Sequence[TotalOf], cells: int, remote: Remote | None = None) -> dict[TotalOf, Integers]:
        """The totals of each cell (cells,) over all segments. Without `remote` the totals of each segment are read
        here.

        Raises CheckFailed if an object or a sum is not as written, ServiceError, StoreError.
        """
        result: dict[TotalOf, Integers] = {which: np.zeros(cells, object) for which in wanted}
        runs = list(self._runs(wanted, together=remote is not None))
        added = [run for run in runs if len(run.segments) > 1]
        sums = remote.sums([each for run in added for each in run.sums()]) if remote and added else []
        waiting = iter(sums)  # all of them are here before any is checked: see cleave.ask.ways.encrypted
        for run in runs:
            planes = self._opened(run, waiting) if len(run.segments) > 1 else self._read(run)
            for at, column in enumerate(run.columns):
                if (column.measure, column.part) in wanted:
                    of = {lane: planes[lane] for lane in run.lanes.holding(at)}
                    if of:  # otherwise its limit is 0, so its totals are 0
                        result[column.measure, column.part][: run.cells] += run.lanes.decode(at, of, len(run.segments))
        return result

    def objects(self, wanted: Sequence[TotalOf]) -> list[Object]:
        """All objects that these totals are read from."""
        return [
            totals.lanes[lane]
            for run in self._runs(wanted, together=False)
            for _, totals in run.segments
            for lane in run.needed
        ]

    def sums(self, wanted: Sequence[TotalOf]) -> int:
        """Number of ciphertexts that the service would return."""
        runs = (run for run in self._runs(wanted, together=True) if len(run.segments) > 1)
        return sum(each.stop - each.start for run in runs for each in run.sums())

    def _runs(self, wanted: Sequence[TotalOf], *, together: bool) -> Iterator[_SegmentRun]:
        alike: dict[tuple[int, int], list[SegmentTotals]] = {}
        for segment in self._segments:
            for totals in segment.totals:
                alike.setdefault((totals.first, totals.stop), []).append((segment, totals))
        for (first, stop), segments in alike.items():
            measures = self._manifest.measures[first:stop]
            columns = of_measures.columns_of(measures, first)
            lanes = total_lanes(measures, PROFILES[self._manifest.profile])
            if any(len(totals.lanes) != lanes.count for _, totals in segments):
                raise CheckFailed("stored", "a segment's totals are not those of the table's measures")
            places = [at for at, column in enumerate(columns) if (column.measure, column.part) in wanted]
            needed = sorted({lane for at in places for lane in lanes.holding(at)})
            if not needed:
                continue
            largest = [
                max((totals.lanes[lane] for lane in needed), key=lambda each: each.bytes) for _, totals in segments
            ]
            place = 0
            for run in divided(largest) if together else [(each,) for each in largest]:
                yield _SegmentRun(columns, lanes, needed, segments[place : place + len(run)])
                place += len(run)

    def _read(self, run: _SegmentRun) -> dict[int, LaneEntries]:
        ((segment, totals),) = run.segments
        planes = {}
        for lane in run.needed:
            try:
                files = split(self._tables.read(totals.lanes[lane]))
            except ValueError:
                raise CheckFailed("stored", "an object does not hold what the table's manifest says") from None
            failed = CheckFailed("stored", "an object of the table holds no ciphertext")
            wrong = "a stored ciphertext is another's, or was encrypted under another key"
            planes[lane] = self._decrypted(run, lane, files, failed, wrong)[: segment.cells]
        return planes

    def _opened(self, run: _SegmentRun, sums: Iterator[list[bytes]]) -> dict[int, LaneEntries]:
        """The lanes (cells,) from the next `sums`, which belong to `run`. Raises CheckFailed for a wrong sum."""
        files: dict[int, list[bytes]] = {lane: [] for lane in run.needed}
        chunks = run.lanes.chunks(run.cells)
        for lane in run.needed:
            while len(files[lane]) < chunks:
                files[lane] += next(sums)
        return {lane: self._checked(run, lane, files[lane]) for lane in run.needed}

    def _decrypted(
        self, run: _SegmentRun, lane: int, files: list[bytes], failed: CheckFailed, wrong: str
    ) -> LaneEntries:
        """The coefficients (entries,) of all ciphertexts of a lane, in order.

        Raises `failed` for bytes that are no ciphertext, and CheckFailed with the text `wrong` if sentinels are not the
        sum of those of the segments of `run`.
        """
        try:
            coefficients = self._cipher().decrypt(files)
        except WireError:
            raise failed from None
        require_sentinels(coefficients, self._sentinels(run, lane, len(files)), len(run.segments), wrong)
        return coefficients[:, : run.lanes.capacity].reshape(-1)

    def _checked(self, run: _SegmentRun, lane: int, files: list[bytes]) -> LaneEntries:
        lanes = run.lanes
        failed = CheckFailed("sentinel", "the sensitive service returned something that is not a ciphertext")
        wrong = "a sum is not of the requested segments"
        plane = self._decrypted(run, lane, files, failed, wrong)[: run.cells]
        guard = lanes.layout.guard
        rounded = (plane + (1 << (guard - 1))) >> guard << guard
        wanted = (
            sum(totals.sums[lane] for _, totals in run.segments),
            sum(totals.weighted[lane] for _, totals in run.segments),
        )
        if lane_checks(self._vault, lanes, rounded, lane) != wanted:
            raise CheckFailed("totals", "the segments' totals do not add up to what the sensitive service answered")
        return plane

    def _sentinels(self, run: _SegmentRun, lane: int, chunks: int) -> NDArray[np.int64]:
        total = np.zeros((chunks, SENTINELS), np.int64)
        for segment, totals in run.segments:
            label = total_label(totals.label)
            for number in range(run.lanes.chunks(segment.cells)):
                total[number] += sentinels(self._cipher(), label, lane, number)
        return total
