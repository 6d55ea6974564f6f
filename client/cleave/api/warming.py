"""`cleave.warm`, `cleave.pool` and `cleave.drop_pool`: encryptions made ahead of questions and puts."""

from __future__ import annotations

from pathlib import Path

from cleave.api.bars import bars
from cleave.api.opening import PassphraseLike, access_to
from cleave.warming import VALUES, KeyPool, MadeAhead, Use


def warm(
    values: int = VALUES,
    use: Use = "query",
    *,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    progress: bool | None = None,
) -> MadeAhead:
    """Encrypt ahead of time what so many encrypted values take, as `cleave warm` does; what there is then for that use.

    "query": of questions over files and frames; "put": of `put`, `append` and `cleave key rotate`. Those there already
    count. Each is used once, and none after the machine was started anew.

    >>> import cleave
    >>> made = cleave.warm(100_000, "put")
    >>> made.values >= 100_000, made.bytes > 8 * made.values
    (True, True)
    >>> stored = cleave.put("patients.csv", "warm", store="tables", by=["ward"])
    >>> cleave.pool("put").ciphertexts < made.ciphertexts
    True
    >>> cleave.drop_pool() > 0
    True

    Raises InputError where CLEAVE_POOL is off, for too many values and where they cannot be written; KeyFileError.
    """
    found = KeyPool(access_to(key, passphrase))
    found.fill(values, use, bars(progress))
    return found.there(use)


def pool(use: Use = "query", *, key: str | Path | None = None, passphrase: PassphraseLike | None = None) -> MadeAhead:
    """What there is for that use; nothing is made. Raises as `warm` does."""
    return KeyPool(access_to(key, passphrase)).there(use)


def drop_pool(*, key: str | Path | None = None) -> int:
    """Delete all that was made ahead under a key, for either use; how many encryptions that were.

    Raises InputError, KeyFileError.
    """
    return KeyPool(access_to(key, None)).drop()
