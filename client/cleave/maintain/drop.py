"""Delete a table, and accept one that was restored or dropped: what this machine remembers of it changes."""

from __future__ import annotations

from typing import Unpack

from cleave.ask.options import LONGEST_TIMEOUT, Dropping, Place
from cleave.maintain.task import Task, operation
from cleave.store.accepting import Accepted
from cleave.store.accepting import accept as go_on
from cleave.store.dropping import drop as delete


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
