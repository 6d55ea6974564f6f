"""Query cut in three: the plain service's part, the moments of encrypted arguments, and the final SQL.

    SELECT ward, AVG(age) / 2 AS half FROM patients WHERE bed > 3 GROUP BY ward HAVING COUNT(*) > 5
           keys  encrypted: avg of argument age             where          keys          final SQL

The final SQL runs in the client over a table with one row a group: keys k0.., its size n, plain aggregates p0.., and
encrypted ones e0.. .

Where WHERE or a key reads a column that is not plain, only the client may know which rows are meant: it selects and
groups them, the plain service gets nothing, and sums over plain columns are encrypted with the rest.

What does not follow from sums this machine computes, in DuckDB, over the local table: single outputs, HAVING or ORDER
BY terms (`l0..`), or the query as a whole, which then has a LocalPlan and sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cleave.aggregates.columns import Domain
from cleave.aggregates.group import EncryptedAggregate
from cleave.sql.nodes import Node
from cleave.sql.order import follows_order, shows_order
from cleave.table.types import range_of

if TYPE_CHECKING:
    from cleave.sql.read import Statement


@dataclass(frozen=True, slots=True)
class Argument:
    """Expression that reads an encrypted column; the client computes it row by row and encrypts the results.

    `decimals`: digits after the point of exact types (integers and booleans 0), None for others. `lower` and `upper`
    (both included; integers in the last decimal for exact types; None where nothing is known) and `nullable` follow
    from what the schema declares of the columns; rows outside them are refused before anything is encrypted. An
    argument that is only counted may be of any type.
    """

    sql: str
    type: str
    decimals: int | None
    columns: tuple[str, ...]
    counted: bool = False  # nothing but COUNT asks for it
    lower: int | float | None = None
    upper: int | float | None = None
    nullable: bool = True

    @property
    def domain(self) -> Domain:
        """Return the range of its values."""
        if self.counted or self.decimals is None:
            low = -math.inf if self.lower is None else float(self.lower)
            high = math.inf if self.upper is None else float(self.upper)
            return Domain(None, nullable=self.nullable, low=low, high=high)
        least, largest = range_of(self.type)
        return Domain(
            self.decimals,
            least if self.lower is None else max(least, math.floor(self.lower)),
            largest if self.upper is None else min(largest, math.ceil(self.upper)),
            self.nullable,
        )


@dataclass(frozen=True, slots=True)
class PlainAggregate:
    """`parts` are computed by the service, the aggregate itself first.

    `combine` is SQL that merges the answers for several parts of the rows: {0}, {1}, ... are the parts' columns, and
    {mean} is a column with the SQL `weighted_mean`, evaluated for each part. None: they cannot be merged.
    """

    sql: str
    type: str
    parts: tuple[str, ...]
    part_types: tuple[str, ...]
    combine: str | None
    weighted_mean: str | None
    exact: bool  # DuckDB gives the same value for any order of rows
    certificate: tuple[int, int] | None = None  # see cleave.sql.plain.witnesses: places of two more aggregates

    @property
    def decomposable(self) -> bool:
        return self.combine is not None


@dataclass(frozen=True, slots=True)
class LocalAggregate:
    """An expression of aggregates and keys that DuckDB computes locally for every group of the rows WHERE selects."""

    sql: str
    type: str
    columns: tuple[str, ...]
    exact: bool  # DuckDB gives the same value for any order of rows, but for those that its ORDER BY leaves equal
    ordered: bool  # rows are read in their order for it
    reason: str


Source = Literal["key", "plain", "encrypted", "local", "hidden"]
"""Source of an output: a group's key, the plain service, ciphertexts if any are inside, or this machine."""


@dataclass(frozen=True, slots=True)
class Output:
    """`reason`: why it is computed on this machine, where that is for want of a service that could."""

    name: str
    source: Source
    reason: str = ""


def reasons_of(outputs: Iterable[tuple[str, str]]) -> list[str]:
    """Return sentences on why outputs, by name and reason, are computed on this machine: one for each reason.

    Names are given where there are several reasons; an empty reason gives no sentence.
    """
    names: dict[str, list[str]] = {}
    for name, reason in outputs:
        if reason:
            names.setdefault(reason, []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"{', '.join(several)}: {reason}" for reason, several in names.items()]


@dataclass(frozen=True, slots=True)
class Final:
    """One output over the table of groups: its SQL and the places in `QueryPlan.encrypted`, `.plain`, `.local`.

    An output that reads a local aggregate reads nothing else, or none that is encrypted.
    """

    sql: str
    type: str
    encrypted: tuple[int, ...]
    plain: tuple[int, ...]
    operations: int  # nodes of the expression: each may round
    local: tuple[int, ...] = ()

    @property
    def is_bare(self) -> bool:
        return self.sql in ([f"e{i}" for i in self.encrypted] or [f"p{i}" for i in self.plain])


@dataclass(frozen=True, slots=True)
class Counting:
    """Facts of rows that a threshold counts by: `entity`: columns that name whom a row is about, none where rows are
    counted; `party`: the column that says whose each row is, "" where all are the owner's. `reason`: why a stored
    table is read as it is under the threshold.
    """

    entity: tuple[str, ...] = ()
    party: str = ""
    reason: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.entity, *([self.party] if self.party else []))


@dataclass(frozen=True)
class QueryPlan:
    """All SQL is DuckDB's, its identifiers quoted and spelled as in the schema, without the table's name.

    `sets`: by place in `keys`, the keys of each set of groups that is answered (GROUPING SETS, ROLLUP, CUBE); None: one
    set, of all keys. Rows are always grouped by all keys, and their groups are combined on this machine. `groupings`:
    the keys of each GROUPING(...), column g0.. of the table of groups. `conditions`: parts of `where`, by
    `cleave.sql.parse.conditions_of`. `maybe_null`: SQL of the arguments of aggregates that the schema lets be NULL, in
    their order; `reads_null`: by column of the table of groups (p0, e0, l0), the places of those that it reads.
    `printing`: aggregates that show single values of a group. `counting`: how the rows of this machine are counted for
    a threshold; None: they are not.
    """

    statement: Statement
    table: str
    where: str | None
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    selecting: tuple[str, ...]  # the columns WHERE and the keys read
    plain_columns: tuple[str, ...]  # all that is sent in the clear, none where `selecting` holds an encrypted column
    arguments: tuple[Argument, ...]
    encrypted: tuple[EncryptedAggregate, ...]
    plain: tuple[PlainAggregate, ...]
    outputs: tuple[Output, ...]
    finals: tuple[Final, ...]  # one an output
    having: str | None
    order_by: tuple[str, ...]
    limit: int | None
    offset: int
    local: tuple[LocalAggregate, ...] = ()
    otherwise: QueryPlan | None = None  # where the rows of a group go to the plain service in several requests
    sets: tuple[tuple[int, ...], ...] | None = None
    groupings: tuple[tuple[int, ...], ...] = ()
    conditions: tuple[Node, ...] = ()
    maybe_null: tuple[str, ...] = ()
    reads_null: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    printing: tuple[str, ...] = ()
    counting: Counting | None = None

    def counted_by(self, counting: Counting) -> QueryPlan:
        """Return the plan with its rows counted for a threshold."""
        otherwise = self.otherwise and self.otherwise.counted_by(counting)
        return replace(self, counting=counting, otherwise=otherwise)

    @property
    def domains(self) -> list[Domain]:
        """Return the domains of `arguments`."""
        return [each.domain for each in self.arguments]

    @property
    def asks_plain(self) -> bool:
        """Return whether the plain service has anything to answer."""
        return bool(self.plain_columns or self.plain)

    @property
    def sends_nothing(self) -> bool:
        """Return whether nothing is sent: then neither key nor transport is needed."""
        return not self.asks_plain and not self.encrypted


@dataclass(frozen=True)
class LocalPlan:
    """Query that this machine's DuckDB answers as a whole, with its own SQL; nothing of it is sent.

    `reads`: by name, the columns that the question may read of the table and of those it names besides. `reason`: why
    it could not be cut; `hint`: what the services could answer instead. `inner`: by name, the tables that are answers
    themselves; `over_inner`: the statement over them. `conditions`: of one SELECT over `table` alone.
    """

    statement: Statement
    table: str
    outputs: tuple[Output, ...]
    types: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]]
    reason: str
    hint: str
    inner: Mapping[str, QueryPlan] = field(default_factory=dict)
    over_inner: Statement | None = None
    conditions: tuple[Node, ...] = ()

    @property
    def runs(self) -> str:
        """The SQL that DuckDB runs."""
        return (self.over_inner or self.statement).sql

    @property
    def ordered(self) -> bool:
        """Check whether the answer depends on the order of rows."""
        return follows_order(self.statement.tree)

    @property
    def in_file_order(self) -> bool:
        """Check whether the answer, or the order of its rows, depends on the order of the rows it reads."""
        return self.ordered or shows_order(self.statement.tree)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of `table`."""
        return self.reads[self.table]

    @property
    def sends_nothing(self) -> bool:
        return True
