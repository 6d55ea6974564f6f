"""A store in a folder. Objects are written beside their place, flushed, then moved in; heads change under a lock.

What is beside its place has a name of its own, `NAME-draft-...`, and is listed as an object that nobody names: where a
writer was killed, the next sweeps it as it sweeps the rest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from cleave.files import placed
from cleave.store.storage import ConflictError, NotStoredError, StoreError, checked
from cleave_shared.errors import InputError

LOCK_SECONDS = 30.0
_LOCK = ".lock"
_HINTS = {
    errno.ENOTDIR: "there is a file where a folder should be: name another place",
    errno.ENOSPC: "make room there, then run the command again: the table is as it was",
    errno.EDQUOT: "make room there, then run the command again: the table is as it was",
    errno.EROFS: "it can be asked there, but not changed",
}
_HINT = "see that it is a folder this user may read, and write where the table is changed"


class Folder:
    """See Storage. `root` is made when something is first written."""

    def __init__(self, root: Path) -> None:
        self.location = str(root)
        try:
            self._root = root.resolve()
        except (OSError, RuntimeError):
            raise InputError(f"{root}: its links lead nowhere", hint="name the folder itself") from None

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        path = self._path(name)
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(-1 if stop is None else stop - start)
        except FileNotFoundError:
            raise NotStoredError(f"{self.location}: an object of the table is not there") from None
        except OSError as error:
            raise self._failed("read", error) from None

    def read_versioned(self, name: str) -> tuple[bytes, str] | None:
        try:
            content = self.read(name)
        except NotStoredError:
            return None
        return content, _version(content)

    def write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        if path.exists():
            raise ConflictError(f"{self.location}: an object of that name is there already")
        self._write(path, content, overwrite=False)

    def copy(self, name: str, to: str) -> None:
        self.write(to, self.read(name))

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        path = self._path(name)
        with self._locked(path.parent):
            found = self.read_versioned(name)
            if (found[1] if found else None) != expected:
                raise ConflictError(f"{self.location}: the table was changed by somebody else meanwhile")
            self._write(path, content, overwrite=True)
        return _version(content)

    def names(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix) if prefix else self._root
        for folder, _, files in os.walk(top, onerror=self._unlisted):
            for file in files:
                name = str((Path(folder) / file).relative_to(self._root))
                with contextlib.suppress(StoreError):  # locks are not objects
                    yield checked(name)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._path(name).unlink(missing_ok=True)
            except OSError as error:
                raise self._failed("deleted", error) from None

    def link(self, name: str, seconds: int) -> str:  # noqa: ARG002 - a path does not expire
        return self._path(name).as_uri()

    put_link = link  # who may read the folder may write there

    @property
    def base(self) -> str:
        return f"{self._root.as_uri()}/"

    def close(self) -> None:
        pass

    def _path(self, name: str) -> Path:
        return self._root / checked(name)

    def _unlisted(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # else a store would seem to be empty
            raise self._failed("listed", error)

    def _write(self, path: Path, content: bytes, *, overwrite: bool) -> None:
        try:
            with placed(path, overwrite=overwrite, draft_name=_draft_name(path)) as file:
                file.write(content)
        except OSError as error:
            raise self._failed("written", error) from None
        self._settle(path)

    def _settle(self, path: Path) -> None:
        """Flush the folders too: a name that is on no disk is lost with the power."""
        for folder in (path.parent, path.parent.parent):
            try:
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a file system that cannot
                    raise self._failed("written", error) from None

    @contextlib.contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Ends with the process, however that ends."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failed("locked", error) from None
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise ConflictError(f"{self.location}: another process is writing this table") from None
                    time.sleep(0.02)
                except OSError as error:
                    raise self._failed("locked", error) from None
            yield
        finally:
            os.close(handle)

    def _failed(self, what: str, error: OSError) -> StoreError:
        hint = _HINTS.get(error.errno or 0, _HINT)
        return StoreError(f"{self.location}: an object cannot be {what} ({error.strerror})", hint=hint)


def _draft_name(path: Path) -> str:
    return f"{path.name}-draft-{secrets.token_hex(8)}"


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
