"""Changes a table, beside others who change it: `make` plans on the newest version, writes, and commits on it.

If another writer was first, it plans again on what that one committed. What is written already counts if it was made
from the same things. Every change has a random id, which the log records: so it is made once, whatever happens to the
answer. A stopped change continues from its draft, on whatever version there is then.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue

from cleave.objects.storage import ConflictError, ForeignError, StoreError
from cleave.processes.deadline import OutOfTime
from cleave.store.cells import Cells, index_of
from cleave.store.changed import is_replaced
from cleave.store.drafts import Draft, Drafts
from cleave.store.heads import LogHead
from cleave.store.log import Made, Record, newest_records, records_after
from cleave.store.manifest import Contributor, Count, Hex, Manifest, Measure, Object, SealedColumn, Segment, new_id, now
from cleave.store.newest import MovedError
from cleave.store.pages import pages_of
from cleave.store.pieces import ChangeStep, Piece
from cleave.store.reader import LostError, Opened
from cleave.store.segment import SegmentWriter
from cleave.store.sweeping import (
    Names,
    changed_names,
    cleaning,
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
from cleave.text.quantities import counted
from cleave_shared.errors import CheckFailed, InputError, ServiceError
from cleave_shared.params import PROFILES

FREE = ("delete", "reader revoke", "reader reseal")  # changes of a table that is held
HELD_SECONDS = 60.0  # for which a change waits for another that takes several versions
SECONDS = 900.0  # for which a change tries again beside others
MOST_ROUNDS = 4  # in which others changed what was read
MOST_IDLE = 8  # attempts in a row beside which nobody changed the table: then the store is the cause
_LONGEST_WAIT = 2.0
_BUSY = (409, 429, 503)  # status of an answer that advises to try again
_GIVEN = ("table_id", "measures", "sealed", "secret")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change does to one version of a table.

    `manifest`: that version's, with this change's own difference; without a secret if the table is new. `cells`: of the
    rows that no piece writes; None: those of the version. `rows`: added, for the log; None: the difference. `log`: the
    log to continue, if it is not the version's. `facts`: what `Change.finish` needs, also after a kill. `idle`: there
    is nothing to do.
    """

    manifest: Manifest
    pieces: Sequence[Piece] = ()
    cells: Cells | None = None
    rows: int | None = None
    log: LogHead | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A change that was made. `opened`: the newest version known to have it. `before`: what it was made on, if that is
    known. `record`: of the log, if an earlier call had made it. `facts`: of its plan. `others`: number of changes by
    others that it was made after. `made`: False if there was nothing to do.
    """

    opened: Opened
    before: Opened | None = None
    record: Record | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    others: int = 0
    made: bool = True


def never(before: Manifest | None, newest: Manifest) -> bool:  # noqa: ARG001 - any other change is in its way
    return False


def always(before: Manifest | None, newest: Manifest) -> bool:  # noqa: ARG001 - as if it came last
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody wants to be done to a table.

    `request`: JSON that identifies it; a call with an equal request continues a stopped one. `plan`: on a version,
    which is None if there is no table; the stack closes what the plan opens. It raises InputError. `follows`: whether
    it may be made on the newest version, if it was planned on another. `are_rows`: whether a draft has the new rows of
    this change. `rows`: digests of these rows, as of their segments. `once`: number of the newest changes; if an equal
    one is among them, nothing is done. `past`: changes that may have come after that one; None: any. `basis`: what new
    segments depend on, besides `request`; None: see `basis_of`. `publish`, `finish`: work after the commit, before and
    after what it replaced is deleted; a repeated call does it again. `stage`: name for `progress`, default `what`.
    `again`: it continues no stopped call, nor one of another process.

    `rounds`: most attempts in which others may change what it reads. `sweeps`: looks for objects that nobody names.
    `erases`: deletes all drafts and objects that nobody names, whatever their age. `strict`: raises StoreError if what
    the version does not name any more cannot be deleted.
    """

    what: str
    request: Sequence[object]
    plan: Callable[[Opened | None, ExitStack], Plan]
    follows: Callable[[Manifest | None, Manifest], bool] = never
    are_rows: Callable[[Sequence[ChangeStep]], bool] | None = None
    rows: Callable[[], Sequence[str]] | None = None
    once: int = 0
    past: Collection[str] | None = None
    publish: Callable[[Done], None] | None = None
    basis: Callable[[Manifest | None], object] | None = None
    finish: Callable[[Done], None] | None = None
    stage: str = ""
    again: bool = False
    rounds: int = MOST_ROUNDS
    sweeps: bool = False
    erases: bool = False
    strict: bool = False


class ChangeDraft(Draft):
    """The draft of an owner's change of a table. `count`: records of the table's log when it began."""

    what: str
    owner: Hex
    count: Count
    basis: str
    facts: dict[str, JsonValue] = {}  # noqa: RUF012 - pydantic copies it
    table_id: Hex
    measures: tuple[Measure, ...]
    sealed: tuple[SealedColumn, ...]
    secret: Object

    steps: tuple[ChangeStep, ...]

    def objects(self) -> set[str]:
        return super().objects() | {self.secret.name}

    def begun(self, manifest: Manifest) -> Manifest:
        """`manifest` with the random ids and scales with which the draft began."""
        return manifest.model_copy(update={name: getattr(self, name) for name in _GIVEN})


def _objects_of(draft: ChangeDraft) -> Names:
    plain = frozenset(each.plain.name for each in draft.segments if each.plain is not None)
    return Names(frozenset(draft.objects()) - plain, plain)


class InTheWayError(ConflictError):
    """Others changed what this change is about, or continue it: to try again at once is of no use."""


class HeldError(InTheWayError):
    """A change that takes several versions is under way: until it is finished, only deletions are made."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def held(opened: Opened) -> tuple[str, str] | None:
    """Why a table takes no change but deletions, and what to do; None if it takes any."""
    table, head = opened.manifest.table, opened.head
    if opened.manifest.revoking:
        names = ", ".join(each.name for each in opened.manifest.revoking)
        hint = f"run: cleave reader revoke {shlex.quote(table)} {shlex.quote(opened.manifest.revoking[0].name)}"
        return f"a revocation of {names} of table {table!r} is not finished", hint
    if head.moving_to:
        hint = "run the same `cleave key rotate` again; with --undo it stays under this key"
        return f"table {table!r} is being moved to key {head.moving_to}", hint
    return None


def in_the_way(tables: Tables, more: str = "") -> InTheWayError:
    """The error for a change by others. `more`: which."""
    location = tables.stores.sensitive.location
    return InTheWayError(f"{location}: another process changed the table at the same time{more}")


class DamagedStepError(CheckFailed):
    """An object of a draft's step is damaged, or was swept by another change."""


@contextmanager
def _of_step() -> Iterator[None]:
    """Reads objects of a draft's step alone. Raises DamagedStepError, ForeignError."""
    try:
        yield
    except ForeignError:
        raise
    except CheckFailed as failure:
        raise DamagedStepError(failure.check, failure.message, hint=failure.hint) from None


class UnkeptError(StoreError):
    """Objects that this change wrote are gone: somebody swept them, or the store lost them."""

    @classmethod
    def of(cls, error: StoreError | CheckFailed) -> UnkeptError:
        return cls(error.message, hint=error.hint)


def drafts_of(tables: Tables, name: str) -> list[tuple[str, Drafts[ChangeDraft, ChangeStep]]]:
    """The drafts of a table, by id. They are not read yet."""
    place = tables.drafts(name)
    ids = sorted(each.rpartition("/")[2] for each in tables.stores.sensitive.names(place))
    return [(each, _draft_at(tables, name, each)) for each in ids if "." not in each]


def _draft_at(tables: Tables, name: str, id_: str) -> Drafts[ChangeDraft, ChangeStep]:
    return Drafts(tables.stores, f"{tables.drafts(name)}/{id_}", tables.draft_vault(name), ChangeDraft, ChangeStep)


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
    """One run of a change. `_draft`: what is written so far, in the store if it has steps."""

    def __init__(self, tables: Tables, name: str, change: Change, progress: Progress) -> None:
        self._tables = tables
        self._name = name
        self._change = change
        self._progress = progress
        self._request = digest_of_request(change.what, change.request)
        self._asked = digest_of_request(new_id(), []) if change.again else self._request  # of the draft
        self._made = Made(new_id(), new_id())
        self._draft: ChangeDraft | None = None
        self._drafts: Drafts[ChangeDraft, ChangeStep] | None = None
        self._is_resumed = False
        self._is_planned = False
        self._count = -1  # records of the log when it began
        self._base: Opened | None = None  # what the last attempt was planned on
        self._first: int | None = None  # records of the log at the first attempt
        self._older: Collection[str] = ()  # pages that were there before this call wrote anything
        self._own = Names()  # objects of attempts
        self._rounds = 0
        self._waits = 0
        self._idle = 0  # attempts since the head that the last one saw
        self._begun = time.monotonic()
        self._rows: Sequence[str] | None = None  # digests of the new rows, if they were asked for

    def run(self) -> Done:
        self._find_draft()
        while True:
            try:
                if (done := self._round()) is not None:
                    return done
            except HeldError:
                if self._change.follows is never or time.monotonic() > self._begun + HELD_SECONDS:
                    raise
                time.sleep(random.uniform(0, _LONGEST_WAIT))  # noqa: S311 - no secret
            except InTheWayError:
                raise
            except MovedError:
                if self._base is None or self._made.ids.isdisjoint(self._tables.moved_with(self._name)):
                    self._leave()
                    raise
                return Done(self._base)  # it was committed, and is under the other key now
            except (ConflictError, LostError, UnkeptError) as error:
                self._again(error)
            except StoreError as error:
                if error.status not in _BUSY:
                    raise
                self._again(error)

    def finish(self) -> Done | None:
        """See `finished`."""
        self._find_draft()
        base = self._tables.find(self._name) if self._is_resumed else None
        record = None if base is None else self._committed(base)
        return None if base is None or record is None else self._finished(base, None, record)

    def _round(self) -> Done | None:
        base, before = self._tables.find(self._name), self._base
        if base is not None and (record := self._committed(base)) is not None:
            return self._finished(base, None, record)
        is_dropped = self._is_planned and base is None and before is not None
        if is_dropped or (self._is_planned and base is not None and not self._may_follow(base)):
            self._clean(base)
            raise self._in_the_way(base)
        if (before and before.head_etag) != (base and base.head_etag):
            self._idle = 0
        self._base, self._is_planned = base, True
        if before is None and self._first is None:
            self._first = base.head.log.count if base else 0
            self._older = frozenset(pages_of(base.manifest)) if base and not self._is_resumed else ()
        if self._count < 0:
            self._count = self._first or 0
        with ExitStack() as stack:
            return self._attempt(base, stack)

    def _find_draft(self) -> None:
        """Take over the draft of a stopped call, if there is one."""
        for id_, drafts in drafts_of(self._tables, self._name):
            draft = drafts.find(self._asked)
            if draft is None or draft.id != id_ or draft.what != self._change.what:
                continue
            if self._change.are_rows is not None and not self._change.are_rows(draft.put):
                continue
            draft = draft.model_copy(update={"owner": self._made.owner})
            try:
                drafts.rewrite(draft)
            except ConflictError:
                continue
            self._draft, self._drafts, self._count, self._is_resumed = draft, drafts, draft.count, True
            self._made.change = draft.id
            return

    def _committed(self, base: Opened) -> Record | None:
        """The record of this change, if it is in the log: then it is made."""
        if self._count < 0 or (self._draft and self._draft.table_id != base.manifest.table_id):
            return None
        if base.head.log.count <= self._count or (self._base and base.head_etag == self._base.head_etag):
            return None
        return self._made.found_in(records_after(self._tables, base.vault, base.head.log, self._count))

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
        if base is not None and change.once and not self._is_resumed and (record := self._repeated(base)):
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
            self._clean(newest, made=not self._is_resumed)
            self._drop_draft()
        return done

    def _drop_draft(self) -> None:
        if self._drafts is not None and self._draft is not None and (self._draft.steps or self._is_resumed):
            with cleaning():
                self._drafts.remove(self._draft)

    def _written(self, base: Opened | None, plan: Plan) -> tuple[Manifest, list[ChangeStep]]:
        """Write the pieces of `plan` that the draft does not have. Returns the next manifest, and its steps."""
        tables, manifest, basis = self._tables, plan.manifest, self._basis(base)
        draft = before = self._draft
        if draft is not None and (draft.basis != basis or not self._is_kept(draft, base, manifest)):
            draft = self._draft = None
        if draft is None:
            if before is not None:  # of other columns: nothing of it is of use
                self._draft = before
                self._forget_draft()
            manifest = self._with_secret(manifest)
            given = {name: getattr(manifest, name) for name in _GIVEN}
            draft = ChangeDraft(
                id=self._made.change,
                asked=self._asked,
                head=None,
                what=self._change.what,
                owner=self._made.owner,
                count=max(0, self._count),
                basis=basis,
                steps=(),
                **given,
            )
            self._drafts = _draft_at(tables, self._name, self._made.change)
        manifest = draft.begun(manifest)
        self._draft = draft
        old = tables.cells(base) if base is not None else None
        cells = (plan.cells if plan.cells is not None else old or Cells()).copy()
        writing = _Writing(tables, base, manifest, plan.pieces, cells, draft)
        if writing.lost and writing.used != len(draft.steps):
            self._rounds += 1
            if self._rounds >= self._change.rounds:
                raise self._in_the_way(base)
        stage = self._change.stage or self._change.what
        advance = self._progress.stage(stage, sum(each.rows for each in plan.pieces), "rows")
        try:
            steps = writing.all_steps(advance, self._add)
        except DamagedStepError as error:
            self._forget_draft()
            raise UnkeptError.of(error) from None
        self._own |= writing.own
        manifest = next_manifest(manifest, plan.pieces, steps)
        if plan.cells is not None or base is None or not all(each.same_cells for each in plan.pieces):
            adds = plan.cells is None and not any(each.replaces for each in plan.pieces)
            stay = adds and base is not None and manifest.__dict__.get("cells") == base.manifest.cells
            written = tables.seal_cells(manifest, cells, old if stay else None)
            manifest = manifest.model_copy(update={"cells": written})
        return tables.with_pages(manifest, cells), steps

    def _forget_draft(self) -> None:
        """Begin anew, with another id. What the draft names is nobody's then."""
        if self._draft is not None and self._drafts is not None:
            with cleaning():
                self._drafts.remove(self._draft)
        self._draft, self._is_resumed, self._made.change = None, False, new_id()

    def _add(self, step: ChangeStep) -> None:
        assert self._draft is not None and self._drafts is not None  # noqa: S101, PT018 - `_written` has set them
        try:
            self._draft = self._drafts.add(self._draft, step)
        except ConflictError:
            raise self._taken() from None

    def _taken(self) -> InTheWayError:
        location = self._tables.stores.sensitive.location
        return InTheWayError(f"{location}: another process makes the same change of table {self._name!r}")

    def _basis(self, base: Opened | None) -> str:
        """Digest of what new segments depend on, besides the request and the segments that they come from."""
        of = self._change.basis
        manifest = base.manifest if base else None
        return digest_of(of(manifest) if of is not None else None if manifest is None else basis_of(manifest))

    def _is_kept(self, draft: ChangeDraft, base: Opened | None, manifest: Manifest) -> bool:
        """True if a draft from an earlier call is of this table, and has its objects."""
        if self._tables.was_dropped(draft.table_id) or (base is not None and draft.table_id != manifest.table_id):
            return False
        if self._waits or not draft.steps:  # written by this call, and asked for at each commit
            return True
        plain = {each.plain.name for each in draft.segments if each.plain is not None}
        return not unstored(self._tables.stores, [part for each in draft.segments for part in each.parts()], plain)

    def _with_secret(self, manifest: Manifest) -> Manifest:
        if "secret" in manifest.__dict__:
            return manifest
        secret = self._tables.new_secret(manifest.table, manifest.table_id, PROFILES[manifest.profile])
        self._own |= Names(frozenset({secret.name}))
        return manifest.model_copy(update={"secret": secret})

    def _commit(self, base: Opened | None, plan: Plan, manifest: Manifest, steps: Sequence[ChangeStep]) -> Done | None:
        tables, change = self._tables, self._change
        doomed, new_names = changed_names(base.manifest, manifest) if base else (Names(), names_of(manifest))
        self._own |= new_names
        if base is not None and not tables.delete_doomed(base):
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
        assert self._draft is not None and self._drafts is not None  # noqa: S101, PT018 - `_written` has set them
        if plan.facts or not self._draft.steps:  # or it is stored already
            self._draft = self._draft.model_copy(update={"facts": dict(plan.facts)})
            try:
                self._drafts.rewrite(self._draft)
            except ConflictError:
                if self._drafts.is_there():
                    raise self._taken() from None
                self._forget_draft()
                raise UnkeptError.of(not_all_stored(tables.stores)) from None
        common = pages_of(base.manifest).keys() & pages_of(manifest).keys() if base else ()
        written = new_names.sensitive | new_names.plain
        new = [each for each in manifest.parts(common) if each.name in written]
        swept = doomed_of(base.manifest) if base else Names()  # by a change that may not have deleted them yet
        lost = {each.name for each in unstored(tables.stores, new, new_names.plain)} | {
            each.name for each in new if each.name in swept.sensitive | swept.plain
        }
        if lost:
            if lost & self._draft.objects():
                self._forget_draft()
            raise UnkeptError.of(not_all_stored(tables.stores))
        digests = [each.digest for each in steps if each.digest] if change.rows is not None else []
        self._made.content = self._content(tables.vault(manifest.table_id), digests)
        opened = tables.commit(manifest, base, change.what, plan.rows, plan.log, made=self._made, details=plan.details)
        return self._finished(opened, base, None, plan.facts)

    def _unnamed(self, base: Opened, manifest: Manifest) -> Names:
        """Objects that no head and no draft of the last day names."""
        tables = self._tables
        probes = [(store, f"{tables.folder(manifest.table)}/{new_id()}") for store in tables.stores.distinct()]
        for store, probe in probes:
            store.write(probe, b"")
        self._own |= Names(*(frozenset({probe}) for _, probe in probes))
        own = {*self._drafts.names(self._draft)} if self._drafts and self._draft else set()
        keep = tables.named(base) | own | self._own.sensitive | self._own.plain
        keep |= {part.name for part in manifest.parts()} | (self._draft.objects() if self._draft else set())
        folders = [*tables.folders(manifest), tables.drafts(manifest.table)]
        names = {probe for _, probe in probes}
        found = unnamed(tables.stores, folders, keep | names, names, everything=self._change.erases)
        for _, drafts in () if self._change.erases else drafts_of(tables, self._name):
            draft = drafts.find_any()
            records = frozenset(drafts.names(draft)) if draft is not None else frozenset()
            if draft is not None and not records <= found.sensitive:  # it has a record of the last day
                kept = records | draft.objects()
                found -= Names(kept, kept)
        if not found:
            with cleaning():
                for store, probe in probes:
                    store.delete([probe])
            return found
        places = (tables.stores.sensitive, tables.stores.plain)
        sensitive, plain = ({probe for store, probe in probes if store is place} for place in places)
        return found | Names(frozenset(sensitive), frozenset(plain))

    def _finished(
        self, opened: Opened, base: Opened | None, record: Record | None, facts: Mapping[str, JsonValue] | None = None
    ) -> Done:
        """Delete what the committed change replaced and what its attempts left; the draft last."""
        if facts is None:
            facts = self._draft.facts if self._draft else {}
        done = Done(opened, base, record, facts, self._others(opened))
        if record is not None and record.owner != self._made.owner and not self._is_resumed:
            self._clean(opened)  # another process took the draft over, and finishes
            return done
        if self._change.publish is not None:
            self._change.publish(done)
        self._tables.delete_doomed(opened, strict=self._change.strict)
        self._clean(opened, made=True)
        if self._change.finish is not None:
            self._change.finish(done)
        if self._drafts is not None and self._draft is not None:
            with cleaning():
                self._drafts.remove(self._draft)
        return done

    def _others(self, opened: Opened) -> int:
        """Number of changes by others since the first attempt."""
        if self._first is None or opened.head.log.count <= self._first + 1:
            return 0
        records = records_after(self._tables, opened.vault, opened.head.log, self._first)
        return sum(bool(each.change) and each.change not in self._made.ids for each in records)

    def _clean(self, newest: Opened | None, *, made: bool = False) -> None:
        """Delete what attempts wrote and nobody names. Nothing, if a head that was sent may still arrive.

        `made`: the change is committed, and its draft is not needed any more.
        """
        if newest is None or (not made and newest.head_etag in self._made.expected):
            return
        own = self._own | Names(frozenset(self._made.wrote))
        draft = _objects_of(self._draft) if self._draft else Names()
        own = own | draft if made else own - draft
        kept = {newest.head.manifest.name, newest.head.log.page.name}
        if self._made.wrote:  # an attempt without an answer: any head from then on may name views and pages of it
            kept = self._tables.named(newest)
        left = own - names_of(newest.manifest, self._older) - Names(frozenset(kept)) - doomed_of(newest.manifest)
        with cleaning():
            left.delete(self._tables.stores)
        self._own = Names()

    def _leave(self) -> None:
        """Delete all that this change has written: the table is under another key, so nobody looks for it here."""
        with suppress(StoreError, OutOfTime):
            own = self._own | Names(frozenset(self._made.wrote))
            if self._draft is not None and self._drafts is not None:
                own |= _objects_of(self._draft)
                self._drafts.remove(self._draft)
            own.delete(self._tables.stores)

    def _again(self, error: ServiceError | CheckFailed) -> None:
        """Wait by chance, and try again. Raises `error` if that is of no use."""
        if time.monotonic() > self._begun + SECONDS:
            raise error
        if isinstance(error, LostError) and (not self._has_moved() or error.is_damage or not is_replaced(error)):
            raise error
        self._waits += 1
        self._idle += 1
        if self._idle > (MOST_ROUNDS if isinstance(error, UnkeptError) else MOST_IDLE):
            raise error
        time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.02 * 2**self._waits)))  # noqa: S311 - no secret

    def _has_moved(self) -> bool:
        """True if the head is another one than that of the last attempt."""
        newest = self._tables.find(self._name)
        return (newest and newest.head_etag) != (self._base and self._base.head_etag)

    def _in_the_way(self, newest: Opened | None) -> InTheWayError:
        """The error for a change by others that is in the way. What is stored stays in the draft, for the next call."""
        by = ""
        if newest is not None and self._first is not None:
            with suppress(CheckFailed, StoreError):
                records = records_after(self._tables, newest.vault, newest.head.log, self._first)
                named = list(dict.fromkeys(each.what for each in records if each.change))
                by = f" ({', '.join(named[:3])})" if named else ""
        return in_the_way(self._tables, by)


class _Writing:
    """Writes what a draft lacks of `pieces`, for a manifest based on `base`. `cells`: counts the rows.

    `used`: steps of the draft that count. `lost`: a step's source segments are not there any more, or changed.
    """

    def __init__(
        self,
        tables: Tables,
        base: Opened | None,
        manifest: Manifest,
        pieces: Sequence[Piece],
        cells: Cells,
        draft: ChangeDraft,
    ) -> None:
        self._tables = tables
        self._base = base
        self._manifest = manifest
        self._pieces = pieces
        self._cells = cells
        has_sources = base is not None and any(each.replaces for each in pieces)
        self._sources = {each.id: each for each in base.manifest.segments} if base and has_sources else {}
        self.own = Names()
        self._done = [self._usable(piece, draft) for piece in pieces]
        self.used = sum(map(len, self._done))
        self.lost = any(each.replaces and not any(each in of for of in self._done) for each in draft.steps)

    def _usable(self, piece: Piece, draft: ChangeDraft) -> list[ChangeStep]:
        context = self._context(piece)
        return [each for each in draft.steps if each.replaces == piece.replaces and each.context == context]

    def _context(self, piece: Piece) -> str:
        return digest_of([self._sources.get(each) for each in piece.replaces]) if piece.replaces else ""

    def all_steps(self, advance: Callable[[int], None], add: Callable[[ChangeStep], None]) -> list[ChangeStep]:
        """All steps of the pieces, in order; new ones are recorded by `add`."""
        steps: list[list[ChangeStep]] = []
        apart: list[tuple[int, int]] = []  # steps with other numbers of cells
        for number, (piece, done) in enumerate(zip(self._pieces, self._done, strict=True)):
            if done:
                piece.take_out(self._cells)
                advance(piece.rows if piece.replaces else 0)
            for place, step in enumerate(done):
                if step.segment is not None and not self._claim(step):
                    apart.append((number, place))
            steps.append(list(done))
        written = [piece.is_written(done) for piece, done in zip(self._pieces, self._done, strict=True)]
        due = [piece for piece, is_written in zip(self._pieces, written, strict=True) if not is_written]
        if not apart and not due:
            return [each for of in steps for each in of]
        most = max((each.most_rows for each in due), default=0)
        with SegmentWriter(self._tables, self._manifest, self._cells, most, advance) as writer:
            for number, place in apart:
                steps[number][place] = self._renumbered(writer, steps[number][place])
            for number, piece in enumerate(self._pieces):
                if written[number]:
                    continue
                context, more = self._context(piece), piece.write(writer, self._done[number])
                with closing(more):
                    for step in more:
                        step = step.model_copy(update={"context": context})  # noqa: PLW2901
                        add(step)
                        steps[number].append(step)
        return [each for of in steps for each in of]

    def _claim(self, step: ChangeStep) -> bool:
        """Count a stored segment's rows in its cells. False if its numbers are other cells' by now; then nothing is
        counted.
        """
        segment = step.segment
        assert segment is not None  # noqa: S101 - the caller looked
        if not self._cells.claim(self._manifest.by, step.keys):
            return False
        self._cells.count(index_of(segment))
        return True

    def _renumbered(self, writer: SegmentWriter, step: ChangeStep) -> ChangeStep:
        assert self._base is not None and step.segment is not None  # noqa: S101, PT018 - else numbers cannot differ
        with _of_step():
            segment, keys = writer.renumbered(self._base, step.segment)
        self.own |= Names(frozenset(lane.name for each in segment.totals for lane in each.lanes))
        return step.model_copy(update={"segment": segment, "keys": keys})


def basis_of(manifest: Manifest) -> object:
    """What all segments of a table depend on: its columns and secrets, and what marks published rows."""
    release = manifest.release
    return [
        manifest.table_id,
        manifest.schema_toml,
        manifest.measures,
        manifest.by,
        manifest.key,
        manifest.sealed,
        manifest.profile,
        manifest.secret,
        manifest.scanned,
        manifest.revoking,
        marking_of(manifest),
        release is None,
    ]


def marking_of(manifest: Manifest | None) -> object:
    """What decides which new rows are marked as published."""
    release = manifest.release if manifest else None
    return None if release is None else [release.lineage, release.digests]


def next_manifest(manifest: Manifest, pieces: Sequence[Piece], steps: Sequence[ChangeStep]) -> Manifest:
    """`manifest` with the segments of `steps`. Each replaces its old segment, or is appended."""
    replacements = {step.replaces: step.segment for step in steps if step.replaces}
    news = {
        id_: replacements.get(piece.replaces) if place == 0 else None
        for piece in pieces
        for place, id_ in enumerate(piece.replaces)
    }
    ids = {each.id for each in manifest.segments} if news else set()
    added = [step.segment for step in steps if ids.isdisjoint(step.replaces) and step.segment is not None]
    if not news:
        return manifest.model_copy(update={"segments": manifest.segments.extended(added)})
    update = {
        "segments": manifest.segments.replaced(news).extended(added),
        "contributors": tuple(_renamed(each, news) for each in manifest.contributors),
    }
    return manifest.model_copy(update=update)


def _renamed(contributor: Contributor, news: Mapping[str, Segment | None]) -> Contributor:
    """`contributor` with the new ids of its parts' segments, so that it can still replace a part."""

    def ids(old: Sequence[str]) -> tuple[str, ...]:
        segments: list[Segment | str | None] = [news.get(each, each) for each in old]
        return tuple(each if isinstance(each, str) else each.id for each in segments if each is not None)

    parts = (each.model_copy(update={"segments": ids(each.segments)}) for each in contributor.parts)
    return contributor.model_copy(update={"parts": contributor.parts.rearranged(parts)})


def digest_of_request(what: str, request: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([what, *request]).encode()).hexdigest()


def digest_of(content: object) -> str:
    """SHA-256 of JSON with models in it, in hex."""
    return hashlib.sha256(json.dumps(content, default=_dumped, sort_keys=True).encode()).hexdigest()


def _dumped(content: object) -> object:
    if isinstance(content, BaseModel):
        return content.model_dump(mode="json")
    raise TypeError(f"{type(content).__name__} is no JSON")


def committed_after(done: Done) -> str:
    """Say which version a change made, and after how many others; "" if there were none."""
    if not done.others:
        return ""
    return f"committed as version {done.opened.manifest.version}, after {counted(done.others, 'change')} by others"
