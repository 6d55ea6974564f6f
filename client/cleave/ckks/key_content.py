"""The content of a key file: as an object, and as the text described in docs/key-file.md."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field, replace
from typing import Any

from cleave.ckks.kms_wrapping import KmsWrapping
from cleave.ckks.owner_key import OwnerKey, encoded, key_id_of

VERSION = 2
MANY = 3  # version with several wrappings
KDF = "argon2id"


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How the secret part is wrapped: Argon2id with `settings`, then AES-256-GCM."""

    salt: bytes
    nonce: bytes
    settings: dict[str, int]


Floors = dict[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file's content.

    `secret`: the master secret. It is encrypted unless `is_bare`, and empty if only KMS keys wrap it. `signing`: the
    public Ed25519 key. `floors`: tag of a table -> its id and the newest version seen. `mac`: of version 3 only.
    """

    created: str  # ISO 8601, UTC
    signing: bytes
    floors: Floors
    wrapping: Wrapping | None
    secret: bytes = field(repr=False)
    kms: tuple[KmsWrapping, ...] = ()
    mac: bytes | None = None

    @property
    def key_id(self) -> str:
        return key_id_of(self.signing)

    @property
    def version(self) -> int:
        return VERSION if self.mac is None else MANY

    @property
    def is_bare(self) -> bool:
        return self.wrapping is None and not self.kms

    @property
    def associated(self) -> bytes:
        """The associated data of version 2's wrapping: all clear members that could be swapped."""
        return json.dumps([VERSION, self.key_id, self.created, sorted(self.floors.items())]).encode()

    @property
    def bound_to_passphrase(self) -> bytes:
        """The associated data of a passphrase's wrapping in version 3."""
        return json.dumps([MANY, self.key_id, KDF]).encode()

    def authenticated(self, master: bytes) -> KeyFile:
        """The same content with the MAC of version 3."""
        return replace(self, mac=self.mac_under(master))

    def mac_under(self, master: bytes) -> bytes:
        """HMAC-SHA-256 of all members except the MAC, as JSON."""
        wrappings = [list(each.values()) for each in self._wrappings()]
        text = json.dumps([MANY, self.key_id, self.created, sorted(self.floors.items()), wrappings])
        return hmac.digest(OwnerKey(master).derive("key-file"), text.encode(), "sha256")

    def _wrappings(self) -> list[dict[str, Any]]:
        listed = [each.dump() for each in self.kms]
        if self.wrapping is not None:
            listed.append(
                {**self._kdf(self.wrapping), "nonce": encoded(self.wrapping.nonce), "secret": encoded(self.secret)}
            )
        return listed

    @staticmethod
    def _kdf(wrapping: Wrapping) -> dict[str, Any]:
        return {"name": KDF, "salt": encoded(wrapping.salt), **wrapping.settings}

    def dump(self) -> str:
        content: dict[str, Any] = {
            "cleave_key": self.version,
            "key_id": self.key_id,
            "created": self.created,
            "signing": encoded(self.signing),
            "floors": self.floors,
        }
        if self.mac is not None:
            content |= {"wrappings": self._wrappings(), "mac": encoded(self.mac)}
        elif self.wrapping is not None:
            content |= {"kdf": self._kdf(self.wrapping), "nonce": encoded(self.wrapping.nonce)}
            content["secret"] = encoded(self.secret)
        else:
            content |= {"kdf": None, "secret": encoded(self.secret)}
        return json.dumps(content, indent=1) + "\n"
