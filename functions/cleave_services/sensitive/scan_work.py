"""What a process needs for its part of a scan: where the lanes' ciphertexts are, and which rows are wanted.

Objects are opened by whoever adds them up, so that no ciphertext of a folder passes through another process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from cleave_services.links import Content
from cleave_services.room import Room
from cleave_services.sensitive.evaluate import Totals
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, Wanted
from cleave_services.sensitive.workers import MIN_WORK, evaluate_in_parallel, processes
from cleave_shared import limits
from cleave_shared.children import limit_time
from cleave_shared.chunks import split
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import WireError
from cleave_shared.masking import mask_evaluator
from cleave_shared.moments import SENTINELS
from cleave_shared.rowsets import Numbers, size, unpack

_rooms: defaultdict[int, Room] = defaultdict(Room)  # by lane, of a process that scans; the next request's as well


@dataclass(frozen=True, slots=True)
class Part:
    """An object of a lane, whose first ciphertext is number `first` of it."""

    first: int
    content: Content


@dataclass(frozen=True, slots=True)
class ScanWork:
    """`lanes`: of each its objects. `chunks`: numbers of ciphertexts, `numbers`: the groups of their rows, packed."""

    profile: str
    wanted: Wanted
    lanes: tuple[tuple[Part, ...], ...]
    chunks: tuple[int, ...]
    numbers: bytes
    workers: int
    seconds: float

    def totals(self, *, in_child: bool = False) -> Totals:
        """`in_child`: this process may read ciphertexts and be ended when it is late, where one process is enough.

        Raises what `evaluate_in_parallel` raises, WireError for an object that is not what it must be.
        """
        scanning, places = _Scanning(self), range(len(self.chunks))
        if in_child and processes(scanning, places, self.workers) == 1:
            limit_time(self.seconds)
            return scanning.evaluate(places)
        return evaluate_in_parallel(scanning, places, self.workers, self.seconds)


class _Scanning:
    """MaskedSums of places in `work.chunks`."""

    def __init__(self, work: ScanWork) -> None:
        self._work = work
        self._sums = MaskedSums(mask_evaluator(work.profile), work.wanted)

    def work(self, places: Sequence[int]) -> int:
        """In chunks that are added, of which MIN_WORK pay for a process."""
        return MIN_WORK * len(places) // limits.SCAN_CHUNKS_OF_A_PROCESS

    def evaluate(self, places: Sequence[int]) -> Totals:
        return self._sums.evaluate(self._chunks(places))

    def merge(self, parts: Sequence[Totals]) -> Totals:
        return self._sums.merge(parts)

    def _chunks(self, places: Sequence[int]) -> Iterator[ScanChunk]:
        lanes = [Files(number, parts) for number, parts in enumerate(self._work.lanes)]
        for place in places:
            number = self._work.chunks[place]
            yield ScanChunk(place, number, self._numbers(place), tuple(lane.file(number) for lane in lanes))

    def _numbers(self, place: int) -> Numbers:
        """Raises WireError."""
        rows, groups = mask_evaluator(self._work.profile).degree - SENTINELS, len(self._work.wanted.cuts)
        each = size(rows, groups)
        return unpack(self._work.numbers[place * each : (place + 1) * each], rows, groups)


class Files:
    """The ciphertexts of a lane, read object by object: what comes next is mostly in the one before.

    One stands where the one before stood, whose ciphertexts are no more.
    """

    def __init__(self, number: int, parts: Sequence[Part]) -> None:
        self._number = number
        self._parts = sorted(parts, key=lambda part: part.first)
        self._open = -1
        self._files: list[memoryview] = []

    def file(self, chunk: int) -> memoryview:
        """Raises WireError for an object that is not what it must be, or a chunk that is in none."""
        place = bisect_right([part.first for part in self._parts], chunk) - 1
        if place >= 0 and place != self._open:
            self._files = self._read(place)
            self._open = place
        if place < 0 or chunk - self._parts[place].first >= len(self._files):
            raise WireError(f"lanes[{self._number}]: no object has chunk {chunk}")
        return self._files[chunk - self._parts[place].first]

    def _read(self, place: int) -> list[memoryview]:
        try:
            return split(self._parts[place].content.read(_rooms[self._number]))
        except ValueError:
            raise WireError(f"lanes[{self._number}]: an object does not hold ciphertexts") from None
