"""A running question, the answers to its parts, and counts of its work."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cleave.deadline import Deadline
from cleave.text.quantities import counted
from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from cleave.finish import ResultTable
    from cleave.sql.plan import QueryPlan
    from cleave.sql.rejoin import Members, Texts
    from cleave.sql.tally import Tally
    from cleave.table.progress import Progress
    from cleave.table.table import Table
    from cleave_shared.requests import PlainResponse


@dataclass(frozen=True, slots=True)
class RunningQuestion:
    """One question under way.

    `pad`: see Options. Groups with fewer than `least` people, or rows, are left out; 0 leaves out none. `sized`: count
    `Answer.people` then.
    """

    pad: bool
    least: int
    progress: Progress
    deadline: Deadline
    clock: Clock
    sized: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one question, which its plan is made for.

    `pad` rounds the number of chunks up to a power of two. Groups with fewer than `min_group` people (or rows, if the
    schema names no entity) are left out; 0 means the table's own minimum, which only a stored table with contributors
    has. `yes` allows smaller groups than the table's own minimum; the table's log then says so, unless the caller has
    already `logged` the question.
    """

    pad: bool = False
    min_group: int = 0
    yes: bool = False
    logged: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.min_group < 0:
            raise UsageError("--min-group takes a number of people or rows, 0 or more", name="--min-group")


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of one query's work.

    A count is None if a minimum group size hides it: together with the counts that are shown, it could reveal the size
    of a suppressed group. `min_group` and the four fields below it are None if no minimum was asked for.
    `withheld_groups` counts groups that are large enough but would reveal a suppressed one. `hidden_figures` counts
    figures left out of groups that are shown. `counted` is "people" or "rows". `printing` names aggregates that show
    values of single rows. `objects_read` and `bytes_read` count what is read from stores, and are None if rows came
    from files.
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
    hidden_figures: int | None = None
    counted: str | None = None
    printing: tuple[str, ...] | None = None
    objects_read: int | None = None
    bytes_read: int | None = None

    @property
    def suppression(self) -> str:
        """Return sentences for the owner on what the minimum group size left out, by which rule, and on what it cannot
        hide (rule A3); "" if it hid nothing.
        """
        if self.suppressed_groups is None:
            return ""
        few = f"fewer than {self.min_group} {self.counted or 'rows'}"
        small = [f"{counted(self.suppressed_groups, 'group')} of {few}"] if self.suppressed_groups else []
        if self.withheld_groups:
            small.append(f"{counted(self.withheld_groups, 'group')} from which one of them would follow")
        sentences = [f"{' and '.join(small)} not shown (rule P2)."] if small else []
        if self.hidden_figures:
            figures = counted(self.hidden_figures, "figure")
            why = f"{few} have a value there, or have none, or lack the same figures"
            sentences.append(f"{figures} hidden: {why} (rule A1).")
        if self.printing:
            shows = "shows" if len(self.printing) == 1 else "show"
            sentences.append(f"Warning: {', '.join(self.printing)} {shows} values of single rows (rule A2).")
        return " ".join(sentences)


COUNTS = ("sensitive_requests", "requests", "bytes_sent", "bytes_received")
"""The counts of a Usage that parts of a question add up to."""


GroupFigures = Callable[["Sequence[Members]", Sequence[int]], Any]


def _no_figures(members: Sequence[Members], _: Sequence[int]) -> list[tuple[()]]:
    return [()] * len(members)


@dataclass(frozen=True, slots=True)
class GroupSums:
    """The answer of one way to its part `cut` of a question, or of a source to all of it.

    `keys` and `counts` hold the finest groups and their numbers of rows; they are None if only the plain service's
    `responses` have them. `local` holds, for each group and set, DuckDB's texts of the values computed here. `figures`
    returns the encrypted aggregates of combined groups, given the finest groups in each and their rows. `warnings` says
    what the answer may lack, and `note` is a footnote. `tally` counts rows for a threshold; None counts each row once
    and assumes no NULL.
    """

    cut: QueryPlan
    keys: list[Texts] | None = None
    counts: list[int] = field(default_factory=list)
    responses: Sequence[PlainResponse] = ()
    local: list[Texts] = field(default_factory=list)
    figures: GroupFigures = _no_figures
    usage: Usage = Usage()
    checks: dict[str, str] = field(default_factory=dict)
    scanned: bool = False
    warnings: Sequence[str] = ()
    note: str = ""
    tally: Tally | None = None
    release: Callable[[], None] = field(default=lambda: None)  # gives up what is not needed once groups are rejoined


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded rows of a question that is answered as a whole, in a table that the question calls `name`.

    `usage` returns the counts of what was read, once all rows are read.
    """

    table: Table
    name: str
    usage: Callable[[], Usage]
    checks: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """`people`: people, or rows, of all selected rows with a value in every argument, in the view of each party: of all
    parties but any one. None unless it was asked for, under a threshold.
    """

    result: ResultTable
    checks: dict[str, str]  # name of a check -> passed, or not needed
    usage: Usage
    timings: dict[str, float]  # seconds by stage
    people: int | None = None


class Clock:
    """Adds up seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
