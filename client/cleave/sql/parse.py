"""Reads the clauses of one SELECT over one table. All other SQL is refused."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

import duckdb

from cleave.sql.functions import ROW_MAKING, SET_RETURNING
from cleave.sql.nodes import Call, ColumnRef, Constant, Node, Operator, Ordered, Other
from cleave.sql.read import ExpressionReader, Statement, require_faithful
from cleave.sql.refusals import RESERVED, Uncut, no_function, no_service, no_sql, require_by_text, several
from cleave.table.duck import identifier, parts_of
from cleave.table.functions import CLOCK, FUNCTIONS, TODAY, UNSTEADY
from cleave.table.trees import Tree
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import called

MAIN = "main"  # DuckDB's default schema
ONE_TABLE = "ask one SELECT over one table; join or reshape the CSV beforehand"


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One select item. `name`: its alias, or None."""

    expression: Node
    name: str | None


@dataclass(frozen=True, slots=True)
class Select:
    """The clauses of one SELECT. `keys` None: GROUP BY ALL. `orders_all`: how ORDER BY ALL orders every item.

    `sets`: for GROUPING SETS, ROLLUP and CUBE, the indices in `keys` of each set; else None.
    """

    statement: Statement
    table: str
    alias: str | None
    items: tuple[SelectItem, ...]
    where: Node | None
    keys: tuple[Node, ...] | None
    sets: tuple[tuple[int, ...], ...] | None
    is_grouped: bool
    having: Node | None
    orderings: tuple[Ordered, ...]
    orders_all: Ordered | None
    limit: int | None
    offset: int

    @property
    def grouped(self) -> tuple[Node, ...]:
        return self.keys or ()

    @property
    def nodes(self) -> list[Node]:
        """All expressions of the query."""
        single = [each for each in (self.where, self.having) if each is not None]
        terms = [each.expression for each in self.items] + [each.expression for each in self.orderings]
        return [*self.grouped, *single, *terms]


def parse(statement: Statement, table: str) -> Select:
    """Read one SELECT over `table`.

    Raises QueryRefused: with the position of a syntax error; for anything else with the reason and an alternative.
    """
    select = _one_select(statement, table)
    _refuse_clauses(select)
    alias = _alias(select["from_table"], table)
    calls = [each for each in parts_of(select) if each.get("class") == "FUNCTION"]
    for name, *by_text in map(called, calls):
        _refuse_function(name)
        for each in by_text:
            require_by_text(each)
    return _Clauses(statement, table, alias, select).read()


def conditions_of(where: Node, qualifiers: Collection[str] = ()) -> list[Node]:
    """The conjuncts of WHERE that depend on columns only, with the table's name removed from columns.

    Each has equal values for rows with equal columns. `qualifiers`: names of the table, in lower case.
    """
    if isinstance(where, Operator) and where.name == "AND":
        return [condition for term in where.terms for condition in conditions_of(term, qualifiers)]
    columns = list(where.find(ColumnRef))
    bare = all(len(each.path) == 1 or (len(each.path) == 2 and each.path[0].lower() in qualifiers) for each in columns)
    if not (columns and bare) or where.has(Other) or any(call.name in _CHANGING for call in where.find(Call)):
        return []
    return [where.replaced(lambda node: ColumnRef((node.name,)) if isinstance(node, ColumnRef) else None)]


_CHANGING = UNSTEADY | CLOCK


def conditions_of_select(statement: Statement, table: str) -> tuple[Node, ...]:
    """The conditions of a statement that is one SELECT over `table` only; () for any other statement.

    Conjuncts that no service understands are omitted.
    """
    selects = [each for each in parts_of(statement.tree["statements"]) if str(each.get("type")).endswith("_NODE")]
    if len(selects) != 1 or selects[0]["type"] != "SELECT_NODE" or not selects[0]["where_clause"]:
        return ()
    source, where = selects[0]["from_table"], selects[0]["where_clause"]
    if source["type"] != "BASE_TABLE" or source["table_name"].lower() != table.lower() or selects[0]["sample"]:
        return ()
    if any(source[each] for each in ("sample", "column_name_alias", "catalog_name", "at_clause")):
        return ()
    conditions: list[Node] = []
    for condition in where["children"] if where["type"] == "CONJUNCTION_AND" else [where]:
        with suppress(QueryRefused):
            node = ExpressionReader(statement.text).node(condition)
            require_faithful([condition], [node])
            conditions += conditions_of(node, [(source["alias"] or table).lower()])
    return tuple(conditions)


class _Clauses:
    def __init__(self, statement: Statement, table: str, alias: str | None, select: Tree) -> None:
        self._statement = statement
        self._table = table
        self._alias = alias
        self._select = select
        self._read = ExpressionReader(statement.text)
        self._trees: list[Tree] = []
        self._nodes: list[Node] = []

    def _node(self, tree: Tree) -> Node:
        node = self._read.node(tree)
        self._trees.append(tree)
        self._nodes.append(node)
        return node

    def read(self) -> Select:
        select = self._select
        by_all = select["aggregate_handling"] == "FORCE_AGGREGATES"
        trees = select["group_expressions"]
        sets = _sets(trees, select["group_sets"])
        modifiers = {each["type"]: each for each in select["modifiers"]}
        orders = modifiers.get("ORDER_MODIFIER", {"orders": []})["orders"]
        all_ = next((each for each in orders if each["expression"]["class"] == "STAR"), None)
        limit = modifiers.get("LIMIT_MODIFIER", {"limit": None, "offset": None, "limit_type": "ROW_COUNT"})
        parsed = Select(
            statement=self._statement,
            table=self._table,
            alias=self._alias,
            items=tuple(SelectItem(self._node(each), each["alias"] or None) for each in select["select_list"]),
            where=self._condition("where_clause"),
            keys=None if by_all else tuple(map(self._node, trees)),
            sets=sets,
            is_grouped=bool(by_all or trees or select["group_sets"]),
            having=self._condition("having"),
            orderings=() if all_ else tuple(self._ordered(each) for each in orders),
            orders_all=self._all(all_) if all_ else None,
            limit=self._limit(limit),
            offset=_number(self._read.node(limit["offset"]), "OFFSET") if limit["offset"] else 0,
        )
        require_faithful(self._trees, self._nodes)
        return parsed

    def _condition(self, clause: str) -> Node | None:
        return self._node(self._select[clause]) if self._select[clause] else None

    def _ordered(self, tree: Tree) -> Ordered:
        self._node(tree["expression"])
        return self._read.ordered(tree)

    def _all(self, tree: Tree) -> Ordered:
        if tree["expression"]["expr"]:
            raise no_service("COLUMNS()", "name the columns")
        return self._read.ordered(
            {**tree, "expression": {"class": "CONSTANT", "literal": {"kind": "INTEGER", "text": "1"}}}
        )

    def _limit(self, modifier: Tree) -> int | None:
        if modifier["limit_type"] != "ROW_COUNT":
            raise no_service("LIMIT with percent or ties", "give a number of groups")
        if not modifier["limit"]:
            return None
        node = self._read.node(modifier["limit"])
        if isinstance(node, Constant) and node.kind == "NULL_LITERAL":  # LIMIT ALL
            return None
        return _number(node, "LIMIT")


def _number(node: Node, clause: str) -> int:
    if isinstance(node, Constant) and node.place is not None:
        return node.place
    raise Uncut(f"{clause} is not a whole number", hint=f"for example: {clause} 10")


def _one_select(statement: Statement, table: str) -> Tree:
    tree = statement.tree
    if tree.get("error"):
        raise _no_select(statement, table)
    statements = tree["statements"]
    if not statements:
        example = f"for example: SELECT COUNT(*) FROM {_spelled(table)}"
        raise QueryRefused("the query is empty", hint=example, code="syntax")
    if len(statements) > 1:
        raise several(len(statements))
    node: Tree = statements[0]["node"]
    if node["type"] == "SET_OPERATION_NODE":
        raise no_service(f"{node['setop_type']} of queries", "run them one at a time")
    if node["type"] != "SELECT_NODE" or node["from_table"]["type"] in ("SHOW_REF", "EXPRESSION_LIST"):
        raise Uncut("a service answers one SELECT over the table", hint=ONE_TABLE)
    return node


def _no_select(statement: Statement, table: str) -> QueryRefused:
    if "position" not in statement.tree and "depth" not in str(statement.tree.get("error_message")):
        # another statement, or DuckDB's error comes when it is described
        return Uncut("a service answers one SELECT over the table", hint=ONE_TABLE)
    quoted = "" if _spelled(table) == table else f", and this table is FROM {_spelled(table)}"
    return no_sql(statement.text, statement.tree, f"the dialect is DuckDB's{quoted}; {RESERVED}")


def _refuse_clauses(select: Tree) -> None:
    distinct = any(each["type"] == "DISTINCT_MODIFIER" for each in select["modifiers"])
    source = select["from_table"]
    for is_there, what, hint in (
        (select["cte_map"]["map"], "WITH (common table expressions)", ONE_TABLE),
        (source["type"] == "JOIN", "a join", ONE_TABLE),
        (source["type"] == "PIVOT", "PIVOT", ONE_TABLE),
        (distinct, "SELECT DISTINCT", "GROUP BY ALL gives each combination once"),
        (select["qualify"], "QUALIFY", "HAVING filters groups"),
        (select["sample"] or source.get("sample"), "USING SAMPLE", "sample the CSV beforehand"),
    ):
        if is_there:
            raise no_service(what, hint)


def _refuse_function(name: str) -> None:
    if name in UNSTEADY and name not in TODAY:
        raise unsteady(f"{name}()")
    if name not in FUNCTIONS | ROW_MAKING:
        raise no_function(name)
    if name in SET_RETURNING:
        raise no_service(f"{name}(), which returns rows", "reshape the CSV beforehand")


def unsteady(name: str) -> QueryRefused:
    return Uncut(f"{name} does not depend on the table alone", hint="write the value itself as a literal")


def _alias(source: Tree, table: str) -> str | None:
    """The table's alias in the statement, or None."""
    if source["type"] == "EMPTY":
        raise Uncut("the query has no FROM", hint=f"FROM {_spelled(table)}")
    if source["type"] == "SUBQUERY":
        raise no_service("a subquery", "run the inner query first and write its result as a literal")
    if source["type"] != "BASE_TABLE":
        raise Uncut("FROM must name the table", hint=f"FROM {_spelled(table)}")
    is_main = str(source["schema_name"]).lower() in ("", MAIN)
    if source["catalog_name"] or source["at_clause"] or not is_main:
        raise Uncut("FROM may only name the table", hint=f"FROM {_spelled(table)}")
    if source["column_name_alias"]:
        raise no_service("new column names after FROM", f"FROM {_spelled(table)}")
    name = source["table_name"]
    if name.lower() != table.lower():
        hint = f"this one is {table!r}: FROM {_spelled(table)}"
        raise QueryRefused(f"there is no table {name!r}", hint=hint, code="no_table", name=name)
    return source["alias"] or None


def _spelled(name: str) -> str:
    """`name`, in quotes if DuckDB needs them: for all but plain words without a special meaning."""
    tokens = duckdb.tokenize(name) if name.isidentifier() else []
    return name if [kind for _, kind in tokens] == [duckdb.token_type.identifier] else identifier(name)


def _sets(keys: list[Tree], sets: list[list[int]]) -> tuple[tuple[int, ...], ...] | None:
    """The sets as tuples of indices; None for a single set of all keys."""
    places = tuple(tuple(each) for each in sets)
    if len(places) > limits.MAX_GROUPING_SETS:
        raise QueryRefused(
            f"GROUP BY has {len(places)} sets of keys, at most {limits.MAX_GROUPING_SETS} are supported",
            hint="name the sets you need: GROUPING SETS ((a, b), (a), ())",
            code="limit",
        )
    return None if len(places) < 2 and places in ((), (tuple(range(len(keys))),)) else places
