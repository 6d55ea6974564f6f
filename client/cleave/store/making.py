"""Changes a table, beside others who change it: `make` plans on the newest version, writes, and commits on it.

If another writer was first, it plans again on what that one committed. What is written already counts if it was made
from the same things. Every change has a random id, which the log records: so it is made once, whatever happens to the
answer. A stopped change continues from its draft, on whatever version there is then.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress

from pydantic import JsonValue

from cleave.deadline import OutOfTime
from cleave.objects.storage import ConflictError, StoreError
from cleave.store.attempts import Attempts
from cleave.store.basis import basis_of, digest_of, digest_of_request
from cleave.store.cells import Cells
from cleave.store.change import (
    FREE,
    Change,
    ChangePlan,
    Done,
    HeldError,
    InTheWayError,
    UnkeptError,
    held,
    in_the_way,
    never,
)
from cleave.store.change_drafts import ChangeDraft, OwnDraft, without_new_drafts
from cleave.store.changed import is_replaced, on_newest
from cleave.store.log import Made, Record, newest_records
from cleave.store.manifest import Manifest, new_id, now
from cleave.store.moving import is_gone, moved_with
from cleave.store.newest import MovedError
from cleave.store.pages import pages_of
from cleave.store.pieces import ChangeStep
from cleave.store.reader import LostError, Opened
from cleave.store.steps import DamagedStepError, Writing, next_manifest
from cleave.store.sweeping import (
    ObjectNames,
    changed_names,
    cleaning,
    delete_doomed,
    doomed_of,
    is_due,
    names_of,
    not_all_stored,
    unnamed,
    unstored,
)
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave.table.progress import Progress
from cleave_shared.errors import CheckFailed, InputError, ServiceError
from cleave_shared.params import PROFILES

_BUSY = (409, 429, 503)  # status of an answer that advises to try again


def make(tables: Tables, name: str, change: Change, progress: Progress) -> Done:
    """Make `change` of table `name`, or continue it.

    Raises InputError, CheckFailed, StoreError; ConflictError if others changed what it is about. After an error the
    table is as others left it.
    """
    return _Making(tables, name, change, progress).run()


def finished(tables: Tables, name: str, change: Change, progress: Progress) -> Done | None:
    """Finish `change`, if a call made it that was stopped after its commit; None if none did."""
    return _Making(tables, name, change, progress).finish()


class _Making:
    """One run of a change."""

    def __init__(self, tables: Tables, name: str, change: Change, progress: Progress) -> None:
        self._tables = tables
        self._name = name
        self._change = change
        self._progress = progress
        self._request = digest_of_request(change.what, change.request)
        self._made = Made(new_id(), new_id())
        asked = digest_of_request(new_id(), []) if change.again else self._request
        self._draft = OwnDraft(tables, name, change.what, asked, self._made)
        self._is_planned = False
        self._count = -1  # records of the log when it began
        self._base: Opened | None = None  # what the last attempt was planned on
        self._written_as: Opened | None = None  # the version that it committed, if the store answered
        self._first: int | None = None  # records of the log at the first attempt
        self._older: Collection[str] = ()  # pages that were there before this call wrote anything
        self._own = ObjectNames()  # objects of attempts
        self._attempts = Attempts()
        self._rows: Sequence[str] | None = None  # digests of the new rows, if they were asked for

    def run(self) -> Done:
        self._find_draft()
        try:
            while (done := self._tried()) is None:
                pass
        except MovedError:
            if not is_gone(self._tables, self._name):  # what moved is the table that a rotation copies
                raise
            if self._base is None or self._made.ids.isdisjoint(moved_with(self._tables, self._name)):
                self._leave()
                raise
            return Done(self._written_as or self._base)  # it was committed, and is under the other key now
        return done

    def _tried(self) -> Done | None:
        """A round; None if another one is due, after a wait. Raises MovedError, whether the change was made or not."""
        try:
            return self._round()
        except HeldError as error:
            if self._change.follows is never:
                raise
            self._attempts.wait_while_held(error)
        except InTheWayError:
            raise
        except (ConflictError, LostError, UnkeptError) as error:
            self._again(error)
        except StoreError as error:
            if error.status not in _BUSY:
                raise
            self._again(error)
        return None

    def finish(self) -> Done | None:
        """See `finished`."""
        self._find_draft()
        base = self._tables.find(self._name) if self._draft.is_resumed else None
        record = None if base is None else self._committed(base)
        return None if base is None or record is None else self._finished(base, None, record)

    def _round(self) -> Done | None:
        base, before = self._tables.find(self._name), self._base
        if (before and before.head_etag) != (base and base.head_etag):
            self._attempts.see_another_head()
        if base is not None and (record := self._committed(base)) is not None:
            return self._finished(base, None, record)
        is_dropped = self._is_planned and base is None and before is not None
        if is_dropped or (self._is_planned and base is not None and not self._may_follow(base)):
            self._clean(base)
            raise self._in_the_way(base)
        self._base, self._is_planned = base, True
        if before is None and self._first is None:
            self._first = base.head.log.count if base else 0
            self._older = frozenset(pages_of(base.manifest)) if base and not self._draft.is_resumed else ()
        if self._count < 0:
            self._count = self._first or 0
        with ExitStack() as stack:
            return self._attempt(base, stack)

    def _find_draft(self) -> None:
        columns = digest_of_request("columns", self._change.columns)
        self._draft.take_over(self._change.are_rows, columns, self._is_made)
        if self._draft.written is not None:
            self._count = self._draft.written.count

    def _is_made(self, draft: ChangeDraft) -> bool:
        """True if the log has the change of `draft`."""
        base = self._tables.find(self._name)
        return base is not None and self._recorded(base, Made(draft.id), draft, draft.count) is not None

    def _committed(self, base: Opened) -> Record | None:
        """The record of this change, if it is in the log: then it is made."""
        if self._count < 0 or (self._base and base.head_etag == self._base.head_etag):
            return None
        return self._recorded(base, self._made, self._draft.written, self._count)

    def _recorded(self, base: Opened, made: Made, draft: ChangeDraft | None, count: int) -> Record | None:
        """The record of the change `made` after record `count`. `draft`: of that change, if it has one."""
        is_other = draft is not None and draft.table_id != base.manifest.table_id
        if is_other or base.head.log.count <= count:
            return None
        return made.found_in(self._records(base, count))

    def _records(self, opened: Opened, after: int) -> list[Record]:
        """Those of a version, after record `after`. What newer ones made, that version does not name."""
        return [each for each in self._tables.log(opened, after) if each.number <= opened.head.log.count]

    def _may_follow(self, base: Opened) -> bool:
        before = self._base
        if before is None:
            return self._change.follows(None, base.manifest)
        if before.manifest.table_id != base.manifest.table_id:
            return False
        return before.head.manifest == base.head.manifest or self._change.follows(before.manifest, base.manifest)

    def _attempt(self, base: Opened | None, stack: ExitStack) -> Done | None:
        """Plan on `base`, write what is not written yet, and commit."""
        change = self._change
        if base is not None and (why := held(base)) and change.what not in FREE:
            self._clean(base)
            raise HeldError(why[0], hint=why[1])
        if base is not None and change.once and not self._draft.is_resumed and (record := self._repeated(base)):
            return self._settled(Done(base, None, record))
        try:
            plan = change.plan(base, stack)
        except InputError:
            self._settled(Done(base)) if base is not None else self._drop_draft()
            raise
        if plan.idle and base is not None and not (change.sweeps or change.erases):
            return self._settled(Done(base, base, made=False))
        manifest, steps = self._written(base, plan)
        return self._commit(base, plan, manifest, steps)

    def _repeated(self, base: Opened) -> Record | None:
        """The record of an equal change, if it is one of the newest."""
        records = newest_records(self._tables, base.vault, base.head.log)
        newest = [each for each in records if each.change and each.what != "merge"][-self._change.once :]
        alike = [each for each in newest if each.what == self._change.what]
        if self._change.past is not None:
            last = next((each for each in reversed(newest) if each.what not in self._change.past), None)
            alike = [each for each in alike if each == last]
        if not alike:
            return None
        if self._rows is None:
            self._rows = self._change.rows() if self._change.rows is not None else ()
        content = self._content(base.vault, self._rows)
        return next((each for each in reversed(alike) if each.content == content), None)

    def _content(self, vault: Vault, rows: Sequence[str]) -> str:
        """What the log says of request and rows. Nobody without the key can compare guesses with it."""
        key = vault.pseudorandom("content of a change", 32)
        return hmac.digest(key, json.dumps([self._request, *rows]).encode(), "sha256").hex()

    def _settled(self, done: Done) -> Done:
        """`done`: there is nothing to do, or nothing that may be done. Deletes what attempts have left."""
        newest = done.opened
        if newest.head_etag not in self._made.expected:  # else a head that was sent may still arrive
            self._clean(newest, made=not self._draft.is_resumed)
            self._drop_draft()
        return done

    def _drop_draft(self) -> None:
        draft = self._draft.written
        if draft is not None and (draft.steps or self._draft.is_resumed):
            with cleaning():
                self._draft.remove()

    def _written(self, base: Opened | None, plan: ChangePlan) -> tuple[Manifest, list[ChangeStep]]:
        """Write the pieces of `plan` that the draft does not have. Returns the next manifest, and its steps."""
        tables, manifest, basis = self._tables, plan.manifest, self._basis(base)
        draft = self._draft.written
        if draft is not None and (draft.basis != basis or not self._is_kept(draft, base, manifest)):
            self._draft.forget()  # of other columns: nothing of it is of use
            draft = None
        if draft is None:
            manifest = self._with_secret(manifest)
            draft = self._draft.begin(manifest, basis, max(0, self._count))
        manifest = draft.begun(manifest)
        old = tables.cells(base) if base is not None else None
        cells = (plan.cells if plan.cells is not None else old or Cells()).copy()
        writing = Writing(tables, base, manifest, plan.pieces, cells, draft)
        if writing.lost and writing.used != len(draft.steps):
            self._attempts.rounds += 1
            if self._attempts.rounds >= self._change.rounds:
                raise self._in_the_way(base)
        stage = self._change.stage or self._change.what
        advance = self._progress.stage(stage, sum(each.rows for each in plan.pieces), "rows")
        try:
            steps = writing.all_steps(advance, self._draft.add)
        except DamagedStepError as error:
            self._draft.forget()
            raise UnkeptError.of(error) from None
        self._own |= writing.own
        manifest = next_manifest(manifest, plan.pieces, steps)
        if plan.cells is not None or base is None or not all(each.same_cells for each in plan.pieces):
            adds = plan.cells is None and not any(each.replaces for each in plan.pieces)
            stay = adds and base is not None and manifest.__dict__.get("cells") == base.manifest.cells
            written = tables.seal_cells(manifest, cells, old if stay else None)
            manifest = manifest.model_copy(update={"cells": written})
        return tables.with_pages(manifest, cells), steps

    def _basis(self, base: Opened | None) -> str:
        """Digest of what new segments depend on, besides the request and the segments that they come from."""
        of = self._change.basis
        manifest = base.manifest if base else None
        return digest_of(of(manifest) if of is not None else None if manifest is None else basis_of(manifest))

    def _is_kept(self, draft: ChangeDraft, base: Opened | None, manifest: Manifest) -> bool:
        """True if a draft from an earlier call is of this table, and has its objects."""
        if self._tables.was_dropped(draft.table_id) or (base is not None and draft.table_id != manifest.table_id):
            return False
        if self._attempts.waits or not draft.steps:  # written by this call, and asked for at each commit
            return True
        return self._draft.is_whole()

    def _with_secret(self, manifest: Manifest) -> Manifest:
        if "secret" in manifest.__dict__:
            return manifest
        secret = self._tables.new_secret(manifest.table, manifest.table_id, PROFILES[manifest.profile])
        self._own |= ObjectNames(frozenset({secret.name}))
        return manifest.model_copy(update={"secret": secret})

    def _commit(
        self, base: Opened | None, plan: ChangePlan, manifest: Manifest, steps: Sequence[ChangeStep]
    ) -> Done | None:
        tables, change = self._tables, self._change
        doomed, new_names = changed_names(base.manifest, manifest) if base else (ObjectNames(), names_of(manifest))
        self._own |= new_names
        if base is not None and not delete_doomed(tables.stores, base.manifest):
            doomed |= doomed_of(base.manifest)
        manifest = manifest.model_copy(update={"sweeps": base.manifest.sweeps if base else 0})
        if change.what != "rotate":
            manifest = manifest.model_copy(update={"copied": ()})
        if base is None:
            manifest = manifest.model_copy(update={"swept": now()})
        elif change.sweeps or change.erases or is_due(base.manifest):
            found = self._unnamed(base, manifest)
            if plan.idle and not found:
                return self._settled(Done(base, base, made=False))
            doomed |= found
            manifest = manifest.model_copy(update={"sweeps": base.manifest.sweeps + bool(found), "swept": now()})
        manifest = manifest.model_copy(
            update={"doomed": tuple(sorted(doomed.sensitive)), "doomed_plain": tuple(sorted(doomed.plain))}
        )
        draft = self._draft.keep(plan.facts)
        common = pages_of(base.manifest).keys() & pages_of(manifest).keys() if base else ()
        written = new_names.sensitive | new_names.plain
        new = [each for each in manifest.parts(common) if each.name in written]
        swept = doomed_of(base.manifest) if base else ObjectNames()  # by a change that may not have deleted them yet
        lost = {each.name for each in unstored(tables.stores, new, new_names.plain)} | {
            each.name for each in new if each.name in swept.sensitive | swept.plain
        }
        if lost:
            if lost & draft.objects():
                self._draft.forget()
            raise UnkeptError.of(not_all_stored(tables.stores))
        digests = [each.digest for each in steps if each.digest] if change.rows is not None else []
        self._made.content = self._content(tables.vault(manifest.table_id), digests)
        opened = tables.commit(manifest, base, change.what, plan.rows, plan.log, made=self._made, details=plan.details)
        self._written_as = opened
        return self._finished(opened, base, None, plan.facts)

    def _unnamed(self, base: Opened, manifest: Manifest) -> ObjectNames:
        """Objects that no head and no draft of the last day names."""
        tables = self._tables
        stores = tables.stores.distinct()
        probes = [f"{tables.folder(manifest.table)}/{new_id()}" for _ in stores]
        for store, probe in zip(stores, probes, strict=True):
            store.write(probe, b"")
        written = ObjectNames(*(frozenset({probe}) for probe in probes))
        self._own |= written
        own = self._own | self._draft.objects()
        keep = tables.named(base) | self._draft.records() | own.sensitive | own.plain
        keep |= {part.name for part in manifest.parts()}
        folders = [*tables.folders(manifest), tables.drafts(manifest.table)]
        found = unnamed(tables.stores, folders, keep, probes, everything=self._change.erases)
        if not self._change.erases:
            found = without_new_drafts(tables, self._name, found)
        return found | written if found else found

    def _finished(
        self, opened: Opened, base: Opened | None, record: Record | None, facts: Mapping[str, JsonValue] | None = None
    ) -> Done:
        """Delete what the committed change replaced and what its attempts left; the draft last."""
        if facts is None:
            facts = self._draft.written.facts if self._draft.written is not None else {}
        done = Done(opened, base, record, facts, self._others(opened))
        if record is not None and record.owner != self._made.owner and not self._draft.is_resumed:
            self._clean(opened)  # another process took the draft over, and finishes
            return done
        if self._change.publish is not None:
            self._change.publish(done)
        delete_doomed(self._tables.stores, opened.manifest, strict=self._change.strict)
        self._clean(opened, made=True)
        if self._change.finish is not None:
            self._change.finish(done)
        with cleaning():
            self._draft.remove()
        return done

    def _others(self, opened: Opened) -> int:
        """Number of changes by others since the first attempt; 0 if the log cannot be read: the change is made."""
        if self._first is None or opened.head.log.count <= self._first + 1:
            return 0
        try:
            records = self._records(opened, self._first)
        except (CheckFailed, InputError, StoreError):
            return 0
        return sum(bool(each.change) and each.change not in self._made.ids for each in records)

    def _clean(self, newest: Opened | None, *, made: bool = False) -> None:
        """Delete what attempts wrote and nobody names. Nothing, if a head that was sent may still arrive.

        `made`: the change is committed, and its draft is not needed any more.
        """
        if newest is None or (not made and newest.head_etag in self._made.expected):
            return
        own = self._own | ObjectNames(frozenset(self._made.wrote))
        own = own | self._draft.objects() if made else own - self._draft.objects()
        kept = {newest.head.manifest.name, newest.head.log.page.name}
        with cleaning(), suppress(CheckFailed, InputError):  # it is damaged, or others moved or dropped it
            if self._made.wrote:  # an attempt without an answer: any head from then on may name views and pages of it
                kept |= on_newest(lambda: self._tables.named(self._tables.open(self._name)))
            left = own - names_of(newest.manifest, self._older) - ObjectNames(frozenset(kept))
            left -= doomed_of(newest.manifest)
            left.delete(self._tables.stores)
        self._own = ObjectNames()

    def _leave(self) -> None:
        """Delete all that this change has written: the table is under another key, so nobody looks for it here."""
        with suppress(StoreError, OutOfTime):
            self._draft.remove()
            own = self._own | ObjectNames(frozenset(self._made.wrote)) | self._draft.objects()
            own.delete(self._tables.stores)

    def _again(self, error: ServiceError | CheckFailed) -> None:
        """Wait by chance, and try again. Raises `error` if that is of no use."""
        self._attempts.require_time(error)
        if isinstance(error, LostError) and (not self._has_moved() or error.is_damage or not is_replaced(error)):
            raise error
        self._attempts.wait(error)

    def _has_moved(self) -> bool:
        """True if the head is another one than that of the last attempt."""
        newest = self._tables.find(self._name)
        return (newest and newest.head_etag) != (self._base and self._base.head_etag)

    def _in_the_way(self, newest: Opened | None) -> InTheWayError:
        """The error for a change by others that is in the way. What is stored stays in the draft, for the next call."""
        by = ""
        if newest is not None and self._first is not None:
            with suppress(CheckFailed, InputError, StoreError):  # without the log, it does not say which
                records = self._tables.log(newest, self._first)
                named = list(dict.fromkeys(each.what for each in records if each.change))
                by = f" ({', '.join(named[:3])})" if named else ""
        return in_the_way(self._tables, by)
