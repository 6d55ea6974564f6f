"""Whether DuckDB rounds: found in its plan of a statement, which has the type of each part, also within subqueries.

Rounding is every step that makes a DOUBLE or FLOAT, except those listed here, which take one of their arguments or
compute exactly. Some functions round without a DOUBLE in sight (`INTERPOLATES`, casts of doubles to decimals).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleave.sql.functions import FOLLOWS_DOUBLES, INTERPOLATES
from cleave.table.duck import parts_of
from cleave.table.trees import Tree
from cleave.table.types import FLOATS

_AGGREGATES = ("BOUND_AGGREGATE", "WINDOW_AGGREGATE")
# parts that return one of their operands
_CHOOSES = frozenset(
    {"BOUND_REF", "BOUND_UNNEST", "CASE_EXPR", "OPERATOR_COALESCE", "OPERATOR_NULLIF", "VALUE_CONSTANT"}
    | {"WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE", "WINDOW_NTH_VALUE", "WINDOW_LAG", "WINDOW_LEAD"}
)
# a double holds all their values
_SMALL = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"})
_HALVED = _SMALL | {"DATE"}  # and the middle between any two


def rounds(plan: Tree) -> bool:
    """True if a value in DuckDB's `plan`, of any type, may follow from rounding; for an invalid plan too."""
    return _has_error(plan) or any(map(_rounds, _counted(plan)))


def decides(plan: Tree) -> bool:
    """True if a value without DOUBLEs may follow from rounding, as in `SUM(x)::INT`; for an invalid plan too."""
    if _has_error(plan):
        return True
    parts = list(_counted(plan))
    if any(_rounds(part) and not _has_floats(part) for part in parts):
        return True
    return any(map(_rounds, parts)) and any(map(_converts, parts))


def _has_error(plan: Tree) -> bool:
    return any(part.get("error") for part in parts_of(plan))


def _counted(plan: Any) -> Iterator[Tree]:
    """All parts of a plan, except conditions on rows that no aggregate has made: DuckDB decides which rows count."""
    if isinstance(plan, list):
        for each in plan:
            yield from _counted(each)
    elif isinstance(plan, dict):
        yield plan
        selects = plan.get("type") == "LOGICAL_FILTER" and _reads_rows(plan["children"])
        skipped = "expressions" if selects else None
        for name, each in plan.items():
            if name != skipped:
                yield from _counted(each)


def _reads_rows(plan: Any) -> bool:
    """True if a table's rows are only read, chosen and computed with."""
    operators = {str(part.get("type")) for part in parts_of(plan) if str(part.get("type")).startswith("LOGICAL_")}
    return operators <= {"LOGICAL_GET", "LOGICAL_FILTER", "LOGICAL_PROJECTION"}


def _rounds(part: Tree) -> bool:
    if not _is_expression(part):
        return False
    children, type_ = _children(part), _id(part)
    if _name(part) in INTERPOLATES and (part["type"] in _AGGREGATES or part["type"] == "BOUND_FUNCTION"):
        is_middle = _name(part) == "median" and all(_id(each) in _HALVED for each in children)
        return type_ != "VARCHAR" and not is_middle
    if part["type"] == "OPERATOR_CAST":
        return _cast_rounds(part, children)
    if not _has_floats(part) or part["type"] in _CHOOSES:
        return False
    if _name(part) in ("-", "round", "trunc") and len(children) == 1:
        return False
    return _name(part) not in FOLLOWS_DOUBLES


def _cast_rounds(part: Tree, children: list[Tree]) -> bool:
    source = _id(children[0]) if children else ""
    if not source or children[0].get("type") == "VALUE_CONSTANT":  # DuckDB reads a literal as a double
        return False
    target = _id(part)
    if target == "DECIMAL":  # it multiplies by a power of ten first
        return source in FLOATS
    if not _has_floats(part):
        return False
    return source not in _SMALL | {target, "VARCHAR"} and (source, target) != ("FLOAT", "DOUBLE")


def _converts(part: Tree) -> bool:
    """True for a planned expression of another type that reads a DOUBLE or FLOAT, and where doubles choose rows."""
    if any(_has_floats(each) for each in _matched(part)):
        return True
    if not _is_expression(part) or _has_floats(part):
        return False
    if _name(part) == "count" and part.get("aggregate_type") == "NON_DISTINCT":
        return False
    return any(map(_has_floats, _children(part)))


def _matched(part: Tree) -> list[Tree]:
    """What a join compares, and keys of groups."""
    groups = [each for each in part.get("groups") or () if isinstance(each, dict)]
    sides = [part[side] for side in ("left", "right") if isinstance(part.get(side), dict)]
    return [*groups, *(sides if "comparison" in part else ())]


def _is_expression(part: Tree) -> bool:
    return "type" in part and isinstance(part.get("return_type"), dict)


def _children(part: Tree) -> list[Tree]:
    return [each for each in part.get("children") or () if isinstance(each, dict)]


def _name(part: Tree) -> str:
    return str(((part.get("qname") or {}).get("path") or [""])[-1]).lower()


def _id(part: Tree) -> str:
    if part.get("type") == "VALUE_CONSTANT":
        return str(((part.get("value") or {}).get("type") or {}).get("id", ""))
    return str((part.get("return_type") or {}).get("id", ""))


def _has_floats(part: Tree) -> bool:
    """True for an expression of DOUBLEs or FLOATs, or of lists or structs of them."""
    type_ = part.get("return_type")
    return isinstance(type_, dict) and any(each.get("id") in FLOATS for each in parts_of(type_))
