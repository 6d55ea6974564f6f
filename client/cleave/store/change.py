"""What a change of a table is: what somebody wants, what is planned on a version, and what was made of it.

A change that would tell the plain place or readers too much is refused, unless the owner confirms it.
`cleave.store.making` makes changes, beside others who change the table.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pydantic import JsonValue

from cleave.objects.storage import ConflictError, StoreError
from cleave.store.cells import Cells
from cleave.store.heads import LogHead
from cleave.store.log import Record
from cleave.store.manifest import Manifest
from cleave.store.pieces import ChangeStep, Piece
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave.table.schema import Schema
from cleave.text.quantities import counted
from cleave_shared.errors import CheckFailed, InputError

FREE = ("delete", "reader revoke", "reader reseal")  # changes of a table that is held
MOST_ROUNDS = 4  # in which others changed what was read


@dataclass(frozen=True, slots=True)
class ChangePlan:
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
    segments depend on, besides `request`; None: see cleave.store.basis. `publish`, `finish`: work after the commit,
    before and after what it replaced is deleted; a repeated call does it again. `stage`: name for `progress`, default
    `what`. `again`: it continues no stopped call, nor one of another process. `columns`: JSON of the columns that rows
    were prepared for; a call for other columns continues no stopped one.

    `rounds`: most attempts in which others may change what it reads. `sweeps`: looks for objects that nobody names.
    `erases`: deletes all drafts and objects that nobody names, whatever their age. `strict`: raises StoreError if what
    the version does not name any more cannot be deleted.
    """

    what: str
    request: Sequence[object]
    plan: Callable[[Opened | None, ExitStack], ChangePlan]
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
    columns: Sequence[object] = ()
    rounds: int = MOST_ROUNDS
    sweeps: bool = False
    erases: bool = False
    strict: bool = False


def committed_after(done: Done) -> str:
    """Say which version a change made, and after how many others; "" if there were none."""
    if not done.others:
        return ""
    return f"committed as version {done.opened.manifest.version}, after {counted(done.others, 'change')} by others"


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


class UnkeptError(StoreError):
    """Objects that this change wrote are gone: somebody swept them, or the store lost them."""

    @classmethod
    def of(cls, error: StoreError | CheckFailed) -> UnkeptError:
        return cls(error.message, hint=error.hint)


def require_word(schema: Schema, read: Collection[str], reveals: str, *, yes: bool) -> None:
    """Raise InputError, without `yes`, if a change tells the plain place something that depends on other than plain
    columns.

    `read`: columns that select the rows. `reveals`: what it would learn.
    """
    if not yes and (others := sorted({*read}.difference(schema.plain))):
        raise InputError(
            f"the plain place would learn {reveals}, chosen by columns that are not plain: {', '.join(others)}",
            hint="--dry-run of delete and update shows what would change; confirm with --yes (yes=True in Python)",
        )


def require_no_reader(manifest: Manifest, would: str) -> None:
    """Raise InputError if readers of the table would read what their owner has not confirmed. `would`: what."""
    if manifest.readers:
        names = [each.name for each in manifest.readers]
        raise InputError(
            f"readers of this table ({', '.join(names)}) would read {would}",
            hint=f"first: cleave reader revoke {manifest.table} {names[0]}; then add it again, with --yes",
        )
