"""A query cut in three: the plain service's part, the moments of encrypted arguments, and the final SQL.

  SELECT ward, AVG(age) / 2 AS half FROM patients WHERE bed > 3 GROUP BY ward HAVING COUNT(*) > 5
         keys  encrypted: avg of argument age             where          keys          final SQL

The final SQL runs on the client over a table with one row per group: keys k0.., its size n, plain aggregates p0.., and
encrypted aggregates e0.. .

If WHERE or a key reads a non-plain column, only the client may know which rows are selected. It selects and groups
them; the plain service gets nothing, and sums over plain columns are encrypted too.

DuckDB on this machine computes what does not follow from sums, over the local table: single outputs, HAVING or ORDER BY
terms (`l0..`), or the whole query, which then has a LocalPlan and sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from cleave.aggregates.columns import Domain
from cleave.aggregates.group import EncryptedAggregate
from cleave.sql.nodes import Node
from cleave.sql.order import follows_order, shows_order, takes_any
from cleave.table.types import range_of

if TYPE_CHECKING:
    from cleave.sql.read import Statement


@dataclass(frozen=True, slots=True)
class Argument:
    """An expression over an encrypted column. The client computes it for each row and encrypts the results.

    `decimals`: digits after the point of exact types (0 for integers and booleans), None for others. `lower` and
    `upper` are inclusive; integers in the last decimal for exact types; None if unknown. They and `nullable` follow
    from the schema. Rows that break them are refused before anything is encrypted. An argument that is only counted may
    have any type.
    """

    sql: str
    type: str
    decimals: int | None
    columns: tuple[str, ...]
    counted: bool = False  # only used by COUNT
    lower: int | float | None = None
    upper: int | float | None = None
    nullable: bool = True

    @property
    def domain(self) -> Domain:
        """The range of its values."""
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
    """`parts`: the expressions that the service computes; the first is the aggregate itself.

    `combine`: SQL that merges the answers for several parts of the rows. {0}, {1}, ... are columns of `parts`; {mean}
    is a column computed by `weighted_mean` for each part of the rows. None: the answers cannot be merged.
    """

    sql: str
    type: str
    parts: tuple[str, ...]
    part_types: tuple[str, ...]
    combine: str | None
    weighted_mean: str | None
    exact: bool  # DuckDB neither rounds nor depends on the order of rows
    certificate: tuple[int, int] | None = None  # indices of two more aggregates, see cleave.sql.plain.witnesses
    estimated: bool = False  # DuckDB approximates it

    @property
    def has_no_bound(self) -> bool:
        """True if the value may differ from the query's exact one, and nobody knows by how much."""
        return self.estimated or not self.exact

    @property
    def decomposable(self) -> bool:
        return self.combine is not None


@dataclass(frozen=True, slots=True)
class LocalAggregate:
    """An expression of aggregates and keys that DuckDB on this machine computes for each group of selected rows."""

    sql: str
    type: str
    columns: tuple[str, ...]
    # neither rounded nor approximated; independent of the order of rows, except those that its ORDER BY leaves equal
    exact: bool
    ordered: bool  # it must read rows in their order
    reason: str


FigureSource = Literal["key", "plain", "encrypted", "noisy", "local", "hidden"]
"""Source of an output: a group's key, the plain service, ciphertexts if any are inside, the numbers of a noisy release,
or this machine.
"""


@dataclass(frozen=True, slots=True)
class Output:
    """`reason`: why this machine computes it, if no service can."""

    name: str
    source: FigureSource
    reason: str = ""

    @property
    def has_bounds(self) -> bool:
        """Check whether its figures have bounds: how far the value may be from the exact one, or 95% intervals."""
        return self.source in ("encrypted", "noisy")


def reasons_of(outputs: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences on why this machine computes outputs, from (name, reason): one sentence per reason.

    Names are only given if there are several reasons. An empty reason gives no sentence.
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
    """One output over the group table: its SQL, and indices in the plan's `encrypted`, `plain` and `local`.

    An output with a local aggregate reads no encrypted one.
    """

    sql: str
    type: str
    encrypted: tuple[int, ...]
    plain: tuple[int, ...]
    operations: int  # nodes of the expression; each may round
    local: tuple[int, ...] = ()
    rounded: bool = False  # DuckDB may round while it computes `sql`

    @property
    def is_bare(self) -> bool:
        return self.sql in ([f"e{i}" for i in self.encrypted] or [f"p{i}" for i in self.plain])


@dataclass(frozen=True, slots=True)
class Counting:
    """How a threshold counts rows. `entity`: columns that identify whom a row is about; empty: rows are counted.
    `party`: the column with the party of each row; "": all rows are the owner's. `reason`: why a stored table's rows
    must be read for it.
    """

    entity: tuple[str, ...] = ()
    party: str = ""
    reason: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.entity, *([self.party] if self.party else []))


class Cut(Protocol):
    """A question as it is answered: by sums over groups (QueryPlan), or as a whole (LocalPlan).

    `reason`: the first reason why rows must be read here, or "". `computed_here`: what this machine computes, with
    reasons; HAVING and ORDER BY stand for their terms. `set_count`: sets of keys that groups are combined for.
    """

    @property
    def statement(self) -> Statement: ...
    @property
    def table(self) -> str: ...
    @property
    def outputs(self) -> tuple[Output, ...]: ...
    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def conditions(self) -> tuple[Node, ...]: ...
    @property
    def inner(self) -> Mapping[str, QueryPlan]: ...
    @property
    def counting(self) -> Counting | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def hint(self) -> str: ...
    @property
    def computed_here(self) -> tuple[Output, ...]: ...
    @property
    def set_count(self) -> int: ...
    @property
    def in_file_order(self) -> bool: ...
    @property
    def sends_nothing(self) -> bool: ...

    def sums(self) -> QueryPlan | None:
        """The sums over groups that answer it; None if DuckDB answers it as a whole."""
        ...

    def whole(self) -> LocalPlan | None:
        """What DuckDB on this machine answers as a whole; None if sums do."""
        ...

    def rows(self) -> Mapping[str, Sequence[str]]:
        """By table, the columns of the rows that this machine must read to group, compute and count."""
        ...


@dataclass(frozen=True)
class QueryPlan:
    """A query that services answer, at least in part. All SQL is DuckDB's, with quoted identifiers spelled as in the
    schema, without the table's name.

    `sets`: for GROUPING SETS, ROLLUP and CUBE, the indices in `keys` of each set; None: one set of all keys. Rows are
    always grouped by all keys; this machine combines their groups. `groupings`: the keys of each GROUPING(...), column
    g0.. of the group table. `conditions`: conjuncts of `where`, from cleave.sql.parse. `maybe_null`: SQL of the
    aggregates' arguments that may be NULL, in order. `reads_null`: for each column of the group table (p0, e0, l0), the
    indices of those that it reads. `printing`: aggregates that show single values of a group. `counting`: how a
    threshold counts the rows on this machine; None: it does not.
    """

    statement: Statement
    table: str
    where: str | None
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    selecting: tuple[str, ...]  # columns that WHERE and the keys read
    plain_columns: tuple[str, ...]  # all columns sent in the clear; none if `selecting` has an encrypted column
    arguments: tuple[Argument, ...]
    encrypted: tuple[EncryptedAggregate, ...]
    plain: tuple[PlainAggregate, ...]
    outputs: tuple[Output, ...]
    finals: tuple[Final, ...]  # one per output
    having: str | None
    order_by: tuple[str, ...]
    limit: int | None
    offset: int
    local: tuple[LocalAggregate, ...] = ()
    otherwise: QueryPlan | None = None  # the plan if the rows of a group go to the plain service in several requests
    sets: tuple[tuple[int, ...], ...] | None = None
    groupings: tuple[tuple[int, ...], ...] = ()
    conditions: tuple[Node, ...] = ()
    maybe_null: tuple[str, ...] = ()
    reads_null: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    printing: tuple[str, ...] = ()
    counting: Counting | None = None

    def counted_by(self, counting: Counting) -> QueryPlan:
        """The plan with its rows counted for a threshold."""
        otherwise = self.otherwise and self.otherwise.counted_by(counting)
        return replace(self, counting=counting, otherwise=otherwise)

    def sums(self) -> QueryPlan:
        return self

    def whole(self) -> None:
        return None

    def rows(self) -> Mapping[str, Sequence[str]]:
        names = [*self.selecting, *(name for each in self.local for name in each.columns)]
        names += self.counting.columns if self.counting else ()
        return {self.table: list(dict.fromkeys(names))}

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(each.type for each in self.finals)

    @property
    def inner(self) -> Mapping[str, QueryPlan]:
        return {}

    @property
    def reason(self) -> str:
        reasons = [each.reason for each in self.local] + [each.reason for each in self.outputs]
        return next(filter(None, reasons), "")

    @property
    def hint(self) -> str:
        return ""

    @property
    def computed_here(self) -> tuple[Output, ...]:
        shown = {place for final in self.finals for place in final.local}
        reasons = dict.fromkeys(each.reason for place, each in enumerate(self.local) if place not in shown)
        others = [Output("HAVING or ORDER BY", "local", reason) for reason in reasons]
        return (*(each for each in self.outputs if each.reason), *others)

    @property
    def set_count(self) -> int:
        return 1 if self.sets is None else len(self.sets)

    @property
    def in_file_order(self) -> bool:
        return any(each.ordered for each in self.local)

    @property
    def domains(self) -> list[Domain]:
        return [each.domain for each in self.arguments]

    @property
    def asks_plain(self) -> bool:
        """True if the plain service computes something."""
        return bool(self.plain_columns or self.plain)

    @property
    def sends_nothing(self) -> bool:
        """True if nothing is sent: then neither key nor transport is needed."""
        return not self.asks_plain and not self.encrypted


@dataclass(frozen=True)
class LocalPlan:
    """A query that DuckDB on this machine answers as a whole, with its own SQL. Nothing of it is sent.

    `reads`: by table, the columns that the question may read. `reason`: why it could not be cut; `hint`: what services
    could answer instead. `inner`: by name, the tables that are answers themselves; `over_inner`: the statement over
    them. `conditions`: of one SELECT over `table` only. `rounds`: a result without DOUBLEs may follow
    from rounding (cleave.sql.rounding).
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
    rounds: bool = False

    def sums(self) -> None:
        return None

    def whole(self) -> LocalPlan:
        return self

    def rows(self) -> Mapping[str, Sequence[str]]:
        return self.reads

    @property
    def counting(self) -> Counting | None:
        return None

    @property
    def computed_here(self) -> tuple[Output, ...]:
        return tuple(each for each in self.outputs if each.reason)

    @property
    def set_count(self) -> int:
        return 1

    @property
    def runs(self) -> str:
        return (self.over_inner or self.statement).sql

    @property
    def ordered(self) -> bool:
        """True if the answer depends on the order of rows."""
        return follows_order(self.statement.tree)

    @property
    def has_bounds(self) -> bool:
        """False if the answer may have approximations, or any one of several values."""
        return not (self.rounds or takes_any(self.statement.tree))

    @property
    def in_file_order(self) -> bool:
        """True if the answer, or the order of its rows, depends on the order in which rows are read."""
        return self.ordered or shows_order(self.statement.tree)

    @property
    def sends_nothing(self) -> bool:
        return True
