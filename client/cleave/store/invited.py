"""Who contributes to which table: from the files of a contributor, before any store is asked."""

from __future__ import annotations

from pathlib import Path

from cleave.ckks.public_key import PublicKey, read_public_key
from cleave.store.contribute import Contributions
from cleave.store.identity import Identity, read_identity
from cleave.store.invitation import Invitation, invitation_of
from cleave.store.locate import Stores
from cleave.store.memory import Memory
from cleave.store.putting import Say
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

    def contributions(self, stores: Stores, say: Say = lambda _: None) -> Contributions:
        return Contributions(stores, self.public, self.invitation, self.identity, Memory(), say)


def read_invited(table: str, public_key: Path, identity: Path, fingerprint: str | None) -> Invited:
    """Raises KeyFileError for files that are none, and for a public key that has not the `fingerprint` its owner told;
    InputError for one that was exported for another table.
    """
    public = read_public_key(public_key)
    if fingerprint is not None and fingerprint != public.fingerprint:
        raise KeyFileError(
            f"{public_key}: is another owner's key: its fingerprint is {public.fingerprint}",
            hint="use none that does not have the fingerprint its owner tells by another way",
        )
    return Invited(public, invitation_of(public, table), read_identity(identity.expanduser()))
