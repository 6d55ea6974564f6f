"""Decides which aggregates of a question services compute, and which only this machine can."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from cleave.aggregates import AGGREGATES
from cleave.aggregates.group import Aggregate
from cleave.sql.bounds import Types, bounds_of
from cleave.sql.catalog import Catalog
from cleave.sql.functions import FOLLOWS_ROW_ORDER
from cleave.sql.nodes import NULL, Call, Case, Node, integer, shown, write
from cleave.sql.parse import Select
from cleave.sql.plain import Decomposition, decompose
from cleave.sql.plan import Argument, FigureSource
from cleave.sql.ranges import Range
from cleave.sql.refusals import SUPPORTED, OnlyLocal, Uncut, encodable, not_declared, over, selected_by, stays_local
from cleave.sql.resolve import columns_of, has_aggregate
from cleave.table.schema import Column, Kind, Schema
from cleave.table.types import decimals_of
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS


class HasSums(Protocol):
    """What a stored table can answer without its rows. Most methods return "" if it can, or the reason why rows are
    needed.
    """

    @property
    def counts(self) -> FigureSource:
        """Where row counts come from if no rows are fetched."""
        ...

    def groups(self, selecting: Sequence[str]) -> str:
        """Why groups and their row counts need rows; "" if not. `selecting`: the columns that WHERE and keys read."""
        ...

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[tuple[Node, Argument]], types: Types) -> str:
        """Why an aggregate over such groups needs rows; "" if not. `arguments` may read any columns that are
        not plain.
        """
        ...

    def plain(self, selecting: Sequence[str]) -> str:
        """Why an aggregate of plain columns, in groups of plain columns, needs rows; "" if not."""
        ...

    def is_kept(self, column: str) -> bool:
        """True if a column's values are known without its rows."""
        ...


class Judge:
    """`sums`: what a stored table can answer without its rows.

    `divided`: the plain service gets the rows of a group in several requests.
    """

    def __init__(
        self,
        select: Select,
        schema: Schema,
        catalog: Catalog,
        sums: HasSums | None = None,
        *,
        divided: bool = False,
    ) -> None:
        self._schema = schema
        self._catalog = catalog
        self._sums = sums
        self._divided = divided
        self._sets = select.sets
        self.selecting = [*select.grouped, *([select.where] if select.where is not None else [])]
        # a non-plain column in WHERE or GROUP BY, if any: the plain service must not learn which rows it selects
        read = (column for node in self.selecting for column in columns_of(node, schema))
        self.hidden = next((column for column in read if column.kind != Kind.PLAIN), None)
        names = self.names(self.selecting)
        self.groups_from_rows = sums.groups(names) if sums else ""  # why groups must be made from rows
        self.no_plain = sums.plain(names) if sums else ""  # why the plain service is not used for a stored table
        self._judged: dict[str, OnlyLocal | None] = {}  # aggregate's SQL -> why no service computes it; None: one does

    @property
    def counts_are_noisy(self) -> bool:
        """Check whether numbers of rows have noise, so that they are figures as sums are."""
        return self._sums is not None and self._sums.counts == "noisy"

    def names(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """The columns that expressions read, in the schema's order."""
        read = {column.name for node in nodes for column in columns_of(node, self._schema)}
        return tuple(column.name for column in self._schema.columns if column.name in read)

    def require_allowed(self) -> None:
        """Raise Uncut if the plain service cannot compute WHERE or a key, unless it is not needed."""
        for expression in self.selecting if self.hidden is None and not self.no_plain else ():
            if unknown := self._not_allowed(expression):
                if self._sums is None:
                    raise Uncut(unknown)
                self.no_plain = unknown
                return

    def _not_allowed(self, node: Node) -> str:
        unknown = self._catalog.functions(write(node)) - ALLOWED_FUNCTIONS
        return f"the plain service does not compute {min(unknown)}()" if unknown else ""

    def encrypted_in(self, node: Node) -> str | None:
        """Name of the first encrypted column that `node` reads."""
        return next((c.name for c in columns_of(node, self._schema) if c.kind is Kind.ENCRYPTED), None)

    def _unseen_in(self, node: Node) -> Column | None:
        """The first encrypted column that `node` reads, else the first one that is not plain."""
        unseen = [column for column in columns_of(node, self._schema) if column.kind is not Kind.PLAIN]
        return min(unseen, key=lambda column: column.kind is not Kind.ENCRYPTED, default=None)

    def is_summed(self, call: Call) -> bool:
        """True if encrypted sums answer the aggregate, not the plain service."""
        return self.hidden is not None or self._unseen_in(call) is not None or self._counts_cells(call)

    def _counts_cells(self, call: Call) -> bool:
        """True for a row count of cells of a stored table, which needs no service."""
        sums = self._sums
        if sums is None or self.groups_from_rows or call.name != "count" or call.distinct or call.order:
            return False
        return all(sums.is_kept(column.name) for column in columns_of(call, self._schema))

    def why_local(self, call: Call) -> OnlyLocal | None:
        """Why no service computes the aggregate; None if one does."""
        sql = write(call)
        if sql not in self._judged:
            self._judged[sql] = self._judge(call)
        return self._judged[sql]

    def _judge(self, call: Call) -> OnlyLocal | None:
        if any(map(has_aggregate, call.operands)):
            hint = "query the inner one by itself"
            raise QueryRefused("an aggregate cannot be inside another aggregate", hint=hint, code="misplaced")
        if call == Call("count") and not self.counts_are_noisy:
            return None
        for column in columns_of(call, self._schema):
            summed = self._sums is not None and self._sums.is_kept(column.name)
            if column.kind in (Kind.SEALED, Kind.LOCAL) and not summed:
                return stays_local(column)
        if self.is_summed(call):
            return OnlyLocal(self.groups_from_rows) if self.groups_from_rows else self._why_not_summed(call)
        if self.no_plain:
            return OnlyLocal(self.no_plain)
        if call.name in FOLLOWS_ROW_ORDER and not call.order:
            return OnlyLocal(
                f"{call.name.upper()} depends on the order of rows, which are shuffled before they are sent",
                hint=f"order inside the call: {call.name.upper()}(x ORDER BY y); ANY_VALUE(x) takes any",
            )
        return self._why_not_plain(call)

    def _why_not_summed(self, call: Call) -> OnlyLocal | None:
        name, column = call.name.upper(), self._unseen_in(call)
        why = over(column) if column is not None else selected_by(self.hidden) if self.hidden is not None else ""
        declared = AGGREGATES.get(name)
        if declared is None:
            return not_declared(name, why)
        if len(call.arguments or (NULL,)) != declared.arity:
            number = "one argument" if declared.arity == 1 else f"{declared.arity} arguments"
            raise QueryRefused(f"{name} {why}: takes {number}", code="no_match", name=name)
        if call.distinct:
            return OnlyLocal(
                f"{name}(DISTINCT ...) {why}: equal values cannot be recognised under encryption", hint=SUPPORTED
            )
        if call.order:
            return OnlyLocal(f"ORDER BY inside {name} {why}", hint="leave it out: the order does not change the result")
        nodes = arguments_of(call)
        arguments = [(each, replace(self.argument(each), counted=not declared.moments)) for each in nodes]
        for _, each in arguments if declared.moments else ():
            if (reason := encodable(each.type)) is not None:
                return reason
        lacking = self._sums.aggregate(declared, arguments, self._catalog.types) if self._sums is not None else ""
        return OnlyLocal(lacking) if lacking else None

    def _why_not_plain(self, call: Call) -> OnlyLocal | None:
        if unknown := self._not_allowed(call):
            return OnlyLocal(unknown)
        if self.decomposed(call).combine is None and self._sets is not None:
            reason = f"{shown(call)} cannot be combined from smaller groups, as sets of keys need"
            return OnlyLocal(reason, hint="run one query for each set of keys")
        if self.decomposed(call).combine is None and self._divided:
            return OnlyLocal(
                f"{shown(call)} cannot be combined from several requests, and the plain columns need several"
            )
        return None

    def argument(self, node: Node) -> Argument:
        sql = write(node)
        (type_,) = self._catalog.types([sql])
        decimals = decimals_of(type_)
        bounds = bounds_of(node, type_, self._schema, self._catalog.types)
        names = tuple(column.name for column in columns_of(node, self._schema))
        lower, upper = _ends(bounds.range, decimals)
        return Argument(sql, type_, decimals, names, lower=lower, upper=upper, nullable=bounds.nullable)

    def decomposed(self, call: Call) -> Decomposition:
        return decompose(call, *self._catalog.types([write(call)]))


def arguments_of(call: Call) -> list[Node]:
    """The arguments of an encrypted aggregate. Where its FILTER is not true they are NULL."""
    given = call.arguments or (integer(1),)  # COUNT(*)
    return [each if call.filter is None else Case(((call.filter, each),), NULL) for each in given]


def _ends(range_: Range | None, decimals: int | None) -> tuple[int | float, int | float] | tuple[None, None]:
    """The bounds of a range; for exact types in units of the last decimal."""
    if range_ is None:
        return None, None
    if decimals is None:
        return float(range_.lower), float(range_.upper)  # they are doubles already, rounded outwards
    lower = math.ceil(range_.lower * 10**decimals)
    return lower, max(lower, math.floor(range_.upper * 10**decimals))
