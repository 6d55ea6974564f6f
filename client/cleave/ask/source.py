"""Interface of a source: its tables, the sums it can give of a query and at how many bytes, and the sums.

cleave.ask.here     rows of a file or frame, grouped and encrypted for each question
cleave.ask.stored   tables in a store: totals, sealed rows, scans
cleave.ask.released releases, which analysts read: totals alone
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cleave.processes.deadline import Deadline
from cleave.text.quantities import counted
from cleave.transport.base import QUERY_SECONDS
from cleave_shared.errors import UsageError
from cleave_shared.requests import PlainResponse

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.finish import ResultTable
    from cleave.sql.plan import LocalPlan, QueryPlan
    from cleave.sql.read import Statement
    from cleave.sql.rejoin import Members, Texts
    from cleave.table.progress import Bars, Progress
    from cleave.table.schema import Schema
    from cleave.table.table import Table


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """One question under way."""

    options: Options
    progress: Progress
    deadline: Deadline
    clock: Clock


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Sums and groups that a source gives for a plan that was cut.

    `keys`, `counts`: the finest groups and their rows, where they are known here; None: as `responses` of the plain
    service have them. `local`: of each group and set, DuckDB's texts of what was computed here. `figures` gives the
    encrypted aggregates of groups that are put together, by the finest groups they are made of and their rows. `usage`
    counts what was asked and read. `warnings`: what may be missing of the answer; `note`: a footnote to it.
    """

    plan: QueryPlan
    keys: list[Texts] | None
    counts: list[int]
    responses: Sequence[PlainResponse]
    local: list[Texts]
    figures: Callable[[Sequence[Members], Sequence[int]], Any]
    usage: Usage
    checks: dict[str, str]
    scanned: bool = False
    warnings: Sequence[str] = ()
    note: str = ""
    release: Callable[[], None] = field(default=lambda: None)  # gives up what is not needed once groups are rejoined


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows that a question is answered over as a whole, which it calls `name`.

    `usage`, once they are, counts what was read for them.
    """

    table: Table
    name: str
    usage: Callable[[], Usage]
    checks: dict[str, str]


class Source(Protocol):
    """One thread at a time may use it.

    `name`: the table that a question is over where nothing else is said; "" where there is none. `seconds`: what a step
    may take that is given no time of its own. `asks_embedded`: services of this process may be asked that have not
    been prepared.
    """

    name: str
    seconds: float = QUERY_SECONDS
    asks_embedded: bool = False

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the schemas of every table a question may name; that of `name` comes first."""
        ...

    def min_group(self, plan: QueryPlan | LocalPlan) -> int:  # noqa: ARG002 - no group is small
        """Rows that every group shown has at least, where the caller does not say."""
        return 0

    def logged(self, plan: QueryPlan | LocalPlan) -> list[str]:  # noqa: ARG002 - files and releases have no log
        """Names of the tables of `plan` that have an audit log."""
        return []

    def rows(self, name: str, progress: Progress) -> int | None:
        """Rows of a table; None where they are not known before a question reads them."""
        ...

    def open(self) -> None:
        """Raise what keeps the table `name` from being asked, where that is known without reading its rows."""
        return

    def snapshot(self) -> AbstractContextManager[None]:
        """Answer all questions of a block over the versions at its start. Files have one version."""
        return contextlib.nullcontext()

    def plan(self, statement: Statement, *, cloud_only: bool) -> QueryPlan | LocalPlan:
        """Begin a question: it is asked over the newest versions, or those of a snapshot. Raises QueryRefused."""
        ...

    def ways(self, statement: Statement) -> Sequence[QueryPlan | LocalPlan]:
        """Every way to answer a question, each to be asked; what reveals least comes first."""
        return [self.plan(statement, cloud_only=False)]

    def describe(self, plan: QueryPlan | LocalPlan, options: Options, progress: Progress) -> Description: ...

    def prepare(self, bars: Bars, *, sends: bool) -> None:
        """Do the work that is not part of a query's time. `sends`: the query encrypts or asks a service."""
        ...

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:  # noqa: ARG002 - files are not waited for
        """`work` over one version of every table, waiting no longer than `deadline`."""
        return work()

    def load(self, plan: LocalPlan, question: Question) -> AbstractContextManager[Loaded]: ...

    def sums(self, plan: QueryPlan, question: Question) -> AbstractContextManager[GroupSums]: ...

    def stop_job(self, plan: QueryPlan | LocalPlan) -> bool:  # noqa: ARG002 - whatever it is
        """End the job that answers `plan`. False where there is none. Raises InputError where there can be none."""
        raise UsageError("--job works only over stored tables", hint="leave --job out")

    def stop(self) -> None:
        """Make what another thread does here fail soon. To be said again until it has."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """`pad` rounds the number of chunks up to a power of two.

    Groups of fewer than `min_group` rows are left out of the answer; 0: as the table has it, which is none but for a
    stored one with contributors.
    """

    pad: bool = False
    min_group: int = 0

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.min_group < 0:
            raise UsageError("--min-group takes a number of rows, 0 or more")


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of one query's work. None where a minimum group size hides it, since with the counts that are shown it
    could
    tell the size of a suppressed group; the last three of these are None where none was asked for. `withheld_groups`
    are large enough, but a suppressed one would follow from them. `objects_read`, `bytes_read`: of what rests in
    stores; None where rows came from files.
    """

    profile: str | None = None  # None where nothing was sent: no key was needed
    key_id: str | None = None
    rows: int | None = None
    selected_rows: int | None = None
    groups: int | None = None
    lanes: int = 0
    blocks: int = 0
    chunks: int = 0
    sensitive_requests: int = 0
    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    min_group: int | None = None
    suppressed_groups: int | None = None
    withheld_groups: int | None = None
    objects_read: int | None = None
    bytes_read: int | None = None

    @property
    def suppression(self) -> str:
        """A sentence on what a minimum group size left out, "" where none was asked for."""
        if self.suppressed_groups is None:
            return ""
        small = f"{counted(self.suppressed_groups, 'group')} of fewer than {self.min_group} rows"
        if not self.withheld_groups:
            return f"{small} not shown."
        return f"{small} and {counted(self.withheld_groups, 'group')} from which one of them would follow not shown."


COUNTS = ("sensitive_requests", "requests", "bytes_sent", "bytes_received")
"""The counts of a Usage that parts of a question add up to."""


@dataclass(frozen=True, slots=True)
class Result:
    result: ResultTable
    checks: dict[str, str]  # name of a check -> passed, or not needed
    usage: Usage
    timings: dict[str, float]  # seconds by stage


class Clock:
    """Seconds by stage, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
