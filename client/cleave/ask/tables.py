"""Open the tables under a key, without the code that questions over them need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleave.ask.config import user
from cleave.ask.owners import Owner
from cleave.ckks.key_file import open_key
from cleave.objects.cache import open_cache
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables

if TYPE_CHECKING:
    from cleave.ask.options import Access
    from cleave.ask.reader import ReaderTables
    from cleave.objects.locate import Stores
    from cleave.store.newest import Newest


def open_newest(stores: Stores, access: Access, memory: SeenVersions | None = None, *, cache: bool = False) -> Newest:
    """The tables that questions are over: those of an owner, or of a reader. Raises KeyFileError, as below."""
    if access.reads:
        return open_reader(stores, access, memory)
    return open_tables(stores, access, memory, cache=cache)


def open_reader(stores: Stores, access: Access, memory: SeenVersions | None = None) -> ReaderTables:
    """The tables of a reader, whose key may be asked its passphrase. Raises KeyFileError."""
    from cleave.ask.reader import ReaderTables  # noqa: PLC0415 - an owner does not need it

    owner = Owner.parse(access.fingerprint)
    key = open_key(access.key, access.passphrase, access.kms)
    return ReaderTables(stores, key, memory or SeenVersions(), owner)


def open_tables(stores: Stores, access: Access, memory: SeenVersions | None = None, *, cache: bool = False) -> Tables:
    """Open the tables under one key, which may ask for its passphrase. Raises KeyFileError.

    `cache` keeps copies on this machine of what is read from a remote store; otherwise old copies are only removed.
    """
    key = open_key(access.key, access.passphrase, access.kms)
    return Tables(stores, key, memory or SeenVersions(), open_cache(used=cache), user())
