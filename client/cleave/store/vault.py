"""What only the owner of a table may read or have written: sealed under keys that follow from the secret key.

AES-256-GCM under a key of the table's own, with a random nonce and the object's name as associated data: an object that
is damaged, or put in another's place, does not open. Nonces are 96 random bits; a table has far fewer than the 2^32
objects up to which that is sound (NIST SP 800-38D, 8.3).

What is sealed is compressed, so its size tells how well its values compress. It is padded to one of few sizes: Padme
(Nikitin et al., PoPETs 2019), at most 12% longer, and log log of the size is what is left to be learnt.
"""

from __future__ import annotations

import os
from typing import Protocol

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave_shared.errors import DAMAGED, CheckFailed

_NONCE_BYTES = 12
_MAGIC = b"CLS1"
_SHORTEST = 512  # manifests, cells and indexes of small tables are all of one size


class Deriving(Protocol):
    """A secret from which keys for single purposes follow: an owner's key, or a contributor's identity."""

    def derive(self, purpose: str, /) -> bytes: ...


class Vault:
    """Of one table, by its id: 32 hex digits that are made with it."""

    def __init__(self, key: Deriving, table_id: str) -> None:
        self._cipher = AESGCM(key.derive(f"store/seal/{table_id}"))
        self._weights = key.derive(f"store/weights/{table_id}")

    def seal(self, name: str, content: bytes) -> bytes:
        """`content`, compressed and padded, as the object `name`; 32 bytes longer than that."""
        nonce = os.urandom(_NONCE_BYTES)
        packed = zstandard.ZstdCompressor(level=3).compress(content)
        packed += bytes(padded(len(packed)) - len(packed))
        return _MAGIC + nonce + self._cipher.encrypt(nonce, packed, _MAGIC + name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Raises CheckFailed for what this key did not seal as the object `name`."""
        start = len(_MAGIC) + _NONCE_BYTES
        try:
            if sealed[: len(_MAGIC)] != _MAGIC:
                raise InvalidTag
            packed = self._cipher.decrypt(sealed[len(_MAGIC) : start], sealed[start:], _MAGIC + name.encode())
        except InvalidTag:
            raise CheckFailed("stored", "a sealed object of the table is damaged or another's", hint=DAMAGED) from None
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=True)

    def pseudorandom(self, label: str, length: int) -> bytes:
        """`length` bytes that only the owner can tell from random ones, the same every time: AES-256 in counter mode
        under a key for `label` alone.
        """
        key = HKDFExpand(SHA256(), 32, label.encode()).derive(self._weights)
        return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(length))


def padded(size: int) -> int:
    """The next size above `size` of which only the leading bits are set: as many as log2(log2(size)), and one."""
    if size < _SHORTEST:
        return _SHORTEST
    bits = size.bit_length() - 1
    loose = bits - bits.bit_length()
    return -(-size >> loose) << loose
