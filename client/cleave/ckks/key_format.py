"""The key file as docs/key-file.md publishes it: read strictly, before anything is computed from it.

Whoever can put a file in the key's place must not get memory, time or a passphrase by it: sizes and the KDF's cost have
limits, unknown and repeated members are refused, and the key id is compared before a passphrase is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cleave_shared.dataclass import dataclass
from cleave_shared.errors import KeyFileError
from cleave_shared.params import PROFILES, Profile

VERSION = 1
MAX_BYTES = 4 << 20  # a key of N = 8192 takes 0.5 MB
MASTER_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
_TAG_BYTES = 16
# RFC 9106's low-memory profile (its second recommended option) is what is written, and the least that is read: a weaker
# wrapping was no work of Cleave's. The most that is read costs seconds and a gigabyte, not a machine.
ARGON2 = {"iterations": 3, "lanes": 4, "memory_cost": 64 * 1024}  # memory in KiB
ARGON2_MOST = {"iterations": 16, "lanes": 16, "memory_cost": 1024 * 1024}
_CLEAR = ("cleave_key", "key_id", "profile", "created", "public_key")
_TEXTS = ("key_id", "profile", "created", "public_key", "secret")
_KDF = "argon2id"
_NAME_ANOTHER = "--key names the file that `cleave key new` wrote"


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How the secret part is wrapped: Argon2id under `settings`, then AES-256-GCM."""

    salt: bytes
    nonce: bytes
    settings: dict[str, int]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file's content. `secret`: master key, then CKKS secret key; encrypted unless `wrapping` is None."""

    key_id: str
    profile: Profile
    created: str  # ISO 8601, UTC
    public_key: bytes
    wrapping: Wrapping | None
    secret: bytes
    suspect: Any = None  # the mark that an answer under this key failed a check

    @property
    def suspect_since(self) -> str | None:
        """ISO 8601, UTC. A mark that cannot be read is one nevertheless."""
        if self.suspect is None:
            return None
        since = self.suspect.get("since") if isinstance(self.suspect, dict) else None
        return since if isinstance(since, str) else "an unknown time"

    @property
    def associated(self) -> bytes:
        """What the wrapping authenticates besides: the members that could be exchanged, as JSON."""
        return json.dumps([VERSION, self.key_id, self.profile.name, self.created]).encode()

    def dump(self) -> str:
        content: dict[str, Any] = {
            "cleave_key": VERSION,
            "key_id": self.key_id,
            "profile": self.profile.name,
            "created": self.created,
            "public_key": encoded(self.public_key),
            "kdf": None,
        }
        if self.wrapping is not None:
            content["kdf"] = {"name": _KDF, "salt": encoded(self.wrapping.salt), **self.wrapping.settings}
            content["nonce"] = encoded(self.wrapping.nonce)
        content["secret"] = encoded(self.secret)
        if self.suspect is not None:
            content["suspect"] = self.suspect
        return json.dumps(content, indent=1) + "\n"


def key_id_of(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()[:32]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def read_key_file(path: Path) -> KeyFile:
    """Raises KeyFileError for what is no key file, is damaged, or asks for more work than any key needs."""
    content = _json(path)
    if isinstance(content, dict) and "cleave_public_key" in content:
        raise KeyFileError(f"{path}: this is an exported public key", hint="name the secret key's own file")
    if not isinstance(content, dict) or "cleave_key" not in content:
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER)
    version = content["cleave_key"]
    if isinstance(version, bool) or version != VERSION:
        raise KeyFileError(f"{path}: key file version is not {VERSION}", hint="it was made by another release")
    if not all(isinstance(content.get(name), str) for name in _TEXTS):
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER)
    if content["profile"] not in PROFILES:
        raise KeyFileError(
            f"{path}: this release does not know the key's profile", hint="it was made by another release"
        )
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
    known = {*_CLEAR, "kdf", "secret"} | ({"nonce"} if wrapping else set())
    if set(content) - {"suspect"} != known:
        raise ValueError("it has members that no key file has")
    public_key, secret = bytes_of(content, "public_key"), bytes_of(content, "secret")
    if content["key_id"] != key_id_of(public_key):
        raise ValueError("key id and public key do not belong together")
    if len(secret) <= MASTER_BYTES + (_TAG_BYTES if wrapping else 0):
        raise ValueError("its secret part is too short")
    suspect = None
    if "suspect" in content:
        suspect = content["suspect"] if content["suspect"] is not None else {}
    profile = PROFILES[content["profile"]]
    return KeyFile(content["key_id"], profile, content["created"], public_key, wrapping, secret, suspect)


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
