"""What the owner of a table tells its contributors: how their rows must be cut so that they fit the owner's.

It stands in the exported public key (cleave.ckks.public_key) and is signed with it. It tells schema, by columns and the
scales of measures, which of a double without declared bounds say about how large the owner's values are.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from pydantic import ValidationError

from cleave.ckks.public_key import PublicKey
from cleave.store.manifest import Hex, Manifest, Measure, Part
from cleave.table.schema import Schema, dump_schema, read_schema
from cleave_shared.errors import InputError, KeyFileError


class Invitation(Part):
    format: Literal[1] = 1
    table: str
    table_id: Hex
    schema_toml: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    lossless: bool
    window: int
    scanned: int | None = None

    @property
    def terms(self) -> str:
        """By what rows go together with the owner's, whatever was derived or added since."""
        held = enumerate(self.measures)  # of which rows hold something
        columns = [each.model_dump() for number, each in held if not each.derived or number < (self.scanned or 0)]
        schema = dump_schema(replace(self.table_schema(), derived=()))
        terms = [self.table_id, schema, self.by, columns, self.lossless, self.window]
        terms += [] if self.scanned is None else [self.scanned]
        return hashlib.sha256(json.dumps(terms).encode()).hexdigest()

    def table_schema(self) -> Schema:
        return read_schema(tomllib.loads(self.schema_toml, parse_float=Decimal), f"the invitation to {self.table!r}")

    def manifest(self) -> Manifest:
        """As much of the owner's as a writer of rows reads."""
        known = self.model_dump(include={"table", "table_id", "schema_toml", "by", "lossless", "window", "scanned"})
        return Manifest.model_construct(**known, measures=self.measures)


def invite(manifest: Manifest) -> Invitation:
    """Raises InputError where contributors could not agree on the scale of a column."""
    if not manifest.rows:
        for each in manifest.measures:
            if each.decimals is None and not each.derived and (each.lower is None or each.upper is None):
                raise InputError(
                    f"column {each.name!r}: neither bounds nor rows tell how large its values are",
                    hint="declare lower and upper in the schema and put the table anew with --replace",
                )
    return Invitation(
        table=manifest.table,
        table_id=manifest.table_id,
        schema_toml=manifest.schema_toml,
        by=manifest.by,
        measures=manifest.measures,
        lossless=manifest.lossless,
        window=manifest.window,
        scanned=manifest.scanned,
    )


def invitation_of(public: PublicKey, table: str) -> Invitation:
    """Raises KeyFileError for a public key that was exported for no table, InputError for another table's."""
    if public.invitation is None:
        raise KeyFileError(
            "the public key was exported for no table",
            hint="its owner exports it with: cleave key export --table NAME --store PLACE -o FILE",
        )
    try:
        found = Invitation.model_validate_json(public.invitation)
    except ValidationError:
        raise KeyFileError(
            "the invitation in the public key is not of this release", hint="have it exported again by this release"
        ) from None
    if found.table.lower() != table.lower():
        raise InputError(f"the public key was exported for table {found.table!r}", hint="name that one with --table")
    return found
