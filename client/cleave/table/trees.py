"""DuckDB's parse trees: comparison, copies, and reading of a single expression."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import duckdb

from cleave.table.duck import is_unicode, text_of, tree_of
from cleave_shared import limits

_SETS_OF_STAR = ("exclude_list", "qualified_exclude_list", "rename_list", "replace_list")  # in an order by hashes

Tree = Mapping[str, Any]  # a node of json_serialize_sql's output
MutableTree = dict[str, Any]  # the same, in a copy that may be changed

_OF_THE_TEXT = frozenset(
    {"query_location", "query_location_length", "qualified_name", "is_operator", "syntax_type", "named_param_map"}
)


def mapped(tree: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A copy of `tree` in which `change` replaced each node, inner nodes first."""
    if isinstance(tree, list):
        return [mapped(each, change) for each in tree]
    return change({key: mapped(value, change) for key, value in tree.items()}) if isinstance(tree, dict) else tree


def same(one: Any, other: Any) -> bool:
    """True if two trees differ in spelling only: positions in the text, case of functions and types, brackets around
    VALUES, RESPECT NULLS where it is the default, and the order of names in grouping sets and behind a star.
    """
    return bool(without_spelling(one) == without_spelling(other))


def without_spelling(node: Any, *, top: bool = False) -> Any:
    """`node` without positions in the text, case of functions and types and, at the `top`, an output's name."""
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
    if plain.get("name") and (plain.get("expression") or {}).get("alias") == plain["name"]:  # an argument's alias
        plain["expression"]["alias"] = ""
    if len(plain.get("group_sets") or ()) > 1:
        keys = [json.dumps(each) for each in plain["group_expressions"]]
        plain["group_sets"] = [sorted(keys[place] for place in each) for each in plain["group_sets"]]
        plain["group_expressions"] = sorted(keys)
    if plain.get("class") == "STAR":
        plain |= {name: sorted(plain[name], key=json.dumps) for name in _SETS_OF_STAR if name in plain}
    # RESPECT NULLS, which DuckDB's own text omits; of aggregates DuckDB refuses it
    if plain.get("class") == "WINDOW" and plain["type"] != "WINDOW_AGGREGATE" and plain["ignore_nulls"] is False:
        del plain["has_ignore_nulls"]
    if plain.get("type") == "SUBQUERY" and "column_name_alias" in plain:
        select = plain["subquery"]["node"]
        values = select.get("from_table") or {}
        if values.get("type") == "EXPRESSION_LIST" and {**select, "from_table": None} == _everything():
            names = plain["column_name_alias"] or values["expected_names"]
            return {**values, "alias": plain["alias"], "expected_names": names, "sample": plain["sample"]}
    return plain


@cache
def _everything() -> Tree:
    """The tree of SELECT *, without its table."""
    return {**without_spelling(tree_of("FROM t")["statements"][0]["node"]), "from_table": None}


def read_expression(sql: str) -> tuple[Tree, str] | None:
    """Parse `sql` as a single expression. Returns its tree and DuckDB's own text of it, perhaps in brackets.

    That text is what runs, not `sql`. Returns None for anything else, and if DuckDB parses its own text differently.
    """
    if len(sql) > limits.MAX_SQL_CHARS or "\0" in sql or not is_unicode(sql):  # DuckDB stops reading at \0
        return None
    try:
        tree = tree_of(f"SELECT {sql}")
        match tree.get("statements"):
            case [{"node": {"select_list": [{"alias": ""} as expression]}}]:
                alone = _selecting(expression)
            case _:
                return None
        if not same(tree, alone):  # it has a FROM or another clause
            return None
        text = text_of(alone).removeprefix("SELECT ")
        return (expression, text) if same(tree_of(f"SELECT ({text})"), alone) else None
    except (duckdb.Error, RecursionError):  # in DuckDB's parser
        return None


def _selecting(expression: Tree) -> Tree:
    """The tree of a SELECT of `expression` only."""
    tree = tree_of("SELECT 1")
    tree["statements"][0]["node"]["select_list"] = [expression]
    return tree
