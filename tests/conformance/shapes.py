"""Shapes of questions: the quick suite asks some questions of each shape where all of them would take too long."""

from __future__ import annotations

import itertools
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
    """All of `queries`, marked slow except the first of each topic and the first with any two clauses together;
    `by_source`: and the first with any clause and the same sources.
    """
    seen: set[object] = set()
    found = []
    for query in queries:
        names = clauses(query.sql)
        shapes: set[object] = {query.name.rpartition("-")[0], *itertools.product(names, names)}
        if by_source:
            shapes |= {(name, frozenset(query.sources)) for name in names}
        found.append(pytest.param(query, id=query.name, marks=(pytest.mark.slow,) if shapes <= seen else ()))
        seen |= shapes
    return found
