"""Worker processes that encrypt a job's next requests while earlier ones are under way.

TenSEAL holds the GIL in every call, so threads would not help. Workers come from a fork server, because this process
may have other threads, for example in a notebook. A worker gets the key over its channel. Plaintexts and ciphertexts
are exchanged through shared memory files. Ciphertexts stay there until their request is sent: a copy would take longer
than adding them up.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from cleave.deadline import Deadline
from cleave_shared import children
from cleave_shared.children import Channel, Child
from cleave_shared.crew import Crew
from cleave_shared.errors import ProcessDied
from cleave_shared.fork_server import ForkServer

PROCESSES = min(8, len(os.sched_getaffinity(0)))
# A smaller job is encrypted in this process: starting workers takes as long as encrypting this many chunks.
MIN_CHUNKS_TO_FORK = 12
# One request's 64 chunks take a sixth of a second.
SECONDS_FOR_A_PART = 120.0

_NUMBER = struct.Struct("<Q")
_PART_BYTES = 1 << 32  # of the memory file for one part's ciphertexts; unwritten bytes take no memory


class ChunkSpan(Protocol):
    """Consecutive chunks, `start`..`stop`."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...


Chunks = TypeVar("Chunks", bound=ChunkSpan)
Chunks_contra = TypeVar("Chunks_contra", contravariant=True)


class Encrypting(Protocol[Chunks_contra]):
    """An object with the plaintexts and the key."""

    def encrypt(self, part: Chunks_contra, /) -> Iterable[bytes]: ...

    def shared(self) -> AbstractContextManager[Shared]:
        """Return what a worker needs to make the same object, valid within the block."""
        ...


Shared = tuple[int, Callable[..., Any], tuple[Any, ...]]
"""A memory file, and a module's own function with arguments: in a worker, function(file, *arguments) can `encrypt`."""

_server = ForkServer()
_MODULES = ["cleave.ckks.job"]


def fork_from(server: ForkServer) -> None:
    """Fork workers from `server`, which is already running. Otherwise the first worker starts a server."""
    global _server  # noqa: PLW0603 - a fact about the process
    _server = server


class Encryptors(Generic[Chunks]):
    """Encrypts the `parts` of a job. A context manager: its end ends all workers."""

    def __init__(self, job: Encrypting[Chunks], parts: Sequence[Chunks]) -> None:
        self._job = job
        self._parts = parts
        self._workers = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Encryptors[Chunks]:
        if sum(part.stop - part.start for part in self._parts) >= MIN_CHUNKS_TO_FORK:
            self._workers = min(PROCESSES, len(self._parts))
            with contextlib.ExitStack() as stack:
                self._memory = os.memfd_create("ciphertexts")
                stack.callback(os.close, self._memory)
                self._shared = stack.enter_context(self._job.shared())
                self._crew = Crew(self._started, self._workers)
                stack.callback(self._crew.end)
                for _ in range(self._workers):
                    self._crew.begin()
                self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(
        self,
        ask: Callable[[Chunks, Sequence[bytes | memoryview]], None],
        under_way: int,
        failed: threading.Event,
        deadline: Deadline,
        only: Sequence[int] | None = None,
        *,
        last: bool = True,
    ) -> None:
        """Call `ask` with each part (or those numbered `only`) and its ciphertexts, in up to `under_way` threads. `ask`
        must not keep the ciphertexts.

        If the job changes between two calls, the change must be in its memory file. `last`: nothing is encrypted
        afterwards; workers end while the last answers arrive.

        Raises the first error of any call, ProcessDied if a worker died, and the error of `deadline` if a worker is too
        slow. After an error, or once other code sets `failed`, no request is sent.
        """
        chosen = range(len(self._parts)) if only is None else only
        if not self._workers:
            for number in chosen:
                if failed.is_set():
                    return
                ask(self._parts[number], list(self._job.encrypt(self._parts[number])))
            return
        numbers, places, left = iter(chosen), itertools.count(), len(chosen)
        lock = threading.Lock()
        free: list[int] = []  # regions of the memory file that can be reused
        encrypting, asking = threading.Semaphore(self._workers), threading.Semaphore(under_way)

        def take() -> int | None:
            with lock:
                return None if failed.is_set() else next(numbers, None)

        def encrypted(number: int, place: int) -> list[memoryview]:
            nonlocal left
            with encrypting, self._crew.worker() as child:
                chunks = self._encrypted(child, number, place, deadline)
            with lock:
                left -= 1
                if last and not left:
                    self._crew.end()
            return chunks

        def run() -> None:
            try:
                while (number := take()) is not None:
                    place = free.pop() if free else next(places)
                    chunks = encrypted(number, place)
                    with asking:
                        if failed.is_set():
                            return
                        ask(self._parts[number], chunks)
                    free.append(place)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self._workers + under_way) as pool:
            try:
                for future in [pool.submit(run) for _ in range(self._workers + under_way)]:
                    future.result()
            except BaseException:  # also Ctrl-C; set before the pool waits for its threads
                failed.set()
                raise

    def _started(self) -> Child:
        plaintexts, function, arguments = self._shared
        with contextlib.ExitStack() as stack:
            child = stack.enter_context(_server.fork([self._memory, plaintexts], _MODULES))
            child.call(_serve, (function, arguments, self._parts))
            stack.pop_all()
        return child

    def _encrypted(self, child: Child, number: int, place: int, deadline: Deadline) -> list[memoryview]:
        child.send([_NUMBER.pack(number), _NUMBER.pack(place)], SECONDS_FOR_A_PART)
        try:
            (packed,) = child.receive(min(SECONDS_FOR_A_PART, deadline.left()))
        except ProcessDied:
            deadline.check()
            raise
        ends = list(itertools.accumulate((size for (size,) in _NUMBER.iter_unpack(packed)), initial=0))
        if not ends[-1]:
            return []
        whole = memoryview(mmap.mmap(self._memory, ends[-1], prot=mmap.PROT_READ, offset=place * _PART_BYTES))
        return [whole[start:stop] for start, stop in itertools.pairwise(ends)]


def _serve(
    channel: Channel,
    memory: int,
    plaintexts: int,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    parts: Sequence[ChunkSpan],
) -> None:
    job = function(plaintexts, *arguments)
    with contextlib.suppress(EOFError):
        while True:
            number, place = (_NUMBER.unpack(each)[0] for each in channel.receive())
            children.limit_time(SECONDS_FOR_A_PART)
            sizes: list[int] = []
            for chunk in job.encrypt(parts[number]):
                os.pwrite(memory, chunk, place * _PART_BYTES + sum(sizes))
                sizes.append(len(chunk))
            children.limit_time(0.0)
            channel.send([b"".join(map(_NUMBER.pack, sizes))])
