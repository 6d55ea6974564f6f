"""The secret key in one owner-only file, wrapped by a passphrase.

The file is JSON. In the clear: format version, key id, profile, time of creation, public key. Under AES-256-GCM: the
CKKS secret key and a 32-byte master key, from which HKDF derives the sentinels' PRF key. The wrapping key comes from
the passphrase by Argon2id with RFC 9106's second recommended setting (3 passes, 4 lanes, 64 MiB); the clear part is
authenticated as associated data. All of it is `cryptography`'s; nothing here is home-made.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from cleave.ckks.secret_key import SecretKey
from cleave.files import write_atomically
from cleave_shared.errors import KeyFileError
from cleave_shared.params import PROFILES, SUM60_PACK, Profile

VERSION = 1
_ARGON2 = {"iterations": 3, "lanes": 4, "memory_cost": 64 * 1024}  # KiB
_MASTER_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What a key file tells without its passphrase."""

    path: Path
    key_id: str
    profile: Profile
    created: str  # ISO 8601, UTC
    wrapped: bool


def create_key(path: Path, passphrase: bytes | None, profile: Profile = SUM60_PACK) -> KeyInfo:
    """Make a key and write it to `path` (mode 0600). Raises KeyFileError if the file is there already."""
    from cleave.ckks.cipher import generate  # noqa: PLC0415 - TenSEAL takes 60 ms; `key show` does without

    secret, public = generate(profile)
    head = {
        "cleave_key": VERSION,
        "key_id": hashlib.sha256(public).hexdigest()[:32],
        "profile": profile.name,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "public_key": _text(public),
    }
    _write(path, head, secret, secrets.token_bytes(_MASTER_BYTES), passphrase, overwrite=False)
    return describe_key(path)


def describe_key(path: Path) -> KeyInfo:
    head = _read(path)
    return KeyInfo(path, head["key_id"], PROFILES[head["profile"]], head["created"], head.get("kdf") is not None)


def open_key(path: Path, passphrase: Callable[[], bytes]) -> SecretKey:
    """Unwrap the key; `passphrase` is called only if there is one.

    Raises KeyFileError if it is wrong, or if there is none and others may read the file.
    """
    head = _read(path)
    if head.get("kdf") is None and path.stat().st_mode & 0o077:
        raise KeyFileError(
            f"{path}: others on this machine may use this key, which has no passphrase",
            hint=f"chmod 600 {path}, or wrap it: cleave key passphrase",
        )
    secret, master = _unwrap(path, head, passphrase)
    return SecretKey(head["key_id"], PROFILES[head["profile"]], secret, master)


def change_passphrase(path: Path, old: Callable[[], bytes], new: bytes | None) -> None:
    """Wrap the same key anew, or store it unwrapped where `new` is None."""
    head = _read(path)
    secret, master = _unwrap(path, head, old)
    clear = {name: head[name] for name in ("cleave_key", "key_id", "profile", "created", "public_key")}
    _write(path, clear, secret, master, new, overwrite=True)


def export_public(path: Path, target: Path) -> None:
    """Write what others may have: key id, profile and public key. Raises KeyFileError if `target` is there."""
    head = _read(path)
    public = {"cleave_public_key": VERSION, **{name: head[name] for name in ("key_id", "profile", "public_key")}}
    write_atomically(target, json.dumps(public, indent=1) + "\n", mode=0o644, error=KeyFileError)


def _write(
    path: Path, head: dict[str, Any], secret: bytes, master: bytes, passphrase: bytes | None, *, overwrite: bool
) -> None:
    if passphrase is None:
        content = {**head, "kdf": None, "secret": _text(master + secret)}
    else:
        salt, nonce = os.urandom(16), os.urandom(12)
        wrapping = _wrapping_key(passphrase, salt, _ARGON2)
        content = {
            **head,
            "kdf": {"name": "argon2id", "salt": _text(salt), **_ARGON2},
            "nonce": _text(nonce),
            "secret": _text(AESGCM(wrapping).encrypt(nonce, master + secret, _associated(head))),
        }
    write_atomically(path, json.dumps(content, indent=1) + "\n", mode=0o600, overwrite=overwrite, error=KeyFileError)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise KeyFileError(f"{path}: no such key file", hint="make one with: cleave key new") from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path}: not a Cleave key file") from None
    if isinstance(content, dict) and "cleave_public_key" in content:
        raise KeyFileError(f"{path}: this is an exported public key", hint="name the secret key's own file")
    texts = ("key_id", "profile", "created", "public_key", "secret")
    if not isinstance(content, dict) or not all(isinstance(content.get(name), str) for name in texts):
        raise KeyFileError(f"{path}: not a Cleave key file")
    if content.get("cleave_key") != VERSION:
        raise KeyFileError(f"{path}: key file version is not {VERSION}", hint="it was made by another release")
    if content["profile"] not in PROFILES:
        raise KeyFileError(f"{path}: this release does not know the key's profile")
    return content


def _unwrap(path: Path, head: dict[str, Any], passphrase: Callable[[], bytes]) -> tuple[bytes, bytes]:
    damaged = KeyFileError(f"{path}: the key file is damaged", hint="restore it from a backup")
    try:
        known_as = hashlib.sha256(base64.b64decode(head["public_key"], validate=True)).hexdigest()[:32]
        sealed = base64.b64decode(head["secret"], validate=True)
        kdf = head.get("kdf")
        if kdf is not None:
            nonce, salt = (base64.b64decode(text, validate=True) for text in (head["nonce"], kdf["salt"]))
            settings = {name: int(kdf[name]) for name in _ARGON2}
    except (KeyError, TypeError, ValueError):
        raise damaged from None
    if kdf is not None:
        try:
            sealed = AESGCM(_wrapping_key(passphrase(), salt, settings)).decrypt(nonce, sealed, _associated(head))
        except InvalidTag:
            raise KeyFileError(
                f"{path}: wrong passphrase, or the key file is damaged",
                hint="the passphrase cannot be recovered; a backup of the file can",
            ) from None
        except (ValueError, OverflowError, MemoryError):  # settings that Argon2 refuses
            raise damaged from None
    if len(sealed) <= _MASTER_BYTES or head["key_id"] != known_as:
        raise damaged
    return sealed[_MASTER_BYTES:], sealed[:_MASTER_BYTES]


def _wrapping_key(passphrase: bytes, salt: bytes, settings: dict[str, int]) -> bytes:
    return Argon2id(
        salt=salt,
        length=32,
        iterations=settings["iterations"],
        lanes=settings["lanes"],
        memory_cost=settings["memory_cost"],
    ).derive(passphrase)


def _associated(head: dict[str, Any]) -> bytes:
    return json.dumps([head["cleave_key"], head["key_id"], head["profile"], head["created"]]).encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
