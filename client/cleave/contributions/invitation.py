"""An owner's statement to a table's contributors: how their rows must be to fit the table.

It is part of the exported public key (cleave.ckks.public_key) and covered by its signature. It has the schema and the
by columns. Each registered contributor has a random number, so one who is removed and added again is a different one.
It also has the newest version of each contributor's head, so no machine of theirs accepts an older state of the store.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from pydantic import ValidationError

from cleave.ckks.public_key import PublicKey
from cleave.store.manifest import Count, Manifest, StoredModel
from cleave.table.privacy import NO_PRIVACY
from cleave.table.schema import Schema, dump_schema, read_schema
from cleave_shared.errors import InputError, KeyFileError
from cleave_shared.wire import Hex


class Invitation(StoredModel):
    """`registrations`: the number of each registered contributor, by a digest of its key. `floors`: the newest version
    of its head at the time of export, by the same digest.
    """

    format: Literal[2] = 2
    table: str
    table_id: Hex
    schema_toml: str
    by: tuple[str, ...]
    registrations: dict[Hex, Hex]
    floors: dict[Hex, Count]

    @property
    def terms(self) -> str:
        """Digest of what rows must fit. Later derived columns and contributors do not change it."""
        schema = dump_schema(replace(self.table_schema(), derived=(), privacy=NO_PRIVACY))
        return hashlib.sha256(json.dumps([self.table_id, schema, self.by]).encode()).hexdigest()

    def table_schema(self) -> Schema:
        return read_schema(tomllib.loads(self.schema_toml, parse_float=Decimal), f"the invitation to {self.table!r}")

    def registration_of(self, contributor: str) -> str:
        """The number of a contributor, given by its key (64 hex digits). Raises InputError if it is not registered."""
        registration = self.registrations.get(_digest(self.table_id, contributor))
        if registration is None:
            raise InputError(
                f"the invitation to {self.table!r} does not name this identity",
                hint="its owner registers it with `cleave contributor add` and then exports the public key again",
            )
        return registration

    def floor_of(self, contributor: str) -> int:
        """The minimum version of a contributor's head; 0 if it has put nothing."""
        return self.floors.get(_digest(self.table_id, contributor), 0)


def invite(manifest: Manifest, versions: Mapping[str, int] = MappingProxyType({})) -> Invitation:
    """`versions`: of the contributors' heads, by key. For others, the last collected version is used."""
    return Invitation(
        table=manifest.table,
        table_id=manifest.table_id,
        schema_toml=manifest.schema_toml,
        by=manifest.by,
        registrations={_digest(manifest.table_id, each.key): each.registration for each in manifest.contributors},
        floors={
            _digest(manifest.table_id, each.key): versions.get(each.key, each.version) for each in manifest.contributors
        },
    )


def _digest(table_id: str, contributor: str) -> str:
    return hashlib.sha256(f"cleave registration {table_id} {contributor}".encode()).hexdigest()[:32]


def invitation_of(public: PublicKey, table: str) -> Invitation:
    """Raises KeyFileError for a public key without an invitation, InputError for another table's."""
    if public.invitation is None:
        raise KeyFileError(
            "the public key was exported for no table",
            hint="its owner exports it with: cleave key export --table NAME --store PLACE -o FILE",
        )
    try:
        invitation = Invitation.model_validate_json(public.invitation)
    except ValidationError:
        raise KeyFileError(
            "the invitation in the public key is not of this release", hint="have it exported again by this release"
        ) from None
    if invitation.table.lower() != table.lower():
        raise InputError(
            f"the public key was exported for table {invitation.table!r}", hint="name that one with --table"
        )
    return invitation
