"""Another process's change of a table is no damage: what it interrupts begins again on the newest version.

A change deletes objects of the version that it replaced. Whoever still reads that version misses them. An object is
lost only if the newest version names it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cleave.objects.storage import StoreError
from cleave.store.reader import LostError
from cleave_shared import limits
from cleave_shared.errors import Code, ServiceError

T = TypeVar("T")
_FASTER = f"others changed it each of {limits.MAX_READINGS} times: run it while they change it less often"


class ChangedError(StoreError):
    """Another process replaced the version of a table that was being read."""

    code: Code = "changed"
    is_public = True  # it names no place

    def __init__(self, hint: str | None = None) -> None:
        super().__init__("the table changed while it was read: run it again", hint=hint)


class ReplacedError(ChangedError):
    """The same, where the work can begin again on the newest version."""


class SnapshotError(ChangedError):
    """The same for a version that a snapshot keeps: only a new snapshot has a newer one."""

    def __init__(self) -> None:
        super().__init__(hint="objects of the snapshot's version are deleted: take a new snapshot")


def is_replaced(error: ServiceError | LostError) -> bool:
    """True if another's change explains `error`. Raises CheckFailed, InputError, StoreError if the newest version
    cannot be opened.
    """
    return not error.is_named() if isinstance(error, LostError) else isinstance(error, ReplacedError)


def on_newest(work: Callable[[], T], begins_again: Callable[[ServiceError | LostError], bool] = is_replaced) -> T:
    """Return `work()`, which opens the newest version of what it reads and shows and writes nothing before it ends.

    `begins_again`: tests whether another's change explains an error; then `work` is called again. A LostError that is
    not explained is damage, and is marked so. `work` ends if its calls of a store are limited in time. Raises
    ChangedError after limits.MAX_READINGS calls.
    """
    for _ in range(limits.MAX_READINGS):
        try:
            return work()
        except LostError as lost:
            if lost.is_damage or not begins_again(lost):
                lost.is_damage = True
                raise
        except ServiceError as error:
            if not begins_again(error):
                raise
    raise ChangedError(hint=_FASTER)
