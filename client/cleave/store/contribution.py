"""A contributor's part of the store: its own folder, with a head that it signs.

  head        in the clear, signed: the valid parts, in order of put
  part        sealed to the owner: its segments, and the key of their columns; from one `cleave put --public-key`
  names       in the clear: random names of a part's objects, by which the contributor finds leftovers
  columns     sealed under the part's key: every column of a segment, in blocks (cleave.store.sealed)

The folder's name follows from the table and the contributor, so a contributor's credentials can be limited to it. They
need no rights in the plain place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cleave import formats
from cleave.store.heads import Compatibility
from cleave.store.identity import is_signed
from cleave.store.manifest import Count, Object, Sealed, SealedColumn, StoredModel, is_content
from cleave_shared import limits
from cleave_shared.errors import CheckFailed
from cleave_shared.wire import Hex

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


_NAMES = TypeAdapter(list[Hex])


class Entry(StoredModel):
    id: Hex
    manifest: Object
    names: Object


class ContributionHead(Compatibility):
    """`owner`: the key id of its reader. `version` grows with every change.

    Collected parts stay in the list, but their objects are deleted: the owner has copies.
    """

    cleave_contribution: Literal[3] = 3
    owner: Hex
    table_id: Hex
    contributor: Digest
    version: Annotated[int, Field(ge=1)]
    parts: tuple[Entry, ...]

    def signed(self) -> bytes:
        content = self.model_dump(mode="json")
        return json.dumps(["cleave contribution", content], sort_keys=True, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.signed()).hexdigest()


class ContributedSegment(StoredModel):
    id: Hex
    rows: Count
    columns: tuple[Sealed, ...]  # one per column of the part

    def parts(self) -> Iterator[Object]:
        """Objects of its columns."""
        yield from (each.object for each in self.columns)


class PartManifest(StoredModel):
    """`registration` and `terms`: from the invitation that it follows. `key`: its columns are sealed under it."""

    format: Literal[3] = 3
    id: Hex
    table_id: Hex
    contributor: Digest
    registration: Hex
    terms: Digest
    key: Digest
    columns: tuple[SealedColumn, ...]
    segments: tuple[ContributedSegment, ...]

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """Its arguments for `context_of`, except owner and name."""
        return self.table_id, self.contributor, self.registration, self.terms, self.id


def context_of(owner: str, table_id: str, contributor: str, registration: str, terms: str, part: str, name: str) -> str:
    """The text that a sealed part's manifest is bound to: the owner's fingerprint and the part's position."""
    return json.dumps(["cleave part 3", owner, table_id, contributor, registration, terms, part, name])


def folder_of(table_id: str, contributor: str) -> str:
    """The folder of a contributor's objects, in both stores."""
    text = f"cleave contribution {table_id} {contributor}"
    return f"tables/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def dump_head(head: ContributionHead, signature: str) -> bytes:
    return json.dumps({**head.model_dump(mode="json"), "signature": signature}).encode()


def read_head(content: bytes, contributor: str, table_id: str, owner: str) -> ContributionHead:
    """The head of `contributor`, verified by its signature.

    Raises AnotherRelease if this release may not read it, CheckFailed for any other head.
    """
    try:
        members: dict[str, Any] = json.loads(content)
        formats.require_readable(members, "cleave_contribution", "the head of a contribution")
        signature = members.pop("signature")
        head = ContributionHead.model_validate_json(json.dumps(members))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ValidationError):
        raise CheckFailed("stored", "the head of a contribution is damaged") from None
    if not isinstance(signature, str) or not is_signed(contributor, signature, head.signed()):
        raise CheckFailed(
            "signature",
            "the head of a contribution is not signed by its contributor",
            hint="it was written by someone else, or damaged: ask its contributor to put it again",
        )
    if (head.contributor, head.table_id, head.owner) != (contributor, table_id, owner):
        raise CheckFailed("signature", "a contribution is to another table, of another owner or by another contributor")
    if len({each.id for each in head.parts}) != len(head.parts):
        raise CheckFailed("stored", "the head of a contribution names a part twice")
    folder = folder_of(table_id, contributor)
    if not all(each.name.startswith(f"{folder}/") for part in head.parts for each in (part.manifest, part.names)):
        raise CheckFailed("stored", "the head of a contribution names objects that are not its own")
    for which in (each for part in head.parts for each in (part.manifest, part.names)):
        if which.bytes > limits.MAX_FACTS_BYTES:
            stated = f"{which.name} is said to have {which.bytes:,} bytes, at most {limits.MAX_FACTS_BYTES:,} are read"
            raise CheckFailed("stored", stated)
    return head


def names_of(entry: Entry, content: bytes) -> list[str]:
    """Names of a part's objects, from its list `content`; the list itself is last. Raises CheckFailed."""
    folder = entry.names.name.rpartition("/")[0]
    failed = CheckFailed("stored", "the list of a part's objects is damaged")
    if not is_content(content, entry.names):
        raise failed
    try:
        names = _NAMES.validate_json(content)
    except ValidationError:
        raise failed from None
    return [entry.manifest.name, *(f"{folder}/{name}" for name in names), entry.names.name]
