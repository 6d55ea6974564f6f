"""What is stored already of rows that are being contributed: an object beside the head, by which a second try goes on.

It is sealed under a key that follows from the contributor's identity, for it holds the secrets of sentinels and digests
of rows: neither a store nor the table's owner opens it. It is bound to the head it started from and to what was asked
for; whether the rows are still the same is for their digests to tell. Once the rows are put, it keeps these digests
alone, until the next put, so that a put repeated after it was killed is recognised.
"""

from __future__ import annotations

import contextlib
from typing import Literal

from pydantic import ValidationError

from cleave.store.contribution import Contributed
from cleave.store.identity import Identity
from cleave.store.locate import Stores
from cleave.store.manifest import Count, Hex, Part, new_id
from cleave.store.storage import ConflictError
from cleave.store.vault import Vault
from cleave_shared import limits
from cleave_shared.errors import CheckFailed


class ContributionDraft(Part):
    """`part`: the id of the part that is being made."""

    format: Literal[1] = 1
    asked: str  # digest of what was asked for
    head: str | None  # of the contributions it adds to, or replaces
    part: Hex
    segments: tuple[Contributed, ...]  # none once the part is in the head
    rows: tuple[Count, ...]  # of each segment
    digests: tuple[str, ...]  # of these rows


class ContributionDrafts:
    """The draft in one contributor's folder. Of two who write it, the second to do so is told."""

    def __init__(self, stores: Stores, folder: str, identity: Identity, asked: str) -> None:
        self._stores = stores
        self._folder = folder
        self.place = f"{folder}/draft"
        self._vault = Vault(identity, folder)
        self._asked = asked
        self._found: str | None = None

    def load(self) -> ContributionDraft | None:
        """None where there is none, or it is of something else, or damaged."""
        found = self._stores.sensitive.read_versioned(self.place, limits.MAX_MANIFEST_BYTES)
        self._found = found[1] if found else None
        try:
            draft = ContributionDraft.model_validate_json(self._vault.open(self.place, found[0])) if found else None
        except (CheckFailed, ValidationError):
            return None
        return draft if draft is not None and draft.asked == self._asked else None

    def is_whole(self, draft: ContributionDraft) -> bool:
        """Check that it has all of its segments, and that every object of theirs is there."""
        if len(draft.segments) != len(draft.rows):
            return False
        plain = {each.segment.plain.name for each in draft.segments if each.segment.plain}
        every = {which.name for each in draft.segments for which in each.objects()}
        halves = ((self._stores.sensitive, every - plain), (self._stores.plain, plain))
        return all(not wanted or wanted <= set(store.names(self._folder)) for store, wanted in halves)

    def begin(self, head: str | None) -> ContributionDraft:
        """A new part on top of `head`, of which nothing is there."""
        return ContributionDraft(asked=self._asked, head=head, part=new_id(), segments=(), rows=(), digests=())

    def save(self, draft: ContributionDraft) -> None:
        """Raises ConflictError where somebody else contributes by the same identity."""
        sealed = self._vault.seal(self.place, draft.model_dump_json().encode())
        self._found = self._stores.sensitive.replace(self.place, sealed, self._found)

    def finish(self, draft: ContributionDraft) -> None:
        """Keep of `draft`, whose part is in the head, only what recognises its rows."""
        with contextlib.suppress(ConflictError):  # the next put has begun its own
            self.save(draft.model_copy(update={"segments": ()}))

    def delete(self) -> None:
        self._stores.sensitive.delete([self.place])
