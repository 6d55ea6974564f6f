"""A CKKS secret key of one table or one session, and the keys derived beside it."""

from __future__ import annotations

import secrets
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave_shared.params import PROFILES, Profile

SharedKey = tuple[str, str, bytes, bytes]


class SecretKey:
    """Its secrets are reachable by `cleave.ckks.cipher` only and never shown.

    `key_id`: 32 hex digits that requests and answers name it by; they say nothing of the key.
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
        raise TypeError("a secret key is not serialised")  # by accident: `shared` says what goes to a worker

    @classmethod
    def from_shared(cls, key: SharedKey) -> SecretKey:
        key_id, profile, secret, master = key
        return cls(key_id, PROFILES[profile], secret, master)

    @property
    def shared(self) -> SharedKey:
        """The whole key, for an encrypting process of this one alone."""
        return self.key_id, self.profile.name, self.secret, self._master

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose, by HKDF-Expand (RFC 5869) from 32 secret bytes that go with the key."""
        return HKDFExpand(SHA256(), 32, b"cleave/2/ckks/" + purpose.encode()).derive(self._master)


def fresh_key(profile: Profile) -> SecretKey:
    """A new key, for one session or one table."""
    from cleave_shared import seal  # noqa: PLC0415 - TenSEAL takes 60 ms

    secret = seal.save(seal.api.KeyGenerator(seal.ring(profile.name).context).secret_key())
    return SecretKey(secrets.token_hex(16), profile, secret, secrets.token_bytes(32))
