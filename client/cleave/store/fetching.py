"""Segments' ciphertexts and other objects, read and opened one segment ahead of whoever takes them.

Threads read, forked processes decrypt, and what has been read and not yet taken is bounded: by two segments' integers,
and by three parts of 4 MB for each process.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Cipher
from cleave.store.decryptors import Decryptors
from cleave.store.index import Part
from cleave.store.manifest import Segment
from cleave.store.opening import Opener, Place
from cleave.store.tables import Tables
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass

_AHEAD = 3  # parts that each process has been read ahead; from S3 a part takes a tenth of a second
_EXTRAS = 4  # readers of what is not ciphertexts
_LOOKS_SECONDS = 0.2  # how long a thread that waits for the store goes on after the rest has ended


@dataclass(slots=True)
class Wanted:
    """Of one segment: ciphertexts `numbers` of some lanes, in `parts`, and `extras`, read as they are told to be.

    `place`: what the ciphertexts are known by.
    """

    segment: Segment
    place: Place
    numbers: NDArray[np.int64]
    parts: Sequence[Part]
    extras: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetched:
    """`fields`: by number, the integers (entries,) of ciphertexts `Wanted.numbers` one after the other."""

    wanted: Wanted
    fields: dict[int, NDArray[np.int64]]
    extras: dict[str, bytes]


@dataclass(slots=True)
class _Task:
    place: int
    part: Part
    into: NDArray[np.int64]  # (fields of the lane, entries of the part)
    done: Future[None] = field(default_factory=Future)


@dataclass(slots=True)
class _UnderWay:
    wanted: Wanted
    lanes: dict[int, NDArray[np.int64]]
    tasks: list[_Task]
    extras: dict[str, Future[bytes]]


def fetched(
    tables: Tables,
    cipher: Cipher,
    wanted: Sequence[Wanted],
    deadline: Deadline,
    advance: Callable[[int], None] = lambda _: None,
) -> Generator[Fetched, None, None]:
    """Everything of each of `wanted`, in turn. `advance` is told ciphertexts that were opened.

    Raises CheckFailed, StoreError, ProcessDied, and what `deadline` raises. Close it if it is not used up: children
    end with it, and with the thread that took the first.
    """
    parts = [part for each in wanted for part in each.parts]
    opener = Opener(cipher, [each.place for each in wanted])
    decryptors = Decryptors(opener, len(parts), sum(len(part.numbers) for part in parts))
    with decryptors, _Work(tables, decryptors, deadline, advance) as work:  # forks before any thread of ours runs
        under_way: deque[_UnderWay] = deque()
        for number, each in enumerate(wanted):
            under_way.append(work.begin(number, each))
            if len(under_way) > 1:
                yield work.end(under_way.popleft())
        for last in under_way:
            yield work.end(last)


class _Work(contextlib.AbstractContextManager["_Work"]):
    """The threads: some read, and one for each process hands it what was read."""

    def __init__(
        self, tables: Tables, decryptors: Decryptors, deadline: Deadline, advance: Callable[[int], None]
    ) -> None:
        self._tables = tables
        self._decryptors = decryptors
        self._deadline = deadline
        self._advance = advance
        self._ended = threading.Event()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(_AHEAD * decryptors.count + _EXTRAS)
        self._drivers = ThreadPoolExecutor(decryptors.count)
        for _ in range(decryptors.count):
            self._drivers.submit(self._drive)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._tasks.put(None)
        self._readers.shutdown(wait=False, cancel_futures=True)  # a wait for the store ends by itself
        self._decryptors.kill()  # whoever waits for a child need not any longer
        self._drivers.shutdown()

    def begin(self, number: int, wanted: Wanted) -> _UnderWay:
        """Have all of `wanted`, number `number` of the opener's places, read and opened."""
        capacity = wanted.place.lanes.capacity
        slots = {int(number): slot for slot, number in enumerate(wanted.numbers)}
        lanes: dict[int, NDArray[np.int64]] = {}
        tasks = []
        for part in wanted.parts:
            if part.lane not in lanes:
                size = len(wanted.numbers) * capacity
                lanes[part.lane] = np.empty((len(wanted.place.fields(part.lane)), size), np.int64)
            start = slots[part.numbers[0]] * capacity  # both are in order, and a part leaves none out
            stop = start + len(part.numbers) * capacity
            tasks.append(_Task(number, part, lanes[part.lane][:, start:stop]))
        extras = {name: self._readers.submit(read) for name, read in wanted.extras.items()}
        for task in tasks:
            self._tasks.put(task)
        return _UnderWay(wanted, lanes, tasks, extras)

    def end(self, under_way: _UnderWay) -> Fetched:
        for task in under_way.tasks:
            self._deadline.result(task.done)
        extras = {name: self._deadline.result(future) for name, future in under_way.extras.items()}
        fields = {
            number: values
            for lane, found in under_way.lanes.items()
            for number, values in zip(under_way.wanted.place.fields(lane), found, strict=True)
        }
        return Fetched(under_way.wanted, fields, extras)

    def _drive(self) -> None:
        """Open tasks in order until there are no more; the next few are being read meanwhile."""
        reading: deque[tuple[_Task, Future[list[bytes]]]] = deque()
        more = True
        while more or reading:
            while more and len(reading) < _AHEAD:
                try:
                    task = self._tasks.get(block=not reading)
                except queue.Empty:
                    break
                if task is None:
                    self._tasks.put(None)  # for the other loops
                    more = False
                else:
                    reading.append((task, self._readers.submit(self._read, task.part)))
            if reading:
                self._settle(*reading.popleft())

    def _read(self, part: Part) -> list[bytes]:
        return self._tables.read_part(part)

    def _settle(self, task: _Task, reading: Future[list[bytes]]) -> None:
        """`task` opened, or why it was not."""
        error: BaseException | None = None
        try:
            while not reading.done() and not self._ended.is_set():
                wait([reading], _LOOKS_SECONDS)
            if self._ended.is_set():
                return
            files, part = reading.result(), task.part
            self._decryptors.open(task.place, part.lane, part.numbers, files, task.into, self._deadline)
            self._advance(len(part.numbers))
        except BaseException as failure:  # noqa: BLE001 - whoever waits for it gets it
            error = failure
        if not task.done.set_running_or_notify_cancel():
            return
        if error is None:
            task.done.set_result(None)
        else:
            task.done.set_exception(error)
