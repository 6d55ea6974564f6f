"""A contributor's files: identity, the owner's public key and the invitation in it. No store is read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cleave.ckks.public_key import PublicKey, read_public_key
from cleave.objects.locate import Stores
from cleave.share.contribute import Contributions
from cleave.share.invitation import Invitation, invitation_of
from cleave.store.filling import Say
from cleave.store.identity import Identity, read_identity
from cleave.store.memory import Memory
from cleave.table.schema import Schema
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import KeyFileError


@dataclass(frozen=True, slots=True)
class Invited:
    public: PublicKey
    invitation: Invitation
    identity: Identity

    @property
    def schema(self) -> Schema:
        return self.invitation.table_schema()

    @property
    def consent(self) -> str:
        """Who can read the rows, and the kinds of their columns."""
        kinds: dict[str, list[str]] = {}
        for each in self.schema.columns:
            kinds.setdefault(str(each.kind), []).append(each.name)
        columns = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
        return f"for the owner of {self.public.fingerprint}, who can read every row; {columns}"

    def contributions(self, stores: Stores, say: Say = lambda _: None) -> Contributions:
        return Contributions(stores, self.public, self.invitation, self.identity, Memory(), say)


def read_invited(
    table: str, public_key: Path, identity: Path, fingerprint: str | None, memory: Memory | None = None
) -> Invited:
    """Read a contributor's files. The `fingerprint` is required the first time a public key is used here.

    Raises KeyFileError for files of another kind, and for a public key of another fingerprint; InputError for one that
    was exported for another table.
    """
    public, memory = read_public_key(public_key), memory or Memory()
    tag = hashlib.sha256(f"owner {public.fingerprint}".encode()).hexdigest()[:32]
    if fingerprint is None and memory.newest(tag) is None:
        raise KeyFileError(
            f"{public_key}: this public key is used here for the first time: its fingerprint is {public.fingerprint}",
            hint="compare it with what its owner says over another channel, then name it: --fingerprint SHA256:...",
        )
    if fingerprint is not None and fingerprint != public.fingerprint:
        raise KeyFileError(
            f"{public_key}: is another owner's key: its fingerprint is {public.fingerprint}",
            hint="use only a key with the fingerprint that its owner gives over another channel",
        )
    invited = Invited(public, invitation_of(public, table), read_identity(identity.expanduser()))
    memory.remember(tag, "0" * 32, 1)
    return invited
