"""The content of a key file: as an object, and as the text described in docs/key-file.md."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field, replace
from typing import Any

from cleave import formats
from cleave.ckks.kms_wrapping import KmsWrapping
from cleave.ckks.owner_key import OwnerKey, encoded, key_id_of

KIND = "cleave_key"
KDF = "argon2id"
BARE = "none"  # name of what a bare file has in place of a wrapping


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How the secret part is wrapped: Argon2id with `settings`, then AES-256-GCM."""

    salt: bytes
    nonce: bytes
    settings: dict[str, int]


Floors = dict[str, tuple[str, int]]


def _releases() -> dict[str, Any]:
    return formats.header(KIND)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file's content.

    `secret`: the master secret. It is encrypted unless `is_bare`, and empty if only KMS keys wrap it. `signing`: the
    public Ed25519 key. `floors`: tag of a table -> its id and the newest version seen. `mac`: of all other members;
    empty until `authenticated`. `header`: format and releases (cleave.formats).
    """

    created: str  # ISO 8601, UTC
    signing: bytes
    floors: Floors
    wrapping: Wrapping | None
    secret: bytes = field(repr=False)
    kms: tuple[KmsWrapping, ...] = ()
    mac: bytes = b""
    header: dict[str, Any] = field(default_factory=_releases)

    @property
    def key_id(self) -> str:
        return key_id_of(self.signing)

    @property
    def is_bare(self) -> bool:
        return self.wrapping is None and not self.kms

    @property
    def bound_to_passphrase(self) -> bytes:
        """The associated data of a passphrase's wrapping."""
        return json.dumps([formats.FORMAT, self.key_id, KDF]).encode()

    def authenticated(self, master: bytes) -> KeyFile:
        """The same content as this release writes it, with its MAC."""
        written = replace(self, header=_releases())
        return replace(written, mac=written.mac_under(master))

    def mac_under(self, master: bytes) -> bytes:
        """HMAC-SHA-256 of all members except the MAC, as JSON."""
        wrappings = [list(each.values()) for each in self._wrappings()]
        floors = sorted(self.floors.items())
        text = json.dumps([*self.header.values(), self.key_id, self.created, floors, wrappings])
        return hmac.digest(OwnerKey(master).derive("key-file"), text.encode(), "sha256")

    def _wrappings(self) -> list[dict[str, Any]]:
        listed = [each.dump() for each in self.kms]
        if self.wrapping is not None:
            kdf = {"name": KDF, "salt": encoded(self.wrapping.salt), **self.wrapping.settings}
            listed.append({**kdf, "nonce": encoded(self.wrapping.nonce), "secret": encoded(self.secret)})
        return listed or [{"name": BARE, "secret": encoded(self.secret)}]

    def dump(self) -> str:
        content = {
            **self.header,
            "key_id": self.key_id,
            "created": self.created,
            "signing": encoded(self.signing),
            "floors": self.floors,
            "wrappings": self._wrappings(),
            "mac": encoded(self.mac),
        }
        return json.dumps(content, indent=1) + "\n"
