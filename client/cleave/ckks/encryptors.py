"""Forked processes that encrypt a job's requests while others are under way.

TenSEAL holds the GIL in every call, so threads would gain nothing. A child inherits the key and the plaintexts; only
numbers of requests go in, and ciphertexts come out through a memory file both share, where they stay until they are
asked about: to copy them into memory that is new takes longer than to add them up.

Other threads may be at work when it forks, as those of a notebook are: since TenSEAL holds the GIL, none of them is
inside SEAL then, and a child touches no other library that has locks.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from cleave_shared import children
from cleave_shared.children import Channel, Child
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import ProcessDied

PROCESSES = min(8, len(os.sched_getaffinity(0)))
# A job of fewer chunks is encrypted in this process: a fork costs about as much as encrypting so many.
MIN_CHUNKS_TO_FORK = 12
# One request's 64 chunks take a sixth of a second.
SECONDS_FOR_A_PART = 120.0

_NUMBER = struct.Struct("<Q")
_ROOM = 1 << 32  # bytes of the memory file for the ciphertexts of one part; what is not written takes no memory


class Deadline(Protocol):
    """What is known of a query's (cleave.processes.deadline)."""

    def left(self) -> float: ...  # seconds

    def check(self) -> None: ...  # raises where none are


class Range(Protocol):
    """Consecutive chunks, `start`..`stop`."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...


Part = TypeVar("Part", bound=Range)
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Encrypting(Protocol[Taken_contra]):
    """What has the plaintexts and the key."""

    def encrypt(self, part: Taken_contra, /) -> Iterable[bytes]: ...


class Encryptors(Generic[Part]):
    """Encrypts the `parts` of a job. Enter it before any thread is started: it forks; leaving it ends every child."""

    def __init__(self, job: Encrypting[Part], parts: Sequence[Part]) -> None:
        self._job = job
        self._parts = parts
        self._stack = contextlib.ExitStack()
        self._children: list[_Encryptor[Part]] = []

    def __enter__(self) -> Encryptors[Part]:
        if sum(part.stop - part.start for part in self._parts) >= MIN_CHUNKS_TO_FORK:
            with contextlib.ExitStack() as stack:
                for _ in range(min(PROCESSES, len(self._parts))):
                    self._children.append(stack.enter_context(_Encryptor(self._job, self._parts)))
                self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def each(
        self,
        ask: Callable[[Part, Sequence[bytes | memoryview]], None],
        under_way: int,
        failed: threading.Event,
        deadline: Deadline,
        only: Sequence[int] | None = None,
        *,
        last: bool = True,
    ) -> None:
        """Call `ask` with every part, or those of the numbers `only`, and its ciphertexts, which it must not keep, at
        most `under_way` calls at once. A job that changes between two calls must lie in memory that its children share.

        `last`: nothing is encrypted afterwards, and each child ends once there is nothing left for it to do: to end one
        that has inherited a million rows takes 5 ms.

        Raises the first error of any call, ProcessDied where an encrypting process died, and what `deadline` raises
        where one is not done in time. Then, or once somebody else has set `failed`, nothing more is asked.
        """
        chosen = range(len(self._parts)) if only is None else only
        if not self._children:
            for number in chosen:
                if failed.is_set():
                    return
                ask(self._parts[number], list(self._job.encrypt(self._parts[number])))
            return
        numbers = iter(chosen)
        lock = threading.Lock()
        gate = threading.Semaphore(under_way)
        asked: list[Future[None]] = []

        def take() -> int | None:
            with lock:
                return None if failed.is_set() else next(numbers, None)

        def gated(child: _Encryptor[Part], encrypted: _Encrypted) -> None:
            try:
                ask(self._parts[encrypted.number], encrypted.chunks)
            except BaseException:
                failed.set()
                raise
            finally:
                child.free(encrypted)
                gate.release()

        def run(child: _Encryptor[Part], pool: ThreadPoolExecutor) -> None:
            try:
                for encrypted in child.encrypted(take, deadline):
                    gate.acquire()
                    if failed.is_set():
                        return
                    asked.append(pool.submit(gated, child, encrypted))
                if last:
                    child.end()
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(len(self._children) + under_way) as pool:
            try:
                for future in [pool.submit(run, child, pool) for child in self._children]:
                    future.result()
                for future in asked:
                    future.result()
            except BaseException:  # Ctrl-C as well: said before the pool is waited for
                failed.set()
                raise


@dataclass(frozen=True, slots=True)
class _Encrypted:
    """A part: its chunks, which lie in a place of the memory file."""

    number: int
    place: int
    chunks: list[memoryview]


class _Encryptor(Generic[Part]):
    def __init__(self, job: Encrypting[Part], parts: Sequence[Part]) -> None:
        self._memory = os.memfd_create("ciphertexts")
        self._places = itertools.count()
        self._free: list[int] = []  # places that were used before
        self._child: Child = children.fork(lambda channel: _serve(channel, self._memory, job, parts))

    def __enter__(self) -> _Encryptor[Part]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, error, trace)
        os.close(self._memory)

    def encrypted(self, take: Callable[[], int | None], deadline: Deadline) -> Iterator[_Encrypted]:
        """Each part that `take` gives the number of; the next is begun before one is handed on."""
        under_way = self._begin(take())
        while under_way:
            chunks = self._finished(under_way[1], deadline)
            (number, place), under_way = under_way, self._begin(take())
            yield _Encrypted(number, place, chunks)

    def end(self) -> None:
        """Nothing more is asked of it."""
        self._child.channel.close()

    def free(self, done: _Encrypted) -> None:
        """Its chunks are overwritten from now on."""
        self._free.append(done.place)

    def _begin(self, number: int | None) -> tuple[int, int] | None:
        """The number, and the place its chunks will lie in."""
        if number is None:
            return None
        place = self._free.pop() if self._free else next(self._places)
        self._child.send([_NUMBER.pack(number), _NUMBER.pack(place)], SECONDS_FOR_A_PART)
        return number, place

    def _finished(self, place: int, deadline: Deadline) -> list[memoryview]:
        try:
            (packed,) = self._child.receive(min(SECONDS_FOR_A_PART, deadline.left()))
        except ProcessDied:
            deadline.check()
            raise
        ends = list(itertools.accumulate((size for (size,) in _NUMBER.iter_unpack(packed)), initial=0))
        if not ends[-1]:
            return []
        whole = memoryview(mmap.mmap(self._memory, ends[-1], prot=mmap.PROT_READ, offset=place * _ROOM))
        return [whole[start:stop] for start, stop in itertools.pairwise(ends)]


def _serve(channel: Channel, memory: int, job: Encrypting[Part], parts: Sequence[Part]) -> None:
    with contextlib.suppress(EOFError):
        while True:
            number, place = (_NUMBER.unpack(each)[0] for each in channel.receive())
            sizes: list[int] = []
            for chunk in job.encrypt(parts[number]):
                os.pwrite(memory, chunk, place * _ROOM + sum(sizes))
                sizes.append(len(chunk))
            channel.send([b"".join(map(_NUMBER.pack, sizes))])
