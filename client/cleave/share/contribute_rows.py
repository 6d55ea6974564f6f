"""Seal a contributor's rows, segment after segment, for the owner alone; a draft after each records how far it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cleave.objects.storage import Storage
from cleave.share.contribute_draft import ContributionDraft, ContributionStep
from cleave.share.invitation import Invitation
from cleave.store.contribution import ContributedSegment
from cleave.store.drafts import Drafts
from cleave.store.manifest import new_id
from cleave.store.putting import Say, are_those
from cleave.store.sealed import key_of_object
from cleave.store.sealing import THREADS, Target
from cleave.store.slices import Slices, digest_of
from cleave.table.stream import Stream
from cleave.table.table import Table
from cleave.text.quantities import counted


class Making:
    """The segments of one part, of `together` rows each, in `folder` of the sensitive store."""

    def __init__(
        self,
        store: Storage,
        invitation: Invitation,
        folder: str,
        drafts: Drafts[ContributionDraft, ContributionStep],
        together: int,
    ) -> None:
        self._store = store
        self._invitation = invitation
        self._folder = folder
        self._drafts = drafts
        self._together = together

    def run(
        self, rows: Stream, draft: ContributionDraft, advance: Callable[[int], None], say: Say
    ) -> ContributionDraft | None:
        """`draft` with all of `rows`. None, and nothing is changed, if its own are other rows by now."""
        with Slices(rows, self._invitation.table_schema()) as slices:
            if not are_those(slices, draft.steps, lambda _: None):
                say("the rows are not those of the put that was stopped: all of them are stored again")
                return None
            if draft.steps:
                told = f"{counted(draft.rows, 'row')} are stored"
                say(f"going on where an earlier put of the same rows was stopped: {told}")
                advance(draft.rows)
            while (piece := slices.next(self._together)) is not None:
                table = slices.table(piece)
                digest = digest_of(table)
                made = self._segment(table, draft)
                advance(made.rows)
                step = ContributionStep(id=made.id, rows=made.rows, digest=digest, segment=made)
                draft = self._drafts.add(draft, step)
        return draft

    def _segment(self, table: Table, draft: ContributionDraft) -> ContributedSegment:
        """Seal and write every column, the plain ones too: nothing of a contribution is in the clear."""
        segment, secret = new_id(), bytes.fromhex(draft.key)
        target = Target(
            self._store, self._folder, self._invitation.table_id, segment, lambda name: key_of_object(secret, name)
        )
        with ThreadPoolExecutor(THREADS) as pool:
            columns = tuple(pool.map(lambda column: target.write(table, column), draft.columns))
        return ContributedSegment(id=segment, rows=table.rows, columns=columns)
