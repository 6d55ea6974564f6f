"""Heads that an owner signs for the holder of one public file, each with a secret that is sealed to that file by HPKE.

Releases to analysts begin with one (cleave.releases.release), and so does what opens columns to a reader
(cleave.share.bundle). A head is stored in the clear, under a name that follows from the public file and the table's
name. It is bound to its owner, the table, its number and its holder, so none passes for another's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import Field, ValidationError

from cleave import formats
from cleave.ckks.public_key import PublicKey, open_sealed, read_public_key
from cleave.objects.storage import ConflictError, replaced
from cleave.store.heads import Compatibility
from cleave.store.identity import is_signed
from cleave.store.manifest import Analyst, Count, Reader
from cleave_shared.errors import CheckFailed, InputError, KeyFileError
from cleave_shared.wire import Hex

if TYPE_CHECKING:
    from cleave.ckks.public_key import Keyholder
    from cleave.store.tables import Tables

SUITE = "HPKE base mode, MLKEM768-X25519, HKDF-SHA256, AES-256-GCM (draft-ietf-hpke-pq)"
MOST_HEAD = 16 << 10
_TRIES = 8


class Addressed(Compatibility):
    """`box`, `signing`, `key`: the owner's public keys and the sealed secret, in base64.

    `number`: grows with each head of a table. `WHAT`: its kind, in what is signed. `KIND`: name of its format number.
    `HINT`: how it is made again.
    """

    WHAT: ClassVar[str]
    KIND: ClassVar[str]
    HINT: ClassVar[str]

    suite: str
    box: str
    signing: str
    table_id: Hex
    number: Count
    key: str
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")] = "0" * 128

    def signed(self, holder: PublicKey, table: str) -> bytes:
        content = self.model_dump(mode="json", exclude={"signature"})
        text = [f"cleave {self.WHAT}", holder.fingerprint, table.lower(), content]
        return json.dumps(text, sort_keys=True, separators=(",", ":")).encode()

    @property
    def owner(self) -> PublicKey:
        return PublicKey(base64.b64decode(self.box), base64.b64decode(self.signing))

    def bound(self, *more: str) -> str:
        """The place of what is sealed."""
        raise NotImplementedError

    def sealing(self, secret: bytes, holder: PublicKey) -> str:
        """`secret` sealed to its holder, in base64."""
        return base64.b64encode(holder.seal(self.bound(holder.fingerprint), secret)).decode()

    def open(self, key: Keyholder, holder: PublicKey, most: int) -> bytes:
        """Return the secret, of at most `most` bytes, to its holder. Raises CheckFailed."""
        try:
            sealed = base64.b64decode(self.key, validate=True)
        except ValueError:
            raise _damaged(type(self)) from None
        return open_sealed(key, self.bound(holder.fingerprint), sealed, most)


H = TypeVar("H", bound=Addressed)


def place_of(kind: type[Addressed], holder: PublicKey, table: str) -> str:
    """The folder of a holder's head. The name of a table cannot be guessed from it without the public file."""
    text = json.dumps([f"cleave {kind.WHAT}", holder.fingerprint, table.lower()])
    return f"releases/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def public_of(holder: Analyst | Reader) -> PublicKey:
    return PublicKey(base64.b64decode(holder.box), base64.b64decode(holder.signing))


def read_holders(paths: Sequence[Path], role: str, hint: str) -> dict[str, PublicKey]:
    """The public halves in files, by name: that of the file up to its first dot. Raises KeyFileError, InputError.

    `role`: what they are, such as "analyst". `hint`: how such a file is made.
    """
    holders: dict[str, PublicKey] = {}
    for path in paths:
        name, public = path.name.partition(".")[0], read_public_key(path, hint)
        if public.invitation is not None:
            raise KeyFileError(f"{path}: this is an owner's key, exported for contributors", hint=hint)
        if not name or name in holders:
            raise InputError(f"{path}: two {role}s cannot have one name", hint=f"the name of the file is the {role}'s")
        holders[name] = public
    return holders


def read_head(kind: type[H], content: bytes, holder: PublicKey, table: str) -> H:
    """Raises AnotherRelease for a head that this release may not read, CheckFailed for one that its owner did not sign
    for this holder and table.
    """
    failed = _damaged(kind)
    try:
        if len(content) > MOST_HEAD:
            raise failed
        formats.require_readable(json.loads(content), kind.KIND, f"the head of a {kind.WHAT} of table {table!r}")
        head = kind.model_validate_json(content)
        if not is_signed(head.owner.signing.hex(), head.signature, head.signed(holder, table)):
            raise failed
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        raise failed from None
    return head


def _damaged(kind: type[Addressed]) -> CheckFailed:
    text = f"the head of a {kind.WHAT} is damaged, or another holder's or table's"
    return CheckFailed("signature", text, hint=kind.HINT)


def publish(
    tables: Tables, table: str, holder: Analyst | Reader, head: H, secret: bytes, most: int | None = None
) -> None:
    """Seal `secret` to `holder` and write its head, unless the store has this head or a later one.

    `most`: the latest number that the table gave. A head with a later one is replaced: the table was restored.
    Raises StoreError; ConflictError if other writers keep changing the head.
    """
    store, public = tables.stores.sensitive, public_of(holder)
    place = f"{holder.place}/head"
    sealed = head.model_copy(update={"key": head.sealing(secret, public)})
    signature = tables.key.signing_key().sign(sealed.signed(public, table)).hex()
    content = sealed.model_copy(update={"signature": signature}).model_dump_json().encode()

    for left in reversed(range(_TRIES)):
        current = store.read_versioned(place, MOST_HEAD)
        there = _current(current[0], public, table, head) if current else None
        if there is not None:
            there.require_writable(f"the head of a {head.WHAT} of table {table!r}")
        if there is not None and there.bound() == head.bound():
            return
        if there is not None and there.number > head.number and (most is None or there.number <= most):
            return
        try:
            replaced(store, place, content, current[1] if current else None)
        except ConflictError:
            if not left:
                raise
            continue
        return


def is_published(tables: Tables, table: str, holder: Analyst | Reader, head: Addressed) -> bool:
    """True if the store has this head for its holder, or a later one."""
    stored = tables.stores.sensitive.read_versioned(f"{holder.place}/head", MOST_HEAD)
    there = _current(stored[0], public_of(holder), table, head) if stored else None
    return there is not None and there.number >= head.number


def _current(content: bytes, holder: PublicKey, table: str, mine: H) -> H | None:
    """The stored head; None if this owner did not write it for this table."""
    try:
        head = read_head(type(mine), content, holder, table)
    except CheckFailed:
        return None
    return head if (head.owner, head.table_id) == (mine.owner, mine.table_id) else None
