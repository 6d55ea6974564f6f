"""Interface of a store; cleave_shared.folder_store and `s3` implement it.

    read      whole objects of a known size, or a range of one
    write     a new object: one that is there is never written over
    replace   an object that changes (a table's head), only if it is still as it was read
    exists    whether there is such a place
    sizes     in bytes of what is there, by name, under a prefix; `names` without them
    delete    objects, whether they are there or not
    retention how long what was deleted can be brought back
    link      a URL by which a service may read one object for a while; put_link, one by which it may write a new one

An object is there whole or not at all, and once written it stays as it is. Names are ours: letters, digits and `/ . -`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from cleave.objects.retention import Retention
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError, ServiceError

Content = TypeVar("Content")
Checked = TypeVar("Checked")

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)*")
_LONGEST_NAME = 512
_LOST = "restore it from a backup or an older version; `cleave verify` names what else is lost"


class StoreError(ServiceError):
    """The store, or the way to it, failed."""


class NotStoredError(StoreError):
    """There is no object of that name."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, hint=_LOST, status=status)


class ConflictError(StoreError):
    """Somebody else wrote first: nothing was changed."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, hint="run the command again", status=status)


class ForeignError(CheckFailed):
    """An entry of the store that is no object: a link, a pipe, a device, or a file that is larger than its object."""

    def __init__(self, location: str, name: str, what: str, hint: str) -> None:
        super().__init__("stored", f"{location}: {name} {what}", hint=hint)


def too_large(location: str, name: str, most: int) -> ForeignError:
    """Return the error for an object of more than `most` bytes. Nothing of it was read."""
    return ForeignError(
        location,
        name,
        f"has more than the {most:,} bytes that it may have",
        "find out who writes to the store; restore the object from a backup, or delete it",
    )


class Storage(Protocol):
    """Store of objects, thread-safe. Everything raises StoreError, and ForeignError for an entry that is no object.

    No error has an object's content, no wait is without an end, and no more is read than `most` bytes.
    """

    location: str  # as the user named it

    @property
    def base(self) -> str:
        """Return the beginning of every link, up to a slash."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        """Bytes `start`..`stop` of an object; all of it, at most `most` bytes, where `stop` is None.

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
        """Raises ConflictError if there is an object of that name."""
        ...

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        """Write over the version `expected` (None: there must be none) and return the new one. Raises ConflictError."""
        ...

    def exists(self) -> bool:
        """Return whether there is such a place. A prefix of a bucket always is one."""
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """Sizes by name, in no particular order; also of objects of a writer that died before it committed."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """The names of `sizes`."""
        ...

    def delete(self, names: Iterable[str]) -> None: ...

    def retention(self) -> Retention | None:
        """How long old versions of objects stay. None: these credentials may not read the store's rules."""
        ...

    def link(self, name: str, seconds: int) -> str:
        """A URL that gives its holder this object, for `seconds` where the store can limit it."""
        ...

    def put_link(self, name: str, seconds: int) -> str:
        """A URL by which its holder may write this object, where there is none of that name."""
        ...

    def close(self) -> None: ...


def require_place(store: Storage) -> None:
    """Raise InputError if the store is a folder that does not exist."""
    if not store.exists():
        raise InputError(
            f"{store.location}: there is no such folder",
            hint="check --store; `cleave put` creates it with the first table",
        )


def checked(name: str) -> str:
    """`name` as it stands. Raises StoreError for one that could mean another place: manifests come from a store."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or ".." in name:
        raise StoreError("the store lists an object whose name is not one of Cleave's")
    return name


def read_twice(read: Callable[[], Content], check: Callable[[Content], Checked]) -> Checked:
    """Return `check` of what `read` gives. Where that raises CheckFailed it is read once more: a bit may have flipped
    on the way.
    """
    content = read()
    try:
        return check(content)
    except CheckFailed:
        return check(read())


def not_stored(location: str) -> StoreError:
    """The error for a store that confirms a write and does not return what was written."""
    return StoreError(
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
    """Write an object that changes, as `replace` does, and read it back. Return its version.

    Only what is read back is believed: the store's answer may be lost, be another's, or confirm what is not stored. A
    store may also report a conflict with this very write. `follows`: whether content was written later, on top of this.

    Raises ConflictError where another writer was first, StoreError where the store does not return what was written.
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
