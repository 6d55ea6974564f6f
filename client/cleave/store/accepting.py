"""`cleave accept`: continue with the table in the store, although this machine saw a newer state, or dropped it.

The table's log records it; nothing else in the store changes. Other machines compare the length of the log with what
they saw, so each must accept for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from cleave.store.changed import ReplacedError, on_newest
from cleave.store.log import records_of
from cleave.store.reader import LostError, Opened
from cleave.store.tables import Tables
from cleave.text.quantities import counted
from cleave_shared.errors import CheckFailed, InputError

_INCOMPLETE = (
    "copy all objects of both places first, and heads last; a replica may have heads before their objects: wait, then "
    "try again"
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted table. `at`: time of its last change or export.

    `lost`: number of log records that this machine saw and that are gone. `was`: why this machine refused the table; ""
    if it did not. `readers`: names of the readers in it, among them those revoked after the copy.
    """

    table: str
    version: int
    at: str
    lost: int
    was: str
    readers: tuple[str, ...] = ()


def accept(tables: Tables, name: str, version: int) -> Accepted:
    """Accept version `version` of a table on this machine. It must be the version in the store.

    Raises InputError if there is no such table or version, CheckFailed if some of its objects are missing.
    """
    where = tables.stores.sensitive.location

    def read() -> tuple[Opened, str, set[str]]:
        opened = tables.shown(name)
        try:
            at, missing = records_of(tables, opened.vault, opened.head.log)[-1].at, tables.missing(opened)
        except LostError:
            if tables.shown(name).head.log != opened.head.log:
                raise ReplacedError from None
            raise
        if missing and tables.replaced(opened):
            raise ReplacedError
        return opened, at, missing

    try:
        opened, at, missing = on_newest(read, lambda error: isinstance(error, ReplacedError))
    except LostError:
        raise CheckFailed(
            "stored", f"{where}: the manifest or the log of table {name!r} is missing", hint=_INCOMPLETE
        ) from None
    if opened.manifest.version != version:
        raise InputError(
            f"{where}: table {name!r} has version {opened.manifest.version}, not {version}",
            hint="`cleave accept` accepts the version that is there; restore another copy for another one",
        )
    if missing:
        raise CheckFailed(
            "stored", f"{where}: {counted(len(missing), 'object')} of table {name!r} are missing", hint=_INCOMPLETE
        )
    was, lost = _refusal(tables, name, opened)
    if was:
        tables.record(opened, "accept", 0, reason=was, lost_records=lost)
        tables.forget(name)
        tables.open(name)
    readers = tuple(each.name for each in opened.manifest.readers)
    return Accepted(opened.manifest.table, version, at, lost, was, readers)


def _refusal(tables: Tables, name: str, shown: Opened) -> tuple[str, int]:
    """Return why this machine refuses a table ("" if it does not), and how many records its log lacks."""
    seen, head = tables.memory.newest(tables.tag(name)), shown.head
    if tables.memory.is_dropped(head.table_id):
        return "dropped", 0
    if seen is not None and seen[0] != head.table_id:
        return ("", 0) if tables.memory.is_dropped(seen[0]) else ("another table", 0)
    lost = seen[1] - head.log.count if seen is not None else 0
    return ("older", lost) if lost > 0 else ("", 0)
