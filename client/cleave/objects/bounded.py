"""A store whose every call ends: with its question's deadline, and by itself after CALL_SECONDS at the latest.

The time-outs of botocore are of single waits, so a store that sends a byte now and then holds a reader for ever; a
folder on a network file system that went away has no time-out at all. A call that is late is left to a daemon thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from cleave.objects.storage import Storage, StoreError
from cleave.processes.deadline import Deadline, OutOfTime
from cleave_shared import limits

CALL_SECONDS = 900.0  # 100 MB at 1 Mbit/s

T = TypeVar("T")


class Bounded:
    """See Storage. `inside` does the work."""

    def __init__(self, inside: Storage, seconds: float = CALL_SECONDS) -> None:
        self.location = inside.location
        self.inside = inside
        self._seconds = seconds
        self._deadline: Deadline | None = None

    def limit(self, deadline: Deadline | None) -> None:
        """From now on calls end with `deadline` too, with its error; None: no longer."""
        self._deadline = deadline

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        return self._call(lambda: self.inside.read(name, start, stop, most))

    def read_versioned(self, name: str, most: int = limits.MAX_HEAD_BYTES) -> tuple[bytes, str] | None:
        return self._call(lambda: self.inside.read_versioned(name, most))

    def write(self, name: str, content: bytes) -> None:
        self._call(lambda: self.inside.write(name, content))

    def copy(self, name: str, to: str, size: int, sha256: str) -> None:
        self._call(lambda: self.inside.copy(name, to, size, sha256))

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        return self._call(lambda: self.inside.replace(name, content, expected))

    def names(self, prefix: str) -> Iterator[str]:
        yield from self._call(lambda: list(self.inside.names(prefix)))

    def delete(self, names: Iterable[str]) -> None:
        self._call(lambda: self.inside.delete(names))

    def link(self, name: str, seconds: int) -> str:
        return self._call(lambda: self.inside.link(name, seconds))

    def put_link(self, name: str, seconds: int) -> str:
        return self._call(lambda: self.inside.put_link(name, seconds))

    @property
    def base(self) -> str:
        return self.inside.base

    def close(self) -> None:
        self.inside.close()

    def _call(self, work: Callable[[], T]) -> T:
        deadline = self._deadline
        if deadline is None:
            return self._timed(work)
        deadline.check()
        return deadline.call(work if deadline.left() <= self._seconds else lambda: self._timed(work))

    def _timed(self, work: Callable[[], T]) -> T:
        try:
            return Deadline(self._seconds).call(work)
        except OutOfTime:
            raise StoreError(
                f"{self.location}: the store did not answer within {self._seconds:g} seconds",
                hint="check the network, or the mount",
            ) from None
