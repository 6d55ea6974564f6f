"""Names and types as DuckDB resolves them, over empty tables in a private database."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import duckdb

from cleave.sql import rounding
from cleave.sql.nodes import Cast, Constant, Node
from cleave.sql.parameters import with_values
from cleave.sql.read import Statement
from cleave.sql.refusals import RESERVED, Uncut, no_sql, refused
from cleave.table.blaming import incomparable
from cleave.table.derived import Derived
from cleave.table.duck import identifier, parts_of, private, text_of, tree_of
from cleave.table.schema import Column
from cleave.table.trees import Tree, mapped
from cleave.table.types import has_floats
from cleave_shared.duckdb_errors import planned
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import called

_NAMED = "PIVOT wants its columns named: PIVOT t ON ward IN ('A', 'B') USING sum(x)"
MOST_PARAMETERS = 10_000
_LIMITS = ("limit", "offset")
_LITERAL = "STRING_LITERAL"
_UNCALLED = re.compile(rf'.*?function call "([-+*])\((?=.*{_LITERAL})(.+), (.+)\)"')
_TIMES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME")
_MARK = "8192300"  # prefix of the placeholder of a parameter
_PLAN = "SELECT system.main.json_serialize_plan($1::VARCHAR, optimize := false)"
ResultColumns = list[tuple[str, str]]  # (name, type) of each result column


class Catalog:
    """Empty tables. Statements over them are described, never run. Close it after use."""

    def __init__(self, table: str, columns: Sequence[Column], derived: Sequence[Derived] = ()) -> None:
        self._open = ExitStack()
        self._connection = self._open.enter_context(private())
        self._table = table
        self._settled: dict[str, Node] = {}
        self._types: dict[tuple[str, str], str] = {}  # by (expression, GROUP BY)
        # DuckDB has no table without columns; but rows can be counted even if all columns are sealed
        names = {column.name for column in columns}
        usable = [each for each in derived if names.issuperset(each.columns)]
        self.create(table, [(column.name, column.type) for column in columns] or [(" ", "BOOLEAN")], usable)

    def close(self) -> None:
        self._open.close()

    def create(self, table: str, columns: ResultColumns, derived: Sequence[Derived] = ()) -> None:
        stated = [f"{identifier(name)} {type_}" for name, type_ in columns]
        described = ", ".join([*stated, *(each.generated for each in derived)])
        self._connection.execute(f"CREATE OR REPLACE TABLE {identifier(table)} ({described})")

    def describe(self, select: str) -> ResultColumns:
        """Names and types of the columns of `select`: DuckDB's text of a statement, or text from cleave.sql.nodes.

        Raises QueryRefused.
        """
        try:
            rows = self._connection.execute(f"DESCRIBE {select}").fetchall()
            return [(str(row[0]), str(row[1])) for row in rows]
        except duckdb.Error as error:  # its message quotes literals, so it is not chained
            found = incomparable(error, f"DESCRIBE {select}", select) or refused(planned(error))
        raise found

    def decides(self, select: str) -> bool:
        """True if a value of `select` that has no DOUBLE may follow from rounding (cleave.sql.rounding)."""
        return rounding.decides(_planned(self._connection, select))

    def rounded(
        self, expressions: Sequence[str], types: Sequence[str], table: str = "", grouped: str = ""
    ) -> list[bool]:
        """For each expression over `table`, True if its value, of a type of `types`, may follow from rounding
        (cleave.sql.rounding).
        """
        source = f"FROM {identifier(table or self._table)}{grouped}"
        # all at once: DuckDB binds all columns of the table for every statement
        together = f"SELECT {', '.join(f'({sql})' for sql in expressions)} {source}"
        if not expressions or not rounding.rounds(_planned(self._connection, together)):
            return [False] * len(expressions)
        plans = [_planned(self._connection, f"SELECT ({sql}) {source}") for sql in expressions]
        return [
            rounding.rounds(plan) if has_floats(type_) else rounding.decides(plan)
            for plan, type_ in zip(plans, types, strict=True)
        ]

    def parameters(self, statement: Statement) -> list[str]:
        """The types of a statement's parameters, see `parameters_of`."""
        return parameters_of(self._connection, statement)

    def functions(self, expression: str) -> set[str]:
        """The names of the functions that an expression calls."""
        selected = f"SELECT {expression}"
        return {
            name for node in parts_of(tree_of(selected)) if node.get("class") == "FUNCTION" for name in called(node)
        }

    def settle(self, name: str) -> Node:
        """The value of current_date and similar names: the same on each call."""
        if name not in self._settled:
            row = self._connection.execute(f"SELECT CAST({name} AS VARCHAR), typeof({name})").fetchone()
            text, type_ = row or ("", "")
            self._settled[name] = Cast(Constant("STRING", text), type_)
        return self._settled[name]

    def look_up(self, expressions: Sequence[str]) -> None:
        """Describe expressions (all scalar or all aggregates) together, for later calls of `types`.

        It saves time: DuckDB binds all columns of the table for every statement. Errors are left to the later calls.
        """
        with suppress(QueryRefused):
            self.types(expressions)

    def types(self, expressions: Sequence[str], grouped: str = "") -> tuple[str, ...]:
        """The types of expressions (all scalar or all aggregates) over the table. `grouped`: its GROUP BY."""
        untyped = [sql for sql in dict.fromkeys(expressions) if (sql, grouped) not in self._types]
        if untyped:
            selected = ", ".join(f"({sql})" for sql in untyped)
            described = self.describe(f"SELECT {selected} FROM {identifier(self._table)}{grouped}")
            self._types |= {(sql, grouped): type_ for sql, (_, type_) in zip(untyped, described, strict=True)}
        return tuple(self._types[sql, grouped] for sql in expressions)


def parameters_of(connection: duckdb.DuckDBPyConnection, statement: Statement) -> list[str]:
    """DuckDB's type of each parameter of a statement with parameters $1, $2, ...; "" if any type would fit.

    The type comes from a cast of the parameter. Without one, each parameter is planned as a text, and the plan shows
    what DuckDB casts it to. Nothing is run. `connection` has the tables.
    """
    lists: set[str] = set()
    tree, count = _scalar(statement.tree, lists), 0
    limits = {str(part[name].get("identifier")) for part in parts_of(tree) for name in _LIMITS if part.get(name)}
    casts = {}
    for part in parts_of(tree):
        if part.get("class") == "CAST" and part["child"]["class"] == "PARAMETER":
            casts[str(part["child"]["identifier"])] = _cast_to(connection, part["type_expr"])
        if part.get("class") == "PARAMETER" and str(part["identifier"]).isdecimal():
            count = max(count, int(part["identifier"]))
    if count > MOST_PARAMETERS:
        raise QueryRefused(f"a statement has at most {MOST_PARAMETERS:,} parameters", code="limit")
    values = [int(_MARK) + number if str(number) in limits else f"{_MARK}{number}" for number in range(1, count + 1)]
    types = dict.fromkeys(range(1, count + 1), "") | {int(each): "BIGINT" for each in limits if each.isdecimal()}
    if count and not tree.get("error"):
        plan, operands = _with_operands(connection, Statement(statement.text, with_values(tree, values)).sql)
        types |= operands
        for part in parts_of(plan):
            number, type_ = _marked(part)
            if type_ and type_ != operands.get(number):
                types[number] = type_
    types |= {int(number): type_ for number, type_ in casts.items() if number.isdecimal()}
    return [f"{type_ or 'VARCHAR'}[]" if str(number) in lists else type_ for number, type_ in types.items()]


def _marked(part: Tree) -> tuple[int, str]:
    """The number of a placeholder in DuckDB's plan, and the type that it is cast to; (0, "") for other parts."""
    if part.get("type") == "OPERATOR_CAST" and part["children"][0].get("type") == "VALUE_CONSTANT":
        given, type_ = str(part["children"][0]["value"].get("value")), _type_of(part["return_type"])
    elif part.get("type") == "VALUE_CONSTANT" and part["value"]["type"]["id"] == "INTERVAL":  # cast while planned
        given, type_ = str((part["value"].get("value") or {}).get("micros", 0) // 1_000_000), "INTERVAL"
    else:
        return 0, ""
    return (int(given.removeprefix(_MARK)), type_) if given.startswith(_MARK) else (0, "")


def _with_operands(connection: duckdb.DuckDBPyConnection, select: str) -> tuple[Tree, dict[int, str]]:
    """The plan of a statement with placeholders, and types of those beside an operator that takes no text.

    Such an operand has the first of `_operands` with which DuckDB plans the statement, at this operator only.
    """
    plan, types = _planned(connection, select), dict[int, str]()
    while (call := _UNCALLED.match(str(plan.get("error_message", "")))) is not None:
        tree = tree_of(select)
        for part in parts_of(tree):
            if part.get("class") == "FUNCTION" and str(part["query_location"]) == plan["position"]:
                marks = [each for each in part["arguments"] if _mark_of(each["expression"])]
                break
        else:
            break
        if len(marks) != 1:
            break
        (argument,) = marks
        number, given = int(_mark_of(argument["expression"])), argument["expression"]
        for type_ in _operands(*call.groups()):
            cast = tree_of(f"SELECT CAST('' AS {type_})")["statements"][0]["node"]["select_list"][0]
            argument["expression"] = cast | {"child": given}
            tried = text_of(tree)
            plan = _planned(connection, tried)
            if not plan["error"] or _UNCALLED.match(str(plan.get("error_message", ""))):
                select, types[number] = tried, type_
                break
        else:
            break
    return plan, types


def _mark_of(node: Tree) -> str:
    text = str((node.get("literal") or {}).get("text", "")) if node.get("class") == "CONSTANT" else ""
    return text.removeprefix(_MARK) if text.startswith(_MARK) else ""


def _operands(name: str, left: str, right: str) -> Sequence[str]:
    """Types of an operand of which the text says nothing, the one of PostgreSQL first."""
    other = right if left == _LITERAL else left
    match name, other:
        case "+", "DATE":
            return ("INTEGER", "INTERVAL")
        case "+", "TIME" | "INTERVAL":
            return ("INTERVAL", *_TIMES)
        case "-", "INTERVAL":
            return ("INTERVAL", *_TIMES)
        case "-", "DATE" | "TIMESTAMP" | "TIMESTAMP WITH TIME ZONE":
            return (other, "INTERVAL")
        case "*", "INTERVAL":
            return ("DOUBLE",)
    return ()


def _planned(connection: duckdb.DuckDBPyConnection, select: str) -> Tree:
    """DuckDB's plan of a statement; its error, with `"error": True`, if there is none.

    A constant of BIT or BIGNUM is planned as a cast of a text: DuckDB writes no JSON of a plan with such a constant.
    """
    with suppress(duckdb.Error):
        ((plan,),) = connection.execute(_PLAN, [select]).fetchall()
        if not plan:
            ((plan,),) = connection.execute(_PLAN, [text_of(mapped(tree_of(select), _cast_constant))]).fetchall()
        if plan:
            planned: Tree = {"error": False} | json.loads(plan.replace('"value":NAN', '"value":NaN'))
            return planned
    return {"error": True}


def _cast_constant(node: dict[str, Any]) -> dict[str, Any]:
    literal = (node.get("class") == "CONSTANT" and node.get("literal")) or {"kind": ""}
    type_ = {"BIT": "BIT", "INTEGER": "BIGNUM"}.get(literal["kind"])
    if type_ is None or (type_ == "BIGNUM" and -(1 << 127) <= int(literal["text"]) < 1 << 128):
        return node
    cast: dict[str, Any] = tree_of(f"SELECT CAST('' AS {type_})")["statements"][0]["node"]["select_list"][0]
    return cast | {"alias": node["alias"], "child": node | {"alias": "", "literal": {**literal, "kind": "STRING"}}}


def _cast_to(connection: duckdb.DuckDBPyConnection, type_: Tree) -> str:
    """DuckDB's name of a type that a statement casts to; "" if there is no such type."""
    null = tree_of("SELECT CAST(NULL AS INTEGER)")
    null["statements"][0]["node"]["select_list"][0]["type_expr"] = type_
    with suppress(duckdb.Error):
        return str(connection.execute(f"DESCRIBE {text_of(null)}").fetchall()[0][1])
    return ""


def _scalar(tree: Tree, lists: set[str]) -> Any:
    """`tree` with `x = $1` instead of `x = ANY ($1)`. The names of such parameters are added to `lists`."""

    def put(node: dict[str, Any]) -> dict[str, Any]:
        if node.get("subquery_type") == "ANY" and (called := node["subquery"]["node"].get("select_list")):
            given = (called[0].get("arguments") or [{"expression": {}}])[0]["expression"]
            if called[0].get("function_name") == "unnest" and given.get("class") == "PARAMETER":
                lists.add(str(given["identifier"]))
                compared: dict[str, Any] = tree_of("SELECT a = b")["statements"][0]["node"]["select_list"][0]
                return compared | {"left": node["child"], "right": given}
        return node

    return mapped(tree, put)


def _type_of(planned: Tree) -> str:
    """A type in DuckDB's plan, as SQL; "" for types that need more than a name."""
    of = planned["type_info"] or {}
    if planned["id"] == "DECIMAL":
        return f"DECIMAL({of['width']},{of['scale']})"
    return "" if of else str(planned["id"])


def selects_of(statement: Statement) -> Tree:
    """The tree of SELECTs. Raises QueryRefused for anything else."""
    tree = statement.tree
    if not tree.get("error"):
        return tree
    if tree.get("error_type") == "parser":
        raise no_sql(statement.text, tree, RESERVED)
    pivots = re.search(r"\bpivot", statement.text, re.IGNORECASE)
    raise Uncut("only SELECT is supported", hint=_NAMED if pivots else None, code="not_select")
