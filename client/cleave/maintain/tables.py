"""List the tables of a key, and read their logs: this needs neither DuckDB nor numpy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, Unpack

from cleave.ask.options import Place
from cleave.maintain.facts import StoredTable, stored_table
from cleave.maintain.task import Task, operation
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
