"""Questions of gateway users without rows (docs/rules.md, rules G1 and G2), decided from statement and schema alone.

    SELECT ward, AVG(bill - paid) / 100 FROM visits WHERE year >= 2024 GROUP BY ward HAVING COUNT(*) > 20

G1. Figures are COUNT, SUM and AVG of stored numbers and of their linear combinations with constants, VARIANCE and
    STDDEV of one stored number, and COUNT(DISTINCT entity). Expressions over figures and keys see the answer after
    small groups are left out.
G2. One table. WHERE and keys name columns that the table is stored by, other than the entity; WHERE compares each with
    constants of its type.

Only what is listed here is answered. Nothing that is listed can fail because of a row: constants are cast here, and no
value that the schema allows overflows a step. No step rounds, for a rounded sum with a large constant is a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import duckdb

from cleave.sql.bounds import bounds_of
from cleave.sql.catalog import Catalog
from cleave.sql.functions import SET_RETURNING
from cleave.sql.nodes import Call, Case, Cast, ColumnRef, Constant, Node, Operator, write
from cleave.sql.parse import Select, parse
from cleave.sql.plan import Cut
from cleave.sql.ranges import Range, range_of_type
from cleave.sql.read import ExpressionReader, Statement, expression_of
from cleave.sql.refusals import Uncut, too_deep
from cleave.sql.resolve import has_aggregate, is_aggregate, resolve
from cleave.table.duck import private, tree_of
from cleave.table.schema import Column, Schema
from cleave.table.trees import Tree
from cleave.table.types import FLOATS, decimals_of, is_number, is_numeric
from cleave_shared.errors import QueryRefused

FIGURES: Final = "count sum avg mean var_pop var_samp variance stddev stddev_pop stddev_samp"
"""Aggregates, by DuckDB's names."""

STEPS: Final = "+ - *"
"""Operators of a linear combination; of a product one side is a constant."""

COMPARISONS: Final = "= <> < <= > >= IN BETWEEN ~~ !~~"
"""Operators between a column and constants; ~~ is LIKE."""

CONNECTIVES: Final = "AND OR NOT"
"""Operators between conditions."""

TESTS: Final = "IS_NULL IS_NOT_NULL"
"""Operators on a column alone."""

G1: Final = (
    "ask for COUNT, SUM or AVG of stored numbers, VARIANCE or STDDEV of one, or COUNT(DISTINCT) of people (rule G1)"
)
FITTING: Final = "ask for sums that fit their type for every value that the schema allows (rule G1)"
ONE_TABLE: Final = "ask for figures of one table (rule G2)"
HINT: Final = "docs/gateway.md lists what is answered"

_SPREADS: Final = frozenset(FIGURES.split()) - {"count", "sum", "avg", "mean"}
_LOGIC: Final = {"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR", "OPERATOR_NOT": "NOT"}
_COMPARED: Final = {
    **{"COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<", "COMPARE_GREATERTHAN": ">"},
    **{"COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHANOREQUALTO": ">=", "COMPARE_IN": "IN"},
    "COMPARE_BETWEEN": "BETWEEN",
}
_DATES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})
_MOST_ROWS: Final = 1 << 40  # rows of a sum that cannot overflow
_LARGEST_SUM: Final = 10**38 - 1  # units of a DECIMAL; sums of 64-bit integers are far smaller
_RANK: Final = re.compile(r"dense_rank\(\) OVER \(ORDER BY (.*) (?:ASC|DESC) NULLS (?:FIRST|LAST)\)", re.DOTALL)
_AT_ONCE: Final = 200  # constants


@dataclass(frozen=True, slots=True)
class Askable:
    """Questions about the table `name` by a user who knows the columns of `schema`. `by`: the columns that it is stored
    by. `entity`: the columns that identify whom a row is about.
    """

    name: str
    schema: Schema
    by: Sequence[str]
    entity: Sequence[str] = ()

    def admitted(self, statement: Statement) -> Statement:
        """The statement, with the constants of WHERE cast to their columns' types. Raises QueryRefused: with what the
        user may ask if it breaks a rule, or as planning does if no user could ask it.
        """
        try:
            parsed = parse(statement, self.name)
            with closing(Catalog(self.name, self.schema.columns)) as catalog:
                select = resolve(parsed, self.schema, catalog.settle)
                node = statement.tree["statements"][0]["node"]
                if where := node["where_clause"]:
                    with private() as connection:
                        node = {**node, "where_clause": _Where(self, statement, connection).condition(where)}
                self._require_keys(select)
                _SelectList(self, select, catalog).require()
        except Uncut:  # for anything that no service answers
            raise refused(self.shape) from None
        except RecursionError:
            raise too_deep() from None
        return statement.with_select(node)

    def is_key(self, name: str) -> bool:
        """True for a column that WHERE and GROUP BY may name."""
        is_stored_by = name.lower() in map(str.lower, self.by)
        return is_stored_by and not self.is_entity(name)

    def is_entity(self, name: str) -> bool:
        return name.lower() in map(str.lower, self.entity)

    @property
    def keys(self) -> str:
        """The user's columns that WHERE and GROUP BY may name; "" if there are none."""
        return ", ".join(each.name for each in map(self.schema.find, self.by) if each and self.is_key(each.name))

    @property
    def shape(self) -> str:
        """What to ask instead of rows, several tables and other clauses."""
        return f"ask for figures of one table, grouped or filtered by {self.keys} (rule G2)" if self.keys else ONE_TABLE

    @property
    def grouping(self) -> str:
        """What to ask instead of a query by other columns."""
        return f"group or filter by {self.keys} (rule G2)" if self.keys else "leave WHERE and GROUP BY out (rule G2)"

    @property
    def filtering(self) -> str:
        """What to ask instead of another condition."""
        tests = "=, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL"
        return f"compare {self.keys} with constants by {tests} (rule G2)" if self.keys else self.grouping

    def _require_keys(self, select: Select) -> None:
        for key in select.grouped:
            if not (isinstance(key, Constant) or (isinstance(key, ColumnRef) and self.is_key(key.name))):
                raise refused(self.grouping)


def is_bare(cut: Cut) -> bool:
    """True if only figures are computed from rows: an expression over them could fail in a hidden group."""
    sums = cut.sums()
    return sums is not None and all(_is_figure(each.sql) for each in sums.local)


def _is_figure(sql: str) -> bool:
    ordered = _RANK.fullmatch(sql)
    return is_aggregate(expression_of(ordered[1] if ordered else sql))


def refused(instead: str) -> QueryRefused:
    """`instead`: what to ask, and the rule."""
    return QueryRefused(f"you may see totals only: {instead}", hint=HINT, code="forbidden")


class _Where:
    """Casts the constants of WHERE to the types of the columns that they are compared with."""

    def __init__(self, askable: Askable, statement: Statement, connection: duckdb.DuckDBPyConnection) -> None:
        self._askable = askable
        self._read = ExpressionReader(statement.text)
        self._connection = connection

    def condition(self, tree: Tree) -> Tree:
        """Raises QueryRefused."""
        kind = str(tree["type"])
        if _LOGIC.get(kind) in CONNECTIVES.split():
            return {**tree, "children": [self.condition(each) for each in tree["children"]]}
        if kind.removeprefix("OPERATOR_") in TESTS.split():
            self._key(tree["children"][0])
            return tree
        name = str(tree["function_name"]) if kind == "FUNCTION" else _COMPARED.get(kind)
        if name not in COMPARISONS.split():
            raise refused(self._askable.filtering)
        match name:
            case "~~" | "!~~":
                return self._like(tree)
            case "IN":
                column, *values = tree["children"]
                return {**tree, "children": [column, *self._constants(values, self._key(column))]}
            case "BETWEEN":
                lower, upper = self._constants([tree["lower"], tree["upper"]], self._key(tree["input"]))
                return {**tree, "lower": lower, "upper": upper}
        side, other = ("left", "right") if tree["left"]["class"] == "COLUMN_REF" else ("right", "left")
        (constant,) = self._constants([tree[other]], self._key(tree[side]))
        return {**tree, other: constant}

    def _like(self, tree: Tree) -> Tree:
        names = [each["name"] for each in tree["arguments"]]
        key = self._key(tree["arguments"][0]["expression"])
        if names != ["", ""] or key.type != "VARCHAR":
            raise refused(self._askable.filtering)
        column, pattern = tree["arguments"]
        (constant,) = self._constants([pattern["expression"]], key)
        return {**tree, "arguments": [column, {**pattern, "expression": constant}]}

    def _key(self, tree: Tree) -> Column:
        """The column of `tree`. The statement is resolved, so a table name before a column is this table's."""
        column = self._askable.schema.find(tree["column_names"][-1]) if tree["class"] == "COLUMN_REF" else None
        if column is None or not self._askable.is_key(column.name):
            raise refused(self._askable.grouping)
        return column

    def _constants(self, trees: Sequence[Tree], column: Column) -> list[Tree]:
        """Casts of texts to the column's type, so that DuckDB casts nothing else in the comparison."""
        given = [self._read.node(each) for each in trees]
        starts = range(0, len(given), _AT_ONCE)
        try:
            if not all(map(_is_constant, given)):
                raise _OtherTypeError
            texts = [text for start in starts for text in self._texts(given[start : start + _AT_ONCE], column.type)]
        except _OtherTypeError:
            raise refused(f"compare {column.name} with constants of type {column.type} (rule G2)") from None
        cast = _cast_to(column.type)
        literals = [{"kind": "NULL_LITERAL" if each is None else "STRING", "text": each or ""} for each in texts]
        return [cast | {"child": cast["child"] | {"literal": each}} for each in literals]

    def _texts(self, given: Sequence[Node], type_: str) -> list[str | None]:
        """DuckDB's texts of constants after the cast. Raises _OtherTypeError if the cast changes a value."""
        spelled = list(map(write, given))
        try:  # for each: its type, its text, and whether the value is unchanged
            row = self._connection.execute(
                "SELECT "
                + ", ".join(
                    f"typeof({each}), CAST(CAST({each} AS {type_}) AS VARCHAR), CAST({each} AS {type_}) = {each}"
                    for each in spelled
                )
            ).fetchone()
        except duckdb.Error:
            row = None
        if row is None:
            raise _OtherTypeError
        texts = list(row[1::3])
        for node, own, text, same in zip(given, row[::3], texts, row[2::3], strict=True):
            is_text = isinstance(node, Constant) and node.kind == "STRING"
            if text is not None and not (same and (is_text or _is_alike(own, type_))):
                raise _OtherTypeError
        return texts


class _OtherTypeError(Exception):
    """What a column is compared with is no constant of its type."""


@cache
def _cast_to(type_: str) -> dict[str, Any]:
    """DuckDB's tree of a cast of a text."""
    cast: dict[str, Any] = tree_of(f"SELECT CAST('' AS {type_})")["statements"][0]["node"]["select_list"][0]
    return cast


def _is_constant(node: Node) -> bool:
    """True for a literal, a signed number, and a cast of one."""
    if isinstance(node, Call):
        return node.name in ("+", "-") and len(node.arguments) == 1 and _is_constant(node.arguments[0])
    if isinstance(node, Cast):
        return not node.may_fail and _is_constant(node.operand)
    return isinstance(node, Constant)


def _is_alike(own: str, type_: str) -> bool:
    """True if constants of type `own` may be compared with columns of `type_`."""
    return own == type_ or (is_number(type_) and is_numeric(own)) or {own, type_} <= _DATES


class _SelectList:
    """Checks the select list: expressions over keys and figures."""

    def __init__(self, askable: Askable, select: Select, catalog: Catalog) -> None:
        self._askable = askable
        self._select = select
        self._catalog = catalog
        self._keys = {write(key) for key in select.grouped}
        self._names = frozenset(FIGURES.split())

    def require(self) -> None:
        """Raises QueryRefused."""
        select = self._select
        nodes = [item.expression for item in select.items] + [each.expression for each in select.orderings]
        nodes += [select.having] if select.having is not None else []
        if not (select.is_grouped or any(map(has_aggregate, nodes))):
            raise refused(G1)
        for each in nodes:
            self._expression(each)

    def _expression(self, node: Node) -> None:
        if is_aggregate(node):
            assert isinstance(node, Call)  # noqa: S101 - an aggregate is one
            self._figure(node)
            return
        match node:
            case ColumnRef():
                answered = write(node) in self._keys
            case Call():
                answered = not (node.distinct or node.order or node.filter or node.names or node.name in SET_RETURNING)
            case _:
                answered = isinstance(node, Constant | Cast | Case | Operator)
        if not answered:
            raise refused(G1)
        for each in node.operands:
            self._expression(each)

    def _figure(self, call: Call) -> None:
        if call.name not in self._names or call.filter or call.order or call.names or len(call.arguments) > 1:
            raise refused(G1)
        if call.distinct:
            self._require_entity(call)
        elif call.arguments:
            self._require_linear(call.name, call.arguments[0])
        elif call.name != "count":
            raise refused(G1)

    def _require_entity(self, call: Call) -> None:
        """COUNT(DISTINCT entity) is allowed, except in GROUPING SETS: the people in a union are no sum."""
        (argument,) = call.arguments or (None,)
        is_entity = isinstance(argument, ColumnRef) and self._askable.is_entity(argument.name)
        if not (is_entity and call.name == "count" and len(self._askable.entity) == 1 and self._select.sets is None):
            raise refused(G1)

    def _require_linear(self, name: str, node: Node) -> None:
        if isinstance(node, ColumnRef):
            if self._number(node) in FLOATS:  # DuckDB adds them without errors
                return
        elif name in _SPREADS:  # VAR_POP(x + y) - VAR_POP(x) - VAR_POP(y) is twice a covariance, and that a product
            raise refused(G1)
        read = self._read(node)
        (type_,) = self._catalog.types([write(node)])
        units = read.range.magnitude * 10 ** (decimals_of(type_) or 0)
        if name != "count" and units * _MOST_ROWS > _LARGEST_SUM:
            raise refused(FITTING)

    def _number(self, column: ColumnRef) -> str:
        type_ = self._askable.schema.column(column.name).type
        if not is_number(type_) or self._askable.is_entity(column.name):
            raise refused(G1)
        return type_

    def _read(self, node: Node) -> _Linear:
        """Read a linear combination of exact numbers whose every step fits its type. Raises QueryRefused."""
        if _is_constant(node):
            return self._literal(node)
        (type_,) = self._catalog.types([write(node)])
        if isinstance(node, ColumnRef):
            if self._number(node) in FLOATS:
                raise refused(G1)
            bounds = bounds_of(node, type_, self._askable.schema, self._catalog.types)
            assert bounds.range is not None  # noqa: S101 - an exact type has one
            return _Linear(bounds.range, has_column=True)
        if not isinstance(node, Call) or node.name not in STEPS.split() or len(node.arguments) not in (1, 2):
            raise refused(G1)
        whole = range_of_type(type_)
        read = [self._read(each) for each in node.arguments]
        steps = [*read, _combined(node.name, read)]
        if whole is None or "HUGEINT" in type_ or not all(each.fits(whole) for each in steps):
            raise refused(FITTING)
        return steps[-1]

    def _literal(self, node: Node) -> _Linear:
        (type_,) = self._catalog.types([write(node)])
        if type_ != '"NULL"' and (not is_numeric(type_) or type_ in FLOATS):
            raise refused(G1)
        with private() as connection:
            try:
                ((text,),) = connection.execute(f"SELECT CAST({write(node)} AS VARCHAR)").fetchall()
            except duckdb.Error:
                raise refused(G1) from None
        value = Fraction(text or 0)
        return _Linear(Range(value, value))


@dataclass(frozen=True, slots=True)
class _Linear:
    """A step of a linear combination. `range`: of its values."""

    range: Range
    has_column: bool = False

    def fits(self, whole: Range) -> bool:
        return whole.lower <= self.range.lower and self.range.upper <= whole.upper


def _combined(name: str, read: Sequence[_Linear]) -> _Linear:
    """Raises QueryRefused for a product of columns."""
    one, two = (_Linear(Range(Fraction(0), Fraction(0))), *read)[-2:]
    both = one.has_column or two.has_column
    if name == "+":
        return _Linear(one.range + two.range, both)
    if name == "-":
        return _Linear(one.range - two.range, both)
    if (one.has_column and two.has_column) or len(read) == 1:
        raise refused(G1)
    return _Linear(one.range * two.range, both)
