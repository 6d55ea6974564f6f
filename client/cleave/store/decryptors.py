"""Forked processes that open stored ciphertexts, side by side: TenSEAL holds the GIL in every call.

What cleave.ckks.encryptors does the other way round: ciphertexts go in over a socket, integers come out through a
memory file both share. A child inherits the key; it is never sent. It dies with the thread that made it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import struct
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.encryptors import PROCESSES
from cleave.store.opening import Opener
from cleave.transport.deadline import Deadline
from cleave_shared import children
from cleave_shared.children import Channel, Child
from cleave_shared.errors import ProcessDied

# Fewer are opened in this process: forking it, and bringing back what was found, take as long as decrypting so many.
MIN_CHUNKS_TO_FORK = 256
SECONDS_FOR_A_PART = 120.0  # 64 ciphertexts take a sixth of a second

_LARGEST_REPLY = 1 << 16  # an error's words
_PLACE = struct.Struct("<QQ")  # which segment, and which lane of it


class Decryptors:
    """Enter it before any thread is started: it forks; leaving it ends every child."""

    def __init__(self, opener: Opener, parts: int, chunks: int) -> None:
        """For `parts` calls of `open`, of `chunks` ciphertexts in all: a few are opened here, since forks cost more."""
        self._opener = opener
        self._wanted = min(PROCESSES, parts) if chunks >= MIN_CHUNKS_TO_FORK else 0
        self._idle: queue.SimpleQueue[_Decryptor] = queue.SimpleQueue()
        self._all: list[_Decryptor] = []
        self._stack = contextlib.ExitStack()

    @property
    def count(self) -> int:
        """How many calls of `open` gain by being under way at once."""
        return max(1, self._wanted)

    def __enter__(self) -> Decryptors:
        with contextlib.ExitStack() as stack:
            for _ in range(self._wanted):
                self._all.append(stack.enter_context(_Decryptor(self._opener)))
                self._idle.put(self._all[-1])
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def kill(self) -> None:
        """End every child now: whoever waits for one is told so. Any thread may say it."""
        for each in self._all:
            each.kill()

    def open(
        self,
        place: int,
        lane: int,
        numbers: Sequence[int],
        files: Sequence[bytes],
        into: NDArray[np.int64],
        deadline: Deadline,
    ) -> None:
        """As Opener.open, with the fields written to `into`; at most `count` threads at once.

        Raises ProcessDied too, and what `deadline` raises.
        """
        if not self._wanted:
            deadline.check()
            into[:] = self._opener.open(place, lane, numbers, files)
            return
        decryptor = self._idle.get_nowait()
        try:
            decryptor.open(place, lane, numbers, files, into, deadline)
        finally:
            self._idle.put(decryptor)


class _Decryptor:
    def __init__(self, opener: Opener) -> None:
        self._memory = os.memfd_create("integers")
        self._child: Child = children.fork(lambda channel: _serve(channel, self._memory, opener))

    def kill(self) -> None:
        self._child.kill()

    def __enter__(self) -> _Decryptor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, error, trace)
        os.close(self._memory)

    def open(
        self,
        place: int,
        lane: int,
        numbers: Sequence[int],
        files: Sequence[bytes],
        into: NDArray[np.int64],
        deadline: Deadline,
    ) -> None:
        head = [_PLACE.pack(place, lane), np.asarray(numbers, np.uint64).tobytes()]
        try:
            self._child.send([*head, *files], min(SECONDS_FOR_A_PART, deadline.left()))
            self._child.receive(min(SECONDS_FOR_A_PART, deadline.left()), most=_LARGEST_REPLY)
        except ProcessDied:
            deadline.check()
            raise
        if os.preadv(self._memory, [row.data.cast("B") for row in into], 0) != into.nbytes:
            raise ProcessDied("a forked process wrote less than it was to")


def _serve(channel: Channel, memory: int, opener: Opener) -> None:
    with contextlib.suppress(EOFError):
        while True:
            place, numbers, *files = channel.receive()
            which, lane = _PLACE.unpack(place)
            found = opener.open(which, lane, np.frombuffer(numbers, np.uint64).tolist(), files)
            os.pwrite(memory, found.data.cast("B"), 0)
            channel.send([])
