"""DuckDB's trees: what two have in common, and the one expression that a text is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import duckdb

from cleave.table.duck import is_unicode, text_of, tree_of
from cleave_shared import limits

Tree = Mapping[str, Any]  # a node of DuckDB's, as json_serialize_sql has it

_OF_THE_TEXT = frozenset(
    {"query_location", "query_location_length", "qualified_name", "is_operator", "syntax_type", "named_param_map"}
)


def mapped(tree: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A copy of `tree` in which `change` took the place of each node, of those within it first."""
    if isinstance(tree, list):
        return [mapped(each, change) for each in tree]
    return change({key: mapped(value, change) for key, value in tree.items()}) if isinstance(tree, dict) else tree


def same(one: Any, other: Any) -> bool:
    """Check whether two trees differ only in spelling: places in the text, case of functions and types, brackets
    around VALUES, and the order in which sets of keys name these.
    """
    return bool(without_spelling(one) == without_spelling(other))


def without_spelling(node: Any, *, top: bool = False) -> Any:
    """`node` without places in the text, the case of functions and types, and, at the `top`, the name of an output."""
    if isinstance(node, list):
        return [without_spelling(each) for each in node]
    if not isinstance(node, dict):
        return node
    plain = {key: without_spelling(value) for key, value in node.items() if key not in _OF_THE_TEXT}
    if top:
        plain["alias"] = ""
    for name in ("function_name", "type_name"):
        if name in plain:
            plain[name] = plain[name].lower()
    if plain.get("name") and (plain.get("expression") or {}).get("alias") == plain["name"]:  # of an argument
        plain["expression"]["alias"] = ""
    if len(plain.get("group_sets") or ()) > 1:
        keys = [json.dumps(each) for each in plain["group_expressions"]]
        plain["group_sets"] = [sorted(keys[place] for place in each) for each in plain["group_sets"]]
        plain["group_expressions"] = sorted(keys)
    if plain.get("type") == "SUBQUERY" and "column_name_alias" in plain:
        select = plain["subquery"]["node"]
        values = select.get("from_table") or {}
        if values.get("type") == "EXPRESSION_LIST" and {**select, "from_table": None} == _everything():
            names = plain["column_name_alias"] or values["expected_names"]
            return {**values, "alias": plain["alias"], "expected_names": names, "sample": plain["sample"]}
    return plain


@cache
def _everything() -> Tree:
    """SELECT * of whatever."""
    return {**without_spelling(tree_of("FROM t")["statements"][0]["node"]), "from_table": None}


def read_expression(sql: str) -> tuple[Tree, str] | None:
    """The tree of the one expression that `sql` is, and DuckDB's own text of it, which may stand in brackets.

    That text is what runs, not `sql`. None for what is no expression, or what DuckDB reads of its text as another.
    """
    if len(sql) > limits.MAX_SQL_CHARS or "\0" in sql or not is_unicode(sql):  # DuckDB reads no further than \0
        return None
    try:
        tree = tree_of(f"SELECT {sql}")
        match tree.get("statements"):
            case [{"node": {"select_list": [{"alias": ""} as expression]}}]:
                alone = _selecting(expression)
            case _:
                return None
        if not same(tree, alone):  # it has a FROM or the like
            return None
        text = text_of(alone).removeprefix("SELECT ")
        return (expression, text) if same(tree_of(f"SELECT ({text})"), alone) else None
    except (duckdb.Error, RecursionError):  # within its parser
        return None


def _selecting(expression: Tree) -> Tree:
    """The tree of a statement that selects `expression` alone."""
    tree = tree_of("SELECT 1")
    tree["statements"][0]["node"]["select_list"] = [expression]
    return tree
