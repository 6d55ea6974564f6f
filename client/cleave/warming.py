"""Encryptions made ahead for one key, by what they are for: `cleave warm`, and `cleave.warm` in Python."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from cleave.ckks import pool
from cleave.ckks.cipher import Form
from cleave.ckks.filling import chunks_of, fill, seconds_saved
from cleave.ckks.key_file import describe_key, open_key
from cleave.ckks.secret_key import SecretKey
from cleave.session import Access, Bars
from cleave.transport.deadline import Deadline
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError
from cleave_shared.moments import SENTINELS

VALUES = 4_000_000  # that are made ahead for where nobody says how many
Use = Literal["query", "put"]

_FORMS: dict[Use, Form] = {"query": "coefficients", "put": "ntt"}
_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class MadeAhead:
    """What there is for one use: about so many ciphertexts, with room for so many encrypted values, and their bytes on
    the disk. `cpu_seconds_saved`: of one processor, about, once all of them are used.
    """

    use: Use
    ciphertexts: int
    values: int
    bytes: int
    cpu_seconds_saved: float


class KeyPool:
    """The pool of one key, which is opened when it is first needed."""

    def __init__(self, access: Access) -> None:
        """Raises KeyFileError, and InputError where there is to be no pool."""
        known = describe_key(access.key)
        folder = pool.folder_of(known.key_id)
        if folder is None:
            raise InputError(
                "CLEAVE_POOL is off, or this account has no home directory: there is no pool",
                hint="CLEAVE_POOL names a folder for it",
            )
        self.key_id = known.key_id
        self.folder = folder
        self._profile = known.profile
        self._access = access

    @cached_property
    def _key(self) -> SecretKey:
        return open_key(self._access.key, self._access.passphrase)

    def fill(self, values: int, use: Use, bars: Bars) -> None:
        """Make what is missing of encryptions for so many values.

        Raises InputError for too many values, and where files cannot be written; KeyFileError.
        """
        form, wanted = _form(use), chunks_of(values, self._profile)
        key = self._key  # may prompt: no bars then
        pool.sweep(self.key_id)
        with bars() as progress:
            advance = progress.stage("encrypt zeros", max(0, wanted - pool.count(self.key_id, form)))
            fill(pool.Pool(self.folder, key), key, form, wanted, Deadline(_SECONDS), advance)

    def there(self, use: Use) -> MadeAhead:
        """Tries out what one saves, if there are any: raises KeyFileError then."""
        form = _form(use)
        count = pool.count(self.key_id, form)
        return MadeAhead(
            use=use,
            ciphertexts=count,
            values=count * (self._profile.degree - SENTINELS),
            bytes=pool.size(self.key_id, form),
            cpu_seconds_saved=count * seconds_saved(self._key, form) if count else 0.0,
        )

    def drop(self) -> int:
        """Delete all of it; how many encryptions that were. Needs no passphrase. Raises InputError."""
        return pool.drop(self.key_id)


def _form(use: Use) -> Form:
    if use not in _FORMS:
        raise InputError(f"encryptions are not made ahead for {use!r}", hint=f"one of {', '.join(_FORMS)}")
    return _FORMS[use]
