"""Public keys of others whose fingerprint was compared on this machine. The first use of a key needs its fingerprint.

Otherwise, an attacker who replaces a public file in transit would receive what is meant for its owner.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cleave.ckks.owner_key import fingerprint_of
from cleave.files import expanded
from cleave.store.seen_versions import SeenVersions
from cleave_shared.errors import KeyFileError

_MARK = "=SHA256:"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A public file in a command: FILE or FILE=SHA256:..."""

    path: Path
    fingerprint: str | None = None

    @classmethod
    def parse(cls, word: str | Path) -> PublicFile:
        name, mark, digest = str(word).rpartition(_MARK)
        return cls(expanded(name), f"{_MARK[1:]}{digest}") if mark else cls(expanded(word))


def require_compared(
    role: str,
    option: str,
    files: Sequence[tuple[PublicFile, str]],
    listed: Collection[str] = (),
) -> None:
    """Check the fingerprint of each file, and remember those that were given.

    `files`: with their actual fingerprints. `role`: what they are used as, such as "analyst". `option`: the words that
    name them. `listed`: fingerprints of keys already in use. Raises KeyFileError for a wrong fingerprint, and for a key
    used here for the first time without one.
    """
    memory = SeenVersions()
    for file, fingerprint in files:
        if file.fingerprint not in (None, fingerprint):
            raise KeyFileError(
                f"{file.path}: is another key: its fingerprint is {fingerprint}",
                hint="use only a key with the fingerprint that its holder gives over another channel",
            )
    tags = [hashlib.sha256(f"{role} {fingerprint}".encode()).hexdigest()[:32] for _, fingerprint in files]
    new = [
        (file, fingerprint)
        for (file, fingerprint), tag in zip(files, tags, strict=True)
        if file.fingerprint is None and fingerprint not in listed and memory.newest(tag) is None
    ]
    if new:
        facts = ", ".join(f"{file.path}: {fingerprint}" for file, fingerprint in new)
        named = ",".join(f"{file.path}={fingerprint}" for file, fingerprint in files)
        raise KeyFileError(
            f"used here for the first time, and not compared: {facts}",
            hint="compare the fingerprint with what its holder says over another channel, then repeat the command with "
            f"{option} {shlex.quote(named)}",
        )
    for (file, _), tag in zip(files, tags, strict=True):
        if file.fingerprint is not None:
            memory.remember(tag, "0" * 32, 1)


def contributor_fingerprint(key: str) -> str:
    """The fingerprint of a contributor's public key (64 hex digits) as SubjectPublicKeyInfo.

    OpenSSL prints the same: docs/contributors.md.
    """
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
    return fingerprint_of(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
