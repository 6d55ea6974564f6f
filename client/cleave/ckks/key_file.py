"""The owner's key in one file that only its owner may read, wrapped by a passphrase.

The file is JSON (docs/key-file.md). In the clear: format version, key id, time of creation, public signing key, and the
newest versions of tables known when the file was copied. Under AES-256-GCM: the 32-byte master secret. The wrapping key
comes from the passphrase by Argon2id with RFC 9106's low-memory profile, its second recommended option (3 passes, 4
lanes, 64 MiB); the clear part is authenticated as associated data. All of it is `cryptography`'s; nothing here is
home-made.
"""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from cleave.ckks.key_format import (
    ARGON2,
    NONCE_BYTES,
    SALT_BYTES,
    Floors,
    KeyFile,
    Wrapping,
    read_key_file,
)
from cleave.ckks.owner_key import MASTER_BYTES, OwnerKey
from cleave.ckks.passphrase import refuse_trivial
from cleave.files import write_atomically
from cleave_shared.errors import KeyFileError

# A passphrase that was supplied (bytes: the key must be wrapped), how to ask for one if it is wrapped, or none.
Passphrase = bytes | Callable[[], bytes] | None


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """Facts that a key file shows without its passphrase."""

    path: Path
    key_id: str
    created: str  # ISO 8601, UTC
    wrapped: bool


def create_key(path: Path, passphrase: bytes | None) -> KeyInfo:
    """Make a key and write it to `path` (mode 0600).

    Raises KeyFileError if the file is there already, or for a trivial passphrase.
    """
    if passphrase is not None:
        refuse_trivial(passphrase)
    master = secrets.token_bytes(MASTER_BYTES)
    signing = OwnerKey(master).signing_key().public_key().public_bytes_raw()
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    _write(path, KeyFile(created, signing, {}, None, master), passphrase, overwrite=False)
    return describe_key(path)


def describe_key(path: Path) -> KeyInfo:
    file = read_key_file(path)
    return KeyInfo(path, file.key_id, file.created, file.wrapping is not None)


def open_key(path: Path, passphrase: Passphrase) -> OwnerKey:
    """Unwrap the key. A `passphrase` that is a function is called only if there is something to unwrap.

    Raises KeyFileError if it is wrong or missing; if the key is bare though a passphrase was supplied, for then it is
    not the file that was wrapped; or if it is bare and others may read it.
    """
    file = read_key_file(path)
    key = OwnerKey(_unwrapped(path, file, passphrase).secret, file.floors)
    if key.key_id != file.key_id:
        raise KeyFileError(
            f"{path}: the key file is damaged: key id and secret do not belong together",
            hint="restore it from a backup",
        )
    if file.wrapping is None and path.stat().st_mode & 0o077:
        raise KeyFileError(
            f"{path}: others on this machine may use this key, which has no passphrase",
            hint=f"chmod 600 {path}, or wrap it: cleave key passphrase",
        )
    return key


def copy_key(path: Path, to: Path, passphrase: bytes | None, floors: Floors) -> None:
    """Write a copy of the key, wrapped by the same passphrase, with the newest versions of tables that are known here.

    A machine that has the copy then accepts no older version. Raises KeyFileError as `open_key` does.
    """
    bare = _unwrapped(path, read_key_file(path), passphrase)
    _write(to, replace(bare, floors=floors), passphrase, overwrite=False)


def change_passphrase(path: Path, old: Passphrase, new: bytes | None) -> None:
    """Wrap the same key again, or store it unwrapped where `new` is None.

    Raises KeyFileError as `open_key` does, and for a trivial new passphrase.
    """
    if new is not None:
        refuse_trivial(new)
    _write(path, _unwrapped(path, read_key_file(path), old), new, overwrite=True)


def _write(path: Path, bare: KeyFile, passphrase: bytes | None, *, overwrite: bool) -> None:
    file = bare
    if passphrase is not None:
        wrapping = Wrapping(os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES), dict(ARGON2))
        sealed = _cipher(passphrase, wrapping).encrypt(wrapping.nonce, bare.secret, bare.associated)
        file = replace(bare, wrapping=wrapping, secret=sealed)
    write_atomically(path, file.dump(), overwrite=overwrite, error=KeyFileError)


def _unwrapped(path: Path, file: KeyFile, passphrase: Passphrase) -> KeyFile:
    if file.wrapping is None:
        if isinstance(passphrase, bytes):
            raise KeyFileError(
                f"{path}: this key has no passphrase, and one was given: it may not be the key you made",
                hint="check its id with `cleave key show`; ask without a passphrase, or wrap it: cleave key passphrase",
            )
        return file
    if passphrase is None:
        raise KeyFileError(
            f"{path}: the key is wrapped, and no passphrase was given",
            hint="give it at the prompt of a terminal, by --passphrase-fd or in CLEAVE_PASSPHRASE",
        )
    given = passphrase if isinstance(passphrase, bytes) else passphrase()
    try:
        opened = _cipher(given, file.wrapping).decrypt(file.wrapping.nonce, file.secret, file.associated)
    except InvalidTag:
        raise KeyFileError(
            f"{path}: wrong passphrase, or the key file is damaged",
            hint="the passphrase cannot be recovered; a backup of the file can",
        ) from None
    except MemoryError:
        needed = f"{file.wrapping.settings['memory_cost'] >> 10} MiB"
        raise KeyFileError(
            f"{path}: unwrapping takes {needed} of memory, which this machine has not left",
            hint="free some, or raise the process's limit on address space",
        ) from None
    return replace(file, wrapping=None, secret=opened)


def _cipher(passphrase: bytes, wrapping: Wrapping) -> AESGCM:
    cost = wrapping.settings
    kdf = Argon2id(
        salt=wrapping.salt,
        length=32,
        iterations=cost["iterations"],
        lanes=cost["lanes"],
        memory_cost=cost["memory_cost"],
    )
    return AESGCM(kdf.derive(passphrase))
