"""Rows that were published in a release: marks per segment, and digests of published rows that left the table.

A published row stays published, whatever its values become. A segment has a sealed mark per row once a release read it,
or it was rewritten since. If a published row leaves, a digest of its key columns is kept, or of its entity if there are
no key columns. New rows with the same values are marked.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cleave.store.contributors import contributor_in
from cleave.store.manifest import MARK, AnyRelease, Manifest
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.duck import identifier, literal
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.table.types import FLOATS, decimals_of

ENDED = "released rows left it without key columns or an entity, or other columns name its rows or cells"
ENDS = f"this ends the releases of the table: {ENDED}. `cleave release new NAME --new-lineage --yes` begins again"
_MAGIC = b"CLD1"
_BYTES = 16  # of a digest
_FEWEST = 64  # digests for which there is always space
_KEY_BYTES = 32


def identity_of(manifest: Manifest) -> tuple[str, ...]:
    """The columns that identify a row or whom it is about: the key columns, or the entity; () for none."""
    return manifest.key or load_stored_schema(manifest).privacy.entity


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests, in hex, of published rows that left. `key`: without it nobody can compare guesses with them."""

    key: bytes
    values: frozenset[str] = frozenset()

    @classmethod
    def new(cls) -> Digests:
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def load(cls, content: bytes) -> Digests:
        """Read the result of `dump`, which the owner sealed."""
        start = len(_MAGIC) + _KEY_BYTES + 8
        count = int.from_bytes(content[start - 8 : start], "big")
        packed = content[start : start + count * _BYTES].hex()
        values = (packed[place : place + 2 * _BYTES] for place in range(0, len(packed), 2 * _BYTES))
        return cls(content[len(_MAGIC) : start - 8], frozenset(values))

    def dump(self) -> bytes:
        """Bytes with the length for the next power of two of digests."""
        packed = bytes.fromhex("".join(sorted(self.values)))
        room = max(_FEWEST, 1 << max(0, len(self.values) - 1).bit_length()) * _BYTES
        return _MAGIC + self.key + len(self.values).to_bytes(8, "big") + packed.ljust(room, b"\0")

    def of(self, table: Table, schema: Schema, identity: Sequence[str], whose: str, source: str) -> list[str]:
        """The digest of each row of `source`, SQL over `table`, in order. `whose`: name of their contributor."""
        texts = ", ".join(_text(schema, name, whose) for name in identity)
        column = table.connection.execute(f"SELECT concat({texts}) AS named FROM ({source})").fetchnumpy()["named"]
        return [hmac.digest(self.key, str(each).encode(), "sha256").hex()[: 2 * _BYTES] for each in column.tolist()]

    def marks(self, table: Table, schema: Schema, identity: Sequence[str], whose: str) -> NDArray[np.bool_]:
        """A flag (rows,) for each row of `table` that equals one that left."""
        digests = self.of(table, schema, identity, whose, f"FROM {table.relation}")
        return np.fromiter((each in self.values for each in digests), np.bool_, len(digests))


def _text(schema: Schema, name: str, whose: str) -> str:
    """SQL of a value as text. It does not change if the column gets a wider type, and differs for each value and for
    NULL.
    """
    column = schema.find(name)
    if column is None:
        text = literal(whose)
    elif column.type in FLOATS:
        text = f"CAST(CAST({identifier(name)} AS DOUBLE) AS VARCHAR)"
    else:
        text = f"CAST({identifier(name)} AS VARCHAR)"
        if decimals_of(column.type):
            text = f"rtrim(rtrim({text}, '0'), '.')"
    return f"coalesce(strlen({text}) || ':' || {text}, '-')"


def digests_of(tables: Tables, manifest: Manifest) -> Digests | None:
    """Digests for marking new rows; None if there are none."""
    sealed = manifest.marking and manifest.marking.digests
    return Digests.load(tables.unseal(tables.vault(manifest.table_id), "release", sealed)) if sealed else None


def has_ended(before: Manifest, after: Manifest) -> bool:
    """True if the lineage of releases of a table could get further parts before a change, and cannot after it."""
    return before.lineage is not None and after.lineage is None


def would_end(
    tables: Tables, opened: Opened, gone: Mapping[str, Callable[[Table], str]], reads: Collection[str] = ()
) -> bool:
    """True if released rows would leave a table that nothing names them by. Arguments and errors as `leaving`."""
    if opened.manifest.lineage is None or identity_of(opened.manifest):
        return False
    with closing(Rows(tables, opened)) as rows:
        for segment in opened.manifest.segments:
            if segment.id in gone and segment.marks is not None:
                with rows.table({*reads, MARK}, segments=[segment]) as table:
                    published = f"FROM ({gone[segment.id](table)}) WHERE {identifier(MARK)}"
                    ((count,),) = table.connection.execute(f"SELECT count(*) {published}").fetchall()
                if count:
                    return True
    return False


def leaving(
    tables: Tables,
    opened: Opened,
    gone: Mapping[str, Callable[[Table], str]],
    reads: Collection[str] = (),
) -> AnyRelease | None:
    """The release of a table after rows are removed: with their digests, or ended if no column identifies rows.

    `gone`: segment id -> SQL of the removed rows. `reads`: the columns that this reads. Raises CheckFailed, StoreError.
    """
    manifest, release = opened.manifest, opened.manifest.lineage
    if release is None or not gone:
        return manifest.release
    identity, schema = identity_of(manifest), load_stored_schema(manifest)
    if not identity:
        return release.model_copy(update={"ended": int(would_end(tables, opened, gone, reads))})
    digests = digests_of(tables, manifest) or Digests.new()
    values = set(digests.values)
    names = {*(each for each in identity if schema.find(each)), *reads, MARK}
    with closing(Rows(tables, opened)) as rows:
        for segment in manifest.segments:
            if segment.id not in gone or segment.marks is None:
                continue
            with rows.table(names, segments=[segment]) as table:
                published = f"SELECT * FROM ({gone[segment.id](table)}) WHERE {identifier(MARK)}"
                values.update(digests.of(table, schema, identity, contributor_in(segment), published))
    sealed = tables.seal(
        tables.folder(manifest.table), opened.vault, "release", Digests(digests.key, frozenset(values)).dump()
    )
    return release.model_copy(update={"digests": sealed})


def all_rows(table: Table) -> str:
    return f"FROM {table.relation}"
