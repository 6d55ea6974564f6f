"""What DuckDB answers over the unsplit table, with the values that each bare aggregate of encrypted columns is of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb

from cleave.sql import nodes
from cleave.sql.nodes import write
from cleave.sql.read import ExpressionReader
from cleave.table.duck import tree_of
from cleave.table.trees import Tree
from cleave_shared.errors import QueryRefused
from tests.deviations import PAIRS, SINGLES

Values = list[tuple[Any, ...]]

# What tests.oracle calls them.
SUMS = {
    **{name.lower(): name for name in ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "PRODUCT")},
    **{name.lower(): name for name in ("STDDEV_SAMP", "STDDEV_POP")},
    **{"mean": "AVG", "variance": "VAR_SAMP", "stddev": "STDDEV_SAMP"},
}
# What tests.deviations calls them.
STATISTICS = {name.lower(): name for name in (*PAIRS, *SINGLES)} | {
    "sumkahan": "KAHAN_SUM",
    "geometric_mean": "GEOMEAN",
}


@dataclass(frozen=True)
class Call:
    """An output that is one aggregate and nothing else: its name in lower case, and SQL of its arguments."""

    name: str
    arguments: tuple[str, ...]
    condition: str | None

    @property
    def values(self) -> str:
        """SQL of the list of its arguments in the rows where none of them is NULL."""
        row = ", ".join(self.arguments)
        wanted = [f"({argument}) IS NOT NULL" for argument in self.arguments]
        if self.condition:
            wanted.append(f"({self.condition})")
        return f"list(row({row})) FILTER (WHERE {' AND '.join(wanted)})"


@dataclass(frozen=True)
class Expected:
    """`rows` hold numbers, booleans and None, anything else as DuckDB's text. `inside`: a list per row and call."""

    names: list[str]
    types: list[str]
    rows: list[list[Any]]
    inside: list[list[Values]]


def bare_calls(sql: str) -> list[Call | None]:
    """What each select item calls, None where it is more or less than one call of an aggregate over columns."""
    select = tree_of(sql)["statements"][0]["node"]
    return [_call(sql, item) for item in select["select_list"]] if select["type"] == "SELECT_NODE" else []


def _call(sql: str, item: Tree) -> Call | None:
    try:
        node = ExpressionReader(sql).node(item)
    except QueryRefused:
        return None
    if not isinstance(node, nodes.Call) or node.name not in SUMS.keys() | STATISTICS.keys() or not node.arguments:
        return None
    if node.distinct or node.order:
        return None
    return Call(node.name, tuple(map(write, node.arguments)), write(node.filter) if node.filter else None)


def is_ordered(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether the outermost SELECT says ORDER BY, which then is of all rows: the queries leave no ties."""
    (text,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    tree = json.loads(text)
    return bool(tree.get("error")) or any(
        each["type"] == "ORDER_MODIFIER" for each in tree["statements"][0]["node"]["modifiers"]
    )


def expect(connection: duckdb.DuckDBPyConnection, sql: str, calls: list[Call]) -> Expected:
    described = connection.execute(f"DESCRIBE {sql}").fetchall()
    types = [row[1] for row in described]
    rows = _rows(connection, sql, types)
    inside: list[list[Values]] = []
    if calls:
        tree = tree_of(sql)
        lists = tree_of(f"SELECT {', '.join(call.values for call in calls)}")
        tree["statements"][0]["node"]["select_list"] += lists["statements"][0]["node"]["select_list"]
        (text,) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()[0]
        fetched = connection.execute(text).fetchall()
        assert len(fetched) == len(rows)
        inside = [[[tuple(each) for each in values or ()] for values in row[len(types) :]] for row in fetched]
    return Expected([row[0] for row in described], types, rows, inside)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, types: list[str]) -> list[list[Any]]:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {sql}")
    names = [row[0].replace('"', '""') for row in connection.execute("DESCRIBE answer").fetchall()]
    items = [
        f'"{name}"' if is_number(type_) else f'CAST("{name}" AS VARCHAR)'
        for name, type_ in zip(names, types, strict=True)
    ]
    return [list(row) for row in connection.execute(f"SELECT {', '.join(items)} FROM answer").fetchall()]


def is_number(type_: str) -> bool:
    if type_.endswith("]"):
        return False
    word = type_.split("(", maxsplit=1)[0]
    return word in ("FLOAT", "DOUBLE", "BOOLEAN", "DECIMAL") or word.endswith(("INT", "INTEGER"))
