"""The public side of a key or of an analyst's identity. Others seal to it and verify signatures with it.

  {"cleave_public_key": 3, "written_by", "lowest_reader", "lowest_writer", "key_id", "box", "signing", "invitation",
   "signature"}

`box` is an HPKE public key of X25519 with ML-KEM-768 (draft-ietf-hpke-pq): what is sealed to the owner stays
confidential against quantum computers. `signing` is an Ed25519 public key (RFC 8032), which does not resist them. Both
secret keys are derived from the master secret. `invitation` is the owner's statement to contributors of one table, or
null. The signature covers everything: who knows the fingerprint of the two keys knows that the owner wrote the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import zstandard
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from cleave import formats
from cleave.ckks.key_file import once
from cleave.ckks.owner_key import DerivationKey, box_keys, bytes_of, encoded, fingerprint_of, key_id_of
from cleave.files import PUBLIC, read_at_most, write_atomically
from cleave_shared.errors import CheckFailed, KeyFileError

_KIND = "cleave_public_key"
MAX_BYTES = 8 << 20
_MLKEM_BYTES, _X25519_BYTES = 1184, 32
_MAGIC = b"CLP1"
_SUITE = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
_MEMBERS = {
    *(_KIND, *formats.MEMBERS, "key_id", "box", "signing", "invitation", "signature"),
}
_EXPORT = "it is what `cleave key export` writes, in one piece"


class Keyholder(DerivationKey, Protocol):
    """An owner's key, or an identity."""

    def signing_key(self) -> Ed25519PrivateKey: ...


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`box`: ML-KEM-768's public key, then X25519's. `signing`: Ed25519's public key."""

    box: bytes
    signing: bytes
    invitation: str | None = None  # JSON, see cleave.contributions.invitation

    @property
    def key_id(self) -> str:
        return key_id_of(self.signing)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the two keys, without the invitation. Compare it over another channel than the file's."""
        text = json.dumps(["cleave public key", *map(encoded, (self.box, self.signing))])
        return fingerprint_of(text.encode())

    def seal(self, name: str, content: bytes) -> bytes:
        """Compress `content` and seal it as the object `name`. Only the owner's secret key opens it."""
        box = hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(self.box[:_MLKEM_BYTES]),
            X25519PublicKey.from_public_bytes(self.box[_MLKEM_BYTES:]),
        )
        packed = zstandard.ZstdCompressor(level=3).compress(content)
        return _MAGIC + _SUITE.encrypt(packed, box, _info(name))

    def dump(self, key: Keyholder) -> str:
        header = formats.header(_KIND)
        signature = key.signing_key().sign(self._signed(header))
        content = {
            **header,
            "key_id": self.key_id,
            "box": encoded(self.box),
            "signing": encoded(self.signing),
            "invitation": self.invitation,
            "signature": encoded(signature),
        }
        return json.dumps(content, indent=1) + "\n"

    def verify(self, signature: bytes, header: Mapping[str, Any]) -> None:
        """Raises ValueError if the signature is not the owner's. `header`: the file's (cleave.formats)."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, self._signed(header))
        except InvalidSignature:
            raise ValueError("its signature is not its owner's") from None

    def _signed(self, header: Mapping[str, Any]) -> bytes:
        members = [header[name] for name in (_KIND, *formats.MEMBERS)]
        return json.dumps(["cleave public key", *members, self.fingerprint, self.invitation]).encode()


def public_side(key: Keyholder, invitation: str | None = None) -> PublicKey:
    mlkem, x25519 = box_keys(key)
    box = mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
    return PublicKey(box, key.signing_key().public_key().public_bytes_raw(), invitation)


def export_public(key: Keyholder, public: PublicKey, target: Path) -> None:
    """Raises KeyFileError if `target` exists."""
    write_atomically(target, public.dump(key), mode=PUBLIC, error=KeyFileError)


def read_public_key(path: Path, hint: str = _EXPORT) -> PublicKey:
    """Raises KeyFileError, with `hint`, unless the file is a public key unchanged since its owner wrote it."""
    try:
        content: Any = json.loads(read_at_most(path, MAX_BYTES, KeyFileError), object_pairs_hook=once)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint=hint) from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or _KIND not in content:
        if isinstance(content, dict) and "wrappings" in content:
            hint = "this file must not leave its owner"
        raise KeyFileError(f"{path}: not an exported public key", hint=hint)
    try:
        formats.require_readable(content, _KIND, f"{path}: the public key")
        return _parse(content)
    except ValueError as error:
        raise KeyFileError(f"{path}: the public key is damaged or was changed: {error}", hint=hint) from None


def _parse(content: dict[str, Any]) -> PublicKey:
    if set(content) != _MEMBERS:
        raise ValueError("it has unknown members, or lacks some")
    invitation = content["invitation"]
    if invitation is not None and not isinstance(invitation, str):
        raise ValueError("its invitation is no text")
    public = PublicKey(
        bytes_of(content, "box", _MLKEM_BYTES + _X25519_BYTES),
        bytes_of(content, "signing", 32),
        invitation,
    )
    if content["key_id"] != public.key_id:
        raise ValueError("key id and signing key do not belong together")
    public.verify(bytes_of(content, "signature", 64), content)
    return public


def open_sealed(key: Keyholder, name: str, sealed: bytes, most: int) -> bytes:
    """Open the object `name`, sealed to the owner. Raises CheckFailed, also for more than `most` bytes."""
    mlkem, x25519 = box_keys(key)
    failed = CheckFailed("stored", "a sealed object is damaged, or not sealed for this key")
    try:
        if sealed[: len(_MAGIC)] != _MAGIC:
            raise failed
        packed = _SUITE.decrypt(sealed[len(_MAGIC) :], hpke.MLKEM768X25519PrivateKey(mlkem, x25519), _info(name))
    except (InvalidTag, ValueError):
        raise failed from None
    try:
        # `seal` states the size in its frame; without a size, or with too large a one, it is not from `seal`
        if not 0 <= zstandard.frame_content_size(packed) <= most:
            raise CheckFailed("stored", f"an object that was sealed for this key holds more than {most:,} bytes")
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=most)
    except zstandard.ZstdError:
        raise failed from None


def _info(name: str) -> bytes:
    return b"cleave/2/sealed/" + name.encode()
