"""What a store must be able to do; `folder` and `s3` do it.

    read      whole objects, or a range of one
    write     a new object: one that is there is never written over
    replace   an object that changes (a table's head), only if it is still as it was read
    names     of what is there, under a prefix
    delete    objects, whether they are there or not
    link      a URL by which a service may read one object for a while

An object is there whole or not at all, and once written it stays as it is. Names are ours: letters, digits and `/ . -`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from cleave_shared.errors import ServiceError

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)*")
_LONGEST_NAME = 512


class StoreError(ServiceError):
    """The store, or the way to it, failed."""


class NotStoredError(StoreError):
    """There is no object of that name."""


class ConflictError(StoreError):
    """Somebody else wrote first: nothing was changed."""


class Storage(Protocol):
    """Thread-safe. Everything raises StoreError, never with an object's content, and no wait is without an end."""

    location: str  # as the user named it

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes `start`..`stop` of an object. Raises NotStoredError."""
        ...

    def read_versioned(self, name: str) -> tuple[bytes, str] | None:
        """An object's content and what `replace` wants as `expected`; None where there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Raises ConflictError if there is an object of that name."""
        ...

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        """Write over the version `expected` (None: there must be none) and tell the new one. Raises ConflictError."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """In no particular order; also of what was written by a writer that died before it committed."""
        ...

    def delete(self, names: Iterable[str]) -> None: ...

    def link(self, name: str, seconds: int) -> str:
        """A URL that gives whoever holds it this object, for `seconds` where the store can limit it."""
        ...

    def close(self) -> None: ...


def checked(name: str) -> str:
    """`name` as it stands. Raises StoreError for one that could mean another place: manifests come from a store."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or ".." in name:
        raise StoreError("the store names an object as no object of Cleave's is named")
    return name
