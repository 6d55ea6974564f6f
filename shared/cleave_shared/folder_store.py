"""Objects of a store in a folder. Nothing in the folder can lead a reader elsewhere or block it.

Anyone with write access to a store can put links, pipes and devices into it. So each component of a name is opened
separately, relative to the folder before it, without following links. Only regular files are objects, and their size is
taken from the opened file. Writing, renaming, deleting and listing are relative to opened folders too.

The root is what the user typed, and may be a link. The caller checks names: parts and slashes, no "..". Every function
raises OSError if the system fails, and ForeignEntry for a component that is neither folder nor file.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _ROOT | os.O_NOFOLLOW
# O_NONBLOCK: a pipe without writer must not block its reader; regular files ignore it
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 8  # folders below the root; objects are two levels deep
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


class ForeignEntry(Exception):  # noqa: N818 - named for what it is
    """An entry of the store that is no object. `name`: in the store; `kind`: in words."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"{name} is {kind}")
        self.name = name
        self.kind = kind


@contextlib.contextmanager
def opened(root: str, name: str) -> Iterator[tuple[BufferedReader, int]]:
    """Open the object `name` for reading. Yields the file and its size in bytes."""
    with _parent(root, name) as (inside, last):
        handle = _open(last, os.O_RDONLY | _FILE, inside, name)
    with open(handle, "rb") as file:
        yield file, os.fstat(handle).st_size


def read(root: str, name: str, start: int, most: int) -> bytes:
    """At most `most` bytes of an object from `start`. It allocates memory for existing bytes only."""
    with opened(root, name) as (file, size):
        file.seek(start)
        return file.read(max(0, min(most, size - start)))


def write(root: str, name: str, content: bytes, *, overwrite: bool = False, flush: bool = True) -> None:
    """Write an object to a temporary file, flush it, and rename it. So the object exists completely or not at all.

    Without `overwrite`, raises FileExistsError for an existing entry. Missing folders are created. A killed writer
    leaves a file LAST-draft-... . A power failure may lose the object until `flush_names`; without `flush`, it may
    damage it.
    """
    with _parent(root, name, make=True) as (inside, last):
        if not overwrite and _mode(last, inside) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        draft = f"{last}-draft-{secrets.token_hex(8)}"
        with _closing(os.open(draft, _NEW, 0o600, dir_fd=inside)) as handle:
            try:
                with open(handle, "wb", closefd=False) as file:
                    file.write(content)
                if flush:
                    os.fsync(handle)
                if overwrite:
                    os.replace(draft, last, src_dir_fd=inside, dst_dir_fd=inside)
                else:  # fails if the name exists, without a gap between check and creation
                    os.link(draft, last, src_dir_fd=inside, dst_dir_fd=inside, follow_symlinks=False)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=inside)


def flush_names(root: str, folders: Iterable[str]) -> None:
    """Write the entries of `folders` and of those above them to the disk: no power failure loses an object in them.

    Missing folders are ignored.
    """
    below = {
        "/".join(parts[:depth]) for parts in (each.split("/") for each in folders) for depth in range(len(parts) + 1)
    }
    for each in sorted(below, reverse=True):  # what is in a folder before its own name
        with contextlib.suppress(FileNotFoundError), _folder(root, each.split("/") if each else []) as inside:
            _flush(inside)


def exists(root: str, name: str) -> bool:
    """True if an entry of that name exists, object or not."""
    try:
        with _parent(root, name) as (inside, last):
            return _mode(last, inside) is not None
    except FileNotFoundError:
        return False


def delete(root: str, names: Iterable[str]) -> None:
    """Delete objects, ignoring missing ones. A link is deleted itself, not its target."""
    for _, together in itertools.groupby(names, lambda name: name.rpartition("/")[0]):
        first, *others = together
        with contextlib.suppress(FileNotFoundError), _parent(root, first) as (inside, last):
            for each in (last, *(other.rpartition("/")[2] for other in others)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(each, dir_fd=inside)


def make(root: str, folder: str) -> None:
    """Create a folder and its missing parents, private to this user."""
    with _folder(root, folder.split("/"), make=True):
        pass


def is_private(root: str, folder: str) -> bool:
    """True if the folder belongs to this user and no one else can read or write there."""
    with _folder(root, folder.split("/")) as inside:
        status = os.fstat(inside)
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def listed(root: str, prefix: str) -> list[str]:
    """Names of all files below the folder `prefix` ("": the root); empty if it does not exist."""
    names: list[str] = []
    _walk_all(root, prefix, lambda name, _: names.append(name))
    return names


def described(root: str, prefix: str) -> list[tuple[str, os.stat_result]]:
    """Like `listed`, with each file's status."""
    entries: list[tuple[str, os.stat_result]] = []

    def add(name: str, entry: os.DirEntry[str]) -> None:
        with contextlib.suppress(FileNotFoundError):  # deleted in between
            entries.append((name, entry.stat(follow_symlinks=False)))

    _walk_all(root, prefix, add)
    return entries


@contextlib.contextmanager
def lock_file(root: str, folder: str, name: str) -> Iterator[int]:
    """Open the file `name` of `folder` for locking. Missing ones are created."""
    whole = f"{folder}/{name}" if folder else name
    with _parent(root, whole, make=True) as (inside, last):
        handle = _open(last, os.O_RDWR | os.O_CREAT | _FILE, inside, whole)
    with _closing(handle):
        yield handle


def _walk_all(root: str, prefix: str, each: Callable[[str, os.DirEntry[str]], None]) -> None:
    """Call `each` with every file below a folder, which may be missing."""
    with contextlib.suppress(FileNotFoundError), _folder(root, prefix.split("/") if prefix else []) as inside:
        _walk(inside, prefix, each)


def _walk(inside: int, prefix: str, each: Callable[[str, os.DirEntry[str]], None]) -> None:
    with os.scandir(inside) as entries:
        for entry in entries:
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_file(follow_symlinks=False):
                each(name, entry)
            elif not entry.is_dir(follow_symlinks=False):
                _refuse(entry.name, inside, name)
            elif name.count("/") >= _DEEPEST:
                raise ForeignEntry(name, "a folder far below the store's own")
            else:
                with (
                    contextlib.suppress(FileNotFoundError),
                    _closing(_open(entry.name, _FOLDER, inside, name)) as below,
                ):
                    _walk(below, name, each)


@contextlib.contextmanager
def _parent(root: str, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The opened folder of an object, and the last part of its name."""
    *folders, last = name.split("/")
    with _folder(root, folders, make=make) as inside:
        yield inside, last


@contextlib.contextmanager
def _folder(root: str, parts: list[str], *, make: bool = False) -> Iterator[int]:
    if make:
        with contextlib.suppress(FileExistsError):  # a file of that name is refused when opened
            os.makedirs(root, 0o700)
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(_closing(os.open(root, _ROOT)))
        for depth, part in enumerate(parts, 1):
            name = "/".join(parts[:depth])
            try:
                below = _open(part, _FOLDER, inside, name)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):  # another writer was first
                    os.mkdir(part, 0o700, dir_fd=inside)
                below = _open(part, _FOLDER, inside, name)
            inside = stack.enter_context(_closing(below))
        yield inside


def _open(part: str, flags: int, inside: int, name: str) -> int:
    """Open one component, a folder or a file as `flags` say. Raises ForeignEntry for any other kind."""
    try:
        handle = os.open(part, flags, 0o600, dir_fd=inside)
    except FileNotFoundError:
        raise
    except OSError:
        if not stat.S_ISDIR(_mode(part, inside) or 0):
            _refuse(part, inside, name)
        raise
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISDIR(mode) if flags & os.O_DIRECTORY else stat.S_ISREG(mode)):
        os.close(handle)
        raise ForeignEntry(name, _kind(mode))
    return handle


def _refuse(part: str, inside: int, name: str) -> None:
    """Raise ForeignEntry unless the entry is a regular file or missing."""
    mode = _mode(part, inside)
    if mode is not None and not stat.S_ISREG(mode):
        raise ForeignEntry(name, _kind(mode))


def _mode(part: str, inside: int) -> int | None:
    """The mode of the entry itself, not of a link's target; None if there is none."""
    try:
        return os.stat(part, dir_fd=inside, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _kind(mode: int) -> str:
    return next((word for is_one, word in _KINDS if is_one(mode)), "no regular file")


def _flush(folder: int) -> None:
    """Write a folder's entries to the disk: otherwise a power failure could lose a new name."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without this operation
            raise


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
