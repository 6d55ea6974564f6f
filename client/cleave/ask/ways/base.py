"""A way: what it costs, what each party learns, how each column is used, and its answer to a part of a cut question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from cleave.ask.prices import CALL_DOLLARS, GET_DOLLARS, OUT_DOLLARS
from cleave.ask.question import GroupSums, Question

if TYPE_CHECKING:  # the rooms of stored tables, which a query over files does without
    from cleave.store.manifest import Measure, Object
    from cleave.store.rows import Read
    from cleave.sums.job import Job
    from cleave.sums.stored import Stored
    from cleave.table.schema import Schema
    from cleave.table.table import Table

Destination = Literal["plain", "sensitive", "none"]
Place = TypeVar("Place")
READ_HERE = "read here, nothing of it sent"
Showing = Callable[[str, "Schema"], "Schema"]
"""Of the schema of a table, by name, what a question may name."""


def shows_all(_: str, schema: Schema) -> Schema:
    return schema


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a column: as text, who gets the column, and how many bytes of it are sent."""

    text: str
    destination: Destination = "none"
    bytes: int = 0


Uses = Mapping[tuple[str, str], Use]  # by table, as it is spelled, and column


class Lesson(str):
    """A sentence on what a party learns; `short` says it in at most 12 words."""

    short: str

    def __new__(cls, text: str, short: str = "") -> Lesson:  # a copy is made without `short`, which is then set
        lesson = super().__new__(cls, text)
        lesson.short = short
        return lesson


GROUPED = "the SQL over plain columns, and which rows are in which group"
AS_SQL = Lesson("WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group", GROUPED)
_MOST_WORDS = 8  # of the names of columns in a short sentence


def values_of(columns: Sequence[str]) -> str:
    """Name the columns of which a service reads values; of many, say how many they are."""
    names = ", ".join(columns)
    if len(names.split()) > _MOST_WORDS:
        names = f"{len(columns)} plain columns"
    return f"the values of {names}" if columns else "no value: it reads no column"


@dataclass(frozen=True, slots=True)
class Disclosures:
    """Sentences on what each party learns, as Lesson if they are long. `queried`: the plain service gets the query."""

    plain: Sequence[str] = ()
    sensitive: Sequence[str] = ()
    queried: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """`bytes` come to this machine in `requests` requests. `dollars`: of reads, calls and transfer at list price."""

    bytes: int
    requests: int
    dollars: float


@dataclass(frozen=True, slots=True)
class Work:
    """`reads`: objects, or ranges of one, that are read here. Services read `linked` objects in `calls` calls, and
    answer `answered` bytes at most.
    """

    reads: Sequence[Read] = ()
    calls: int = 0
    linked: Sequence[Object] = ()
    answered: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            (*self.reads, *other.reads),
            self.calls + other.calls,
            (*self.linked, *other.linked),
            self.answered + other.answered,
        )

    @property
    def bytes(self) -> int:
        """Bytes of stored objects that are read, here or by a service."""
        return self._read + self._linked

    @property
    def _read(self) -> int:
        return sum(each.bytes for each in self.reads)

    @property
    def _linked(self) -> int:
        return sum(each.bytes for each in self.linked)

    def cost(self, *, bucket: bool, remote: bool) -> Cost:
        """`bucket`: the store is one, and no folder. `remote`: the services are not in this process."""
        answered = self.answered if remote else self._linked
        dollars = 0.0
        if bucket:
            dollars += (len(self.reads) + len(self.linked)) * GET_DOLLARS + self._read * OUT_DOLLARS
        if remote:
            dollars += self.calls * CALL_DOLLARS
        if bucket or remote:
            dollars += answered * OUT_DOLLARS
        return Cost(self._read + answered, len(self.reads) + self.calls, dollars)


@dataclass(frozen=True, slots=True)
class Site:
    """Stored tables and services that questions over the table `name` are asked of.

    `tables`: those that are stored, by name in lower case; `others`: schemas of further tables. `named`: columns that
    the question names, in lower case. `services`: there are some;
    `remote`: not in this process. `scan`: sums of rows may be asked for; `job`: by a job, whatever other way there is.
    `fetch_limit`: bytes of rows that may be fetched. `showing`: what of a table may be named.
    """

    name: str
    tables: Mapping[str, Stored]
    others: Mapping[str, Schema]
    named: Set[str]
    services: bool
    remote: bool
    scan: bool
    job: bool
    fetch_limit: int
    showing: Showing = shows_all

    @property
    def stored(self) -> Stored:
        return self.table(self.name)

    def table(self, name: str) -> Stored:
        return self.tables[name.lower()]

    def schema_of(self, stored: Stored) -> Schema:
        """Columns that the question may read."""
        return self.showing(stored.manifest.table, stored.schema_of(self.named))

    def names_contributor(self, stored: Stored) -> bool:
        """Check whether the question names the contributor of the rows of a table, which no service knows."""
        return stored.schema_of(self.named) is not stored.schema


@dataclass(frozen=True, slots=True)
class Setting(Generic[Place]):
    """A question under way over `place`. `at_work` is given the table that DuckDB is at work on. `stop` ends waits for
    services. `job` makes the calls of a scan; without one, `side_by_side` are under way at once.
    """

    place: Place
    question: Question
    at_work: Callable[[Table | None], None] = lambda _: None
    stop: Callable[[], None] = lambda: None
    job: Job | None = None
    side_by_side: int = 1


class Way(ABC, Generic[Place]):
    """How a part of a cut question is answered over a `Place`: tables of a store, a release, or a file."""

    name: ClassVar[str]
    stage: ClassVar[str] = "ask"  # of a question's time; "rows" go first
    check: ClassVar[str] = "plain groups"  # that fails where its groups are not those of another way
    rank: ClassVar[int] = 0  # a plan by it is taken only where there is none of a lower rank
    worth: ClassVar[int] = 1  # by which the bytes of a plan are divided when they are compared
    scanned: ClassVar[bool] = False  # its sums show faults, but no service that lies

    @property
    def is_idle(self) -> bool:
        """Return whether it reads nothing that is not read to plan."""
        return False

    @property
    def measures(self) -> Mapping[str, Sequence[Measure]]:
        """Those of its tables that it reads totals or sums by, as they were when it was planned."""
        return {}

    def effort(self, place: Place) -> int:  # noqa: ARG002 - nothing
        """Work beside that of its bytes, as so many bytes more."""
        return 0

    def bound(self, place: Place) -> str:  # noqa: ARG002 - not so much
        """Return the most that it may answer, and what of it is too large, where that may be."""
        return ""

    @abstractmethod
    def work(self, place: Place, *, pad: bool) -> Work: ...

    @abstractmethod
    def uses(self, place: Place) -> Uses: ...

    @abstractmethod
    def disclosures(self, place: Place, *, pad: bool) -> Disclosures: ...

    @abstractmethod
    def answer(self, setting: Setting[Place]) -> GroupSums: ...
