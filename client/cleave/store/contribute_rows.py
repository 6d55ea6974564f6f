"""A contributor's rows, segment after segment, under the owner's public key; a draft after each says how far it is."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Words
from cleave.ckks.cipher import PublicCipher
from cleave.ckks.public_key import PublicKey
from cleave.quantities import counted
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.contribute_draft import ContributionDraft, ContributionDrafts
from cleave.store.contribution import Contributed
from cleave.store.encrypting import RowEncryptors
from cleave.store.invitation import Invitation
from cleave.store.locate import Stores
from cleave.store.manifest import Manifest, Measure, Totals
from cleave.store.putting import Say, are_those
from cleave.store.segment import RowsWriter
from cleave.store.slices import Slices
from cleave.table.stream import Stream
from cleave.table.table import Table

SECRET_BYTES = 32


class Making:
    """The segments of one part, of `together` rows each."""

    def __init__(
        self,
        stores: Stores,
        public: PublicKey,
        invitation: Invitation,
        folder: str,
        drafts: ContributionDrafts,
        together: int,
    ) -> None:
        self._stores = stores
        self._public = public
        self._invitation = invitation
        self._folder = folder
        self._drafts = drafts
        self._together = together

    def run(
        self, rows: Stream, draft: ContributionDraft, advance: Callable[[int], None], say: Say
    ) -> ContributionDraft | None:
        """`draft` with all of `rows`. None, and nothing is changed, if its own are other rows by now."""
        manifest = self._invitation.manifest()
        writer = _Writer(self._stores, self._public, self._folder)
        done = draft.rows
        with (
            writer.encryptors(manifest, self._together) as encryptors,
            Slices(rows, self._invitation.table_schema()) as slices,
        ):
            if not are_those(slices, done, draft.digests, lambda _: None):
                say("the rows are not those of the put that was stopped: all of them are stored anew")
                return None
            if done:
                told = f"{counted(sum(done), 'row')} are stored already"
                say(f"going on where an earlier put of the same rows was stopped: {told}")
                advance(sum(done))
            while (piece := slices.next(self._together)) is not None:
                digest = slices.digest(piece)
                made = writer.contribute(piece, manifest, encryptors, advance)
                draft = draft.model_copy(
                    update={
                        "segments": (*draft.segments, made),
                        "rows": (*draft.rows, made.segment.rows),
                        "digests": (*draft.digests, digest),
                    }
                )
                self._drafts.save(draft)
        return draft


class _Writer(RowsWriter):
    """Its sentinels come from a secret of its own, which the owner alone is told."""

    public = True

    def __init__(self, stores: Stores, public: PublicKey, folder: str) -> None:
        self._secret = secrets.token_bytes(SECRET_BYTES)
        cipher = PublicCipher(public.profile, public.public, self._secret)
        super().__init__(stores.sensitive, stores.plain, public, cipher, public.profile, folder)
        self._sums: list[list[int]] = []

    def contribute(
        self, table: Table, manifest: Manifest, encryptors: RowEncryptors, advance: Callable[[int], None]
    ) -> Contributed:
        cells = Cells()
        segment = self.finish(self.begin(table, manifest, cells), encryptors, advance)
        facts = json.dumps({"keys": cells.keys, "rows": cells.rows, "totals": self._sums}, ensure_ascii=False)
        return Contributed(
            segment=segment.model_copy(update={"sentinels": self._secret.hex()}), facts=self._seal(facts.encode())
        )

    def _totals(
        self,
        segment: str,  # noqa: ARG002 - what the owner's totals are labelled with
        measures: Sequence[Measure],
        parts: Sequence[dict[str, Words]],
        counts: NDArray[np.int64],
        numbers: Sequence[int],
        cells: int,
    ) -> tuple[Totals, ...]:
        """Kept as integers for the facts: the owner encrypts them with those of other rows, by its own cells."""
        starts = np.cumsum(counts) - counts
        self._sums = []
        for column in of_measures.columns_of(measures):
            found: list[int] = [0] * cells
            entries = of_measures.as_integers(of_measures.totals(parts[column.measure][column.part], starts))
            for number, total in zip(numbers, entries, strict=True):
                found[number] = int(total)
            self._sums.append(found)
        return ()
