"""Puts a contributor's rows into the store, without the owner's key: new objects in its own folder, then its head.

Every column is sealed, also plain ones: nothing of a contribution is in the clear. The draft has the key of the rows
and digests of them. It is sealed under a key derived from the contributor's identity, so neither a store nor the
table's owner can open it. After a put it keeps only these digests until the next put: they identify a put that repeats
a killed one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cleave.ckks.public_key import PublicKey, read_public_key
from cleave.contributions.invitation import Invitation, invitation_of
from cleave.files import expanded
from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, replaced
from cleave.store import measures as of_measures
from cleave.store.by import count_cells
from cleave.store.columns import sealed_column
from cleave.store.contribution import (
    ContributedSegment,
    ContributionHead,
    Digest,
    Entry,
    PartManifest,
    context_of,
    dump_head,
    folder_of,
    names_of,
    read_head,
)
from cleave.store.drafts import Draft, Drafts, Step
from cleave.store.filling import NewRows, Say
from cleave.store.identity import Identity, read_identity
from cleave.store.manifest import Object, SealedColumn, described, new_id
from cleave.store.schemas import check_fits
from cleave.store.seen_versions import SeenVersions
from cleave.store.segment import THREADS, ColumnTarget
from cleave.store.sweeping import ObjectSizes, cleaning, listed, require_listed
from cleave.store.vault import Vault, key_of_object
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import Schema
from cleave.table.stream import Stream
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError, KeyFileError
from cleave_shared.wire import Hex

_NO_KEY = "0" * 64


@dataclass(frozen=True, slots=True)
class Invited:
    """A contributor's files: its identity, the owner's public key, and the invitation in that key."""

    public: PublicKey
    invitation: Invitation
    identity: Identity

    @property
    def schema(self) -> Schema:
        return self.invitation.table_schema()

    @property
    def consent(self) -> str:
        """Who can read the rows, and the kinds of their columns."""
        kinds: dict[str, list[str]] = {}
        for each in self.schema.columns:
            kinds.setdefault(str(each.kind), []).append(each.name)
        columns = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
        return f"for the owner of {self.public.fingerprint}, who can read every row; {columns}"


def read_invited(
    table: str, public_key: Path, identity: Path, fingerprint: str | None, memory: SeenVersions | None = None
) -> Invited:
    """Read a contributor's files. `fingerprint` is required when a public key is used here for the first time.

    Raises KeyFileError for files of another kind, and for a wrong fingerprint; InputError if the key was exported for
    another table.
    """
    public, memory = read_public_key(public_key), memory or SeenVersions()
    tag = hashlib.sha256(f"owner {public.fingerprint}".encode()).hexdigest()[:32]
    if fingerprint is None and memory.newest(tag) is None:
        raise KeyFileError(
            f"{public_key}: this public key is used here for the first time: its fingerprint is {public.fingerprint}",
            hint="compare it with what its owner says over another channel, then name it: --fingerprint SHA256:...",
        )
    if fingerprint is not None and fingerprint != public.fingerprint:
        raise KeyFileError(
            f"{public_key}: is another owner's key: its fingerprint is {public.fingerprint}",
            hint="use only a key with the fingerprint that its owner gives over another channel",
        )
    invited = Invited(public, invitation_of(public, table), read_identity(expanded(identity)))
    memory.remember(tag, "0" * 32, 1)
    return invited


class ContributionStep(Step):
    segment: ContributedSegment | None = None


class ContributionDraft(Draft):
    """Draft of a contribution. `part`: the id of the part that is being written."""

    part: Hex
    key: Digest
    columns: tuple[SealedColumn, ...]
    steps: tuple[ContributionStep, ...]

    def without_key(self) -> ContributionDraft:
        return self.model_copy(update={"key": _NO_KEY})


def new_contribution(request: str, head: str | None, schema: Schema) -> ContributionDraft:
    """The draft of a new part on top of `head`, without segments, with a new key."""
    return ContributionDraft(
        id=new_id(),
        asked=request,
        head=head,
        part=new_id(),
        key=secrets.token_hex(32),
        columns=tuple(sealed_column(each) for each in schema.columns),
        steps=(),
    )


def contribution_drafts(stores: Stores, folder: str, identity: Identity) -> Drafts[ContributionDraft, ContributionStep]:
    """The draft in one contributor's folder."""
    return Drafts(stores, f"{folder}/draft", Vault(identity, folder), ContributionDraft, ContributionStep)


class Contributions:
    """Contributions of one contributor to one table in `stores`."""

    def __init__(
        self,
        stores: Stores,
        invited: Invited,
        say: Say = lambda _: None,
        memory: SeenVersions | None = None,
    ) -> None:
        """`say` gets a line about an earlier, stopped put.

        Raises InputError if the invitation does not name the contributor.
        """
        self._stores = stores
        self._public = invited.public
        self._invitation = invitation = invited.invitation
        self._identity = identity = invited.identity
        self._schema = invited.schema
        self._memory = memory or SeenVersions()
        self._say = say
        self._registration = invitation.registration_of(identity.public)
        self.folder = folder_of(invitation.table_id, identity.public)
        self._drafts = contribution_drafts(stores, self.folder, identity)

    def head(self) -> tuple[ContributionHead | None, str | None]:
        """The newest head and its version in the store; None without one. Raises CheckFailed for another's head or an
        older one.
        """
        seen = self._memory.newest(self._seen)
        newest = max(seen[1] if seen else 0, self._invitation.floor_of(self._identity.public))
        stored = self._stores.sensitive.read_versioned(f"{self.folder}/head")
        if stored is None:
            if newest:
                raise CheckFailed("stored", f"{self._stores.sensitive.location}: what was put here before is gone")
            return None, None
        head = read_head(stored[0], self._identity.public, self._invitation.table_id, self._public.key_id)
        if head.version < newest:
            raise CheckFailed(
                "stored",
                f"{self._stores.sensitive.location}: shows version {head.version} of what was put here, {newest} was "
                "here before",
                hint="an old state of the store was restored: restore the newest one",
            )
        self._memory.remember(self._seen, head.table_id, head.version)
        return head, stored[1]

    def put(
        self,
        rows: Stream,
        progress: Progress,
        *,
        replace: bool = False,
        again: bool = False,
        segment_rows: int = of_measures.SEGMENT_ROWS,
    ) -> tuple[ContributionHead, int, bool]:
        """Add all `rows`, and return their number, and whether they were added now. `replace`: instead of all earlier
        rows.

        They become visible all at once. A put of the same rows that was killed continues after its last segment. Rows
        that the last put added are not added again, unless `again`. Raises InputError, StoreError; ConflictError if
        another process puts with the same identity.
        """
        current, version = self.head()
        if current is not None:
            current.require_writable("the head of a contribution")
        check_fits(rows.schema, self._schema, self._invitation.table, invited=True)
        survey = rows.survey(progress)
        if not survey.rows:
            raise InputError(
                f"{rows.name}: has no rows to put", hint="only the owner of a table can put it without rows"
            )
        count_cells(rows, self._invitation.by)
        new = NewRows(rows, self._schema, survey, segment_rows, self._say)
        request = self._request(replace=replace)
        draft = self._drafts.find(request)
        if current is not None and draft is not None and not again and self._is_done(draft, current, new):
            self._say("the last put had the same rows: nothing is added (--again adds them again)")
            if draft.is_open:  # it was killed during its sweep
                self._sweep(current, listed(self._stores, [self.folder]), draft)
            self._close(draft, replace=replace)
            return current, survey.rows, False
        advance = progress.stage("encrypt and store", survey.rows, "rows")
        draft = self._drafts.resumable(draft, version)
        if draft is None or not new.can_resume(draft.steps):
            draft = new_contribution(request, version, self._schema)
        draft = self._drafts.write(draft, self._steps(new, draft, advance))
        head, before = self._commit(draft, current, version, replace=replace)
        self._sweep(head, before, draft)
        self._close(draft, replace=replace)
        return head, survey.rows, True

    def _steps(
        self, new: NewRows, draft: ContributionDraft, advance: Callable[[int], None]
    ) -> Generator[ContributionStep]:
        """Seal and write the rows of `new` that `draft` does not have."""
        secret, columns = bytes.fromhex(draft.key), draft.columns

        def seal(table: Table) -> ContributedSegment:
            _require_narrow(table, columns)
            segment, table_id = new_id(), self._invitation.table_id
            of = ColumnTarget(
                *(self._stores.sensitive, self.folder, table_id, segment),
                lambda _, name: key_of_object(secret, name),
            )
            with ThreadPoolExecutor(THREADS) as pool:
                sealed = [each for group in of.write(pool, table, columns) for each in group.result()]
            if sum(each.object.bytes for each in sealed) > limits.MAX_OBJECT_BYTES:
                raise _too_wide(table, limits.MAX_OBJECT_BYTES)
            return ContributedSegment(id=segment, rows=table.rows, columns=tuple(sealed))

        advance(draft.rows)
        for digest, segment in new.segments(draft.steps, seal):
            yield ContributionStep(id=segment.id, rows=segment.rows, digest=digest, segment=segment)
            advance(segment.rows)

    def _is_done(self, draft: ContributionDraft, current: ContributionHead, new: NewRows) -> bool:
        """True if the head has a part with exactly these rows, found by the last put's draft."""
        return draft.part in {each.id for each in current.parts} and new.are(draft.steps)

    def _close(self, draft: ContributionDraft, *, replace: bool) -> None:
        """Change the draft last: until then a repeated put finishes the sweep."""
        with cleaning():
            if replace:  # if repeated, it replaces the rows by the same rows
                self._drafts.delete(draft.without_key())
            else:
                self._drafts.finish(draft.without_key())

    def _commit(
        self, draft: ContributionDraft, current: ContributionHead | None, version: str | None, *, replace: bool
    ) -> tuple[ContributionHead, ObjectSizes]:
        """Make everything that was put visible, at once. Also returns the objects that existed before."""
        part = PartManifest(
            id=draft.part,
            table_id=self._invitation.table_id,
            contributor=self._identity.public,
            registration=self._registration,
            terms=self._invitation.terms,
            key=draft.key,
            columns=draft.columns,
            segments=draft.segments,
        )
        names = [which.name.rpartition("/")[2] for each in draft.segments for which in each.parts()]
        entry = Entry(
            id=part.id,
            manifest=self._write(
                lambda name: self._public.seal(
                    context_of(self._public.fingerprint, *part.place, name), part.model_dump_json().encode()
                )
            ),
            names=self._write(lambda _: json.dumps(names).encode()),
        )
        old = current.parts if current else ()
        head = ContributionHead(
            owner=self._public.key_id,
            table_id=self._invitation.table_id,
            contributor=self._identity.public,
            version=current.version + 1 if current else 1,
            parts=(entry,) if replace else (*old, entry),
        )
        before = listed(self._stores, [self.folder])
        parts = [which for each in draft.segments for which in each.parts()]
        require_listed(self._stores, before, [*parts, entry.manifest, entry.names])
        content = dump_head(head, self._identity.sign(head.signed()))
        self._stores.flush([self.folder])
        replaced(self._stores.sensitive, f"{self.folder}/head", content, version)
        self._memory.remember(self._seen, head.table_id, head.version)
        return head, before

    def _request(self, *, replace: bool) -> str:
        """Digest of the settings that a second put must share with the first to continue it."""
        request = [self._public.key_id, self._invitation.model_dump_json(exclude={"floors"}), replace]
        return hashlib.sha256(json.dumps(request).encode()).hexdigest()

    def _write(self, make: Callable[[str], bytes]) -> Object:
        name = f"{self.folder}/{new_id()}"
        content = make(name)
        self._stores.sensitive.write(name, content)
        return described(name, content)

    def _sweep(self, head: ContributionHead, before: ObjectSizes, draft: ContributionDraft) -> None:
        """Delete earlier objects that no part names: of replaced parts, and of killed puts."""
        keep, store = {f"{self.folder}/head", *self._drafts.names(draft)}, self._stores.sensitive
        with cleaning():
            for entry in head.parts:
                try:
                    keep.update(names_of(entry, store.read(entry.names.name, most=entry.names.bytes)))
                except NotStoredError:  # the owner has collected it, and deletes this list last
                    if any(entry.manifest.name in sizes for _, sizes in before):
                        raise
            for each, sizes in before:
                each.delete([name for name in sizes if name not in keep])

    @property
    def _seen(self) -> str:
        return hashlib.sha256(f"seen {self.folder} {self._stores.where}".encode()).hexdigest()[:32]


def _require_narrow(table: Table, columns: Sequence[SealedColumn]) -> None:
    """Raise InputError if a segment's rows are too wide for the owner to open."""
    texts = " + ".join(f"coalesce(strlen({identifier(each.name)}::VARCHAR), 0)" for each in columns if not each.width)
    ((size,),) = table.connection.execute(f"SELECT sum({texts or 0}) FROM {table.relation}").fetchall()
    if size + table.rows * sum(each.width + 5 for each in columns) > limits.MAX_SEGMENT_BYTES:
        raise _too_wide(table, limits.MAX_SEGMENT_BYTES)


def _too_wide(table: Table, most: int) -> InputError:
    return InputError(
        f"{table.rows:,} rows take more than {most:,} bytes, which the owner opens at once",
        hint="put the rows in several files, or shorten their texts",
    )
