"""What DuckDB runs is its own text of the tree that was checked, and reads as that tree; parameters are nodes of it."""

from __future__ import annotations

import datetime

import duckdb
import pytest

from cleave.sql import read
from cleave.sql.read import read_statement
from cleave_shared.errors import InputError, QueryRefused

SPELLINGS = """
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(i, t), (VALUES (3)) ORDER BY ALL
WITH a(x) AS (VALUES (1), (2)) SELECT x FROM a WHERE x IN (VALUES (2))
SELECT [v FOR v IN [1, 2, 3] IF v > 1]
SELECT a, b, c, count(*) FROM t GROUP BY ROLLUP (a, b), CUBE (c) ORDER BY ALL
SELECT a, b, c, count(*) FROM t GROUP BY a, ROLLUP (b), GROUPING SETS ((c), (b, c)) ORDER BY ALL
SELECT DISTINCT ON (a) a, b FROM t ORDER BY ALL LIMIT 50%
SELECT a.* EXCLUDE (b) REPLACE (a + 1 AS a) RENAME (c AS d) FROM t AS a ORDER BY ALL
SELECT * EXCLUDE (t.a, t.c) FROM t ORDER BY ALL
SELECT * EXCLUDE (t.c, main.t.a) RENAME (t.b AS x) FROM t ORDER BY ALL
SELECT * RENAME (t.b AS x, t.a AS y, c AS z) FROM t ORDER BY ALL
SELECT * REPLACE (a + 1 AS c, c AS a) FROM t ORDER BY ALL
SELECT x.* EXCLUDE (x.b, x.a, x.c), y.* RENAME (y.c AS e, y.b AS d) FROM t x JOIN t y ON x.a = y.c ORDER BY ALL
SELECT COLUMNS(* EXCLUDE (t.a, t.b)) FROM t ORDER BY ALL
SELECT first_value(a RESPECT NULLS) OVER (ORDER BY a), last_value(a RESPECT NULLS) OVER (ORDER BY a) FROM t ORDER BY ALL
SELECT lag(a RESPECT NULLS) OVER (ORDER BY a), lead(a RESPECT NULLS) OVER (ORDER BY a) FROM t ORDER BY ALL
SELECT nth_value(a, 2 RESPECT NULLS) OVER (ORDER BY a), lead(a IGNORE NULLS) OVER (ORDER BY c) FROM t ORDER BY ALL
SELECT ntile(2 RESPECT NULLS) OVER (ORDER BY a), lag(a IGNORE NULLS) OVER (ORDER BY a) FROM t ORDER BY ALL
SELECT sum(a) FILTER (a > 1) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY 1
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r ORDER BY n
FROM t SELECT 'it''s', e'\\n', $$?$$, x'ff', -5, 1e3, 1_000, {'a': 1}, MAP {'k': 2}, "a" AS "odd "" name" ORDER BY ALL
PIVOT t ON b IN ('x', 'y') USING sum(a)
SELECT a FROM t -- ; DROP TABLE t
SELECT 1 AS one; /* nothing */ ;
"""


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t AS SELECT i AS a, ['x', 'y'][1 + i % 2] AS b, i % 3 AS c FROM range(7) AS r(i)")
    return connection


@pytest.mark.parametrize("sql", SPELLINGS.strip().splitlines())
def test_duckdbs_own_text_of_a_statement_has_its_answer_and_names(engine: duckdb.DuckDBPyConnection, sql: str) -> None:
    text = read_statement(sql).sql
    again, first = engine.execute(text), engine.cursor().execute(sql)
    assert [each[:2] for each in again.description] == [each[:2] for each in first.description]
    assert again.fetchall() == first.fetchall()
    assert ";" not in text


def test_text_that_reads_as_another_tree_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    statement = read_statement("SELECT a FROM t WHERE a > 1")
    monkeypatch.setattr(read, "text_of", lambda _: "SELECT a FROM t WHERE a > 2")
    with pytest.raises(QueryRefused, match="not supported"):
        _ = statement.sql


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "", "DROP TABLE t", "SELECT 1; DROP TABLE t", "SELECT"])
def test_only_one_select_is_run(sql: str) -> None:
    with pytest.raises(QueryRefused, match="one at a time"):
        _ = read_statement(sql).sql


def test_a_parameter_is_one_constant_wherever_it_stands(engine: duckdb.DuckDBPyConnection) -> None:
    day = datetime.date(2024, 2, 29)
    statement = read_statement(
        "SELECT ?, ? + 1, a FROM t WHERE b = ? AND a < ? ORDER BY a LIMIT ?", ["?", 2, "x", 5, 2]
    )
    assert engine.execute(statement.sql).fetchall() == [("?", 3, 0), ("?", 3, 2)]
    assert "PARAMETER" not in str(statement.tree)
    statement = read_statement("SELECT ? + INTERVAL 1 DAY AS d", [day])
    assert engine.execute(statement.sql).fetchall() == [(datetime.datetime(2024, 3, 1),)]  # noqa: DTZ001 - DuckDB's


@pytest.mark.parametrize("sql", ["SELECT ?", "SELECT ?, ?, ?", "SELECT $2, $3", "SELECT $name, $other"])
def test_parameters_fit_the_placeholders(sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"has \d placeholders?, and values of 2 are given"):
        read_statement(sql, [1, 2])


def test_what_is_no_text_is_not_parsed() -> None:
    for sql in ("SELECT '\ud800'", "\udfff"):
        with pytest.raises(QueryRefused, match="Unicode"):
            read_statement(sql)
    with pytest.raises(InputError, match="a query is text, not bytes"):
        read_statement(b"SELECT 1")  # type: ignore[arg-type]
