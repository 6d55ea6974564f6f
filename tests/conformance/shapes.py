"""Shapes of questions: the quick suite asks some questions of each shape where all of them would take too long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
from _pytest.mark import ParameterSet

from cleave.table.duck import parts_of, tree_of
from tests.campaign import FULL
from tests.conformance.queries import Query

_CLAUSES = ("where_clause", "having", "qualify", "filter", "limit", "offset", "group_expressions", "orders")
_TYPES = {"DISTINCT_MODIFIER", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "JOIN"}
_CLASSES = {"SUBQUERY", "WINDOW", "CASE", "STAR"}


@cache
def clauses(sql: str) -> frozenset[str]:
    """Names of the clauses in a question, wherever they are; none where it is no SELECT to DuckDB."""
    found = set()
    for part in parts_of(tree_of(sql).get("statements", [])):
        found |= {name for name in _CLAUSES if part.get(name)}
        found |= {part.get("type"), part.get("class")} & (_TYPES | _CLASSES)
        if len(part.get("group_sets") or ()) > 1:
            found.add("sets")
        if part.get("cte_map", {}).get("map"):
            found.add("with")
    return frozenset(found)


def one_of_each(
    queries: Iterable[Query], *, by_source: bool = False, topics: bool = True, every: int = 1
) -> list[ParameterSet]:
    """The first of `queries` with any clause, and of each topic where there are `topics`; slow: one in `every` others.

    A campaign has all. `by_source`: and the first with the same sources.
    """
    seen: set[object] = set()
    found = []
    for at, query in enumerate(queries):
        names = clauses(query.sql)
        shapes: set[object] = {*names, *([query.name.rpartition("-")[0]] if topics else [])}
        if by_source:
            shapes.add(frozenset(query.sources))
        if (again := shapes <= seen) and at % every and not FULL:
            continue
        found.append(pytest.param(query, id=query.name, marks=(pytest.mark.slow,) if again else ()))
        seen |= shapes
    return found
