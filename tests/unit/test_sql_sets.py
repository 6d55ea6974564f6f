"""GROUPING SETS, ROLLUP, CUBE and GROUPING() against DuckDB, put together from the finest groups."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.schema import Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import differences, number, schema, simulate

ELEMENTS = (
    *("a", "b", "(a, b)", "()", "ROLLUP (a, b)", "ROLLUP (b, c)", "ROLLUP ((a, b), c)", "CUBE (a, c)", "CUBE (b)"),
    *("GROUPING SETS ((a), (b))", "GROUPING SETS ((a), (a), ())", "GROUPING SETS (ROLLUP (a, b), c)"),
    *("GROUPING SETS (CUBE (a, (b, c)), (c, a))", "GROUPING SETS (())", "c"),
)
PLAIN = (
    "count(*), count(v), sum(v), avg(v), var_pop(v), min(v), max(w), bool_or(v > 7), count_if(v > 7), product(v / 9)"
)
ENCRYPTED = "sum(x), count(x), avg(n), stddev(n), sem(n), regr_sxx(x, n), bool_and(n > 2), sum(n) FILTER (WHERE v > 3)"


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(
        a="plain BIGINT",
        b="plain VARCHAR",
        c="plain DOUBLE",
        v="plain BIGINT",
        w="plain DATE",
        x="encrypted DOUBLE",
        n="encrypted INTEGER",
        s="encrypted VARCHAR",
    )


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    """With NULL among the keys, and a key that is 0.0 in some rows and -0.0 in others."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i % 11 = 0 THEN NULL ELSE i % 3 END AS a, "
        "CASE WHEN i % 7 = 0 THEN NULL ELSE 'b' || i % 2 END AS b, "
        "CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN -0.0::DOUBLE WHEN 2 THEN 0.0 ELSE i % 5 / 2 END AS c, "
        "CASE WHEN i % 13 = 0 THEN NULL ELSE i * 7 % 10 END AS v, DATE '2024-01-01' + (i % 9)::INTEGER AS w, "
        "CASE WHEN i % 4 = 0 THEN NULL ELSE (i * 29 % 53)::DOUBLE END AS x, (i * 17 % 41)::INTEGER AS n, "
        "'s' || i % 2 AS s FROM range(180) AS r(i)"
    )
    return connection


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.sampled(9)
def test_any_sets_are_answered_as_duckdb_answers_them(
    table: Schema, engine: duckdb.DuckDBPyConnection, seed: int
) -> None:
    chance = random.Random(seed)
    elements = [ELEMENTS[seed % len(ELEMENTS)], *chance.sample(ELEMENTS, seed % 3)]
    used = [name for name in "abc" if re.search(rf"\b{name}\b", ", ".join(elements))]
    items = [*used, *([f"grouping({', '.join(used)})", f"grouping_id({used[-1]})"] if used else [])]
    where = chance.choice(["", "WHERE v > 4", "WHERE a = 1 AND b IS NULL", "WHERE a > 99"])
    sql = f"SELECT {', '.join([*items, PLAIN, ENCRYPTED])} FROM t {where} GROUP BY {', '.join(elements)} ORDER BY ALL"
    result = simulate(sql, table, engine, "t", parts=1 + seed % 3)
    expected = [tuple(number(value) for value in row) for row in engine.execute(sql).fetchall()]
    assert differences(result, expected) == [], sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(n) FROM t GROUP BY GROUPING SETS ((), ())",
        "SELECT sum(n), count(*) FROM t WHERE false GROUP BY ROLLUP (a, b)",
        "SELECT sum(n), count(*) FROM t WHERE false GROUP BY a, ROLLUP (b)",
        "SELECT c, grouping(c), sum(x), count(*), sum(v) FROM t GROUP BY GROUPING SETS ((c), (c, a), ()) ORDER BY ALL",
        "SELECT a + 1 AS k, grouping(k), sum(n) FROM t GROUP BY ROLLUP (k) ORDER BY ALL",
        "SELECT a AS k, sum(n) FROM t GROUP BY ROLLUP (1) ORDER BY ALL",
        "SELECT coalesce(b, 'all'), sum(n) AS s FROM t GROUP BY CUBE (b) HAVING grouping(b) = 1 OR s > 10 ORDER BY s",
        "SELECT a, sum(n) AS s FROM t GROUP BY CUBE (a, b) HAVING grouping() < 3 ORDER BY s DESC, grouping(a) LIMIT 4",
        "SELECT grouping(a), sum(n) FROM t GROUP BY a ORDER BY a",
        "SELECT 5 AS k, sum(n) FROM t GROUP BY ROLLUP (k) ORDER BY ALL",
        "SELECT a, sum(n) / count(*), sum(n) / sum(v) FROM t GROUP BY ROLLUP (a) ORDER BY a, 2",
    ],
)
def test_sets_in_other_places(table: Schema, engine: duckdb.DuckDBPyConnection, sql: str) -> None:
    expected = [tuple(number(value) for value in row) for row in engine.execute(sql).fetchall()]
    assert differences(simulate(sql, table, engine, "t", 2), expected) == []


def test_what_is_sent_is_what_the_finest_groups_need(table: Schema) -> None:
    rolled = plan_query("SELECT a, b, sum(n), avg(v) FROM t GROUP BY CUBE (a, b)", table, "t")
    finest = plan_query("SELECT a, b, sum(n), avg(v) FROM t GROUP BY a, b", table, "t")
    assert isinstance(rolled, QueryPlan)
    assert isinstance(finest, QueryPlan)
    for name in ("where", "keys", "key_types", "plain_columns", "arguments", "encrypted", "plain"):
        assert getattr(rolled, name) == getattr(finest, name)
    assert rolled.sets is not None
    assert sorted(rolled.sets) == [(), (0,), (0, 1), (1,)]
    assert finest.sets is None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT a, median(v) FROM t GROUP BY ROLLUP (a)", "combined"),
        ("SELECT grouping(v) FROM t GROUP BY ROLLUP (a)", "what the query groups by"),
        ("SELECT sum(n) FROM t WHERE grouping(a) = 0 GROUP BY ROLLUP (a)", "WHERE cannot hold GROUPING"),
        (
            "SELECT sum(n) FROM t GROUP BY CUBE (a, b, c, v, w, -a, -v, a + 1, a + 2, v + 3, v + 4)",
            "sets of keys",
        ),
        (f"SELECT sum(n) FROM t GROUP BY {', '.join(['ROLLUP (a)'] * 11)}", "2048 sets of keys"),
    ],
)
def test_what_no_service_answers(table: Schema, sql: str, reason: str) -> None:
    assert limits.MAX_GROUPING_SETS == 1024
    with pytest.raises(QueryRefused) as caught:
        plan_query(sql, table, "t", cloud_only=True)
    assert reason in caught.value.message
