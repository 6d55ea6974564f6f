"""Encrypts the lanes of a segment on all cores."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Words
from cleave.ckks.cipher import Cipher, Sentinels
from cleave.ckks.encode import SENTINEL_SHIFT
from cleave.ckks.encryptors import Encryptors, Shared
from cleave.ckks.secret_key import SharedKey
from cleave.deadline import Deadline
from cleave.store.lanes import OBJECT_CHUNKS, LaneEntries, Lanes
from cleave_shared.moments import SENTINELS

_UNDER_WAY = 4  # objects being written
_SECONDS = 3600.0  # for one segment, including waits for the store
_SHARED = struct.Struct("<Q16s")  # rows of the current segment, its id; then lane after lane


@dataclass(frozen=True, slots=True)
class Span:
    """Ciphertexts `start` to before `stop` of a lane."""

    lane: int
    start: int
    stop: int

    def rows(self, capacity: int, most: int) -> tuple[int, int]:
        """First row and end of its rows, of `most` in all, `capacity` in each ciphertext."""
        return self.start * capacity, min(self.stop * capacity, most)


def encrypt_lane(
    lanes: Lanes, entries: LaneEntries, cipher: Cipher, label: bytes, lane: int, first: int = 0
) -> list[bytes]:
    """Encrypt `entries` of a lane; the first ciphertext has number `first`.

    `label` makes their sentinels unique.
    """
    polynomials = lanes.polynomials(entries)
    for number, polynomial in enumerate(polynomials, first):
        polynomial[-SENTINELS:] = sentinels(cipher, label, lane, number)
    return cipher.encrypt(polynomials)


def sentinels(cipher: Sentinels, label: bytes, lane: int, number: int) -> NDArray[np.int64]:
    """The last coefficients of ciphertext `number` of a lane."""
    return cipher.sentinels(label, lane << 32 | number) << SENTINEL_SHIFT


class _SegmentRows:
    """The current segment's rows, at most `rows`, in the memory file `memory`."""

    def __init__(self, memory: int, lanes: Lanes, rows: int, cipher: Cipher) -> None:
        self.lanes = lanes
        self.most = rows
        self._memory = memory
        self._cipher = cipher

    def write(self, label: bytes, words: Sequence[Words], rows: int) -> None:
        os.pwrite(self._memory, _SHARED.pack(rows, label), 0)
        for lane, plane in enumerate(self.lanes.encode(words)):
            os.pwrite(self._memory, plane.tobytes(), self._place(lane))

    def encrypt(self, span: Span) -> list[bytes]:
        rows, label = _SHARED.unpack(os.pread(self._memory, _SHARED.size, 0))
        start, stop = span.rows(self.lanes.capacity, rows)
        lane = np.frombuffer(os.pread(self._memory, 8 * (stop - start), self._place(span.lane) + 8 * start), np.int64)
        return encrypt_lane(self.lanes, lane, self._cipher, label, span.lane, span.start)

    @contextlib.contextmanager
    def shared(self) -> Iterator[Shared]:
        yield self._memory, _in_worker, (self.lanes, self.most, self._cipher.shared)

    def _place(self, lane: int) -> int:
        return _SHARED.size + 8 * self.most * lane


def _in_worker(memory: int, lanes: Lanes, rows: int, key: SharedKey) -> _SegmentRows:
    return _SegmentRows(memory, lanes, rows, Cipher.from_shared(key))


class RowEncryptors:
    """Processes that encrypt the rows of segment after segment, over shared memory."""

    def __init__(self, lanes: Lanes, rows: int, cipher: Cipher) -> None:
        """Prepare for segments of at most `rows` rows."""
        chunks = lanes.chunks(rows)
        self._spans = [
            Span(lane, start, min(start + OBJECT_CHUNKS, chunks))
            for lane in range(lanes.count)
            for start in range(0, chunks, OBJECT_CHUNKS)
        ]
        self._memory = os.memfd_create("rows")
        self._segment = _SegmentRows(self._memory, lanes, rows, cipher)
        self._encryptors = Encryptors(self._segment, self._spans)

    @property
    def lanes(self) -> Lanes:
        return self._segment.lanes

    def __enter__(self) -> RowEncryptors:
        self._encryptors.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._encryptors.__exit__()
        os.close(self._memory)

    def each(
        self, label: bytes, words: Sequence[Words], keep: Callable[[Span, Sequence[bytes | memoryview]], None]
    ) -> None:
        """Call `keep` with the ciphertexts of every span of a segment's rows. `words`: their columns."""
        rows = words[0].shape[1] if words else 0
        if rows > self._segment.most:
            raise ValueError("more rows than the encryptors were made for")
        self._segment.write(label, words, rows)
        chunks = self.lanes.chunks(rows)
        only = [number for number, span in enumerate(self._spans) if span.start < chunks]
        self._encryptors.each(keep, _UNDER_WAY, threading.Event(), Deadline(_SECONDS), only, last=False)
