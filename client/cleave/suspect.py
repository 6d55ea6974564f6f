"""Keys under which an answer failed a check: marked in their file, and asked under again only on an explicit word."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cleave.ckks.key_file import KeyInfo, mark_suspect
from cleave_shared.errors import CheckFailed, KeyFileError

_NEW_KEY = "make a new one for what comes (cleave key new)"


def refuse_suspect(key: KeyInfo) -> None:
    """Raise KeyFileError for a suspect key, which is to ask no remote service."""
    if key.suspect is not None:
        raise KeyFileError(
            f"{key.path}: this key is suspect since {key.suspect}: an answer under it failed a check",
            hint=f"{_NEW_KEY}; --suspect-key asks nevertheless, and what is encrypted already stays readable",
        )


@contextlib.contextmanager
def marking(key: Path) -> Iterator[None]:
    """Mark the key if a check of a remote service's sensitive half fails. Its digest was right, or it had not come."""
    from cleave.ckks.checks import CHECKS  # noqa: PLC0415 - TenSEAL takes 60 ms

    try:
        yield
    except CheckFailed as failure:
        if failure.check in (*CHECKS, "totals"):  # the second of sums over stored tables
            failure.hint = f"nothing of this answer can be trusted, and the key is suspect now: {_NEW_KEY}"
            try:
                mark_suspect(key, failure.check)
            except KeyFileError as unmarked:
                failure.hint += f"; it could not be marked so: {unmarked.message}"
        raise
