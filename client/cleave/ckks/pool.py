"""Encryptions of zero made ahead of time, on disk, each used once.

A fresh ciphertext is an encryption of zero plus the message, and the encryption of zero is what takes the time. Used
for two messages it gives their difference to whoever sees both ciphertexts, so everything here is about using it once:

- They lie in packs. Whoever wants one locks its file and deletes its name, which one process only can do, flushes the
  folder, and empties the file before anything of it is used: under no other name, and for nobody who had it open, is
  there anything left. What a process has claimed and not used is lost when it ends.
- A pack opens only as the file it was written as: key, profile, form, name, the file itself (file_identity) and the
  machine's boot are authenticated. A copied folder or a restored backup has other files, and a machine that was set
  back to a snapshot of its disk another boot: such packs are deleted, never used.
- A pack is sealed (AES-256-GCM) under a key derived from the secret key: who has the disk and not the key learns the
  number and age of the packs.

What cannot be had (none left, damaged, copied, another process was quicker) is encrypted afresh instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.ckks.cipher import Form
from cleave.ckks.file_identity import boot, identity
from cleave.ckks.secret_key import SecretKey
from cleave_shared.errors import InputError
from cleave_shared.params import Profile

VARIABLE = "CLEAVE_POOL"  # the folder of all pools; off: none
TOGETHER = 8  # encryptions in a pack: 0.5 MB
FORMS: tuple[Form, ...] = ("coefficients", "ntt")
_PACK, _DRAFT = ".zeros", ".draft"
_MAGIC = b"CLZ1"
_NONCE_BYTES, _PLACE_BYTES = 12, 32
_DAMAGED = "a file of encryptions made ahead was damaged and is deleted"
_MOVED = "encryptions made ahead were made before this machine started, or their files copied: they are deleted"


@dataclass(slots=True)
class Tally:
    """What became of a pool: encryptions taken of it, and what its user should know."""

    taken: int = 0
    notes: dict[str, None] = field(default_factory=dict)  # an ordered set


def total(said: Iterable[bytes]) -> Tally:
    """Of several tallies, as dumped; an empty one is of no pool."""
    found = Tally()
    for taken, notes in (json.loads(each) for each in said if each):
        found.taken += taken
        found.notes |= dict.fromkeys(notes)
    return found


def folder_of(key_id: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """Where a key's pool lies, if pools are not turned off."""
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "")
    if named == "off":
        return None
    if named:
        return Path(named) / key_id
    cache = environment.get("XDG_CACHE_HOME", "")
    try:
        root = Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()
    except RuntimeError:  # an account without a home directory
        return None
    return root / "cleave" / "pool" / key_id


def count(key_id: str, form: Form) -> int:
    """About how many encryptions there are, made since the machine was started; no key is needed to know."""
    folder = folder_of(key_id)
    return TOGETHER * len(_usable(_names(folder / form))) if folder is not None else 0


def size(key_id: str, form: Form) -> int:
    """Bytes that they take on the disk."""
    folder = folder_of(key_id)
    found = 0
    for name in _names(folder / form) if folder is not None else []:
        with contextlib.suppress(OSError):
            found += (folder / form / name).lstat().st_size if folder is not None else 0
    return found


def open_pool(key: SecretKey) -> Pool | None:
    """The key's pool, if there is anything in it."""
    folder = folder_of(key.key_id)
    return Pool(folder, key) if folder is not None and any(count(key.key_id, form) for form in FORMS) else None


def drop(key_id: str) -> int:
    """Delete a key's pool; the encryptions that were in it. Raises InputError where that cannot be done."""
    folder, dropped = folder_of(key_id), 0
    if folder is None:
        return 0
    for form in FORMS:
        for name in _names(folder / form):
            _delete(folder / form / name)
            dropped += TOGETHER * name.endswith(_PACK)
    for each in (*(folder / form for form in FORMS), folder):
        with contextlib.suppress(OSError):
            each.rmdir()
    return dropped


class Pool:
    """One key's. Forked processes and threads may take of it at the same time, and processes of any other kind."""

    def __init__(self, folder: Path, key: SecretKey) -> None:
        self._folder = folder
        self._key_id = key.key_id
        self._profile: Profile = key.profile
        self._cipher = AESGCM(key.derive("pool"))  # here, for a forked child should load nothing of OpenSSL's
        self._boot = boot()
        self._owner = os.getpid()
        self._left: dict[Form, list[memoryview]] = {form: [] for form in FORMS}
        self._names: dict[Form, Iterator[str]] = {}
        self._tally = Tally()

    def take(self, form: Form, count: int) -> list[memoryview]:
        """Up to `count` encryptions of zero. Whoever has them must use each once, or not at all."""
        if self._owner != os.getpid():  # what was claimed before a fork is the parent's
            self._owner, self._tally = os.getpid(), Tally()
            self._left = {form: [] for form in FORMS}
            self._names = {}
        left = self._left[form]
        taken: list[memoryview] = []
        while len(taken) < count:
            try:
                taken.append(left.pop())  # one step: of two threads, one has it
            except IndexError:
                if not (claimed := self._claim(form, -(-(count - len(taken)) // TOGETHER))):
                    break
                left += claimed
        self._tally.taken += len(taken)
        return taken

    def told(self) -> bytes:
        """What happened in this process since it was last asked, for `total`."""
        if self._owner != os.getpid():
            return b""
        tally, self._tally = self._tally, Tally()
        return json.dumps([tally.taken, list(tally.notes)]).encode()

    def add(self, form: Form, zeros: list[bytes]) -> None:
        """Write one pack. Raises InputError where that cannot be done."""
        folder = self._folder / form
        name = _started() + secrets.token_hex(16)
        draft, pack = folder / f"{name}{_DRAFT}", folder / f"{name}{_PACK}"
        try:
            _make_private(folder)
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                place = self._place(form, pack.name, handle)
                nonce = os.urandom(_NONCE_BYTES)
                file.write(_MAGIC + place + nonce + self._cipher.encrypt(nonce, b"".join(zeros), _MAGIC + place))
                file.flush()
                os.fsync(handle)
            os.rename(draft, pack)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise _unwritable(folder, error) from None

    def _claim(self, form: Form, packs: int) -> list[memoryview]:
        """The encryptions of up to `packs` packs, which are this process's alone now; none: there are no more."""
        folder = self._folder / form
        if form not in self._names:
            self._names[form] = iter(self._listed(form))
        found: list[memoryview] = []
        while not found:
            with contextlib.ExitStack() as stack:
                claimed: list[tuple[str, int]] = []
                for name in self._names[form]:
                    with contextlib.suppress(OSError):  # another process was quicker
                        handle = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                        stack.callback(os.close, handle)
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(folder / name)
                        claimed.append((name, handle))
                    if len(claimed) == packs:
                        break
                if not claimed:
                    return []
                try:
                    _flush(folder)
                except OSError:
                    return []  # a claim that may not last is none
                for name, handle in claimed:
                    with contextlib.suppress(OSError):
                        found += self._read(form, name, handle)
        return found

    def _listed(self, form: Form) -> list[str]:
        folder = self._folder / form
        if not _is_private(folder):
            if folder.exists():
                self._tally.notes["the folder of encryptions made ahead is not yours alone: it is not used"] = None
            return []
        names = [name for name in _names(folder) if name.endswith(_PACK)]
        usable = _usable(names)
        for name in set(names) - set(usable):
            self._tally.notes[_MOVED] = None
            with contextlib.suppress(InputError):
                _delete(folder / name)
        secrets.SystemRandom().shuffle(usable)  # processes side by side meet less
        return usable

    def _read(self, form: Form, name: str, handle: int) -> list[memoryview]:
        """What is in a claimed pack, if it is as it was written and where."""
        status = os.fstat(handle)
        content = memoryview(b"")
        if stat.S_ISREG(status.st_mode):
            content = memoryview(os.pread(handle, status.st_size, 0))  # slices are no copies
            os.truncate(handle, 0)
        head, rest = content[: len(_MAGIC) + _PLACE_BYTES], content[len(_MAGIC) + _PLACE_BYTES :]
        here = _MAGIC + self._place(form, name, handle)
        if len(head) == len(here) and head[: len(_MAGIC)] == _MAGIC and head != here:
            self._tally.notes[_MOVED] = None
            return []
        try:
            opened = memoryview(self._cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], here))
        except (ValueError, InvalidTag):
            self._tally.notes[_DAMAGED] = None
            return []
        size = len(opened) // TOGETHER
        return [opened[start : start + size] for start in range(0, size * TOGETHER, size)]

    def _place(self, form: Form, name: str, handle: int) -> bytes:
        """What a pack is bound to."""
        bound = [self._key_id, self._profile.name, form, name, self._boot, *identity(handle)]
        return hashlib.sha256(json.dumps(bound).encode()).digest()


def sweep(key_id: str, seconds: float = 3600.0) -> None:
    """Delete what was made before the machine was started, and what killed processes left more than `seconds` ago."""
    root = folder_of(key_id)
    for folder in (root / form for form in FORMS) if root is not None else ():
        names = _names(folder)
        for name in set(names) - set(_usable(names)):
            with contextlib.suppress(OSError, InputError):
                if name.endswith(_PACK) or (folder / name).lstat().st_ctime < time.time() - seconds:
                    _delete(folder / name)


def _started() -> str:
    """What the names of packs begin with that are made before the machine is started anew."""
    return hashlib.sha256(boot().encode()).hexdigest()[:8]


def _usable(names: Iterable[str]) -> list[str]:
    """Those of packs made since."""
    started = _started()
    return [name for name in names if name.endswith(_PACK) and name.startswith(started)]


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    if not _is_private(folder):
        raise InputError(
            f"{folder}: encryptions made ahead are as secret as what they will encrypt, and others may use this folder",
            hint="chmod 700 it, or name another in CLEAVE_POOL",
        )


def _is_private(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete(path: Path) -> None:
    """Its content first: a hard link elsewhere has it no longer."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written ({error.strerror})", hint="CLEAVE_POOL names another folder, or off")
