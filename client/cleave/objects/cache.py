"""The local cache: copies of a remote store's objects, unchanged.

  $XDG_CACHE_HOME/cleave/objects/TABLE/OBJECT-BLOCK

TABLE is a keyed tag of the store and the table. OBJECT is an object's random id. BLOCK is the number of one of its
blocks, or "all". Entries are sealed, here or already in the store. They are opened and checked like data from the
store. So a damaged or planted entry counts as missing. A reader of the disk sees which objects were read, and when.

  $XDG_CACHE_HOME/cleave/objects/TABLE/MANIFEST-version

An empty entry names the manifest of the version in use: all other entries are objects of that version. Another process
may open a newer one, and evict what this process is writing. So what is written after that is deleted again.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection
from pathlib import Path

from cleave.text.quantities import size_of
from cleave_shared import folder_store
from cleave_shared.errors import InputError
from cleave_shared.folder_store import ForeignEntry

LIMIT = 5_000_000_000  # bytes, if the environment sets no other limit
LIMIT_VARIABLE = "CLEAVE_CACHE_LIMIT"
WHOLE = "all"
_VERSION = "-version"
_FOLDER = "cleave/objects"
_TRIMMED = 20  # entries beyond the limit are deleted each time a 20th of the limit was written
_FAULTS = (OSError, ForeignEntry)


def cache_folder() -> Path:
    """The folder of this user's caches, as an absolute path. Raises InputError for an account without a home
    directory.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
    except RuntimeError:
        raise InputError("this account has no home directory", hint="set XDG_CACHE_HOME") from None


class Cache:
    """Entries of all tables. Safe for threads and for several processes. Nothing raises: an entry exists or not."""

    def __init__(self, root: Path | None = None, limit: int = LIMIT, *, used: bool = True) -> None:
        """`root`: default this user's caches. It may be a link; nothing below it may.

        `used` False: nothing is read or written, but evictions still delete.
        """
        self._root = str(root or cache_folder())
        self._limit = limit
        self._used = used and limit > 0
        self._is_private: bool | None = None  # None: not checked yet
        self._versions: dict[str, str] = {}  # by table: the entry of the version in use
        self._lock = threading.Lock()
        self._written = 0  # bytes since the limit was last checked

    def get(self, table: str, entry: str, most: int) -> bytes | None:
        """An entry of at most `most` bytes; None if there is none."""
        if not self._usable():
            return None
        try:
            with folder_store.opened(self._root, _name(table, entry)) as (file, size):
                if size > most:
                    return None
                os.utime(file.fileno())  # the least recently used entries are deleted first
                return file.read(size)
        except _FAULTS:
            return None

    def has(self, table: str, entry: str) -> bool:
        try:
            return folder_store.exists(self._root, _name(table, entry))
        except _FAULTS:
            return False

    def put(self, table: str, entry: str, content: bytes) -> None:
        if not self._usable() or len(content) > self._limit:
            return
        with contextlib.suppress(*_FAULTS):  # a full disk, no permission, or something else of that name
            folder_store.write(self._root, _name(table, entry), content, overwrite=True, flush=False)
        with self._lock:
            version = self._versions.get(table)
            self._written += len(content)
            due = self._written * _TRIMMED > self._limit
        if version is not None and not self.has(table, version):
            self._delete([_name(table, entry)])  # another version was opened in between
        if due:
            self.trim()

    def is_in_use(self, table: str, manifest: str) -> bool:
        """True if the version with this manifest is in use: all other entries are its objects."""
        version = f"{manifest}{_VERSION}"
        if not self.has(table, version):
            return False
        with self._lock:
            self._versions[table] = version
        return True

    def versions(self, table: str) -> list[str]:
        """The manifests of the versions in use: one, unless several processes have just opened others."""
        return [_object(each) for each in self._listed(table) if each.endswith(_VERSION)]

    def open_version(
        self, table: str, manifest: str, *, names: Collection[str] | None = None, gone: Collection[str] = ()
    ) -> None:
        """Use the version with this manifest. Deletes the table's entries of objects in `gone`, or those of all objects
        but `names`.
        """
        version = f"{manifest}{_VERSION}"
        if self._usable():
            with contextlib.suppress(*_FAULTS):
                folder_store.write(self._root, _name(table, version), b"", overwrite=True, flush=False)
        with self._lock:
            self._versions[table] = version
        others = [each for each in self._listed(table) if each.endswith(_VERSION) and _object(each) != manifest]
        self._delete(others)  # first: what another process of that version writes from now on, it deletes itself

        def is_gone(name: str) -> bool:
            return _object(name) in gone or (names is not None and _object(name) not in names)

        self._delete([each for each in self._listed(table) if is_gone(each)])

    def evict(self, table: str) -> None:
        with self._lock:
            self._versions.pop(table, None)
        for _ in range(2):
            self._delete(self._listed(table))

    def trim(self) -> None:
        """Delete the least recently used entries, down to the limit."""
        with self._lock:
            self._written = 0
        with contextlib.suppress(*_FAULTS):
            entries = folder_store.described(self._root, _FOLDER)
            size = sum(each.st_size for _, each in entries)
            gone = []
            for name, status in sorted(entries, key=lambda entry: entry[1].st_mtime_ns):
                if size <= self._limit:
                    break
                if name.endswith(_VERSION):
                    continue
                gone.append(name)
                size -= status.st_size
            self._delete(gone)

    def close(self) -> None:
        if self._written:
            self.trim()

    def _listed(self, table: str) -> list[str]:
        with contextlib.suppress(*_FAULTS):
            return folder_store.listed(self._root, f"{_FOLDER}/{table}")
        return []

    def _delete(self, names: list[str]) -> None:
        with contextlib.suppress(*_FAULTS):
            folder_store.delete(self._root, names)

    def _usable(self) -> bool:
        """True if the cache is used and its folder is private to this user. A missing folder is created."""
        if self._used and self._is_private is None:
            try:
                folder_store.make(self._root, _FOLDER)
                self._is_private = folder_store.is_private(self._root, _FOLDER)
            except _FAULTS:
                self._is_private = False
        return self._used and bool(self._is_private)


def open_cache(*, used: bool) -> Cache:
    """This user's cache. `used`: see Cache. Raises InputError if the environment's limit is not a size."""
    text = os.environ.get(LIMIT_VARIABLE)
    try:
        return Cache(limit=LIMIT if text is None else size_of(text), used=used)
    except InputError as error:
        raise InputError(f"{LIMIT_VARIABLE}: {error.message}", hint=error.hint) from None


def _name(table: str, entry: str) -> str:
    return f"{_FOLDER}/{table}/{entry}"


def _object(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]
