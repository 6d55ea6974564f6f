"""A store in a folder; `cleave_shared.folder_store` opens it. Heads change under a lock.

What is beside its place has a name of its own, `NAME-draft-...`, and is listed as an object that nobody names: where a
writer was killed, the next sweeps it as it sweeps the rest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from cleave.objects.storage import (
    ConflictError,
    ForeignError,
    NotStoredError,
    StoreError,
    checked,
    too_large,
)
from cleave_shared import folder_store, limits
from cleave_shared.errors import InputError
from cleave_shared.folder_store import ForeignEntry

LOCK_SECONDS = 30.0
_LOCK = ".lock"
_HINTS = {
    errno.ENOTDIR: "there is a file where a folder should be: name another place",
    errno.ENOSPC: "make room there, then run the command again: the table is as it was",
    errno.EDQUOT: "make room there, then run the command again: the table is as it was",
    errno.EROFS: "it can be asked there, but not changed",
}
_HINT = "see that it is a folder this user may read, and write where the table is changed"
_FOREIGN = "Cleave makes no such entry: find out who put it there, remove that entry itself, then run the command again"


class Folder:
    """See Storage. `root` is made when something is first written; it may be a link, and nothing below it may."""

    def __init__(self, root: Path) -> None:
        self.location = str(root)
        try:
            self._root = root.resolve()
        except (OSError, RuntimeError):
            raise InputError(f"{root}: its links lead nowhere", hint="name the folder itself") from None

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        count = most + 1 if stop is None else stop - start
        with self._translated("read"):
            content = folder_store.read(str(self._root), checked(name), start, count)
        if stop is None and len(content) > most:
            raise too_large(self.location, name, most)
        return content

    def read_versioned(self, name: str, most: int = limits.MAX_HEAD_BYTES) -> tuple[bytes, str] | None:
        try:
            content = self.read(name, most=most)
        except NotStoredError:
            return None
        return content, _version(content)

    def write(self, name: str, content: bytes) -> None:
        with self._translated("written"):
            folder_store.write(str(self._root), checked(name), content)

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        with self._locked(checked(name).rpartition("/")[0]):
            found = self.read_versioned(name, limits.MAX_MANIFEST_BYTES)
            if (found[1] if found else None) != expected:
                raise ConflictError(f"{self.location}: the table was changed by somebody else meanwhile")
            with self._translated("written"):
                folder_store.write(str(self._root), name, content, overwrite=True)
        return _version(content)

    def names(self, prefix: str) -> Iterator[str]:
        with self._translated("listed"):
            found = folder_store.listed(str(self._root), checked(prefix) if prefix else "")
        for name in found:
            with contextlib.suppress(StoreError):  # locks are not objects
                yield checked(name)

    def delete(self, names: Iterable[str]) -> None:
        with self._translated("deleted"):
            folder_store.delete(str(self._root), map(checked, names))

    def link(self, name: str, seconds: int) -> str:  # noqa: ARG002 - a path does not expire
        return (self._root / checked(name)).as_uri()

    put_link = link  # who may read the folder may write there

    @property
    def base(self) -> str:
        return f"{self._root.as_uri()}/"

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Raise errors of the opener as a store's."""
        try:
            yield
        except ForeignEntry as entry:
            raise ForeignError(self.location, entry.name, f"is {entry.kind}, not an object", _FOREIGN) from None
        except FileNotFoundError:
            raise NotStoredError(f"{self.location}: an object of the table is not there") from None
        except FileExistsError:
            raise ConflictError(f"{self.location}: an object of that name is there already") from None
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, _HINT)
            raise StoreError(f"{self.location}: an object cannot be {what} ({error.strerror})", hint=hint) from None

    @contextlib.contextmanager
    def _locked(self, folder: str) -> Iterator[None]:
        """Ends with the process, however that ends."""
        with contextlib.ExitStack() as stack:
            with self._translated("locked"):
                handle = stack.enter_context(folder_store.lock_file(str(self._root), folder, _LOCK))
            until = time.monotonic() + LOCK_SECONDS
            while not self._took(handle):
                if time.monotonic() > until:
                    raise ConflictError(f"{self.location}: another process is writing this table")
                time.sleep(0.02)
            yield

    def _took(self, handle: int) -> bool:
        with self._translated("locked"):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
