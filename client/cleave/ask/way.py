"""The interface of a way to answer part of a question: its cost, what each party learns, and its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from cleave.ask.question import GroupSums, RunningQuestion

if TYPE_CHECKING:  # rooms of stored tables; a query over files does not need them
    from cleave.store.manifest import Measure, Object
    from cleave.store.rows import Read
    from cleave.sums.job import ScanJob
    from cleave.sums.stored import Stored
    from cleave.table.schema import Schema
    from cleave.table.table import Table

Destination = Literal["plain", "sensitive", "none"]
_Place = TypeVar("_Place")
# List prices in us-east-1 (docs/deploy.md). They leave out the run time of Lambda functions, which is not predicted.
GET_DOLLARS = 0.40e-6  # of a read from S3
OUT_DOLLARS = 0.09e-9  # of a byte that leaves the region
CALL_DOLLARS = 3.70e-6  # of a request to the REST API and to Lambda
READ_HERE = "read here, nothing of it sent"
Showing = Callable[[str, "Schema"], "Schema"]
"""Of the schema of a table, by name, what a question may name."""


def shows_all(_: str, schema: Schema) -> Schema:
    return schema


@dataclass(frozen=True, slots=True)
class Use:
    """How a question uses a column: in words, who gets the column, and how many bytes of it are sent."""

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
    """Say which columns' values a service reads, or how many columns if they are many."""
    names = ", ".join(columns)
    if len(names.split()) > _MOST_WORDS:
        names = f"{len(columns)} plain columns"
    return f"the values of {names}" if columns else "no value: it reads no column"


@dataclass(frozen=True, slots=True)
class Disclosures:
    """Sentences on what each party learns; long ones are of class Lesson.

    `queried` says that the plain service receives the query.
    """

    plain: Sequence[str] = ()
    sensitive: Sequence[str] = ()
    queried: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a plan: `bytes` that come to this machine in `requests` requests, and list-price `dollars` of reads,
    calls and transfer.
    """

    bytes: int
    requests: int
    dollars: float


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a plan.

    `reads` are objects, or ranges of objects, that this machine reads. Services read the `linked` objects in `calls`
    calls, and answer at most `answered` bytes.
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
        """Return the bytes of stored objects that are read, here or by a service."""
        return self._read + self._linked

    @property
    def _read(self) -> int:
        return sum(each.bytes for each in self.reads)

    @property
    def _linked(self) -> int:
        return sum(each.bytes for each in self.linked)

    def cost(self, *, bucket: bool, remote: bool) -> Cost:
        """Return the cost. `bucket` says that the store is a bucket rather than a folder, `remote` that the services
        are outside this process.
        """
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
    """The stored tables and services behind questions over the table `name`.

    `tables` holds the stored tables by name in lower case, `others` the schemas of further tables, and `named` the
    columns that the question names, in lower case. `services` says that there are any, `remote` that they are outside
    this process. `scan` allows asking for sums of rows; `job` has a job ask for them even if there is another way.
    `fetch_limit` is the most bytes of rows to fetch. `showing` decides which columns a question may name.
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
        """Return the columns that the question may read."""
        return self.showing(stored.manifest.table, stored.schema_of(self.named))

    def names_contributor(self, stored: Stored) -> bool:
        """Check whether the question names the contributor of a table's rows, which no service knows."""
        return stored.schema_of(self.named) is not stored.schema


@dataclass(frozen=True, slots=True)
class WayContext(Generic[_Place]):
    """A running question over `place`.

    `at_work` is told which table DuckDB works on, and `stop` ends waits for services. `job` runs the calls of a scan;
    without a job, `side_by_side` calls run at once.
    """

    place: _Place
    question: RunningQuestion
    at_work: Callable[[Table | None], None] = lambda _: None
    stop: Callable[[], None] = lambda: None
    job: ScanJob | None = None
    side_by_side: int = 1


class Way(ABC, Generic[_Place]):
    """A way to answer part of a divided question over a place: tables of a store, a release, or a file."""

    name: ClassVar[str]
    stage: ClassVar[str] = "ask"  # of a question's time; "rows" go first
    check: ClassVar[str] = "plain groups"  # fails if its groups differ from those of another way
    rank: ClassVar[int] = 0  # a plan is chosen only if there is none of a lower rank
    worth: ClassVar[int] = 1  # divides the bytes of a plan when plans are compared
    scanned: ClassVar[bool] = False  # its sums show faults, but no service that lies

    @property
    def is_idle(self) -> bool:
        """Return whether it reads nothing beyond what planning has read."""
        return False

    @property
    def measures(self) -> Mapping[str, Sequence[Measure]]:
        """Return the measures whose totals or sums it reads, by table, from the version that was planned."""
        return {}

    def effort(self, place: _Place) -> int:  # noqa: ARG002 - nothing
        """Return the cost of its work other than reading: the number of bytes that are read in the same time."""
        return 0

    def bound(self, place: _Place) -> str:  # noqa: ARG002 - not so much
        """Return what may be too large in its answer, with the largest possible size; "" if nothing can be."""
        return ""

    @abstractmethod
    def work(self, place: _Place, *, pad: bool) -> Work: ...

    @abstractmethod
    def uses(self, place: _Place) -> Uses: ...

    @abstractmethod
    def disclosures(self, place: _Place, *, pad: bool) -> Disclosures: ...

    @abstractmethod
    def answer(self, setting: WayContext[_Place]) -> GroupSums: ...
