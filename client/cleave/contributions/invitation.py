"""Register contributors of a table, state how their rows must be to fit it, and remove contributors with their rows.

That statement is part of the exported public key (cleave.ckks.public_key) and covered by its signature. It has the
schema and the by columns. Each registered contributor has a random number, so one who is removed and added again is a
different one. It also has the newest version of each contributor's head, so no machine of theirs accepts an older state
of the store.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from pydantic import ValidationError

from cleave.ckks.public_key import PublicKey
from cleave.store.cells import Cells, index_of
from cleave.store.change import Change, ChangePlan, require_no_reader
from cleave.store.contributors import OWNER, contributor_of, is_shared
from cleave.store.filling import Say, silent
from cleave.store.making import make
from cleave.store.manifest import Contributor, Count, Manifest, Segment, StoredModel, new_id, now
from cleave.store.published import ENDS, all_rows, has_ended, leaving
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave.table.privacy import NO_PRIVACY
from cleave.table.progress import Silent
from cleave.table.schema import Schema, dump_schema, read_schema
from cleave_shared.errors import InputError, KeyFileError
from cleave_shared.wire import Hex

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


class Invitation(StoredModel):
    """An owner's statement to contributors.

    `registrations`: the number of each registered contributor, by a digest of its key. `floors`: the newest version
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


def register(tables: Tables, table: str, name: str, key: str) -> Opened:
    """Register the holder of `key` (64 hex digits) as contributor `name`. Raises InputError, ConflictError."""
    contributor = Contributor(name=name, key=key, registration=new_id(), added=now())

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(table)
        if not _NAME.fullmatch(name) or name.lower() == OWNER:
            raise InputError(
                f"{name!r}: not a contributor's name",
                hint="letters, digits, blanks and . _ - up to 64, and not 'owner'",
            )
        for known in base.manifest.contributors:
            if known.name.lower() == name.lower():
                raise InputError(f"there is a contributor {known.name!r} already", hint="choose another name")
            if known.key == key:
                raise InputError(f"this key is that of contributor {known.name!r}")
        if not is_shared(base.manifest):
            require_no_reader(base.manifest, "rows of contributors")
        manifest = base.manifest.model_copy(update={"contributors": (*base.manifest.contributors, contributor)})
        return ChangePlan(manifest, details={"contributor": name})

    return make(tables, table, Change("contributor add", [name, key], plan), Silent()).opened


def remove(tables: Tables, table: str, name: str, warn: Say = silent) -> Opened:
    """Remove a contributor and its rows. `warn` is told if the table's releases end.

    Raises InputError for an unknown name, ConflictError.
    """

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - as above
        if base is None:
            raise tables.no_table(table)
        who = contributor_of(base.manifest, name)
        gone = [each for each in base.manifest.segments if each.contributor == who.name]
        manifest, cells = without(tables, base, gone)
        left = tuple(each for each in manifest.contributors if each != who)
        return ChangePlan(
            manifest.model_copy(update={"contributors": left}), cells=cells, details={"contributor": who.name}
        )

    done = make(tables, table, Change("contributor remove", [name.lower()], plan), Silent())
    if done.before is not None and has_ended(done.before.manifest, done.opened.manifest):
        warn(ENDS)
    return done.opened


def without(tables: Tables, opened: Opened, gone: Sequence[Segment]) -> tuple[Manifest, Cells]:
    """The manifest of `opened` without the segments `gone`, and its cells without their rows."""
    manifest, cells = opened.manifest, tables.cells(opened)
    for segment in gone:
        cells.count(index_of(segment), -1)
    ids = {each.id for each in gone}
    segments = manifest.segments.rearranged(each for each in manifest.segments if each.id not in ids)
    release = leaving(tables, opened, dict.fromkeys(ids, all_rows))
    return manifest.model_copy(update={"segments": segments, "release": release}), cells
