"""The draft of a contributor's put (cleave.store.drafts).

It is sealed under a key that follows from the contributor's identity, for it holds the key of the rows and digests of
them: neither a store nor the table's owner opens it. Once the rows are put, it keeps these digests alone until the
next put, so that a put repeated after it was killed is recognised.
"""

from __future__ import annotations

import secrets

from cleave.objects.locate import Stores
from cleave.store.columns import sealed_column
from cleave.store.contribution import ContributedSegment, Key
from cleave.store.drafts import Draft, Drafts, Step
from cleave.store.identity import Identity
from cleave.store.manifest import Hex, SealedColumn, new_id
from cleave.store.vault import Vault
from cleave.table.schema import Schema

_NO_KEY = "0" * 64


class ContributionStep(Step):
    segment: ContributedSegment | None = None


class ContributionDraft(Draft):
    """`part`: the id of the part that is being made."""

    part: Hex
    key: Key
    columns: tuple[SealedColumn, ...]
    steps: tuple[ContributionStep, ...]

    @property
    def segments(self) -> tuple[ContributedSegment, ...]:
        return tuple(each.segment for each in self.steps if each.segment is not None)

    def objects(self) -> tuple[set[str], set[str]]:
        return {which.name for each in self.segments for which in each.objects()}, set()

    def without_key(self) -> ContributionDraft:
        return self.model_copy(update={"key": _NO_KEY})


def begun(asked: str, head: str | None, schema: Schema) -> ContributionDraft:
    """Return the draft of a new part on top of `head`, without segments, with a key of its own."""
    return ContributionDraft(
        id=new_id(),
        asked=asked,
        head=head,
        part=new_id(),
        key=secrets.token_hex(32),
        columns=tuple(sealed_column(each) for each in schema.columns),
        steps=(),
    )


def contribution_drafts(stores: Stores, folder: str, identity: Identity) -> Drafts[ContributionDraft, ContributionStep]:
    """The draft in one contributor's folder."""
    return Drafts(stores, f"{folder}/draft", Vault(identity, folder), ContributionDraft, ContributionStep)
