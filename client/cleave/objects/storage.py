"""Interface of a store; cleave_shared.folder_store and `s3` implement it.

  read      a whole object of known size, or a range
  write     a new object; an existing one is never overwritten
  flush     make written objects survive a power failure
  replace   an object that changes (a table's head), only if it is unchanged since it was read
  exists    whether the location exists
  sizes     bytes by name of the objects under a prefix; `names` without sizes; `dates`: when each was written
  delete    objects; missing ones are ignored
  retention how long deleted objects can be restored
  link      a URL by which a service may read one object for some time; put_link, to write a new one

An object exists completely or not at all, and never changes. Names are Cleave's: letters, digits and / . -
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Protocol, TypeVar

from cleave.objects.retention import Retention
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, Code, InputError, ServiceError

_Content = TypeVar("_Content")
Checked = TypeVar("Checked")

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)*")
_LONGEST_NAME = 512
_LOST = "restore it from a backup or an older version; `cleave verify` names what else is lost"


class StoreError(ServiceError):
    """The store failed, or the connection to it."""

    code: Code = "store"


class NotStoredError(StoreError):
    """There is no object of that name."""

    code: Code = "not_stored"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, hint=_LOST, status=status)


class UnreturnedError(StoreError):
    """A write was confirmed, but what was written is not there: the store lost it, or another process deleted it."""


class ConflictError(StoreError):
    """Another writer was first; nothing was changed."""

    code: Code = "conflict"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, hint="run the command again", status=status)


class ForeignError(CheckFailed):
    """An entry of the store that is no object: a link, a pipe, a device, or a file larger than its object."""

    def __init__(self, location: str, name: str, what: str, hint: str) -> None:
        super().__init__("stored", f"{location}: {name} {what}", hint=hint)


def too_large(location: str, name: str, most: int) -> ForeignError:
    """The error for an object of more than `most` bytes. Nothing of it was read."""
    return ForeignError(
        location,
        name,
        f"has more than the {most:,} bytes that it may have",
        "find out who writes to the store; restore the object from a backup, or delete it",
    )


class Storage(Protocol):
    """A store of objects. Thread-safe. All methods may raise StoreError, and ForeignError for an entry that is no
    object.

    Errors never contain an object's content. Every wait ends. Reads are limited to `most` bytes.
    """

    location: str  # as the user named it

    @property
    def base(self) -> str:
        """The start of every link, up to a slash."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        """Bytes `start`..`stop` of an object. If `stop` is None, the whole object, which must have at most `most`
        bytes.

        Raises NotStoredError, and ForeignError for a larger object.
        """
        ...

    def read_versioned(
        self, name: str, most: int = limits.MAX_HEAD_BYTES, earlier: tuple[bytes, str] | None = None
    ) -> tuple[bytes, str] | None:
        """An object's content and version, or None if there is no object. Pass the version to `replace`.

        `earlier`: an older result. It is returned if the store says that the object is unchanged. Raises ForeignError
        for an object of more than `most` bytes.
        """
        ...

    def write(self, name: str, content: bytes) -> None:
        """A power failure may lose the object until `flush`. Raises ConflictError if an object of that name exists."""
        ...

    def flush(self, folders: Iterable[str]) -> None:
        """Let no power failure lose an object that is in one of `folders` now. Call it before a head names them."""
        ...

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        """Replace the version `expected` (None: no object may exist) and return the new version, which no power failure
        loses. Raises ConflictError.
        """
        ...

    def exists(self) -> bool:
        """True if the location exists. A bucket's prefix always exists."""
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """Sizes by name, in any order. Includes objects of a writer that died before its commit."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """The names of `sizes`."""
        ...

    def dates(self, prefix: str) -> dict[str, float]:
        """When each object of `sizes` was written, by name: seconds since 1970 by the store's own clock."""
        ...

    def delete(self, names: Iterable[str]) -> None: ...

    def retention(self) -> Retention | None:
        """How long old versions of objects are kept. None: these credentials may not read the store's rules."""
        ...

    def link(self, name: str, seconds: int) -> str:
        """A URL for reading this object, for `seconds` if the store can limit it."""
        ...

    def put_link(self, name: str, seconds: int) -> str:
        """A URL for writing this object, if none of that name exists."""
        ...

    def close(self) -> None: ...


class JobStorage(Storage, Protocol):
    """A store in which Step Functions find what a job needs."""

    def key(self, name: str) -> str:
        """An object's name in the bucket."""
        ...

    def signing_ends(self) -> datetime | None:
        """When links expire together with the credentials that signed them."""
        ...


def require_place(store: Storage) -> None:
    """Raise InputError if the store is a folder that does not exist."""
    if not store.exists():
        raise InputError(
            f"{store.location}: there is no such folder",
            hint="check --store; `cleave put` creates it with the first table",
        )


def checked(name: str) -> str:
    """Return `name`. Raises StoreError for a name that could lead elsewhere: manifests come from the store."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or ".." in name:
        raise StoreError("the store lists an object whose name is not one of Cleave's")
    return name


def read_twice(read: Callable[[], _Content], check: Callable[[_Content], Checked]) -> Checked:
    """Return `check` of what `read` returns. If `check` raises CheckFailed, read once more: a bit may have flipped in
    transit.
    """
    content = read()
    try:
        return check(content)
    except CheckFailed:
        return check(read())


def not_stored(location: str) -> UnreturnedError:
    """The error for a store that confirms a write but does not return what was written."""
    return UnreturnedError(
        f"{location}: the store confirmed a write, but does not return what was written; no older object was deleted",
        hint="a proxy may answer in its place, or it returns old states: docs/stored.md says what a store must do",
    )


def replaced(
    store: Storage,
    place: str,
    content: bytes,
    expected: str | None,
    follows: Callable[[bytes], bool] = lambda _: False,
) -> str:
    """Replace an object like `replace`, and read it back. Returns its version.

    Only the read-back counts: the store's answer may get lost, belong to another request, or be wrong. A store may even
    report a conflict with this very write. `follows`: tests whether content was written later, on top of this.

    Raises ConflictError if another writer was first, StoreError if the store does not return what was written.
    """
    version, failure = "", None
    try:
        version = store.replace(place, content, expected)
    except StoreError as error:
        failure = error
    try:
        current = store.read_versioned(place, limits.MAX_MANIFEST_BYTES)
    except StoreError as unread:
        if isinstance(failure, ConflictError):
            raise failure from None
        first = failure or unread
        hint = "the table may have changed: see `cleave show` before you try again"
        raise StoreError(first.message, hint=hint, status=first.status) from None
    if current is not None and current[0] == content:
        return current[1]
    if failure is not None:
        raise failure
    if current is not None and follows(current[0]):
        return version
    raise not_stored(store.location)
