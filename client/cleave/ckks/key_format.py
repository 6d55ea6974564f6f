"""The key file as docs/key-file.md publishes it: read strictly, before anything is computed from it.

Whoever can put a file in the key's place must not get memory, time or a passphrase by it: sizes and the KDF's cost have
limits, unknown and repeated members are refused, and the key id is compared before a passphrase is asked for.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cleave.ckks.owner_key import MASTER_BYTES, encoded, key_id_of
from cleave_shared.errors import KeyFileError

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
    """How the secret part is wrapped: Argon2id under `settings`, then AES-256-GCM."""

    salt: bytes
    nonce: bytes
    settings: dict[str, int]


Floors = dict[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file's content. `secret`: the master secret, encrypted unless `wrapping` is None.

    `signing`: the public Ed25519 key. `floors`: by tag, a table's id and the newest version that was known of it.
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
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise KeyFileError(
                f"{path}: not a Cleave key file (it has more than {MAX_BYTES >> 20} MB)", hint=_NAME_ANOTHER
            )
        return json.loads(text, object_pairs_hook=once)
    except FileNotFoundError:
        raise KeyFileError(f"{path}: no such key file", hint="make one with: cleave key new") from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint=_NAME_ANOTHER) from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER) from None


def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON leaves open which of two equal names counts: a checker and a reader may differ."""
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a member is repeated")
    return found


def _parse(content: dict[str, Any]) -> KeyFile:
    wrapping = None
    if content.get("kdf") is not None:
        wrapping = _wrapping(content)
    elif "kdf" not in content:
        raise ValueError("kdf is missing")
    known = {"cleave_key", *_TEXTS, "floors", "kdf"} | ({"nonce"} if wrapping else set())
    if set(content) != known:
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
