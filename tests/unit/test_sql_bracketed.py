"""Brackets around keys, ordinals and order terms mean what they mean to DuckDB, in every form of GROUP BY."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import differences, number, schema, simulate

# Units that stand for one or several keys of the table below, alone or in brackets.
UNITS = (
    "1",
    "(1)",
    "((2))",
    "(1, 2)",
    "((1, 2))",
    "((1), (2))",
    "(1, (2, 1))",
    "(a)",
    "k",
    "(k)",
    "(a + 0)",
    "row(1, b)",
)
FORMS = (
    "{0}, {1}",
    "ROLLUP ({0}, {1})",
    "CUBE ({0}, {1})",
    "GROUPING SETS ({0}, {1})",
    "GROUPING SETS (({0}, {1}), ())",
)
OTHERS = (
    "GROUPING SETS ((1, 2), (2))",
    "GROUPING SETS ((1, 2), (2), (), (()))",
    "GROUPING SETS (((1), (2)), ((1)))",
    "GROUPING SETS (ROLLUP ((1), (2)), CUBE ((2)), (1))",
    "GROUPING SETS (GROUPING SETS ((1)), (()))",
    "GROUPING SETS ((1, ()), (2))",
    "(()), ROLLUP ((1))",
    "ROLLUP (1, ())",
    "CUBE ((), (1, 2))",
    "(1), CUBE ((2))",
    "ROW(1, 2)",
    "(('x')), GROUPING SETS ((1), (2))",
    "GROUPING SETS ((1.0), (1), (2))",
    "GROUPING SETS ((NULL), (1), (2))",
)
BROKEN = (
    "GROUPING SETS ((1), (4))",
    "ROLLUP ((0))",
    "CUBE (((9)), 1)",
    "GROUPING SETS ((-1), (1))",
    "GROUPING SETS ((3))",
)


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(a="plain BIGINT", b="plain VARCHAR", v="plain BIGINT", n="encrypted INTEGER")


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i % 11 = 0 THEN NULL ELSE i % 3 END AS a, 'b' || i % 2 AS b, "
        "i * 7 % 10 AS v, (i * 17 % 41)::INTEGER AS n FROM range(60) AS r(i)"
    )
    return connection


def answered(engine: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[object, ...]] | None:
    """Return DuckDB's answer, None where it refuses the query."""
    try:
        return [tuple(number(value) for value in row) for row in engine.execute(sql).fetchall()]
    except duckdb.Error:
        return None


@pytest.mark.parametrize("step", [58, pytest.param(7, marks=pytest.mark.slow)])
def test_every_mixed_form_is_answered_as_duckdb_answers_it(
    table: Schema, engine: duckdb.DuckDBPyConnection, step: int
) -> None:
    pairs = list(itertools.product(UNITS, repeat=2))
    forms = [FORMS[place % len(FORMS)].format(*pair) for place, pair in enumerate(pairs)][::step]
    cut = 0
    for elements in [*forms, *OTHERS]:
        sql = f"SELECT a, b AS k, sum(n), sum(v) FROM t GROUP BY {elements} ORDER BY ALL"
        expected = answered(engine, sql)
        if expected is None:
            with pytest.raises(QueryRefused):
                plan_query(sql, table, "t")
        elif isinstance(plan_query(sql, table, "t"), QueryPlan):  # else DuckDB answers it as it stands
            assert differences(simulate(sql, table, engine, "t", parts=2), expected) == [], sql
            cut += 1
    assert cut > 105 // step


def test_the_groups_of_the_issue(table: Schema, engine: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT a, b, sum(n) FROM t GROUP BY GROUPING SETS ((1, 2), (2)) ORDER BY ALL"
    plan = plan_query(sql, table, "t")
    assert isinstance(plan, QueryPlan)
    assert plan.sets == ((0, 1), (1,))
    assert differences(simulate(sql, table, engine, "t"), answered(engine, sql)) == []


@pytest.mark.parametrize("elements", BROKEN)
def test_ordinals_of_no_key_are_refused(table: Schema, engine: duckdb.DuckDBPyConnection, elements: str) -> None:
    sql = f"SELECT a, b, sum(n) FROM t GROUP BY {elements}"
    assert answered(engine, sql) is None
    with pytest.raises(QueryRefused):
        plan_query(sql, table, "t")


@pytest.mark.parametrize("term", ["(3) DESC", "((3))", "(2), (1) DESC", "(v)", "((v)) DESC", "(3, 1), 1, 2"])
def test_a_bracketed_order_term_is_the_term(table: Schema, engine: duckdb.DuckDBPyConnection, term: str) -> None:
    """An ordinal in brackets is an ordinal, and a name in brackets is an alias before it is a column."""
    sql = f"SELECT a, b, sum(n) AS v FROM t GROUP BY a, b ORDER BY {term}"
    result = simulate(sql, table, engine, "t")
    assert differences(result, answered(engine, sql)) == []
