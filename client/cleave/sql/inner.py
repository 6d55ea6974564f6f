"""SELECTs over one table inside a larger statement, answered by themselves and read as tables of their answers.

    WITH a AS (SELECT ward, SUM(bill) AS total FROM visits GROUP BY ward) SELECT * FROM wards JOIN a USING (ward)
    WITH a AS (SELECT "totals 0.0" AS ward, "totals 0.1" AS total FROM "totals 0") SELECT * FROM wards JOIN ...

Columns of such a table have names that no other table's have: a name that is read says what is read of those. A SELECT
that DuckDB reads by itself reads nothing of the statement around it: names are looked up inside first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cleave.sql.plan import QueryPlan
from cleave.sql.read import parts_of, same, tree_of
from cleave.table.duck import identifier, scratch


def taken_out(sql: str, answered: Callable[[str, str], QueryPlan | None]) -> tuple[str, dict[str, QueryPlan]]:
    """The statement in which each SELECT that `answered`, given its table and its text, has a plan for is a table; and
    those plans by the names of their tables.
    """
    tree: dict[str, Any] = dict(tree_of(sql))
    given = {str(each["key"]).lower() for part in parts_of(tree) for each in (part.get("cte_map") or {}).get("map", ())}
    names: dict[str, str] = {}  # by the text of a SELECT
    found: dict[str, QueryPlan] = {}

    def table_of(node: dict[str, Any]) -> dict[str, Any] | None:
        source = node["from_table"]
        if source["type"] != "BASE_TABLE" or source["table_name"].lower() in given:
            return None
        text = _text_of(node)
        if text not in names:
            answer = answered(source["table_name"], text) if same(_node_of(text), node) else None
            name = f"totals {len(found)}"
            if answer is None or name in sql.lower():
                return None
            names[text], found[name] = name, answer
        name = names[text]
        outputs = zip(columns_of(name, found[name]), found[name].outputs, strict=True)
        items = [f"{identifier(column)} AS {identifier(output.name)}" for column, output in outputs]
        return _node_of(f"SELECT {', '.join(items)} FROM {identifier(name)}")

    (statement,) = tree["statements"]
    node = {key: _replaced(value, table_of) for key, value in statement["node"].items()}
    run = _text_of(node) if found else sql
    return (run, found) if same(_node_of(run), node) else (sql, {})


def columns_of(name: str, plan: QueryPlan) -> list[str]:
    """Columns of the table `name` of the answer to `plan`."""
    return [f"{name}.{place}" for place in range(len(plan.outputs))]


def _replaced(tree: Any, table_of: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    if isinstance(tree, list):
        return [_replaced(each, table_of) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("type") == "SELECT_NODE" and (table := table_of(tree)) is not None:
        return table
    return {key: _replaced(value, table_of) for key, value in tree.items()}


def _node_of(sql: str) -> dict[str, Any]:
    (statement,) = tree_of(sql).get("statements") or [{"node": {}}]
    node: dict[str, Any] = statement["node"]
    return node


def _text_of(node: dict[str, Any]) -> str:
    """DuckDB's text of one query."""
    statement = dict(tree_of("SELECT 1"))
    statement["statements"] = [{**statement["statements"][0], "node": node}]
    row = scratch().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(statement)]).fetchone()
    return str(row[0]) if row else ""
