"""The master secret wrapped with a KMS key: AES-256-GCM under a data key that only KMS can decrypt.

KMS sees the data key, never the master secret. The data key is useless without the key file. Its encryption context is
the key id, which AWS logs and policies can use. The wrapping's associated data are key id and ARN, so it opens only in
its own key's file.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.ckks.owner_key import MASTER_BYTES, bytes_of, encoded
from cleave.formats import FORMAT
from cleave_shared.errors import KeyFileError

NAME = "kms"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_DATA_KEY_BYTES = 32
_MOST_SEALED = 6144  # bytes of a ciphertext: the limit of KMS
_ARN = re.compile(r"arn:aws[a-z-]{0,20}:kms:[a-z0-9-]{1,40}:[0-9]{12}:key/[A-Za-z0-9-]{1,128}")
_OWN = {"name", "arn", "data_key", "nonce", "secret"}


class KeyService(Protocol):
    """AWS KMS."""

    def data_key(self, arn: str, key_id: str, /) -> tuple[str, bytes, bytes]:
        """Create a data key. Returns the ARN of the KMS key, the data key (32 bytes), and the data key encrypted.

        `arn`: of a key or an alias. `key_id` is the encryption context. Raises ServiceError.
        """
        ...

    def decrypt(self, arn: str, key_id: str, sealed: bytes, /) -> bytes:
        """Decrypt a data key. Raises ServiceError, or KeyFileError if it is not a data key of `arn` for `key_id`."""
        ...


@dataclass(frozen=True, slots=True)
class KmsWrapping:
    """`data_key` is encrypted by the KMS key `arn`. `secret` is the master secret, encrypted with the data key."""

    arn: str
    data_key: bytes
    nonce: bytes
    secret: bytes

    @classmethod
    def make(cls, arn: str, key_id: str, master: bytes, kms: KeyService) -> KmsWrapping:
        """Wrap the master secret, and check that it opens: the caller may be allowed to encrypt but not to decrypt.

        `arn`: of a key or an alias. Raises ServiceError, KeyFileError.
        """
        arn, plain, sealed = kms.data_key(arn, key_id)
        if not _ARN.fullmatch(arn):
            raise KeyFileError("AWS KMS named a key by an ARN that no key file can hold")
        nonce = os.urandom(_NONCE_BYTES)
        wrapping = cls(arn, sealed, nonce, AESGCM(plain).encrypt(nonce, master, _bound(key_id, arn)))
        if wrapping.open(None, key_id, kms) != master:
            raise KeyFileError(f"{arn}: AWS KMS does not decrypt what it encrypted")
        return wrapping

    def open(self, path: Path | None, key_id: str, kms: KeyService | None) -> bytes:
        """Return the master secret. `path`: the key file, for errors. Raises KeyFileError, ServiceError."""
        if kms is None:
            raise KeyFileError(
                f"{path}: a KMS key wraps this key, and AWS KMS is not used here",
                hint="`cleave key wrap --passphrase` adds a passphrase to the file",
            )
        plain = kms.decrypt(self.arn, key_id, self.data_key)
        try:
            if len(plain) != _DATA_KEY_BYTES:
                raise InvalidTag
            return AESGCM(plain).decrypt(self.nonce, self.secret, _bound(key_id, self.arn))
        except InvalidTag:
            raise KeyFileError(
                f"{path or self.arn}: the wrapping by {self.arn} is damaged", hint="restore the key file from a backup"
            ) from None

    def dump(self) -> dict[str, Any]:
        return {
            "name": NAME,
            "arn": self.arn,
            "data_key": encoded(self.data_key),
            "nonce": encoded(self.nonce),
            "secret": encoded(self.secret),
        }

    @classmethod
    def parse(cls, content: dict[str, Any]) -> KmsWrapping:
        """Raises ValueError."""
        if set(content) != _OWN or content["name"] != NAME:
            raise ValueError("a wrapping is of no known kind, or has members that none has")
        arn, data_key = content["arn"], bytes_of(content, "data_key")
        if not isinstance(arn, str) or not _ARN.fullmatch(arn):
            raise ValueError("a wrapping's arn is not that of a KMS key")
        if not 0 < len(data_key) <= _MOST_SEALED:
            raise ValueError(f"a wrapping's data_key is not of 1 to {_MOST_SEALED:,} bytes")
        secret = bytes_of(content, "secret", MASTER_BYTES + _TAG_BYTES)
        return cls(arn, data_key, bytes_of(content, "nonce", _NONCE_BYTES), secret)


def _bound(key_id: str, arn: str) -> bytes:
    return json.dumps([FORMAT, key_id, NAME, arn]).encode()
