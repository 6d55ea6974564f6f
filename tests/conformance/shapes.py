"""Shapes of questions: the quick suite asks some questions of each shape where all of them would take too long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
from _pytest.mark import ParameterSet

from cleave.table.duck import parts_of, tree_of
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


def one_of_each(queries: Iterable[Query], *, by_source: bool = False, topics: bool = True) -> list[ParameterSet]:
    """All of `queries`, marked slow except the first with any clause, and of each topic where there are `topics`;
    `by_source`: and the first with the same sources.
    """
    seen: set[object] = set()
    found = []
    for query in queries:
        names = clauses(query.sql)
        shapes: set[object] = {*names, *([query.name.rpartition("-")[0]] if topics else [])}
        if by_source:
            shapes.add(frozenset(query.sources))
        found.append(pytest.param(query, id=query.name, marks=(pytest.mark.slow,) if shapes <= seen else ()))
        seen |= shapes
    return found
