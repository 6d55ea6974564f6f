"""Shapes of questions: the quick suite asks one question of each shape where all of them would take too long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
import sqlglot
from _pytest.mark import ParameterSet
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cleave.sql.dialect import FaithfulDuckDB
from tests.conformance.queries import Query

_CLAUSES = (
    *(exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Limit, exp.Offset, exp.Distinct, exp.Filter),
    *(exp.Cube, exp.Rollup, exp.GroupingSets, exp.With, exp.Subquery, exp.SetOperation, exp.Join, exp.Window),
    *(exp.Case, exp.Star),
)


@cache
def clauses(sql: str) -> frozenset[str]:
    """Names of the clauses in a question, wherever they are; none where sqlglot cannot parse it."""
    try:
        tree = sqlglot.parse_one(sql, read=FaithfulDuckDB)
    except SqlglotError:
        return frozenset()
    return frozenset(each.__name__ for each in _CLAUSES if tree.find(each))


def one_of_each(queries: Iterable[Query], *, by_source: bool = False) -> list[ParameterSet]:
    """All of `queries`, marked slow except the first with the same clauses; `by_source`: and sources and topic."""
    seen: set[object] = set()
    found = []
    for query in queries:
        shape = (clauses(query.sql), (frozenset(query.sources), query.name.rpartition("-")[0]) if by_source else None)
        found.append(pytest.param(query, id=query.name, marks=(pytest.mark.slow,) if shape in seen else ()))
        seen.add(shape)
    return found
