"""Files are written whole or not at all, and replace another only where the caller says so.

They are private (0600) unless the caller says that they hold no secret; the umask may take further rights away.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cleave_shared.errors import CleaveError

PRIVATE, PUBLIC = 0o600, 0o644


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
    """`placed`, for whom an error is to name the file. Raises `error` where `placed` raises OSError."""
    try:
        with placed(path, mode=mode, overwrite=overwrite) as file:
            yield file
    except ThereError:
        raise error(f"{path}: is there already", hint="name another file, or move this one away first") from None
    except OSError as cause:
        shown = path.resolve() if overwrite else path
        raise error(f"{shown}: cannot be written ({cause.strerror})") from None


class ThereError(FileExistsError):
    """The file that was to be made, and not overwritten."""


@contextmanager
def placed(path: Path, *, mode: int = PRIVATE, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file beside `path`, which is flushed to disk and moved into place at the end; through a link, in the place of
    the file it names.

    The folder, if it has to be made, is as private as the file. Raises ThereError if the file exists and `overwrite` is
    not set, OSError if it cannot be written; nothing is left behind, unless this process is killed: then what it wrote
    so far, in a hidden file.
    """
    if overwrite:
        path = path.resolve()  # else what the link names would stay as it was: a key under its old passphrase
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if mode & 0o077 else 0o700)
    draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)  # less the umask
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
        if overwrite:
            os.replace(draft, path)
        else:
            _link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path) -> None:
    """Fails if the file is there, without a moment between look and leap."""
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise ThereError(error.errno, error.strerror, str(path)) from None
