"""Seal a contributor's rows, segment after segment, for the owner alone; a draft after each records how far it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cleave.quantities import counted
from cleave.store.columns import read_columns
from cleave.store.contribute_draft import ContributionDraft, ContributionStep
from cleave.store.contribution import ContributedSegment
from cleave.store.drafts import Drafts
from cleave.store.invitation import Invitation
from cleave.store.manifest import Sealed, described, new_id
from cleave.store.putting import Say, are_those
from cleave.store.sealed import Place, Values, key_of_object, seal_column
from cleave.store.segment import THREADS
from cleave.store.slices import Slices
from cleave.store.storage import Storage
from cleave.table.stream import Stream
from cleave.table.table import Table


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
                digest = slices.digest(piece)
                made = self._segment(piece, draft)
                advance(made.rows)
                step = ContributionStep(id=made.id, rows=made.rows, digest=digest, segment=made)
                draft = self._drafts.add(draft, step)
        return draft

    def _segment(self, table: Table, draft: ContributionDraft) -> ContributedSegment:
        """Seal and write every column, the plain ones too: nothing of a contribution is in the clear."""
        segment, secret = new_id(), bytes.fromhex(draft.key)

        def write(number: int, values: Values) -> Sealed:
            name, column = f"{self._folder}/{new_id()}", draft.columns[number]
            place = Place(self._invitation.table_id, name[-32:], segment, column, values.rows)
            blocks = seal_column(key_of_object(secret, name), place, values)
            content = b"".join(blocks)
            self._store.write(name, content)
            return Sealed(object=described(name, content), lengths=() if column.width else tuple(map(len, blocks)))

        values = read_columns(table.connection, draft.columns, table.relation, "")
        with ThreadPoolExecutor(THREADS) as pool:
            columns = tuple(pool.map(write, range(len(values)), values))
        return ContributedSegment(id=segment, rows=table.rows, columns=columns)
