"""The owner's key in one file that only its owner may read, wrapped by a passphrase.

The file is JSON (docs/key-file.md). In the clear: format version, key id, time of creation, public signing key, and the
newest versions of tables that the copying machine had seen. Under AES-256-GCM: the 32-byte master secret. The wrapping
key comes from the passphrase by Argon2id with RFC 9106's low-memory profile: 3 passes, 4 lanes, 64 MiB. The clear part
is authenticated as associated data. All of it is `cryptography`'s; nothing here is home-made. A file is read strictly,
before anything is computed from it.

Anyone who can replace the key file must not gain memory, time or a passphrase by it. So sizes and the KDF's cost have
limits, and unknown and repeated members are refused. The key id is compared before a passphrase is requested.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from cleave.ckks.owner_key import MASTER_BYTES, OwnerKey, encoded, key_id_of
from cleave.ckks.passphrase import refuse_trivial
from cleave.files import read_at_most, write_atomically
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

    Raises KeyFileError if the file already exists, or for a trivial passphrase.
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

    Raises KeyFileError if the passphrase is wrong or missing, or if the key is bare and others may read it. Also if it
    is bare though a passphrase was supplied: then it is not the file that was wrapped.
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
    """Write a copy of the key, wrapped by the same passphrase, with the newest versions of tables seen here.

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
                hint="check its id with `cleave key show`; give no passphrase, or wrap it: cleave key passphrase",
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
            f"{path}: unwrapping takes {needed} of memory, which this machine does not have free",
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


VERSION = 2
MAX_BYTES = 1 << 20  # 90 bytes for each table whose version is in it
SALT_BYTES = 16
NONCE_BYTES = 12
_TAG_BYTES = 16
# RFC 9106's low-memory profile (its second recommended option) is what is written, and the least that is read: a weaker
# wrapping was no work of Cleave's. The most that is read costs seconds and a gigabyte, not a machine.
ARGON2 = {"iterations": 3, "lanes": 4, "memory_cost": 64 * 1024}  # memory in KiB
ARGON2_MOST = {"iterations": 16, "lanes": 16, "memory_cost": 1024 * 1024}
_TEXTS = ("key_id", "created", "signing", "secret")
_TAG = re.compile(r"[0-9a-f]{32}")
_KDF = "argon2id"
_NAME_ANOTHER = "--key names the file that `cleave key new` wrote"


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Wrapping of the secret part: Argon2id under `settings`, then AES-256-GCM."""

    salt: bytes
    nonce: bytes
    settings: dict[str, int]


Floors = dict[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file's content. `secret`: the master secret, encrypted unless `wrapping` is None.

    `signing`: the public Ed25519 key. `floors`: by tag, a table's id and the newest version of it that was seen.
    """

    created: str  # ISO 8601, UTC
    signing: bytes
    floors: Floors
    wrapping: Wrapping | None
    secret: bytes

    @property
    def key_id(self) -> str:
        return key_id_of(self.signing)

    @property
    def associated(self) -> bytes:
        """Return the data that the wrapping authenticates besides: the members that could be exchanged, as JSON."""
        return json.dumps([VERSION, self.key_id, self.created, sorted(self.floors.items())]).encode()

    def dump(self) -> str:
        content: dict[str, Any] = {
            "cleave_key": VERSION,
            "key_id": self.key_id,
            "created": self.created,
            "signing": encoded(self.signing),
            "floors": self.floors,
            "kdf": None,
        }
        if self.wrapping is not None:
            content["kdf"] = {"name": _KDF, "salt": encoded(self.wrapping.salt), **self.wrapping.settings}
            content["nonce"] = encoded(self.wrapping.nonce)
        content["secret"] = encoded(self.secret)
        return json.dumps(content, indent=1) + "\n"


def read_key_file(path: Path) -> KeyFile:
    """Raises KeyFileError for what is no key file, is damaged, or asks for more work than any key needs."""
    content = _json(path)
    if isinstance(content, dict) and "cleave_public_key" in content:
        raise KeyFileError(f"{path}: this is an exported public key", hint="name the secret key's own file")
    if not isinstance(content, dict) or "cleave_key" not in content:
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER)
    version = content["cleave_key"]
    if isinstance(version, bool) or version != VERSION:
        raise KeyFileError(
            f"{path}: key file version is not {VERSION}", hint="it was made by another release: make a new key"
        )
    if not all(isinstance(content.get(name), str) for name in _TEXTS):
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER)
    try:
        return _parse(content)
    except ValueError as error:
        raise KeyFileError(f"{path}: the key file is damaged: {error}", hint="restore it from a backup") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(read_at_most(path, MAX_BYTES, KeyFileError), object_pairs_hook=once)
    except FileNotFoundError:
        raise KeyFileError(f"{path}: no such key file", hint="make one with: cleave key new") from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint=_NAME_ANOTHER) from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER) from None


def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON leaves open which of two equal names counts: a checker and a reader may differ."""
    content = dict(members)
    if len(content) != len(members):
        raise ValueError("a member is repeated")
    return content


def _parse(content: dict[str, Any]) -> KeyFile:
    wrapping = None
    if content.get("kdf") is not None:
        wrapping = _wrapping(content)
    elif "kdf" not in content:
        raise ValueError("kdf is missing")
    members = {"cleave_key", *_TEXTS, "floors", "kdf"} | ({"nonce"} if wrapping else set())
    if set(content) != members:
        raise ValueError("it has members that no key file has")
    signing = bytes_of(content, "signing", 32)
    if content["key_id"] != key_id_of(signing):
        raise ValueError("key id and signing key do not belong together")
    secret = bytes_of(content, "secret", MASTER_BYTES + (_TAG_BYTES if wrapping else 0))
    return KeyFile(content["created"], signing, _floors(content["floors"]), wrapping, secret)


def _floors(content: Any) -> Floors:
    if not isinstance(content, dict) or not all(
        _TAG.fullmatch(tag)
        and isinstance(each, list)
        and len(each) == 2
        and isinstance(each[0], str)
        and _TAG.fullmatch(each[0])
        and type(each[1]) is int
        and each[1] > 0
        for tag, each in content.items()
    ):
        raise ValueError("floors are not versions of tables")
    return {tag: (table_id, version) for tag, (table_id, version) in content.items()}


def _wrapping(content: dict[str, Any]) -> Wrapping:
    kdf = content["kdf"]
    if not isinstance(kdf, dict) or set(kdf) != {"name", "salt", *ARGON2} or kdf["name"] != _KDF:
        raise ValueError(f"kdf is not {_KDF} with its settings")
    settings = {}
    for name, least in ARGON2.items():
        value = kdf[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= ARGON2_MOST[name]:
            raise ValueError(f"kdf.{name} must be a whole number from {least} to {ARGON2_MOST[name]}")
        settings[name] = value
    return Wrapping(bytes_of(kdf, "salt", SALT_BYTES), bytes_of(content, "nonce", NONCE_BYTES), settings)


def bytes_of(content: dict[str, Any], name: str, length: int | None = None) -> bytes:
    """The bytes of a member in base64. Raises ValueError."""
    text = content.get(name)
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        data = None
    if data is None or encoded(data) != text or (length is not None and len(data) != length):
        raise ValueError(f"{name} is not base64{f' of {length} bytes' if length else ''}")
    return data
