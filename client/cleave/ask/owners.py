"""Owners: the tables under a key of theirs, and the fingerprint by which others know them, which a person compared or
which was remembered from the first use.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleave.ask.config import user
from cleave.ckks.key_file import open_key
from cleave.objects.cache import open_cache
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave_shared.errors import CleaveWarning, InputError, KeyFileError, stack_level

if TYPE_CHECKING:
    from cleave.ask.options import Access
    from cleave.objects.locate import Stores


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner that a reader or analyst expects.

    `fingerprint`: the owner's; None accepts the one that was seen before, or any if none was. `floor`: the number of
    the oldest head that is accepted.
    """

    fingerprint: str | None = None
    floor: int = 0

    @classmethod
    def parse(cls, given: str | None) -> Owner:
        """Read SHA256:..., or SHA256:...@N. Raises InputError where N is no number."""
        fingerprint, at, number = (given or "").partition("@")
        if at and not re.fullmatch("[0-9]{1,18}", number):
            raise InputError(
                f"--fingerprint: {number!r} after @ is not a number",
                hint="give it as the owner's `cleave release new` or `cleave reader add` printed it: SHA256:...@N",
            )
        return cls(fingerprint or None, int(number or 0))

    def require(self, what: str, tag: str, memory: SeenVersions, fingerprint: str, number: int) -> None:
        """Raise KeyFileError for another owner than the one expected; warn of one that is seen for the first time.

        `what`: words for what the owner signed, with head `number`. `tag`: as `tag_of` makes it.
        """
        remembered = memory.newest(tag)
        wanted = self.fingerprint or (remembered[0] if remembered else None)
        if wanted is not None and wanted != fingerprint:
            raise KeyFileError(
                f"{what} are signed by {fingerprint}, and {wanted} was expected",
                hint="the owner may have moved the table by `cleave key rotate`: compare the fingerprint with what the "
                "owner says over another channel, then accept it with --fingerprint (fingerprint=)",
            )
        if wanted is None:
            text = (
                f"{what} are signed by {fingerprint}@{number}, which is seen here for the first time: compare it with "
                "what the owner says over another channel (the number after @ may be higher)"
            )
            warnings.warn(text, CleaveWarning, stacklevel=stack_level())


def tag_of(what: str, place: str, where: str) -> str:
    """Name under which something at a place of a store is remembered, 32 hex digits."""
    return hashlib.sha256(f"{what} {place} {where}".encode()).hexdigest()[:32]


def open_tables(stores: Stores, access: Access, memory: SeenVersions | None = None, *, cache: bool = False) -> Tables:
    """Open the tables under one key, which may ask for its passphrase. Raises KeyFileError.

    `cache` keeps copies on this machine of what is read from a remote store; otherwise old copies are only removed.
    """
    key = open_key(access.key, access.passphrase, access.kms)
    return Tables(stores, key, memory or SeenVersions(), open_cache(used=cache), user())
