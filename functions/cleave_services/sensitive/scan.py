"""Sums of the rows of each group, over lanes in separate ciphertexts: a mask is encoded once and selects in every lane.

Row r of a chunk is coefficient r of one ciphertext per lane. A mask moves the sum of a group's rows to coefficient 0
(cleave_shared.moments has the polynomial, here with one lane). The request has the group number of every row; only the
client knows what the groups mean.

One more mask per chunk is the sum of the groups' masks, each times its weight, and of the sentinels' mask. So the check
result is the weighted sum of the other results and of sentinels that only the client knows. A fault in one group, or a
swapped chunk, breaks that equation.

`Scanning` is the work of one process: where the lanes' ciphertexts are, and which rows are requested. Ciphertexts in a
folder are read by the process that adds them up.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cleave_services.bodies import Note
from cleave_services.links import Buffer, LinkedContent, TableLinks, seconds_left
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import Evaluator, Results, RunningSums, Stopwatch, merge
from cleave_shared import limits
from cleave_shared.chunks import split
from cleave_shared.errors import WireError
from cleave_shared.masking import mask_evaluator
from cleave_shared.moments import SENTINELS, Polynomial, scan_label, sentinel_mask
from cleave_shared.requests import ScanRequest, ScanResponse
from cleave_shared.rowsets import Numbers, size, unpack
from cleave_shared.seal import ring

CHECK = 0  # index of the check result in a lane's results; the groups' results follow


def answer_scan(request: ScanRequest, note: Note, links: TableLinks) -> ScanResponse:
    """Sums of the rows of each group, over stored lanes that are read through links.

    Raises WireError for a wrong link, object, ciphertext or row set.
    """
    rows = ring(request.profile).degree - SENTINELS
    if len(request.numbers) != len(request.chunks) * size(rows, len(request.cuts)):
        raise WireError(f"numbers: not those of {len(request.chunks)} chunks of {rows} rows")
    started = time.monotonic()
    contents = iter(links.contents([each for lane in request.lanes for each in lane]))
    lanes = tuple(tuple(LaneObject(each.first, next(contents)) for each in lane) for lane in request.lanes)
    read = time.monotonic() - started
    wanted = ScanLayout(tuple(map(tuple, request.cuts)), tuple(request.weights), request.label)
    scanning = Scanning(request.profile, wanted, lanes, tuple(request.chunks), request.numbers)
    with workers.fair_share() as share:
        left = seconds_left(limits.SENSITIVE_SECONDS, read)
        results = workers.evaluate(scanning, range(len(request.chunks)), share, left)
    timings = {**results.seconds, "read": read + results.seconds.get("read", 0.0)}
    note(lanes=len(lanes), chunks=len(request.chunks), groups=len(request.cuts), timings=timings)
    if len(results.files) != len(lanes) * wanted.results:
        raise WireError("cuts: a partial sum has no row")
    starts = range(0, len(lanes) * wanted.results, wanted.results)
    lists = [[results.files[start + at] for at in range(wanted.results)] for start in starts]
    return ScanResponse(
        profile=request.profile,
        key_id=request.key_id,
        label=request.label,
        totals=lists,
        timings=timings,
    )


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Chunk `number` of every lane, at index `place` in the request, and the groups of its rows."""

    place: int
    number: int
    numbers: Numbers
    files: tuple[bytes | memoryview, ...]  # by lane


@dataclass(frozen=True, slots=True)
class ScanLayout:
    """`cuts`: for each group, the indices of chunks where a new partial sum begins.

    The client chooses them so that a partial sum fits its field. `weights`: of each group in the check.
    """

    cuts: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    label: str

    @property
    def results(self) -> int:
        """Number of results of one lane."""
        return 1 + sum(map(len, self.cuts))

    def result(self, group: int, place: int) -> int:
        """Number of the lane's result for a group's rows in the chunk at `place`. Raises WireError if there is none."""
        piece = bisect_right(self.cuts[group], place) - 1
        if piece < 0:
            raise WireError(f"cuts[{group}]: the group has rows before its first partial sum")
        return CHECK + 1 + sum(map(len, self.cuts[:group])) + piece


class MaskedSums:
    def __init__(self, evaluator: Evaluator, wanted: ScanLayout) -> None:
        self._evaluator = evaluator
        self._wanted = wanted

    def evaluate(self, chunks: Iterable[ScanChunk]) -> Results:
        """The files, numbered by lane * results + result."""
        clock, sums = Stopwatch(), RunningSums(self._evaluator)
        for chunk in chunks:
            clock.lap("read")
            numbers, masks = self._masks(chunk)
            clock.lap("mask")
            for lane, file in enumerate(chunk.files):
                ciphertext = self._evaluator.load(file)
                clock.lap("load")
                for number, mask in zip(numbers, masks, strict=True):
                    sums.add(lane * self._wanted.results + number, self._evaluator.multiply(ciphertext, mask))
                clock.lap("evaluate")
        files = sums.dump(1)
        clock.lap("save")
        return Results(files, clock.seconds)

    def merge(self, parts: Sequence[Results]) -> Results:
        return merge(self._evaluator, parts, 1)

    def _masks(self, chunk: ScanChunk) -> tuple[list[int], list[Any]]:
        degree, wanted = self._evaluator.degree, self._wanted
        results = [CHECK]
        polynomials = [sentinel_mask(degree, scan_label(wanted.label, chunk.number))]
        for group, weight in enumerate(wanted.weights):
            mask = selected_mask(degree, chunk.numbers == group + 1)
            if mask is not None:
                polynomials[CHECK] += weight * mask
                results.append(wanted.result(group, chunk.place))
                polynomials.append(mask)
        return results, self._evaluator.masks(polynomials)


def selected_mask(degree: int, selected: np.ndarray[Any, np.dtype[np.bool_]]) -> Polynomial | None:
    """The polynomial that moves the sum of the selected rows to coefficient 0; None if no row is selected."""
    if not selected.any():
        return None
    mask = np.zeros(degree, np.int64)
    mask[0] = selected[0]
    mask[degree - len(selected) + 1 :] -= selected[:0:-1]
    return mask


_buffers: defaultdict[int, Buffer] = defaultdict(Buffer)  # by lane; kept in a scanning process for later requests


@dataclass(frozen=True, slots=True)
class LaneObject:
    """An object of a lane. `first`: number of its first ciphertext in the lane."""

    first: int
    content: LinkedContent

    def files(self, lane: int) -> list[memoryview]:
        """The ciphertexts, in the memory of number `lane`, which the next object of that lane overwrites."""
        try:
            return split(self.content.read(_buffers[lane]))
        except ValueError:
            raise WireError(f"lanes[{lane}]: an object does not hold ciphertexts") from None


@dataclass(frozen=True, slots=True)
class Scanning:
    """Masked sums over places, which are indices in `chunks`, the numbers of ciphertexts.

    `lanes`: the objects of each lane. `numbers`: the groups of the chunks' rows, packed.
    """

    profile: str
    wanted: ScanLayout
    lanes: tuple[tuple[LaneObject, ...], ...]
    chunks: tuple[int, ...]
    numbers: bytes

    def work(self, places: Sequence[int]) -> int:
        """Estimate the work in added chunks; MIN_WORK of them justify a process."""
        return workers.MIN_WORK * len(places) // limits.SCAN_CHUNKS_OF_A_PROCESS

    def part(self, places: Sequence[int]) -> Scanning:
        """A copy with only the objects that contain the chunks at `places`."""
        chunks = [self.chunks[place] for place in places]
        lanes = (LaneFiles(number, parts).holding(chunks) for number, parts in enumerate(self.lanes))
        return replace(self, lanes=tuple(lanes))

    def evaluate(self, places: Sequence[int]) -> Results:
        return self._sums().evaluate(self._chunks(places))

    def merge(self, parts: Sequence[Results]) -> Results:
        return self._sums().merge(parts)

    def _sums(self) -> MaskedSums:
        return MaskedSums(mask_evaluator(self.profile), self.wanted)

    def _chunks(self, places: Sequence[int]) -> Iterator[ScanChunk]:
        lanes = [LaneFiles(number, parts) for number, parts in enumerate(self.lanes)]
        for place in places:
            number = self.chunks[place]
            yield ScanChunk(place, number, self._numbers(place), tuple(lane.file(number) for lane in lanes))

    def _numbers(self, place: int) -> Numbers:
        """Raises WireError."""
        rows, groups = mask_evaluator(self.profile).degree - SENTINELS, len(self.wanted.cuts)
        each = size(rows, groups)
        return unpack(self.numbers[place * each : (place + 1) * each], rows, groups)


class LaneFiles:
    """The ciphertexts of a lane, read object by object. The next ciphertext is mostly in the same object.

    A new object overwrites the previous one's memory.
    """

    def __init__(self, number: int, parts: Sequence[LaneObject]) -> None:
        self._number = number
        self._parts = sorted(parts, key=lambda part: part.first)
        self._firsts = [part.first for part in self._parts]
        self._open = -1
        self._files: list[memoryview] = []

    def holding(self, chunks: Sequence[int]) -> tuple[LaneObject, ...]:
        """The objects that contain `chunks`."""
        places = {place for chunk in chunks if (place := self._place(chunk)) >= 0}
        return tuple(self._parts[place] for place in sorted(places))

    def file(self, chunk: int) -> memoryview:
        """The file of a ciphertext. Raises WireError for a wrong object, or a chunk that no object contains."""
        place = self._place(chunk)
        if place >= 0 and place != self._open:
            self._files = self._parts[place].files(self._number)
            self._open = place
        if place < 0 or chunk - self._parts[place].first >= len(self._files):
            raise WireError(f"lanes[{self._number}]: no object has chunk {chunk}")
        return self._files[chunk - self._parts[place].first]

    def _place(self, chunk: int) -> int:
        """Index of the last object that begins at or before `chunk`; -1 if there is none."""
        return bisect_right(self._firsts, chunk) - 1
