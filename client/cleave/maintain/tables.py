"""Tables of a key as a whole: list them, read their logs, delete them, accept restored ones."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, Unpack

from cleave.ask.options import LONGEST_TIMEOUT, Dropping, Place
from cleave.maintain.facts import StoredTable, stored_table
from cleave.maintain.task import Task, operation
from cleave.store.accepting import Accepted
from cleave.store.accepting import accept as go_on
from cleave.store.dropping import drop as delete
from cleave.store.reader import Opened

SECONDS = 600.0  # to list or show tables


@operation(Place, seconds=SECONDS)
def ls(task: Task, **_: Unpack[Place]) -> list[StoredTable]:
    """List the tables that the key has in a store, by name. Raises CheckFailed if the head of one is gone."""
    return [listed_table(each) for each in task.tables.all(lost=True)]


def listed_table(opened: Opened) -> StoredTable:
    """A table as `cleave ls` lists it: its facts have `unfinished`, a command to repeat, if one was stopped within."""
    stored, command = stored_table(opened.manifest), unfinished(opened)
    return replace(stored, facts=stored.facts | {"unfinished": command}) if command else stored


def unfinished(opened: Opened) -> str:
    """The stopped command that holds back all changes but deletions; "" if there is none."""
    table, revoking = shlex.quote(opened.manifest.table), opened.manifest.revoking
    if revoking:  # one command seals the columns of all
        return f"cleave reader revoke {table} {shlex.quote(revoking[0].name)}"
    return f"cleave key rotate {table}" if opened.head.moving_to else ""


@operation(Place, seconds=SECONDS)
def log(task: Task, name: str, **_: Unpack[Place]) -> list[dict[str, Any]]:
    """Return the audit log of a stored table: each change and each export, with its time, key and user.

    Raises CheckFailed where a record was removed, moved or changed.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "logged", store="tables", by=["ward"])
    >>> [(each["number"], each["what"], each["rows"]) for each in cleave.log("logged", store="tables")]
    [(1, 'put', 600)]
    """
    return [each.facts() for each in task.tables.log(task.tables.open(name))]


@operation(Dropping, seconds=LONGEST_TIMEOUT, writes=True)
def drop(task: Task, name: str, **options: Unpack[Dropping]) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep.

    This machine, and copies of the key file made later, refuse the table if somebody puts it or an older version back.
    `forget`: delete nothing, but accept what the store has. `confirm`: called once the table is found; it raises to
    keep the table.
    """
    if options["forget"]:
        task.tables.forget(name)
    else:
        delete(task.tables, name, task.progress, options["confirm"])


@operation(Place, seconds=LONGEST_TIMEOUT)
def accept(task: Task, name: str, version: int, **_: Unpack[Place]) -> Accepted:
    """Accept the version of a table that the store has, although this machine saw a newer one or the table was dropped.

    `version` must be the one in the store. If this machine refused the table, the table's log records it; nothing else
    changes. Other machines refuse the table until they accept it too.
    """
    return go_on(task.tables, name, version)
