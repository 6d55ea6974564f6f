"""Names of files, and files that are written whole or not at all.

A written file replaces another only where the caller says so. It is private (0600) unless the caller says that it holds
no secret; the umask may take further rights away.

Until it is complete it is a draft beside its target, `.NAME.cleave-RANDOM`, on which its writer holds a lock (flock). A
draft without a lock was left by a killed writer; the next writer of NAME removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cleave_shared.errors import CleaveError, InputError

PRIVATE, PUBLIC = 0o600, 0o644
_LONGEST_NAME = 255  # bytes, on every Linux file system
_MARK, _RANDOM_BYTES = ".cleave-", 8  # of a draft's name
FORCE = "name another file, or replace this one with --force"


def names_file(word: str | Path) -> bool:
    """True if a file or folder has this name. A text that cannot be a name, such as a long query, is no error."""
    return os.path.exists(word)


def require_target(
    path: str | Path,
    error: type[CleaveError] = InputError,
    hint: str = "name another file, or move this one away first",
    *,
    overwrite: bool = False,
) -> None:
    """Raise `error` if no file can be written there: its folder is missing, or, unless `overwrite`, the name is used.

    Call it before work whose result is written there. `hint` is about a used name. Removes what killed writers of this
    file left.
    """
    target = _target(path, overwrite=overwrite)
    _remove_drafts(target)
    if not overwrite and names_file(path):
        raise error(f"{path}: already exists", hint=hint)
    _require_folder(target, error)


def _require_folder(path: Path, error: type[CleaveError]) -> None:
    """Raise `error` unless the folder of this file exists. Cleave makes no folder that a user named."""
    folder = path.parent
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except FileNotFoundError:
        hint = f"make it first: mkdir -p {shlex.quote(str(folder))}"
        raise error(f"{path}: there is no folder {folder}", hint=hint) from None
    except OSError:  # the attempt to write says why
        return
    if not is_folder:
        raise error(f"{path}: {folder} is not a folder", hint="name another file")


def make_folder(folder: Path, error: type[CleaveError]) -> None:
    """Make one of Cleave's own folders, and those above it, private. Raises `error` if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as cause:
        raise error(f"{folder}: cannot be made ({cause.strerror})") from None


def _target(path: str | Path, *, overwrite: bool) -> Path:
    # else what the link names would stay as it was: a key under its old passphrase
    return Path(os.path.realpath(path) if overwrite and os.path.islink(path) else path)


def expanded(path: str | Path, error: type[CleaveError] = InputError, hint: str = "name the whole path") -> Path:
    """Replace a leading `~` or `~user`. Raises `error` for a user without a home directory, and for a NUL byte."""
    _refuse_nul(path, error)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise error(f"{path}: there is no such home directory", hint=hint) from None


def _refuse_nul(path: str | Path, error: type[CleaveError]) -> None:
    if "\0" in str(path):
        raise error(f"{str(path)!r} is no path", hint="a name cannot hold a NUL byte")


def open_file(path: Path) -> BinaryIO:
    """Open a file to read. A pipe that nobody writes to is empty; it is not waited for. Raises OSError."""

    def opened(name: str, flags: int) -> int:
        handle = os.open(name, flags | os.O_NONBLOCK)
        os.set_blocking(handle, True)
        return handle

    return open(path, "rb", opener=opened)


def read_at_most(path: Path, most: int, error: type[CleaveError]) -> bytes:
    """Read a file that Cleave or a person wrote. Raises OSError, and `error` for one of more than `most` bytes."""
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise error(f"{path}: has more than {most:,} bytes", hint="is it the right file?")
    return content


def write_atomically(
    path: Path,
    content: str | bytes,
    *,
    error: type[CleaveError],
    mode: int = PRIVATE,
    overwrite: bool = False,
) -> None:
    """Write `content`, text as UTF-8, by `atomically`."""
    with atomically(path, error=error, mode=mode, overwrite=overwrite) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomically(
    path: Path, *, error: type[CleaveError], mode: int = PRIVATE, overwrite: bool = False
) -> Iterator[BinaryIO]:
    """Write a file beside `path`, flush it to disk and move it into place at the end.

    Through a link it replaces the file that the link names.

    Raises `error` if the folder is missing, if the file exists and `overwrite` is not set, if it is a device, pipe or
    socket, or if it cannot be written. Nothing is left behind. If this process is killed, a hidden file with what it
    wrote so far stays until the same file is written again.
    """
    _refuse_nul(path, error)
    target = _target(path, overwrite=overwrite)
    _require_folder(target, error)
    _remove_drafts(target)
    try:
        if overwrite and os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target)):
            raise error(f"{target}: is not a regular file, and is not replaced", hint="name another file")
        draft, handle = _new_draft(target, mode)
        with os.fdopen(handle, "wb") as file:  # closed, and so unlocked, when the draft has its name no more
            try:
                yield file
                file.flush()
                os.fsync(handle)
                if overwrite:
                    os.replace(draft, target)
                else:
                    _link(draft, target, error)
            finally:
                draft.unlink(missing_ok=True)
    except OSError as cause:
        raise error(f"{target}: cannot be written ({cause.strerror})") from None


def require_empty(folder: Path, error: type[CleaveError]) -> None:
    """Raise `error` unless `fill_atomically` can fill this folder: it exists, is empty and can be replaced."""
    target = Path(os.path.realpath(folder))
    _require_folder(folder / "any file", error)
    _remove_drafts(target)
    another = f"make an empty one: mkdir {shlex.quote(str(folder / 'shares'))}"
    try:
        first = min(os.listdir(folder), default="")
        fixed = os.path.ismount(target) or target == Path.cwd()
    except OSError as cause:
        raise error(f"{folder}: cannot be read ({cause.strerror})") from None
    if first:
        raise error(f"{folder}: is not empty: it has {first}", hint=another)
    if fixed:  # the system does not replace it, or the user's shell would be in a folder that is gone
        raise error(f"{folder}: is the current folder, or that of a whole disk", hint=another)


@contextmanager
def fill_atomically(folder: Path, *, error: type[CleaveError]) -> Iterator[Path]:
    """Replace an empty folder by a new private one, which is filled in the block under a name of its own.

    So `folder` has all its files or none. Raises `error` as `require_empty` does, and if it cannot be written. What is
    left behind is as with `atomically`.
    """
    require_empty(folder, error)
    target = Path(os.path.realpath(folder))
    try:
        draft, handle = _new_draft(target, None)
        try:
            yield draft
            os.fsync(handle)
            os.rename(draft, target)  # fails unless the target is an empty folder
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            os.close(handle)
    except OSError as cause:
        raise error(f"{folder}: cannot be written ({cause.strerror})") from None


def _prefix(target: Path) -> str:
    """How the names of drafts of `target` start."""
    room = _LONGEST_NAME - 1 - len(_MARK) - 2 * _RANDOM_BYTES
    return f".{os.fsdecode(os.fsencode(target.name)[:room])}{_MARK}"


def _new_draft(target: Path, mode: int | None) -> tuple[Path, int]:
    """Create a locked draft beside `target`: a file of `mode`, or a folder (None). Raises OSError."""
    while True:
        draft = target.parent / f"{_prefix(target)}{os.urandom(_RANDOM_BYTES).hex()}"
        if mode is not None:
            handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)  # less the umask
        else:
            draft.mkdir(0o700)
            try:
                handle = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
        with suppress(OSError):  # on a file system without locks nobody removes drafts
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(draft):  # else another writer removed it as a killed one's, before it was locked
            return draft, handle
        os.close(handle)


def _remove_drafts(target: Path) -> None:
    """Remove the drafts of `target` that no process has locked. What cannot be removed stays."""
    draft = re.compile(f"{re.escape(_prefix(target))}[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    with suppress(OSError, ValueError):
        for name in filter(draft.fullmatch, os.listdir(target.parent)):
            with suppress(OSError):
                _remove_unlocked(target.parent / name)


def _remove_unlocked(draft: Path) -> None:
    handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(handle).st_mode
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(kind):
            shutil.rmtree(draft)
        elif stat.S_ISREG(kind):
            draft.unlink()
    finally:
        os.close(handle)


def _link(draft: Path, path: Path, error: type[CleaveError]) -> None:
    """Raises `error` if the file exists, without a moment between check and creation."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise error(f"{path}: already exists", hint="name another file, or move this one away first") from None
