"""Identities of contributors and analysts: an Ed25519 key (RFC 8032) in a PEM file (PKCS #8) that other tools can read.

A contributor's identity signs its rows, but opens none. With a stolen identity, rows can be added in its name until the
owner removes it; no row can be read. The draft of a put is sealed under a key derived from it. Its public half is
SubjectPublicKeyInfo.

Releases are sealed to the HPKE key derived from an analyst's identity. Its public half is that key's public side, in
the format of an owner's (cleave.ckks.public_key).
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from cleave.ckks.public_key import public_side
from cleave.files import PUBLIC, read_at_most, require_target, write_atomically
from cleave_shared.errors import KeyFileError

_MOST = 64 << 10
_MAKE = "make one with `cleave key contributor` or `cleave analyst new`"


class Identity:
    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public: str = key.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"Identity({self.public})"

    def signing_key(self) -> Ed25519PrivateKey:
        return self._key

    def sign(self, content: bytes) -> str:
        return self._key.sign(content).hex()

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose: HKDF (RFC 5869) from the key's 32 random bytes (RFC 8032, 5.1.5). Signatures
        do not use these bytes but their SHA-512.
        """
        info = b"cleave/contributor/1/" + purpose.encode()
        return HKDF(SHA256(), 32, salt=None, info=info).derive(self._key.private_bytes_raw())


def create_identity(path: Path, *, analyst: bool = False) -> tuple[Identity, Path]:
    """Write a new identity to `path` (mode 0600) and its public half beside it. Raises KeyFileError if a file
    exists.
    """
    public = path.with_name(path.name + ".pub")
    for each in (path, public):
        require_target(each, KeyFileError)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    identity = Identity(key)
    if analyst:
        public_half = public_side(identity).dump(identity).encode()
    else:
        public_half = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_atomically(path, pem, error=KeyFileError)
    write_atomically(public, public_half, mode=PUBLIC, error=KeyFileError)
    return identity, public


def read_identity(path: Path) -> Identity:
    """Raises KeyFileError if the file is no identity, or other users can read it."""
    content = _read(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path}: not an identity", hint=_MAKE)
    if path.stat().st_mode & 0o077:
        raise KeyFileError(f"{path}: others on this machine may use this identity", hint=f"chmod 600 {path}")
    return Identity(key)


def read_contributor_key(path: Path) -> str:
    """The public half, 64 hex digits. Raises KeyFileError."""
    content = _read(path)
    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path}: not a contributor's public key", hint="name the file that ends in .pub")
    return key.public_bytes_raw().hex()


def is_signed(public: str, signature: str, content: bytes) -> bool:
    """True if `signature` is by the holder of `public`, over `content`."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        return read_at_most(path, _MOST, KeyFileError)
    except FileNotFoundError:
        raise KeyFileError(f"{path}: no such file", hint=_MAKE) from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint=_MAKE) from None
