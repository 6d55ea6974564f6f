"""A store that fails, and damage done to what it holds."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator

from cleave.objects.retention import Retention
from cleave.objects.storage import Storage, StoreError
from cleave_shared import limits


class KilledError(BaseException):
    """Stands for SIGKILL: nothing may catch it and go on."""


class Failing:
    """`storage` until it has been changed `left` times; at the next change, made or not, it is over.

    `full`: each write from there on fails as on a full disk, and no more.
    """

    def __init__(self, storage: Storage, left: int, *, made: bool, full: bool = False) -> None:
        self._full = full
        self.location = storage.location
        self.changes = 0
        self._storage = storage
        self._left = left
        self._made = made
        self._counting = threading.Lock()

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        return self._storage.read(name, start, stop, most)

    def read_versioned(
        self, name: str, most: int = limits.MAX_HEAD_BYTES, earlier: tuple[bytes, str] | None = None
    ) -> tuple[bytes, str] | None:
        return self._storage.read_versioned(name, most, earlier)

    def write(self, name: str, content: bytes) -> None:
        self._change(lambda: self._storage.write(name, content))

    def flush(self, folders: Iterable[str]) -> None:
        self._storage.flush(folders)

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        return str(self._change(lambda: self._storage.replace(name, content, expected)))

    def exists(self) -> bool:
        return self._storage.exists()

    def sizes(self, prefix: str) -> dict[str, int]:
        return self._storage.sizes(prefix)

    def dates(self, prefix: str) -> dict[str, float]:
        return self._storage.dates(prefix)

    def names(self, prefix: str) -> Iterator[str]:
        return self._storage.names(prefix)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            if self._full:
                self._storage.delete([name])
            else:
                self._change(lambda each=name: self._storage.delete([each]))  # type: ignore[misc]

    def retention(self) -> Retention | None:
        return self._storage.retention()

    def link(self, name: str, seconds: int) -> str:
        return self._storage.link(name, seconds)

    def put_link(self, name: str, seconds: int) -> str:
        return self._storage.put_link(name, seconds)

    @property
    def base(self) -> str:
        return self._storage.base

    def close(self) -> None:
        pass

    def _change(self, change: Callable[[], object]) -> object:
        with self._counting:  # segments are written by threads
            dead, self.changes = self.changes >= self._left, self.changes + 1
            last = self.changes == self._left + 1
        if dead:
            if self._made and last:
                change()
            if self._full:
                raise StoreError(f"{self.location}: {os.strerror(errno.ENOSPC)}")
            raise KilledError
        return change()


DAMAGES = ("lost", "flipped", "truncated", "emptied", "swapped", "extended")


def damage(storage: Storage, name: str, kind: str, rng: random.Random, others: list[str]) -> None:
    """Harm one object; `swapped` puts another's content in its place, or flips a bit where all others are the same."""
    content = bytearray(storage.read(name))
    different = [each for each in map(storage.read, others) if each != content]
    storage.delete([name])
    if kind == "lost":
        return
    if kind == "flipped" or (kind == "swapped" and not different):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == "truncated":
        del content[rng.randrange(len(content)) :]
    elif kind == "emptied":
        content.clear()
    elif kind == "swapped":
        content = bytearray(rng.choice(different))
    else:
        content += rng.randbytes(1 + rng.randrange(64))
    storage.write(name, bytes(content))
