"""Resolves names: columns to the schema's spelling, aliases to their expressions, ordinals to select items.

The order of precedence is DuckDB's, found by experiment. A column comes before an alias, except as a whole ORDER BY
term. In HAVING a group key comes before an alias, and an alias before other columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace

from cleave.sql.functions import AGGREGATE_NAMES, NO_ROWID, NO_ROWID_HINT, WEIGHTED_MEANS
from cleave.sql.nodes import Call, Case, ColumnRef, Constant, Node, Operator, Ordered, integer, write
from cleave.sql.parse import MAIN, Select, SelectItem, parse, unsteady
from cleave.sql.read import read_statement
from cleave.sql.refusals import no_service
from cleave.table.functions import TODAY, UNSTEADY
from cleave.table.schema import Column, Schema
from cleave_shared.errors import QueryRefused

_NAMED = 20  # columns that a hint names


def resolve(select: Select, schema: Schema, settle: Callable[[str], Node]) -> Select:
    """The query with every name replaced by the schema's quoted spelling, and with all keys and ORDER BY terms
    expanded.

    `settle` returns the literal for a name such as current_date. A derived column is replaced by its expression. Raises
    QueryRefused for unknown names.
    """
    return _Resolver(select, schema, settle).resolve()


def columns_of(node: Node, schema: Schema) -> list[Column]:
    """The columns that a resolved expression reads, without repetitions."""
    return [schema.column(name) for name in dict.fromkeys(column.name for column in node.find(ColumnRef))]


def is_aggregate(node: Node) -> bool:
    return isinstance(node, Call) and node.name in AGGREGATE_NAMES


def has_aggregate(node: Node) -> bool:
    return any(map(is_aggregate, node.walk()))


def is_grouping(node: Node) -> bool:
    return isinstance(node, Operator) and node.name == "GROUPING"


class _Resolver:
    def __init__(self, select: Select, schema: Schema, settle: Callable[[str], Node]) -> None:
        self._schema = schema
        self._names = schema.names
        self._select = select
        self._settle = settle
        self._derived = {each.name.lower(): each for each in reversed(schema.derived)}
        table = (select.alias or select.table).lower()
        # what may precede a column's name
        self._qualifiers = ([], [table]) if select.alias else ([], [table], [MAIN, table])
        self._items: list[SelectItem] = []
        self._aliases: dict[str, Node] = {}
        self._keys: frozenset[str] = frozenset()

    def resolve(self) -> Select:
        select = self._select
        for item in select.items:
            expression = self._expand(item.expression, self._column_first)
            self._items.append(SelectItem(expression, item.name))
            if item.name is not None:
                self._aliases.setdefault(item.name.lower(), expression)
        where = self._expand(select.where, self._column_first) if select.where else None
        keys, sets = self._group_keys()
        self._keys = frozenset(write(key) for key in keys)
        having = self._expand(select.having, self._key_first) if select.having else None
        if select.orders_all is not None:
            orderings = tuple(replace(select.orders_all, expression=item.expression) for item in self._items)
        else:
            orderings = tuple(self._ordering(term) for term in select.orderings)
        resolved = replace(select, items=tuple(self._items), where=where, keys=keys, sets=sets, having=having)
        return replace(resolved, orderings=orderings, orders_all=None)

    def _group_keys(self) -> tuple[tuple[Node, ...], tuple[tuple[int, ...], ...] | None]:
        written = self._select.keys
        if written is None:
            keys = [item.expression for item in self._items if not has_aggregate(item.expression)]
            if len(keys) < len(self._items) and not any(key.has(ColumnRef) for key in keys):
                keys = []  # constants beside aggregates: one group even of no rows
        else:
            keys = [self._ordinal(key, "GROUP BY") or self._expand(key, self._column_first) for key in written]
        different = {write(key): key for key in keys}
        if self._select.sets is None:
            return tuple(different.values()), None
        # "a" and "1" can be the same key; DuckDB then shows only one of them in each set
        if len(different) < len(keys):
            raise no_service("sets of keys in which one key is written in two ways", "write it the same way throughout")
        places = {name: place for place, name in enumerate(different)}
        sets = tuple(tuple(sorted({places[write(keys[i])] for i in each})) for each in self._select.sets)
        return tuple(different.values()), None if sets == (tuple(range(len(different))),) else sets

    def _ordering(self, term: Ordered) -> Ordered:
        whole = term.expression
        expression = self._ordinal(whole, "ORDER BY") or self._alias(whole) or self._expand(whole, self._column_first)
        return replace(term, expression=expression)

    def _ordinal(self, node: Node, clause: str) -> Node | None:
        if not isinstance(node, Constant) or (number := node.place) is None:
            return None
        if not 1 <= number <= len(self._items):
            raise QueryRefused(
                f"{clause}: must be the number of a select item, 1 to {len(self._items)}", code="no_place"
            )
        return self._items[number - 1].expression

    def _alias(self, node: Node) -> Node | None:
        if isinstance(node, ColumnRef) and len(node.path) == 1:
            return self._aliases.get(node.name.lower())
        return None

    def _expand(self, node: Node, choose: Callable[[ColumnRef], Node | None]) -> Node:
        def replacement(each: Node) -> Node | None:
            if isinstance(each, ColumnRef):
                return choose(each) or self._unknown(each)
            if not isinstance(each, Call):
                return None
            if each.name in TODAY and not each.arguments:
                return self._settle(TODAY[each.name])
            if each.name in WEIGHTED_MEANS and len(each.arguments) == 2 and each.filter is None:
                return _weighted_mean(*(self._expand(argument, choose) for argument in each.arguments))
            if is_aggregate(each) and choose == self._key_first:
                return self._expand(each, self._column_first)
            return None

        return node.replaced(replacement)

    def _column_first(self, column: ColumnRef) -> Node | None:
        return self._column(column) or self._alias(column)

    def _key_first(self, column: ColumnRef) -> Node | None:
        """Resolve a name in HAVING, outside aggregates."""
        resolved = self._column(column)
        if resolved is not None and write(resolved) in self._keys:
            return resolved
        return self._alias(column) or resolved

    def _column(self, column: ColumnRef) -> Node | None:
        *qualifier, name = column.path
        if [each.lower() for each in qualifier] not in self._qualifiers:
            path = ".".join(column.path)
            hint = "write the column's name alone"
            raise QueryRefused(f"there is no table or field for {path}", hint=hint, code="no_table", name=path)
        declared = self._schema.find(name)
        if declared is None:
            return self._expression(name)
        return ColumnRef((declared.name,))

    def _expression(self, name: str) -> Node | None:
        """The expression of a derived column; None if there is none of that name. Raises QueryRefused."""
        derived = self._derived.get(name.lower())
        if derived is None:
            return None
        try:
            select = parse(read_statement(f"SELECT {derived.sql} FROM t"), "t")
        except QueryRefused as error:
            raise QueryRefused(
                f"[derived.{derived.name}] sql: {error}", hint=error.hint, code=error.code, name=error.name
            ) from None
        return select.items[0].expression.replaced(
            lambda node: ColumnRef((self._schema.column(node.name).name,)) if isinstance(node, ColumnRef) else None
        )

    def _spelled(self, name: str) -> str:
        return next((each for each in self._names if each.lower() == name), name)

    def _unknown(self, column: ColumnRef) -> Node:
        name = column.name
        if name.lower() == "rowid":
            raise QueryRefused(NO_ROWID, hint=NO_ROWID_HINT, name=name)
        if name.lower() in TODAY and not column.quoted:
            return self._settle(TODAY[name.lower()])
        if name.lower() in UNSTEADY:
            raise unsteady(name)
        near = difflib.get_close_matches(name.lower(), [*map(str.lower, self._names), *self._aliases], n=1)
        if near:
            hint = f"did you mean {self._spelled(near[0])!r}?"
        else:
            names = ", ".join(self._names[:_NAMED])
            hint = f"the schema names {names}{', ...' if len(self._names) > _NAMED else ''}, and nothing else"
        raise QueryRefused(f"there is no column {name!r}", hint=hint, code="no_column", name=name)


def _weighted_mean(value: Node, weight: Node) -> Node:
    """DuckDB's macro for weighted means, expanded: each sum goes to the service of its columns."""
    weights = Case(((Operator("IS NOT NULL", (value,)), weight),), integer(0))
    return Call("/", (Call("sum", (Call("*", (value, weight)),)), Call("sum", (weights,))))
