"""A CKKS secret key of one table or one session, and the keys derived beside it."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave_shared.params import Profile


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
        raise TypeError("a secret key is not serialised")  # forked workers inherit it; nothing sends it

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose, by HKDF-Expand (RFC 5869) from 32 secret bytes that go with the key."""
        return HKDFExpand(SHA256(), 32, b"cleave/2/ckks/" + purpose.encode()).derive(self._master)

    def tag(self, text: str) -> str:
        """32 hex digits that replace `text` on the wire: without the key no guess at it can be confirmed."""
        return hmac.digest(self.derive("tag"), text.encode(), "sha256").hex()[:32]


def fresh_key(profile: Profile) -> SecretKey:
    """A new key, for one session or one table."""
    from cleave_shared import seal  # noqa: PLC0415 - TenSEAL takes 60 ms

    secret = seal.save(seal.api.KeyGenerator(seal.ring(profile.name).context).secret_key())
    return SecretKey(secrets.token_hex(16), profile, secret, secrets.token_bytes(32))
