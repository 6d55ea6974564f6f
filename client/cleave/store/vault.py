"""Seals objects that only a table's owner may read or write, each under its own key.

An object's key is HKDF of a purpose's key, the table and the object's name, which has a random id: one purpose's or
object's key opens no other. Each sealed column has a key in between, which opens that column's objects only.
AES-256-GCM binds each object to its name. Sizes of objects depend on counts (cleave.store.padding).
"""

from __future__ import annotations

import os
import struct
from typing import Final, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave.ckks.owner_key import DerivationKey
from cleave.store.manifest import SealedColumn
from cleave.store.padding import padded, room
from cleave_shared import limits
from cleave_shared.errors import DAMAGED, CheckFailed, InputError

Purpose = Literal["manifest", "cells", "rows", "ckks", "draft", "job", "cache", "release", "log", "readers"]

_NONCE_BYTES = 12
_MAGIC = b"CLS3"
_SIZE = struct.Struct("<Q")
# Records are JSON objects. Bytes of a number in them: counts in a segment have 7 digits, rows of a table 15, weighted
# sums of a lane's entries 35.
_NUMBERS: Final[dict[Purpose, int]] = {"cells": 8, "release": 16, "manifest": 40, "draft": 40, "job": 40, "log": 16}


def seal(magic: bytes, key: bytes, content: bytes, bound: bytes) -> bytes:
    """Seal `content` with AES-256-GCM and associated data `bound`. The result is `magic`, a random nonce, ciphertext
    and tag.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return magic + nonce + AESGCM(key).encrypt(nonce, content, bound)


def unseal(magic: bytes, key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """Open the result of `seal`. Raises InvalidTag for anything else."""
    start = len(magic) + _NONCE_BYTES
    if sealed[: len(magic)] != magic:
        raise InvalidTag
    return AESGCM(key).decrypt(sealed[len(magic) : start], sealed[start:], bound)


def key_of_object(secret: bytes, name: str) -> bytes:
    """The key of the object `name` under the secret of one purpose: HKDF-Expand (RFC 5869), 32 bytes."""
    return HKDFExpand(SHA256(), 32, name.encode()).derive(secret)


def seal_record(key: bytes, name: str, content: bytes, digits: int | None, longest: int = 0) -> bytes:
    """Seal `content`, padded, as the object `name`. `digits`: bytes of a number in it, if it is JSON. `longest`: as for
    `room`.

    Raises InputError if it would take more bytes than an object may have.
    """
    size = room(content, digits, longest) if content[:1] == b"{" and digits is not None else len(content)
    if size > limits.MAX_OBJECT_BYTES:
        raise InputError(
            f"a record of the table would take more than {limits.MAX_OBJECT_BYTES:,} bytes",
            hint="store fewer cells, or shorter by values",
        )
    padding = bytes(padded(_SIZE.size + size) - _SIZE.size - len(content))
    return seal(_MAGIC, key, b"".join([_SIZE.pack(len(content)), content, padding]), _MAGIC + name.encode())


def open_record(key: bytes, name: str, sealed: bytes) -> bytes:
    """Return what `seal_record` was given. Raises CheckFailed for anything that this key did not seal as `name`."""
    try:
        packed = unseal(_MAGIC, key, sealed, _MAGIC + name.encode())
    except InvalidTag:
        raise CheckFailed("stored", "a sealed object of the table is damaged or another's", hint=DAMAGED) from None
    (size,) = _SIZE.unpack_from(packed)
    return packed[_SIZE.size : _SIZE.size + size]


class Vault:
    """Keys of one table, given by its id (32 hex digits)."""

    def __init__(self, key: DerivationKey, table_id: str) -> None:
        self._key = key
        self._table_id = table_id
        self._weights = key.derive(f"store/weights/{table_id}")

    def key_of(self, purpose: Purpose, name: str) -> bytes:
        """Key of the object `name`, 32 bytes."""
        return key_of_object(self._key.derive(f"store/{purpose}/{self._table_id}"), name)

    def column_key(self, column: str) -> bytes:
        """Key of a sealed column, by its id, 32 bytes. No object has the name that it is derived from."""
        return self.key_of("rows", f"column/{column}")

    def key_in_column(self, column: SealedColumn, name: str) -> bytes:
        """Key of the object `name` of a sealed column, 32 bytes."""
        return key_of_object(self.column_key(column.id), name)

    def seal(self, purpose: Purpose, name: str, content: bytes, longest: int = 0) -> bytes:
        """Seal `content`, padded, as the object `name`. `longest`: as for `room`."""
        return seal_record(self.key_of(purpose, name), name, content, _NUMBERS.get(purpose), longest)

    def open(self, purpose: Purpose, name: str, sealed: bytes) -> bytes:
        """Open the result of `seal`. Raises CheckFailed for anything that this key did not seal as `name`."""
        return open_record(self.key_of(purpose, name), name, sealed)

    def view_key(self, reader: str) -> bytes:
        """Key of all views of a reader, by the id of its registration, 32 bytes."""
        return self.key_of("readers", reader)

    def pseudorandom(self, label: str, length: int) -> bytes:
        """`length` bytes that look random without the key, and are always the same: AES-256 in counter mode under a key
        derived for `label`.
        """
        key = HKDFExpand(SHA256(), 32, label.encode()).derive(self._weights)
        return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(length))
