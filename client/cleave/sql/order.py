"""Whether a statement's answer depends on the order of rows, if only between rows that ORDER BY leaves equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleave.sql.functions import AGGREGATE_NAMES, APPROXIMATE, ARBITRARY, ESTIMATES, FOLLOWS_ROW_ORDER
from cleave.table.duck import parts_of
from cleave_shared.plain_functions import called

ORDERED = FOLLOWS_ROW_ORDER | ARBITRARY | APPROXIMATE
"""Aggregates whose answer may be another in another order of rows. Sums of doubles, whose last digits may, are not
among them.
"""


def follows_order(tree: Mapping[str, Any]) -> bool:
    """True if a part of a statement depends on the order of rows.

    Two cases are ignored: rows shown without ORDER BY, and rows that ORDER BY with LIMIT leaves equal.
    """
    return any(map(_depends, parts_of(tree)))


def takes_any(tree: Mapping[str, Any]) -> bool:
    """True if a part of a statement calls an aggregate that approximates, or takes one of several values."""
    calls = (part for part in parts_of(tree) if part.get("class") == "FUNCTION")
    return any(not (ARBITRARY | ESTIMATES).isdisjoint(called(part)) for part in calls)


def shows_order(tree: Mapping[str, Any]) -> bool:
    """True if rows may be shown in the order in which they are read: the statement has no ORDER BY, and is no aggregate
    of all rows.
    """
    (statement,) = tree["statements"]
    node = statement["node"]
    is_sorted = any(each["type"] == "ORDER_MODIFIER" for each in node.get("modifiers") or ())
    return not (is_sorted or _is_one_row(node))


def _is_one_row(node: Mapping[str, Any]) -> bool:
    """True if a SELECT without GROUP BY surely aggregates: its own expressions, not their subqueries, call an
    aggregate.
    """
    if node["type"] != "SELECT_NODE" or node["aggregate_handling"] != "STANDARD_HANDLING" or node["group_sets"]:
        return False  # another handling: GROUP BY ALL
    waiting: list[Any] = list(node["select_list"])
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping) and part.get("class") not in ("SUBQUERY", "WINDOW", "LAMBDA"):
            if part.get("class") == "FUNCTION" and str(part["function_name"]).lower() in AGGREGATE_NAMES:
                return True
            waiting += part.values()
    return False


def _depends(part: Mapping[str, Any]) -> bool:
    if part.get("class") == "FUNCTION":
        return not ORDERED.isdisjoint(called(part))
    if part.get("class") == "WINDOW" or part.get("sample") or part.get("key_targets"):
        return True
    if part.get("type") == "JOIN":
        return part.get("ref_type") in ("POSITIONAL", "ASOF")
    modifiers = {each["type"]: each for each in part.get("modifiers") or ()}
    if modifiers.get("DISTINCT_MODIFIER", {}).get("distinct_on_targets"):
        return True
    return not modifiers.keys().isdisjoint(_LIMITS) and "ORDER_MODIFIER" not in modifiers


_LIMITS = ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER")
