"""Work of one process in a scan: where the lanes' ciphertexts are, and which rows are wanted.

Objects are opened by whoever adds them up, so that no ciphertext of a folder passes through another process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cleave_services.links import Content
from cleave_services.room import Room
from cleave_services.sensitive.evaluate import Totals
from cleave_services.sensitive.scan import MaskedSums, ScanChunk, Wanted
from cleave_services.sensitive.workers import MIN_WORK
from cleave_shared import limits
from cleave_shared.chunks import split
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
class Scanning:
    """MaskedSums of places in `chunks`, the numbers of ciphertexts.

    `lanes`: the objects of each. `numbers`: the groups of the chunks' rows, packed.
    """

    profile: str
    wanted: Wanted
    lanes: tuple[tuple[Part, ...], ...]
    chunks: tuple[int, ...]
    numbers: bytes

    def work(self, places: Sequence[int]) -> int:
        """In chunks that are added, of which MIN_WORK pay for a process."""
        return MIN_WORK * len(places) // limits.SCAN_CHUNKS_OF_A_PROCESS

    def part(self, places: Sequence[int]) -> Scanning:
        """The same with the objects alone that hold the chunks at `places`."""
        chunks = [self.chunks[place] for place in places]
        lanes = (Files(number, parts).holding(chunks) for number, parts in enumerate(self.lanes))
        return replace(self, lanes=tuple(lanes))

    def evaluate(self, places: Sequence[int]) -> Totals:
        return self._sums().evaluate(self._chunks(places))

    def merge(self, parts: Sequence[Totals]) -> Totals:
        return self._sums().merge(parts)

    def _sums(self) -> MaskedSums:
        return MaskedSums(mask_evaluator(self.profile), self.wanted)

    def _chunks(self, places: Sequence[int]) -> Iterator[ScanChunk]:
        lanes = [Files(number, parts) for number, parts in enumerate(self.lanes)]
        for place in places:
            number = self.chunks[place]
            yield ScanChunk(place, number, self._numbers(place), tuple(lane.file(number) for lane in lanes))

    def _numbers(self, place: int) -> Numbers:
        """Raises WireError."""
        rows, groups = mask_evaluator(self.profile).degree - SENTINELS, len(self.wanted.cuts)
        each = size(rows, groups)
        return unpack(self.numbers[place * each : (place + 1) * each], rows, groups)


class Files:
    """The ciphertexts of a lane, read object by object: what comes next is mostly in the one before.

    One stands where the one before stood, whose ciphertexts are no more.
    """

    def __init__(self, number: int, parts: Sequence[Part]) -> None:
        self._number = number
        self._parts = sorted(parts, key=lambda part: part.first)
        self._firsts = [part.first for part in self._parts]
        self._open = -1
        self._files: list[memoryview] = []

    def holding(self, chunks: Sequence[int]) -> tuple[Part, ...]:
        """The objects in which `chunks` are, if they are in any."""
        places = {place for chunk in chunks if (place := self._place(chunk)) >= 0}
        return tuple(self._parts[place] for place in sorted(places))

    def file(self, chunk: int) -> memoryview:
        """Raises WireError for an object that is not what it must be, or a chunk that is in none."""
        place = self._place(chunk)
        if place >= 0 and place != self._open:
            self._files = self._read(place)
            self._open = place
        if place < 0 or chunk - self._parts[place].first >= len(self._files):
            raise WireError(f"lanes[{self._number}]: no object has chunk {chunk}")
        return self._files[chunk - self._parts[place].first]

    def _place(self, chunk: int) -> int:
        """The place of the last object that begins with `chunk` or before it; -1: there is none."""
        return bisect_right(self._firsts, chunk) - 1

    def _read(self, place: int) -> list[memoryview]:
        try:
            return split(self._parts[place].content.read(_rooms[self._number]))
        except ValueError:
            raise WireError(f"lanes[{self._number}]: an object does not hold ciphertexts") from None
