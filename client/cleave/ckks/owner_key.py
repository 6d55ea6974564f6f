"""The owner's key: a master secret of 32 bytes, from which a key for each purpose is derived.

A derived key reveals no other. CKKS secrets are not derived: each table and each session has a random one
(cleave.ckks.secret_key).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave_shared.errors import KeyFileError

MASTER_BYTES = 32


class DerivationKey(Protocol):
    """An owner's key or an identity: keys for single purposes are derived from it."""

    def derive(self, purpose: str, /) -> bytes: ...


class OwnerKey:
    """An opened key. Its master secret is never shown, sent or serialised.

    `key_id`: 32 hex digits of SHA-256 of the public signing key. `floors`: the newest table versions seen when the key
    file was copied, by the tags of cleave.store.seen_versions.
    """

    __slots__ = ("_master", "floors", "key_id")

    def __init__(self, master: bytes, floors: dict[str, tuple[str, int]] | None = None) -> None:
        self._master = master
        self.key_id = key_id_of(self.signing_key().public_key().public_bytes_raw())
        self.floors = floors or {}

    def __repr__(self) -> str:
        return f"OwnerKey({self.key_id})"

    def __reduce__(self) -> Any:
        raise TypeError("an owner's key is not serialised")  # nothing sends it

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose, by HKDF-Expand (RFC 5869) from the master secret."""
        return HKDFExpand(SHA256(), 32, b"cleave/2/" + purpose.encode()).derive(self._master)

    def tag(self, text: str) -> str:
        """32 hex digits that replace `text` in a store. Without the key no guess of `text` can be verified."""
        return hmac.digest(self.derive("tag"), text.encode(), "sha256").hex()[:32]

    def signing_key(self) -> Ed25519PrivateKey:
        """The Ed25519 key that signs heads and invitations (RFC 8032)."""
        return Ed25519PrivateKey.from_private_bytes(self.derive("sign"))


def box_keys(key: DerivationKey) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    """The secret keys (ML-KEM-768, X25519) for what others seal to this key with HPKE. Raises KeyFileError."""
    seed = key.derive("box/mlkem/d") + key.derive("box/mlkem/z")
    try:
        mlkem = MLKEM768PrivateKey.from_seed_bytes(seed)
        return mlkem, X25519PrivateKey.from_private_bytes(key.derive("box/x25519"))
    except UnsupportedAlgorithm:
        raise KeyFileError(
            "the OpenSSL that the cryptography package was built with has no ML-KEM",
            hint="use the package's own wheels, which have it",
        ) from None


def key_id_of(signing: bytes) -> str:
    """The id of the key with this public signing key."""
    return hashlib.sha256(b"cleave key 2" + signing).hexdigest()[:32]


def fingerprint_of(content: bytes) -> str:
    """The fingerprint of public bytes, as people compare it: SHA256: and the base64 of their digest."""
    return "SHA256:" + encoded(hashlib.sha256(content).digest()).rstrip("=")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def bytes_of(content: dict[str, Any], name: str, length: int | None = None) -> bytes:
    """Decode a base64 member, of `length` bytes if given. Raises ValueError."""
    text = content.get(name)
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        data = None
    if data is None or encoded(data) != text or (length is not None and len(data) != length):
        raise ValueError(f"{name} is not base64{f' of {length} bytes' if length else ''}")
    return data
