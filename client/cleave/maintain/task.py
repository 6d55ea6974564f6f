"""Operations on stored tables: functions that get a `Task`, with options stated once.

`operation` and `change` open the store that the options name, and close it at the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from cleave.ask.opening import opened
from cleave.ask.options import Place, complete, stated
from cleave.maintain.facts import StoredTable, stored_table
from cleave.store.changed import ChangedError, is_replaced, on_newest
from cleave.table.progress import Progress, bars
from cleave_shared.errors import CleaveWarning, ServiceError, stack_level

if TYPE_CHECKING:
    from cleave.store.reader import LostError, Opened
    from cleave.store.tables import Tables

P = ParamSpec("P")
R = TypeVar("R")
AGAIN = "run it again"
CONTINUES = "run it again to continue from there"


class Task:
    """A running operation: its tables, opened at first use, and its progress.

    `seconds`: default limit for calls to the store. `after`: what `say` advises if it is stopped. `writes`: it changes
    tables, so it refuses those that this release may only read. `checked`: names of objects that it found whole. They
    never change, so work that begins again need not read them.
    """

    def __init__(self, place: Place, seconds: float | None = None, after: str = AGAIN, *, writes: bool = False) -> None:
        self._place = place
        self._seconds = seconds
        self._after = after
        self._writes = writes
        self._opened = ExitStack()
        self.checked: set[str] = set()

    @cached_property
    def tables(self) -> Tables:
        tables = self._opened.enter_context(opened(self._place, self._seconds))
        tables.writes = self._writes
        return tables

    @cached_property
    def progress(self) -> _Noted:
        return _Noted(self._opened.enter_context(bars(self._place["progress"])()))

    def on_newest(self, work: Callable[[], R], *, again: bool) -> R:
        """Return `work()`. If another process changes a table that it reads, it begins again on the newest version,
        unless it has made a change itself, or `again` is False: then this raises ChangedError.
        """

        def begins_again(error: ServiceError | LostError) -> bool:
            if not is_replaced(error):
                return False
            if not again or self.tables.has_committed:
                raise ChangedError from None
            self.say("another process changed the table: reading its newest version")
            return True

        return on_newest(work, begins_again)

    def say(self, text: str) -> None:
        """Pass a line to the caller's `say`, if there is one."""
        if (say := self._place["say"]) is not None:
            say(text)

    def warn(self, text: str) -> None:
        """Pass a line to `say`; without `say`, warn."""
        if self._place["say"] is None:
            warnings.warn(text, CleaveWarning, stacklevel=stack_level())
        self.say(text)

    def __enter__(self) -> Task:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt | ServiceError) and self.progress.stages:
            self.say(f"stopped at {self.progress.stages[-1]}; {self._after}")
        self._opened.__exit__(kind, error, trace)


class _Noted:
    """Progress that is shown, and reported when the work is stopped."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self.stages: list[str] = []

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        advance, place, done = self._shown.stage(name, total, unit), len(self.stages), 0
        self.stages.append("")

        def noted(amount: int) -> None:
            nonlocal done
            done += amount
            self.stages[place] = f"{name}: {done:,} of {total:,} {unit}".rstrip()
            advance(amount)

        noted(0)
        return noted


def operation(
    options: type, *, seconds: float | None = None, after: str = AGAIN, again: bool = True, writes: bool = False
) -> Callable[[Callable[Concatenate[Task, P], R]], Callable[P, R]]:
    """Decorator: gives a function its `Task`, and all keyword arguments of `options` with defaults.

    `again`: the function can begin again beside others' changes (`Task.on_newest`). False where its input is read once,
    or a passphrase is asked for. `writes`: see `Task`.
    """

    def decorate(function: Callable[Concatenate[Task, P], R]) -> Callable[P, R]:
        _, *own = signature(function).parameters.values()
        names = {each.name for each in own if each.kind is each.POSITIONAL_OR_KEYWORD}

        @wraps(function)
        def call(*args: Any, **given: Any) -> R:
            named = {name: given.pop(name) for name in names & given.keys()}
            settings = complete(options, given)
            with Task(cast("Place", settings), seconds, after, writes=writes) as task:
                return task.on_newest(lambda: function(task, *args, **named, **settings), again=again)

        call.__signature__ = signature(function).replace(parameters=own)  # type: ignore[attr-defined]
        return cast("Callable[P, R]", stated(options)(call))

    return decorate


def change(
    options: type, *, seconds: float | None = None, after: str = AGAIN, again: bool = True
) -> Callable[[Callable[Concatenate[Task, P], Opened]], Callable[P, StoredTable]]:
    """Decorator for an operation that changes a table, and returns its facts."""

    def decorate(function: Callable[Concatenate[Task, P], Opened]) -> Callable[P, StoredTable]:
        @wraps(function)
        def changed(task: Task, /, *args: P.args, **given: P.kwargs) -> StoredTable:
            return stored_table(function(task, *args, **given).manifest)

        shown = signature(function).replace(return_annotation="StoredTable")
        changed.__signature__ = shown  # type: ignore[attr-defined]
        return operation(options, seconds=seconds, after=after, again=again, writes=True)(changed)

    return decorate
