"""Drafts of changes of tables, and the one that a run of a change writes: its own, or that of a stopped call."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from cleave.objects.storage import ConflictError, StoreError, UnreturnedError
from cleave.store.change import InTheWayError, UnkeptError
from cleave.store.drafts import Draft, Drafts
from cleave.store.log import Made
from cleave.store.manifest import Count, Manifest, Measure, Object, SealedColumn, new_id
from cleave.store.pieces import ChangeStep
from cleave.store.sweeping import ObjectNames, cleaning, not_all_stored, unstored
from cleave.store.tables import Tables
from cleave_shared.errors import InputError
from cleave_shared.wire import Hex

_GIVEN = ("table_id", "measures", "sealed", "secret")


class ChangeDraft(Draft):
    """The draft of an owner's change of a table. `count`: records of the table's log when it began.
    `columns`: digest of those that its rows were prepared for.
    """

    what: str
    columns: str
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


def drafts_of(tables: Tables, name: str) -> list[tuple[str, Drafts[ChangeDraft, ChangeStep]]]:
    """The drafts of a table, by id. They are not read yet."""
    place = tables.drafts(name)
    ids = sorted(each.rpartition("/")[2] for each in tables.stores.sensitive.names(place))
    return [(each, _draft_at(tables, name, each)) for each in ids if "." not in each]


def _draft_at(tables: Tables, name: str, id_: str) -> Drafts[ChangeDraft, ChangeStep]:
    return Drafts(tables.stores, f"{tables.drafts(name)}/{id_}", tables.draft_vault(name), ChangeDraft, ChangeStep)


def without_new_drafts(tables: Tables, name: str, found: ObjectNames) -> ObjectNames:
    """`found` without the drafts of a table that have a record which is not in it, and without what these need."""
    for _, drafts in drafts_of(tables, name):
        draft = drafts.find_any()
        records = frozenset(drafts.names(draft)) if draft is not None else frozenset()
        if draft is not None and not records <= found.sensitive:  # it has a record of the last day
            kept = records | draft.objects()
            found -= ObjectNames(kept, kept)
    return found


class OwnDraft:
    """The draft of one run of a change. `asked`: digest of the request that it is found by.

    `made` gets its id. `written`: what is written so far, in the store if it has steps; None: nothing. `is_resumed`: a
    stopped call began it.
    """

    def __init__(self, tables: Tables, name: str, what: str, asked: str, made: Made) -> None:
        self._tables = tables
        self._name = name
        self._what = what
        self._asked = asked
        self._made = made
        self._columns = ""
        self._drafts: Drafts[ChangeDraft, ChangeStep] | None = None
        self.written: ChangeDraft | None = None
        self.is_resumed = False

    def take_over(
        self,
        are_rows: Callable[[Sequence[ChangeStep]], bool] | None,
        columns: str,
        is_made: Callable[[ChangeDraft], bool],
    ) -> None:
        """Take over the draft of a stopped call, if there is one. `are_rows`, `columns`: as of Change, and ChangeDraft.

        Raises InputError if a call like this one is made, and rows of other columns cannot be compared with its rows.
        """
        self._columns = columns
        for id_, drafts in drafts_of(self._tables, self._name):
            draft = drafts.find(self._asked)
            if draft is None or draft.id != id_ or draft.what != self._what:
                continue
            if draft.columns != columns:
                if is_made(draft):
                    raise self._untold()
                continue
            if are_rows is not None and not are_rows(draft.put):
                continue
            draft = draft.model_copy(update={"owner": self._made.owner})
            try:
                drafts.rewrite(draft)
            except ConflictError:
                continue
            self.written, self._drafts, self.is_resumed = draft, drafts, True
            self._made.change = draft.id
            return

    def begin(self, manifest: Manifest, basis: str, count: int) -> ChangeDraft:
        """A new draft without steps, which is not stored yet. `count`: see ChangeDraft."""
        given = {name: getattr(manifest, name) for name in _GIVEN}
        self.written = ChangeDraft(
            id=self._made.change,
            asked=self._asked,
            head=None,
            what=self._what,
            columns=self._columns,
            owner=self._made.owner,
            count=count,
            basis=basis,
            steps=(),
            **given,
        )
        self._drafts = _draft_at(self._tables, self._name, self._made.change)
        return self.written

    def add(self, step: ChangeStep) -> None:
        """Record a written step. Raises InTheWayError if another process continues it, UnkeptError if it is gone."""
        assert self.written is not None and self._drafts is not None  # noqa: S101, PT018 - it has begun
        try:
            self.written = self._drafts.add(self.written, step)
        except ConflictError:
            raise self._taken() from None
        except UnreturnedError as error:
            raise self._gone(error) from None

    def keep(self, facts: Mapping[str, JsonValue]) -> ChangeDraft:
        """Record the facts of the plan before the commit. Raises InTheWayError as `add`, UnkeptError if it is gone."""
        assert self.written is not None and self._drafts is not None  # noqa: S101, PT018 - it has begun
        if facts or not self.written.steps:  # or it is stored already
            self.written = self.written.model_copy(update={"facts": dict(facts)})
            try:
                self._drafts.rewrite(self.written)
            except (ConflictError, UnreturnedError) as error:
                raise self._gone(error) from None
        return self.written

    def forget(self) -> None:
        """Begin anew, with another id. What the draft names is nobody's then."""
        with cleaning():
            self.remove()
        self.written, self.is_resumed, self._made.change = None, False, new_id()

    def remove(self) -> None:
        """Delete its records. Raises StoreError."""
        if self._drafts is not None and self.written is not None:
            self._drafts.remove(self.written)

    def records(self) -> set[str]:
        """Names of its records."""
        return {*self._drafts.names(self.written)} if self._drafts is not None and self.written is not None else set()

    def objects(self) -> ObjectNames:
        """The objects that it needs."""
        if self.written is None:
            return ObjectNames()
        plain = frozenset(each.plain.name for each in self.written.segments if each.plain is not None)
        return ObjectNames(frozenset(self.written.objects()) - plain, plain)

    def is_whole(self) -> bool:
        """True if the stores have its objects. Raises StoreError."""
        segments = self.written.segments if self.written is not None else ()
        plain = {each.plain.name for each in segments if each.plain is not None}
        return not unstored(self._tables.stores, [part for each in segments for part in each.parts()], plain)

    def _gone(self, error: StoreError) -> StoreError:
        """The error for a record that is another process's, or that a deletion has just swept."""
        assert self._drafts is not None  # noqa: S101 - it has begun
        if self._drafts.is_there():
            return self._taken() if isinstance(error, ConflictError) else error
        self.forget()
        return UnkeptError.of(not_all_stored(self._tables.stores))

    def _untold(self) -> InputError:
        return InputError(
            f"an {self._what} of as many rows to table {self._name!r} was stopped after it was made, and columns have "
            "changed since: whether these are the same rows cannot be told",
            hint=f"`cleave log {shlex.quote(self._name)}` shows what was made; --again adds these rows",
        )

    def _taken(self) -> InTheWayError:
        location = self._tables.stores.sensitive.location
        return InTheWayError(f"{location}: another process makes the same change of table {self._name!r}")
