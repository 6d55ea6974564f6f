"""Interface of a source: where the tables of questions come from, how a question over them is planned and answered.

cleave.ask.files    rows of a file or frame, grouped and encrypted for each question
cleave.ask.stored   tables in a store: totals, sealed rows, scans
cleave.ask.released releases, which analysts read: totals alone
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums, Loaded, Options, RunningQuestion
from cleave.deadline import Deadline
from cleave_shared import limits
from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cleave.ask.describe import Description
    from cleave.sql.read import Statement
    from cleave.table.progress import Bars, Progress
    from cleave.table.schema import Schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedBy:
    """How questions see one version of a stored table.

    `by` holds the columns that its totals are grouped by, and `assumed` what a plan over this version assumes
    (`AnswerPlan.assumed`). `min_group` is its own minimum of people, or rows, of a shown group.
    """

    schema: Schema
    by: Sequence[str]
    min_group: int
    assumed: tuple[str, str]


class Source(Protocol):
    """A source of tables, for one thread at a time.

    `name` is the table of a question that names no other; "" if there is none. `seconds` limits a step that has no
    limit of its own. `asks_embedded` says whether it may ask services of this process that have not been prepared.
    """

    name: str
    seconds: float = limits.QUERY_SECONDS
    asks_embedded: bool = False
    has_rows: bool = True

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the schemas of every table that a question may name, that of `name` first."""
        ...

    def key(self, name: str) -> Sequence[str]:  # noqa: ARG002 - files and releases have none
        """Return the columns that were declared to identify a row of a table."""
        return ()

    def asked_by(self, name: str) -> AskedBy | None:  # noqa: ARG002 - files and releases
        """Return how the newest version of a stored table may be asked; None for any other table."""
        return None

    def logged(self, plan: AnswerPlan) -> list[str]:  # noqa: ARG002 - files and releases have no log
        """Return the tables of `plan` that have an audit log."""
        return []

    def record(self, table: str, what: str, **details: JsonValue) -> None:  # noqa: ARG002 - as above
        """Record an event that changes no data in the audit log of a table. Raises InputError, StoreError."""
        raise TypeError("only an owner's stored tables have a log")

    def rows(self, name: str, progress: Progress) -> int | None:
        """Return the number of rows of a table, or None if it is unknown until a question reads them."""
        ...

    def open(self) -> None:
        """Raise the error that would keep questions from the table `name`, if it can be found without reading rows."""
        return

    def snapshot(self) -> AbstractContextManager[None]:
        """Answer all questions of a block over the versions at its start. Files have only one version."""
        return contextlib.nullcontext()

    def plan(self, statement: Statement, options: Options, *, cloud_only: bool) -> AnswerPlan:
        """Plan a question over the newest versions, or those of a snapshot.

        The plan counts what its threshold requires: people or rows, and rows with NULLs. Raises QueryRefused, also if
        the threshold cannot be kept.
        """
        ...

    def ways(self, statement: Statement, options: Options) -> Sequence[AnswerPlan]:
        """Return every way to answer a question, as plans that can be asked, the one that reveals least first."""
        return [self.plan(statement, options, cloud_only=False)]

    def describe(self, plan: AnswerPlan, progress: Progress) -> Description: ...

    def prepare(self, bars: Bars, *, sends: bool) -> None:
        """Do the work that is not part of a query's time.

        `sends` says that the query encrypts or asks a service.
        """
        ...

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:  # noqa: ARG002 - files are not waited for
        """Run `work` over one version of every table, and wait no longer than `deadline`."""
        return work()

    def require_assumed(self, plan: AnswerPlan, table: AskedBy) -> None:  # noqa: ARG002 - files and releases
        """Raise ReplacedError if `plan` assumes another version of `table` than was seen before."""
        return

    def on_newest(self, work: Callable[[], T]) -> T:
        """Return `work()`, which plans a question and asks it; again if the plan no longer fits its tables."""
        return work()

    def load(self, plan: AnswerPlan, question: RunningQuestion) -> AbstractContextManager[Loaded]: ...

    def sums(self, plan: AnswerPlan, question: RunningQuestion) -> AbstractContextManager[GroupSums]: ...

    def stop_job(self, plan: AnswerPlan) -> bool:  # noqa: ARG002 - whatever it is
        """End the job that answers `plan`; return False if there is none. Raises InputError if there can be none."""
        raise UsageError("--job works only over stored tables", hint="leave --job out", name="--job")

    def stop(self) -> None:
        """Make the work of another thread here fail soon. Repeat the call until it has."""
        ...

    def close(self) -> None: ...
