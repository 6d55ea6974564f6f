"""A CKKS secret key of one table or one session, and the keys derived beside it."""

from __future__ import annotations

import secrets
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave_shared.params import PROFILES, Profile

SharedKey = tuple[str, str, bytes, bytes]


class SecretKey:
    """A CKKS secret key. Only cleave.ckks.cipher uses its secrets; they are never shown.

    `key_id`: 32 random hex digits that name the key in requests and answers.
    """

    __slots__ = ("_master", "key_id", "profile", "secret")

    def __init__(self, key_id: str, profile: Profile, secret: bytes, master: bytes) -> None:
        self.key_id = key_id
        self.profile = profile
        self.secret = secret  # SEAL's file of the CKKS secret key
        self._master = master

    def __repr__(self) -> str:
        return f"SecretKey({self.key_id})"

    def __reduce__(self) -> Any:
        raise TypeError("a secret key is not serialised")  # `shared` is the deliberate way to give it to a worker

    @classmethod
    def from_shared(cls, key: SharedKey) -> SecretKey:
        key_id, profile, secret, master = key
        return cls(key_id, PROFILES[profile], secret, master)

    @property
    def shared(self) -> SharedKey:
        """The whole key, for workers of this process only."""
        return self.key_id, self.profile.name, self.secret, self._master

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose: HKDF-Expand (RFC 5869) from 32 secret bytes stored with the key."""
        return HKDFExpand(SHA256(), 32, b"cleave/2/ckks/" + purpose.encode()).derive(self._master)


def fresh_key(profile: Profile) -> SecretKey:
    """A new random key, for one session or one table."""
    from cleave_shared import seal  # noqa: PLC0415 - TenSEAL takes 60 ms

    secret = seal.save(seal.api.KeyGenerator(seal.ring(profile.name).context).secret_key())
    return SecretKey(secrets.token_hex(16), profile, secret, secrets.token_bytes(32))
