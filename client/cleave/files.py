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
    """Write a file beside `path`, flush it to disk and move it into place at the end.

    Through a link it replaces the file that the link names. A folder that is missing is made as private as the file.

    Raises `error` if the file exists and `overwrite` is not set, or if it cannot be written. Nothing is left behind,
    unless this process is killed: then a hidden file with what it wrote so far.
    """
    # else what the link names would stay as it was: a key under its old passphrase
    target = Path(os.path.realpath(path)) if overwrite else path
    draft = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if mode & 0o077 else 0o700)
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)  # less the umask
        try:
            with os.fdopen(handle, "wb") as file:
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


def _link(draft: Path, path: Path, error: type[CleaveError]) -> None:
    """Raises `error` if the file exists, without a moment between check and creation."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise error(f"{path}: already exists", hint="name another file, or move this one away first") from None
