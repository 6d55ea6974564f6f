"""Names: columns in the schema's spelling, aliases replaced by what they stand for, ordinals by the item they count.

DuckDB's order, tried out: a column comes before an alias, except as a whole ORDER BY term; in HAVING a group key comes
before an alias, and that before other columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from sqlglot import exp

from cleave.sql.dialect import column, identity, write
from cleave.sql.encryptable import stays_here
from cleave.sql.functions import AGGREGATE_NAMES, NO_ROWID, NO_ROWID_HINT, TODAY, UNSTEADY, WEIGHTED_MEANS
from cleave.sql.parse import MAIN, Item, Question, unsteady
from cleave.sql.uncut import no_service
from cleave.table.schema import Column, Kind, Schema
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import QueryRefused

Derived = Callable[[str], exp.Expression | None]
_NAMED = 20  # columns a hint names at most


@dataclass(frozen=True, slots=True)
class Resolved:
    """The clauses of a question, in which every name is a column of the schema, quoted and spelled as there."""

    items: tuple[Item, ...]
    where: exp.Expression | None
    keys: tuple[exp.Expression, ...]
    sets: tuple[tuple[int, ...], ...] | None  # see Question
    having: exp.Expression | None
    orderings: tuple[exp.Ordered, ...]


def resolve(
    question: Question,
    schema: Schema,
    settle: Callable[[str], exp.Expression],
    derived: Derived | None = None,
    *,
    cloud_only: bool = False,
) -> Resolved:
    """`settle` gives the literal that a name such as current_date now stands for, `derived` what a derived column does.

    Raises QueryRefused for unknown names, with `cloud_only` also for columns that no service computes on.
    """
    return _Resolver(question, schema, settle, derived or (lambda _: None), cloud_only).resolve()


def columns_of(node: exp.Expression, schema: Schema) -> list[Column]:
    """The columns a resolved expression reads, once each."""
    return [schema.column(name) for name in dict.fromkeys(found.name for found in node.find_all(exp.Column))]


def call_of(node: exp.Expression) -> exp.Anonymous:
    """The call of an aggregate that may have a FILTER."""
    return cast(exp.Anonymous, node.this if isinstance(node, exp.Filter) else node)


def is_aggregate(node: exp.Expression) -> bool:
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.Anonymous) and call.name in AGGREGATE_NAMES


def has_aggregate(node: exp.Expression) -> bool:
    return any(is_aggregate(each) for each in node.find_all(exp.Anonymous))


def is_grouping(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name in ("grouping", "grouping_id")


class _Resolver:
    def __init__(
        self,
        question: Question,
        schema: Schema,
        settle: Callable[[str], exp.Expression],
        derived: Derived,
        cloud_only: bool,
    ) -> None:
        self._derived = derived
        self._names = schema.names
        self._question = question
        self._cloud_only = cloud_only
        self._settle = settle
        self._columns = {each.name.lower(): each for each in schema.columns}
        self._qualifiers = {(question.alias or question.table).lower()}
        self._items: list[Item] = []
        self._aliases: dict[str, exp.Expression] = {}
        self._keys: frozenset[str] = frozenset()

    def resolve(self) -> Resolved:
        question = self._question
        for item in question.items:
            expression = self._expand(item.expression, self._column_first)
            self._items.append(Item(expression, item.name))
            if item.name is not None:
                self._aliases.setdefault(item.name.lower(), expression)
        where = self._expand(question.where, self._column_first) if question.where else None
        keys, sets = self._group_keys()
        self._keys = frozenset(identity(key) for key in keys)
        having = self._expand(question.having, self._key_first) if question.having else None
        orderings = tuple(each for term in question.orderings for each in self._ordering(term))
        return Resolved(tuple(self._items), where, keys, sets, having, orderings)

    def _group_keys(self) -> tuple[tuple[exp.Expression, ...], tuple[tuple[int, ...], ...] | None]:
        written = self._question.keys
        if written is None:
            keys = [item.expression for item in self._items if not has_aggregate(item.expression)]
            if len(keys) < len(self._items) and not any(key.find(exp.Column) for key in keys):
                keys = []  # constants beside aggregates: one group even of no rows
        else:
            keys = [self._ordinal(key, "GROUP BY") or self._expand(key, self._column_first) for key in written]
        different = {identity(key): key for key in keys}
        if self._question.sets is None:
            return tuple(different.values()), None
        if len(different) < len(keys):  # `a` and `1`, which is `a`: in each set DuckDB shows only one of the two
            raise no_service("sets of keys in which one key is written in two ways", "write it the same way throughout")
        places = {name: place for place, name in enumerate(different)}
        sets = tuple(tuple(sorted({places[identity(keys[i])] for i in each})) for each in self._question.sets)
        return tuple(different.values()), None if sets == (tuple(range(len(different))),) else sets

    def _ordering(self, term: exp.Ordered) -> Iterator[exp.Ordered]:
        if isinstance(term.this, exp.Var) and term.this.name.upper() == "ALL":
            terms: Sequence[exp.Expression] = [item.expression for item in self._items]
        else:
            whole = term.this.unnest()  # DuckDB opens the brackets around a whole term: (2) is an ordinal
            ordinal = self._ordinal(whole, "ORDER BY")
            alias = self._alias(whole)
            terms = [ordinal or alias or self._expand(whole, self._column_first)]
        for expression in terms:
            ordered = term.copy()
            ordered.set("this", expression.copy())
            yield ordered

    def _ordinal(self, node: exp.Expression, clause: str) -> exp.Expression | None:
        if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
            return None
        number = int(node.name)
        if not 1 <= number <= len(self._items):
            raise QueryRefused(f"{clause} {number}: there are {len(self._items)} select items, counted from 1")
        return self._items[number - 1].expression

    def _alias(self, node: exp.Expression) -> exp.Expression | None:
        if isinstance(node, exp.Column) and not node.table:
            return self._aliases.get(node.name.lower())
        return None

    def _expand(self, node: exp.Expression, choose: Callable[[exp.Column], exp.Expression | None]) -> exp.Expression:
        root = exp.Paren(this=node.copy())  # so that the outermost node has a parent to be replaced in
        for found in list(root.find_all(exp.Column)):
            found.replace(choose(found) or self._unknown(found))
        for each in root.walk():
            each.comments = None
            if isinstance(each, exp.Anonymous):
                each.set("this", each.name.lower())
        for each in list(root.find_all(exp.Anonymous)):
            if each.name in TODAY and not each.expressions:
                each.replace(self._settle(TODAY[each.name]))
            elif each.name in WEIGHTED_MEANS and len(each.expressions) == 2 and not isinstance(each.parent, exp.Filter):
                each.replace(_weighted_mean(*each.expressions))
        expanded: exp.Expression = root.this.pop()
        return expanded

    def _column_first(self, found: exp.Column) -> exp.Expression | None:
        return self._column(found) or _bracketed(self._alias(found))

    def _key_first(self, found: exp.Column) -> exp.Expression | None:
        known = self._column(found)
        if known is not None and (identity(known) in self._keys or _in_aggregate(found)):
            return known
        return _bracketed(self._alias(found)) or known

    def _column(self, found: exp.Column) -> exp.Expression | None:
        schema_name = found.text("db").lower()
        is_other_schema = schema_name and (schema_name != MAIN or self._question.alias)
        if (
            found.args.get("catalog")
            or is_other_schema
            or (found.table and found.table.lower() not in self._qualifiers)
        ):
            raise QueryRefused(f"there is no table or field for {write(found)}", hint="write the column's name alone")
        known = self._columns.get(found.name.lower())
        if known is None:
            return self._derived(found.name)
        if self._cloud_only and known.kind in (Kind.SEALED, Kind.LOCAL):
            raise stays_here(known)
        return column(known.name)

    def _spelled(self, name: str) -> str:
        return next((each for each in self._names if each.lower() == name), name)

    def _unknown(self, found: exp.Column) -> exp.Expression:
        name = found.name
        if name.lower() == "rowid":
            raise QueryRefused(NO_ROWID, hint=NO_ROWID_HINT)
        if name.lower() in TODAY and not found.this.quoted:
            return self._settle(TODAY[name.lower()])
        if name.lower() in UNSTEADY:
            raise unsteady(name)
        near = difflib.get_close_matches(name.lower(), [*map(str.lower, self._names), *self._aliases], n=1)
        hints = []
        if near:
            hints.append(f"did you mean {self._spelled(near[0])!r}?")
        if found.this.quoted:
            hints.append("text goes in single quotes")
        if not hints:
            names = ", ".join(self._names[:_NAMED])
            hints.append(f"the schema names {names}{', ...' if len(self._names) > _NAMED else ''}, and nothing else")
        hint = "; ".join(hints)
        raise QueryRefused(f"there is no column {name!r}", hint=hint)


def _in_aggregate(node: exp.Expression) -> bool:
    call = node.find_ancestor(exp.Anonymous)
    while call is not None:
        if call.name.lower() in AGGREGATE_NAMES:
            return True
        call = call.find_ancestor(exp.Anonymous)
    return False


def _weighted_mean(value: exp.Expression, weight: exp.Expression) -> exp.Expression:
    """What DuckDB's macro stands for, so that each of its sums goes where its columns are."""

    def total(of: exp.Expression) -> exp.Anonymous:
        return exp.Anonymous(this="sum", expressions=[of])

    present = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))
    weights = exp.Case(ifs=[exp.If(this=present, true=weight.copy())], default=exp.Literal.number(0))
    products = exp.Mul(this=exp.Paren(this=value.copy()), expression=exp.Paren(this=weight.copy()))
    return exp.Paren(this=exp.Div(this=total(products), expression=total(weights)))


def _bracketed(node: exp.Expression | None) -> exp.Expression | None:
    return exp.Paren(this=node.copy()) if node is not None else None
