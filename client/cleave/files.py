"""Files are written whole or not at all, and never over another without being told."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cleave_shared.errors import CleaveError


def write_atomically(
    path: Path, content: str | bytes, *, error: type[CleaveError], mode: int = 0o644, overwrite: bool = False
) -> None:
    """Write `content`, text as UTF-8, beside `path`, flush it to disk, then move it into place; through a link, in the
    file it names.

    The folder, if it has to be made, is as private as the file. Raises `error` if the file exists and `overwrite` is
    not set, or if it cannot be written; nothing is left behind.
    """
    if overwrite:
        path = path.resolve()  # else what the link names would stay as it was: a key under its old passphrase
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if mode & 0o077 else 0o700)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as cause:
        raise error(f"{path}: cannot be written ({cause.strerror})") from None
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        if overwrite:
            os.replace(draft, path)
        else:
            os.link(draft, path)  # fails if the file is there, without a moment between look and leap
    except FileExistsError:
        raise error(f"{path}: is there already", hint="name another file, or move this one away first") from None
    except OSError as cause:
        raise error(f"{path}: cannot be written ({cause.strerror})") from None
    finally:
        Path(draft).unlink(missing_ok=True)
