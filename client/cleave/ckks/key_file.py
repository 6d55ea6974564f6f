"""The owner's key in one file that only its owner may read, wrapped by a passphrase, by KMS keys or by both.

The file is JSON (docs/key-file.md). In the clear: which releases may read and write it, key id, time of creation,
public signing key, the newest versions of tables that the copying machine had seen, and how the master secret is
wrapped. The 32-byte master
secret itself is wrapped by AES-256-GCM, or is in the clear where no passphrase was set. Argon2id makes the wrapping key
of the passphrase. It is written with RFC 9106's low-memory profile (3 passes, 4 lanes, 64 MiB) and read with that or a
stronger one. The primitives are those of `cryptography`. A file is read strictly, before anything is computed from it.

A file has at most one wrapping by a passphrase, and some by KMS keys (cleave.ckks.kms_wrapping); each opens the key
alone. A MAC under a key of the master secret authenticates the clear part, so a wrapping can be added without the
others' keys.

Anyone who can replace the key file must not gain memory, time or a passphrase by it. So sizes and the KDF's cost have
limits, and unknown and repeated members are refused. The key id is compared before a passphrase is requested.
"""

from __future__ import annotations

import datetime
import hmac
import json
import os
import re
import secrets
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from cleave import formats
from cleave.ckks.key_content import BARE, KDF, KIND, Floors, KeyFile, Wrapping
from cleave.ckks.kms_wrapping import KeyService, KmsWrapping
from cleave.ckks.owner_key import MASTER_BYTES, OwnerKey, bytes_of, key_id_of
from cleave.ckks.passphrase import refuse_trivial
from cleave.files import read_at_most, write_atomically
from cleave_shared.errors import CleaveError, CleaveWarning, KeyFileError

# bytes: the passphrase (the key must be wrapped); a function: asks for it if the key is wrapped; None
Passphrase = bytes | Callable[[], bytes] | None


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """Facts that a key file shows without being opened."""

    path: Path
    key_id: str
    created: str  # ISO 8601, UTC
    wrapped: bool  # by a passphrase
    kms: tuple[str, ...] = ()  # ARNs of KMS keys that wrap it


def create_key(path: Path, passphrase: bytes | None) -> KeyInfo:
    """Create a key and write it to `path` (mode 0600).

    Raises KeyFileError if the file exists, or for a trivial passphrase.
    """
    if passphrase is not None:
        refuse_trivial(passphrase)
    file, master = fresh_file()
    write(path, wrapped_by(file, master, passphrase), overwrite=False)
    return describe_key(path)


def fresh_file(master: bytes | None = None) -> tuple[KeyFile, bytes]:
    """Return the content of a bare key file, and its master secret (random by default)."""
    master = secrets.token_bytes(MASTER_BYTES) if master is None else master
    signing = OwnerKey(master).signing_key().public_key().public_bytes_raw()
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return KeyFile(created, signing, {}, None, master).authenticated(master), master


def describe_key(path: Path) -> KeyInfo:
    file = read_key_file(path)
    return KeyInfo(path, file.key_id, file.created, file.wrapping is not None, tuple(each.arn for each in file.kms))


def open_key(path: Path, passphrase: Passphrase, kms: KeyService | None = None) -> OwnerKey:
    """Open the key. If `passphrase` is a function, it is called only if no KMS key opens the key.

    `kms`: the service that opens KMS wrappings. Raises KeyFileError if the passphrase is wrong or missing, or if the
    key is bare and other users can read it. Also if a passphrase was given but the key has none, because then it is not
    the file that was wrapped. Raises ServiceError if the key has only KMS wrappings and none opens.
    """
    file = read_key_file(path)
    key = OwnerKey(unwrapped(path, file, passphrase, kms), file.floors)
    if file.is_bare and path.stat().st_mode & 0o077:
        raise KeyFileError(
            f"{path}: others on this machine may use this key, which has no passphrase",
            hint=f"chmod 600 {path}, or wrap it: cleave key passphrase",
        )
    return key


def copy_key(path: Path, to: Path, passphrase: Passphrase, floors: Floors, kms: KeyService | None = None) -> None:
    """Write a copy of the key with the same wrappings and with `floors`, the newest table versions seen here.

    A machine with the copy then accepts no older version. Raises KeyFileError as `open_key` does.
    """
    file = read_key_file(path, writes=True)
    master = unwrapped(path, file, passphrase, kms)
    write(to, replace(file, floors=floors).authenticated(master), overwrite=False)


def change_passphrase(path: Path, old: Passphrase, new: bytes | None, kms: KeyService | None = None) -> None:
    """Replace the key's passphrase by `new`, or remove it. KMS wrappings stay.

    Without KMS wrappings, removing it stores the key bare. Raises KeyFileError as `open_key` does, for a trivial new
    passphrase, and if a key with KMS wrappings has no passphrase to remove.
    """
    if new is not None:
        refuse_trivial(new)
    file = read_key_file(path, writes=True)
    master = unwrapped(path, file, old, kms)
    if new is None and file.kms and file.wrapping is None:
        raise KeyFileError(f"{path}: this key has no passphrase", hint="`cleave key show` lists its wrappings")
    write(path, wrapped_by(file, master, new), overwrite=True)


def wrapped_by(file: KeyFile, master: bytes, passphrase: bytes | None) -> KeyFile:
    """The key file with this passphrase and its KMS wrappings; bare without both."""
    wrapped = replace(file, wrapping=None, secret=b"" if file.kms else master)
    if passphrase is not None:
        wrapping = Wrapping(os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES), dict(ARGON2))
        sealed = _cipher(passphrase, wrapping).encrypt(wrapping.nonce, master, wrapped.bound_to_passphrase)
        wrapped = replace(wrapped, wrapping=wrapping, secret=sealed)
    return wrapped.authenticated(master)


def write(path: Path, file: KeyFile, *, overwrite: bool) -> None:
    """Raises KeyFileError, and does not change the file, if the content could not be read back."""
    text = file.dump()
    try:
        _parse(json.loads(text))
        if len(text) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes")
    except ValueError as error:
        raise KeyFileError(
            f"{path}: is not written, because it could not be read again: {error}",
            hint="`cleave key show` lists its wrappings; `cleave key unwrap` removes one",
        ) from None
    write_atomically(path, text, overwrite=overwrite, error=KeyFileError)


def unwrapped(
    path: Path, file: KeyFile, passphrase: Passphrase, kms: KeyService | None = None, by: KeyFile | None = None
) -> bytes:
    """The master secret, opened by the wrappings of `by` (default: of `file`).

    Raises KeyFileError and ServiceError as `open_key` does.
    """
    master = _secret(path, by or file, passphrase, kms)
    if OwnerKey(master).key_id != file.key_id:
        raise KeyFileError(
            f"{path}: the key file is damaged: key id and secret do not belong together",
            hint="restore it from a backup",
        )
    if not hmac.compare_digest(file.mac, file.mac_under(master)):
        raise KeyFileError(f"{path}: the key file is damaged or was changed", hint="restore it from a backup")
    return master


def _secret(path: Path, file: KeyFile, passphrase: Passphrase, kms: KeyService | None) -> bytes:
    if file.wrapping is None and isinstance(passphrase, bytes):
        raise KeyFileError(
            f"{path}: this key has no passphrase, and one was given: it may not be the key you made",
            hint="check its id with `cleave key show`; then give no passphrase (unset CLEAVE_PASSPHRASE, or leave out "
            "--passphrase-fd), or set one: cleave key passphrase",
        )
    if file.is_bare:
        return file.secret
    failure: CleaveError | None = None
    for wrapped in () if isinstance(passphrase, bytes) else file.kms:
        try:
            return wrapped.open(path, file.key_id, kms)
        except CleaveError as error:
            failure = failure or error
    if file.wrapping is None or (failure and passphrase is None):
        assert failure is not None  # noqa: S101 - such a file has a wrapping of another kind
        raise failure
    if passphrase is None:
        raise KeyFileError(
            f"{path}: the key is wrapped, and no passphrase was given",
            hint="give it at the prompt of a terminal, by --passphrase-fd or in CLEAVE_PASSPHRASE",
        )
    try:
        given = passphrase if isinstance(passphrase, bytes) else passphrase()
    except KeyFileError:
        if failure:
            raise failure from None  # no one could be asked for the passphrase
        raise
    if failure:
        warnings.warn(f"{failure.message}: the passphrase is used instead", CleaveWarning, stacklevel=2)
    return _by_passphrase(path, file, file.wrapping, given)


def _by_passphrase(path: Path, file: KeyFile, wrapping: Wrapping, given: bytes) -> bytes:
    try:
        return _cipher(given, wrapping).decrypt(wrapping.nonce, file.secret, file.bound_to_passphrase)
    except InvalidTag:
        raise KeyFileError(
            f"{path}: wrong passphrase, or the key file is damaged",
            hint="the passphrase cannot be recovered; a backup of the file can",
        ) from None
    except MemoryError:
        needed = f"{wrapping.settings['memory_cost'] >> 10} MiB"
        raise KeyFileError(
            f"{path}: unwrapping takes {needed} of memory, but this machine has less free",
            hint="free some, or raise the process's limit on address space",
        ) from None


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


MOST_WRAPPINGS = 16
MAX_BYTES = 1 << 20  # 90 bytes per table version in it
SALT_BYTES = 16
NONCE_BYTES = 12
MAC_BYTES = 32
_TAG_BYTES = 16
# Written and minimum: RFC 9106's low-memory profile (its second recommended option). Cleave never wrote a weaker
# wrapping. The maximum costs seconds and a gigabyte, so a hostile file cannot block the machine.
ARGON2 = {"iterations": 3, "lanes": 4, "memory_cost": 64 * 1024}  # memory in KiB
ARGON2_MOST = {"iterations": 16, "lanes": 16, "memory_cost": 1024 * 1024}
_TEXTS = ("key_id", "created", "signing", "mac")
_MEMBERS = {KIND, *formats.MEMBERS, *_TEXTS, "floors", "wrappings"}
_TAG = re.compile(r"[0-9a-f]{32}")
_NAME_ANOTHER = "--key names the file that `cleave key new` wrote, --reader that of `cleave reader new`"


def read_key_file(path: Path, *, writes: bool = False) -> KeyFile:
    """Read a key file, in order to write it again too if `writes`.

    Raises KeyFileError for a file that is no key file, is damaged, or demands more work than any key needs;
    AnotherRelease if this release may not read or write it.
    """
    content = _json(path)
    if isinstance(content, dict) and "cleave_public_key" in content:
        raise KeyFileError(f"{path}: this is an exported public key", hint="name the secret key's own file")
    if not isinstance(content, dict) or "cleave_key" not in content:
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER)
    try:
        formats.require_readable(content, KIND, f"{path}: the key file")
        file = _parse(content)
    except ValueError as error:
        raise KeyFileError(f"{path}: the key file is damaged: {error}", hint="restore it from a backup") from None
    if writes:
        formats.require_writable(content["written_by"], content["lowest_writer"], f"{path}: the key file")
    return file


def _made_by(path: Path) -> str:
    file = shlex.quote(str(path))
    return f"make one with: cleave key new --key {file} (a reader's: cleave reader new {file})"


def _json(path: Path) -> Any:
    try:
        return json.loads(read_at_most(path, MAX_BYTES, KeyFileError), object_pairs_hook=once)
    except FileNotFoundError:
        raise KeyFileError(f"{path}: no such key file", hint=_made_by(path)) from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint=_NAME_ANOTHER) from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path}: not a Cleave key file", hint=_NAME_ANOTHER) from None


def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated members: JSON does not say which counts, so a checker and a reader could differ. Raises
    ValueError.
    """
    content = dict(members)
    if len(content) != len(members):
        raise ValueError("a member is repeated")
    return content


def _parse(content: dict[str, Any]) -> KeyFile:
    wrappings = content.get("wrappings")
    if set(content) != _MEMBERS:
        raise ValueError("it has members that no key file has, or lacks some")
    if not all(isinstance(content[name], str) for name in _TEXTS):
        raise ValueError(f"{', '.join(_TEXTS)} are not all texts")
    if not isinstance(wrappings, list) or not 0 < len(wrappings) <= MOST_WRAPPINGS:
        raise ValueError(f"wrappings are not 1 to {MOST_WRAPPINGS}")
    if not all(isinstance(each, dict) for each in wrappings):
        raise ValueError("a wrapping is no object")
    kms: list[KmsWrapping] = []
    wrapping, secret = None, b""
    for place, stored in enumerate(wrappings):
        if stored.get("name") == KDF and place == len(wrappings) - 1:
            wrapping = _wrapping(stored)
            secret = bytes_of(stored, "secret", MASTER_BYTES + _TAG_BYTES)
        elif stored.get("name") == BARE and len(wrappings) == 1 and set(stored) == {"name", "secret"}:
            secret = bytes_of(stored, "secret", MASTER_BYTES)
        else:
            kms.append(KmsWrapping.parse(stored))
    if len({each.arn for each in kms}) != len(kms):
        raise ValueError("two wrappings are of one KMS key")
    mac, header = bytes_of(content, "mac", MAC_BYTES), {name: content[name] for name in (KIND, *formats.MEMBERS)}
    floors = _floors(content["floors"])
    return KeyFile(content["created"], _signing(content), floors, wrapping, secret, tuple(kms), mac, header)


def _signing(content: dict[str, Any]) -> bytes:
    signing = bytes_of(content, "signing", 32)
    if content["key_id"] != key_id_of(signing):
        raise ValueError("key id and signing key do not belong together")
    return signing


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
    if set(content) != {"name", "salt", *ARGON2, "nonce", "secret"}:
        raise ValueError(f"the wrapping by {KDF} has not exactly its members")
    settings = {}
    for name, least in ARGON2.items():
        value = content[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= ARGON2_MOST[name]:
            raise ValueError(f"{name} must be a whole number from {least} to {ARGON2_MOST[name]}")
        settings[name] = value
    return Wrapping(bytes_of(content, "salt", SALT_BYTES), bytes_of(content, "nonce", NONCE_BYTES), settings)
