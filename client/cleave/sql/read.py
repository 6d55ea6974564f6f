"""DuckDB's tree of a statement, its expressions as nodes, and one canonical spelling for equal expressions.

Every expression that is written again (cleave.sql.nodes) is compared with the tree that it was read from. So nothing
with a different meaning is sent or computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import duckdb

from cleave.sql.nodes import Call, Case, Cast, ColumnRef, Constant, Node, Operator, Ordered, Other, write
from cleave.sql.parameters import with_values
from cleave.sql.refusals import Uncut, no_service, too_deep
from cleave.table.duck import identifier, is_unicode, parts_of, text_of, tree_of
from cleave.table.trees import Tree, same, without_spelling
from cleave_shared import limits
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import InputError, QueryRefused

_OPERATIONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
    "CONJUNCTION_AND": "AND",
    "CONJUNCTION_OR": "OR",
    "OPERATOR_NOT": "NOT",
    "OPERATOR_IS_NULL": "IS NULL",
    "OPERATOR_IS_NOT_NULL": "IS NOT NULL",
    "COMPARE_IN": "IN",
    "COMPARE_BETWEEN": "BETWEEN",
    "OPERATOR_COALESCE": "COALESCE",
    "GROUPING_FUNCTION": "GROUPING",
}
_WINDOW = "GROUP BY gives one answer a group; single rows stay where they are"
_NO_SERVICE = {
    "SUBQUERY": ("a subquery", "run the inner query first and write its result as a literal"),
    "WINDOW": ("a window function", _WINDOW),
    "PARAMETER": ("a parameter", "write the value itself"),
    "POSITIONAL_REFERENCE": ("a column by its number", "write the column's name"),
}
_UNSUPPORTED = "part of the query uses syntax that is not supported"
_ROWS = no_service("*: it selects single rows", "name the aggregates you want")
_AFTER_A_DOT = no_service("a call or field after a dot", "write function(column) instead of column.function()")
_ELEMENT = no_service("an element by its place", "write list_extract(x, 1) instead of x[1]")


@dataclass(frozen=True)
class Statement:
    """A query as DuckDB's tree, which may contain an error instead of statements.

    It is parsed once: the checked tree is planned and run. `text`: as typed. Positions in the tree refer to it.
    """

    text: str
    tree: Tree

    @cached_property
    def sql(self) -> str:
        """The text that DuckDB runs: made from the tree, and parsed back to the same tree as a check. Raises
        QueryRefused.
        """
        if (count := len(self.tree.get("statements", ()))) != 1:
            raise QueryRefused(f"{count} statements, one at a time", hint="run them one by one", code="syntax")
        try:
            text = text_of(self.tree)
            again = tree_of(text)
        except duckdb.Error:
            text, again = "", {}
        if not same(again.get("statements"), self.tree["statements"]):
            raise QueryRefused(_UNSUPPORTED, hint="write it in a simpler form")
        return text

    def with_parameters(self, parameters: Sequence[object]) -> Statement:
        """The statement with a value for each `?`. Raises QueryRefused for parameters that do not fit."""
        try:
            return Statement(self.text, with_values(self.tree, parameters))
        except RecursionError:
            raise too_deep() from None

    def with_select(self, node: Tree) -> Statement:
        """A statement of one SELECT from inside this one."""
        return Statement(self.text, {**self.tree, "statements": [{**self.tree["statements"][0], "node": node}]})


def read_statement(sql: str, parameters: Sequence[object] | None = None) -> Statement:
    """Parse a question, once for everything. `parameters`: a value for each `?`; None: it must have none.

    Raises QueryRefused for text that is too long, too deeply nested or not Unicode, and for parameters that do not fit;
    InputError for anything but text.
    """
    if not isinstance(sql, str):
        raise InputError(f"a query is text, not {type(sql).__name__}", hint="one SELECT over the table")
    if len(sql) > limits.MAX_SQL_CHARS:
        raise QueryRefused(f"the query has {len(sql)} characters, at most {limits.MAX_SQL_CHARS}", code="limit")
    if not is_unicode(sql):
        raise QueryRefused("the query is no Unicode text", hint="half of a surrogate pair is no character")
    try:
        statement = Statement(sql, tree_of(sql))
        return statement if parameters is None else statement.with_parameters(parameters)
    except RecursionError:
        raise too_deep() from None
    except duckdb.Error as error:  # in its parser; its message may quote the statement
        why = failed(error).why
    raise QueryRefused(f"DuckDB cannot read the query: {why}", code="syntax")


def expressions_of(texts: Sequence[str]) -> list[Node]:
    """Parse SQL written by `write`, or constant in the source code."""
    statement = f"SELECT {', '.join(texts)}"
    select = tree_of(statement)["statements"][0]["node"]["select_list"] if texts else []
    return [ExpressionReader(statement).node(each) for each in select]


def expression_of(text: str) -> Node:
    return expressions_of([text])[0]


def orderings_of(terms: Sequence[str]) -> list[Ordered]:
    """Parse terms of ORDER BY."""
    if not terms:
        return []
    statement = f"SELECT 1 ORDER BY {', '.join(terms)}"
    select = tree_of(statement)["statements"][0]["node"]
    return [ExpressionReader(statement).ordered(each) for each in select["modifiers"][0]["orders"]]


def require_faithful(trees: Sequence[Tree], nodes: Sequence[Node]) -> None:
    """Raises QueryRefused unless DuckDB parses the written nodes to the trees that they come from."""
    again = tree_of(f"SELECT {', '.join(map(write, nodes))}") if nodes else {"statements": []}
    selects = again.get("statements") or [{"node": {"select_list": []}}]
    read = [without_spelling(each) for each in selects[0]["node"]["select_list"]]
    if read != [without_spelling(each, top=True) for each in trees]:
        raise QueryRefused(
            _UNSUPPORTED,
            hint="write it in a simpler form: calls as f(x), elements as list_extract(x, 1), membership as x IN (1, 2)",
        )


class ExpressionReader:
    """Reads expressions of the statement `sql`, which it needs to see whether names are quoted."""

    def __init__(self, sql: str) -> None:
        self._text = sql.encode()

    def node(self, tree: Tree) -> Node:
        """Read an expression. Raises Uncut for what no service answers."""
        kind = tree["class"]
        if kind in _NO_SERVICE:
            raise no_service(*_NO_SERVICE[kind])
        match kind:
            case "COLUMN_REF":
                return ColumnRef(tuple(tree["column_names"]), self._is_quoted(tree))
            case "CONSTANT" if "literal" in tree:
                return Constant(tree["literal"]["kind"], tree["literal"]["text"])
            case "FUNCTION":
                return self._call(tree)
            case "COMPARISON":
                return Operator(_OPERATIONS[tree["type"]], (self.node(tree["left"]), self.node(tree["right"])))
            case "CONJUNCTION" | "OPERATOR":
                return self._operation(tree)
            case "BETWEEN":
                return Operator("BETWEEN", tuple(self.node(tree[name]) for name in ("input", "lower", "upper")))
            case "CASE":
                branches = [
                    (self.node(each["when_expr"]), self.node(each["then_expr"])) for each in tree["case_checks"]
                ]
                return Case(tuple(branches), self.node(tree["else_expr"]))
            case "CAST":
                return Cast(self.node(tree["child"]), type_of(tree["type_expr"]), bool(tree["try_cast"]))
            case "STAR":
                raise (no_service("COLUMNS()", "name the columns") if tree["columns"] else _ROWS)
        return self._other(tree)

    def ordered(self, tree: Tree) -> Ordered:
        direction = {"ASCENDING": "ASC", "DESCENDING": "DESC"}.get(tree["type"], "")
        nulls = tree["null_order"] if tree["null_order"] in ("NULLS FIRST", "NULLS LAST") else ""
        return Ordered(self.node(tree["expression"]), direction, nulls)

    def _is_quoted(self, tree: Tree) -> bool:
        place = tree.get("query_location")
        return isinstance(place, int) and self._text[place : place + 1] == b'"'

    def _call(self, tree: Tree) -> Call:
        if len(tree["qualified_name"]["path"]) > 1:
            raise _AFTER_A_DOT
        name = tree["function_name"].lower()
        names = tuple(each["name"] for each in tree["arguments"])
        return Call(
            name="count" if name == "count_star" else name,
            arguments=tuple(self.node(each["expression"]) for each in tree["arguments"]),
            distinct=bool(tree["distinct"]),
            order=tuple(self.ordered(each) for each in tree["order_bys"]["orders"]),
            filter=self.node(tree["filter"]) if tree["filter"] else None,
            names=names if any(names) else (),
        )

    def _operation(self, tree: Tree) -> Node:
        kind = tree["type"]
        if kind == "STRUCT_EXTRACT":
            raise _AFTER_A_DOT
        if kind in ("ARRAY_EXTRACT", "ARRAY_SLICE"):
            raise _ELEMENT
        if kind not in _OPERATIONS:
            return self._other(tree)
        return Operator(_OPERATIONS[kind], tuple(map(self.node, tree["children"])))

    def _other(self, tree: Tree) -> Other:
        """An expression written by DuckDB, with a placeholder for each operand."""
        operands: list[Node] = []
        holed = self._holed(tree, operands, frozenset())
        statement = tree_of("SELECT 1")
        statement["statements"][0]["node"]["select_list"] = [holed]
        rest = text_of(statement).removeprefix("SELECT ")
        pieces = []
        for place in range(len(operands)):
            piece, hole, rest = rest.partition(_hole(place))
            if not hole:
                raise Uncut(_UNSUPPORTED)
            pieces.append(piece)
        return Other((*pieces, rest), tuple(operands))

    def _holed(self, tree: Any, operands: list[Node], bound: frozenset[str], *, root: bool = True) -> Any:
        """`tree` with a placeholder for each operand: a part that uses no parameter of the lambdas around it
        (`bound`).
        """
        if isinstance(tree, list):
            return [self._holed(each, operands, bound, root=False) for each in tree]
        if not isinstance(tree, dict):
            return tree
        if tree.get("class") == "LAMBDA":
            bound |= _names_in(tree["lhs"])
        if "class" in tree and tree["class"] != "TYPE" and not root and bound.isdisjoint(_names_in(tree)):
            operands.append(self.node(tree))
            return {
                "class": "COLUMN_REF",
                "type": "COLUMN_REF",
                "alias": "",
                "column_names": [_hole(len(operands) - 1)],
            }
        if tree.get("class") in _NO_SERVICE or tree.get("class") == "STAR":
            return self.node(tree)  # it raises
        if tree.get("class") == "FUNCTION":
            self._call({**tree, "arguments": [], "order_bys": {"orders": []}, "filter": None})
        return {key: self._holed(value, operands, bound, root=False) for key, value in tree.items()}


def _names_in(tree: Any) -> frozenset[str]:
    """The first part of each column-like name."""
    return frozenset(str(each["column_names"][0]) for each in parts_of(tree) if each.get("class") == "COLUMN_REF")


def _hole(place: int) -> str:
    return f"hole_{place}_of_the_text"


def type_of(tree: Tree) -> str:
    """The SQL of a type."""
    if tree["class"] != "TYPE":
        return write(ExpressionReader("").node(tree))
    name, children = tree["type_name"], tree["children"]
    match name.lower():
        case "list":
            return f"{type_of(children[0])}[]"
        case "array":
            return f"{type_of(children[0])}[{type_of(children[1])}]"
        case "struct" | "union":
            fields = [f"{identifier(each['alias'])} {type_of(each)}" for each in children]
            return f"{name}({', '.join(fields)})"
    return f"{name}({', '.join(map(type_of, children))})" if children else str(name)


_DECIMAL = re.compile(r"(-?)(\d*)\.(\d*)")


@lru_cache(64)
def spellings(texts: tuple[str, ...]) -> Mapping[str, int]:
    """Indices of expressions by canonical spelling. Cached, so several questions parse them once."""
    return {canonical(node): place for place, node in enumerate(expressions_of(texts))}


def canonical(node: Node) -> str:
    """The canonical spelling of an expression with resolved names."""
    return write(_canonical(node))


def _canonical(node: Node) -> Node:
    if isinstance(node, Constant) and node.is_number and (digits := _DECIMAL.fullmatch(node.text)):
        return Constant(node.kind, f"{digits[1]}{digits[2].lstrip('0') or '0'}.{digits[3].rstrip('0') or '0'}")
    operands = [_canonical(each) for each in node.operands]
    if isinstance(node, Call | Operator) and node.name in ("+", "*", "=", "<>") and len(operands) == 2:
        operands.sort(key=write)
    return node.with_operands(operands) if operands else node


def split_statements(text: str) -> tuple[list[str], str]:
    """Split text into statements that end with a semicolon (removed), and the text after the last one.

    Semicolons in quotes, dollar quotes and comments do not count. If a quote or comment is still open, all text is in
    the rest. Empty statements are omitted, and comments without a statement after them.
    """
    content = text.encode()
    tokens = duckdb.tokenize(text)
    if tokens and tokens[-1][1] == duckdb.token_type.comment:
        last = content[tokens[-1][0] :]
        if last.count(b"/*") > last.count(b"*/"):
            return [], text
    statements, start, filled = [], 0, False
    for place, kind in tokens:
        if kind == duckdb.token_type.operator and content[place : place + 1] == b";":
            if filled:
                statements.append(content[start:place].decode().strip())
            start, filled = place + 1, False
        else:
            filled = filled or kind != duckdb.token_type.comment
    return statements, content[start:].decode() if filled else ""
