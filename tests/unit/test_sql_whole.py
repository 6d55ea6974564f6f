"""A question DuckDB answers as a whole: what it may name, and what the plan of it says."""

from __future__ import annotations

import duckdb
import pytest

from cleave.sql import functions
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema

WARDS = schema(ward="local VARCHAR", beds="local BIGINT")


@pytest.fixture(scope="module")
def t() -> Schema:
    return schema(ward="plain VARCHAR", day="plain DATE", age="encrypted BIGINT", name="sealed VARCHAR")


def plan(sql: str, t: Schema, table: str = "t") -> LocalPlan:
    made = plan_query(sql, t, table, others={"wards": WARDS})
    assert isinstance(made, LocalPlan)
    return made


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ward FROM t",
        "SELECT age FROM t",
        "SELECT * FROM t",
        "FROM t",
        "TABLE t",
        "DESCRIBE t",
        "SUMMARIZE t",
        "VALUES (1), (2)",
        "SELECT sum(age) OVER (PARTITION BY ward) FROM t",
        "SELECT ward, sum(age) FROM t GROUP BY ward QUALIFY row_number() OVER () = 1",
        "WITH x AS (SELECT * FROM t) SELECT count(*) FROM x",
        "WITH t AS (SELECT 1 AS a) SELECT a FROM t",  # shadows the table
        "WITH t AS (SELECT ward FROM t) SELECT ward FROM t",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT x FROM b",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
        "WITH RECURSIVE r(a, b) USING KEY (a) AS (SELECT 1, 1 UNION SELECT a, b + 1 FROM recurring.r WHERE b < 3) "
        "FROM r",
        "SELECT * FROM (SELECT ward FROM T UNION ALL SELECT ward FROM main.wards)",
        "SELECT ward FROM t WHERE age = (SELECT max(age) FROM t)",
        "SELECT ward, beds FROM t JOIN wards USING (ward)",
        'SELECT "T".ward FROM "T", LATERAL (SELECT age) AS x',
        "PIVOT t ON ward IN ('A', 'B') USING sum(age)",
        "UNPIVOT (SELECT age FROM t) ON age",
        "SELECT * FROM t LIMIT 10%",
        "SELECT COLUMNS(lambda c: c LIKE 'a%') FROM t",
        "SELECT unnest([1, 2]), ward FROM t",
        "SELECT x FROM range(3) AS r(x)",
        "SELECT age.abs() FROM t",
        "SELECT list(ward ORDER BY ward)[1] FROM t",
        "SELECT [a + 1 FOR a IN [age]] FROM t",
        "SELECT list_transform([age], lambda a: a + 1) FROM t",
        "SELECT now() - day, current_date, ward FROM t",
        "SELECT ward AS now, now FROM t",
        "SELECT * FROM t USING SAMPLE 3 ROWS (reservoir, 7)",
        "SELECT ward COLLATE nocase FROM t",
        "SELECT sum(age) FROM t; -- all of it",
    ],
)
def test_a_query_that_no_service_can_answer_is_answered_here(sql: str, t: Schema) -> None:
    made = plan_query(sql, t, "t", others={"wards": WARDS})
    if isinstance(made, LocalPlan):
        assert made.statement.text == sql
        assert {output.source for output in made.outputs} == {"local"}
        assert made.reason
        assert len(made.types) == len(made.outputs)
    else:
        assert sql.startswith("SELECT sum(age) FROM t;")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        # other tables, and what would find some
        ("SELECT * FROM other", "no table 'other'"),
        ("SELECT DISTINCT 1 FROM memory.main.t", "no table 'memory.main.t'"),
        ("SELECT * FROM information_schema.tables", "no table"),
        ("SELECT * FROM pg_catalog.pg_tables", "no table"),
        ("SELECT * FROM duckdb_tables", "no table"),
        ("WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables", "no table"),
        ("WITH a AS (SELECT * FROM sqlite_master), sqlite_master AS (SELECT 1) SELECT * FROM a", "no table"),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x), x", "no table 'x'"),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM sqlite_master)", "no table"),
        ("SELECT * FROM duckdb_settings()", "duckdb_settings() reads"),
        ("SELECT * FROM pragma_table_info('t')", "pragma_table_info() reads"),
        ("SHOW TABLES", "no table"),
        ("SELECT * FROM (SHOW DATABASES)", "no table"),
        ("SELECT * FROM query('SELECT 1')", "query() reads"),
        ("SELECT * FROM query_table('t')", "query_table() reads"),
        ("SELECT * FROM histogram(t, age)", "histogram() reads"),
        ("SELECT * FROM json_execute_serialized_sql('{}')", "reads"),
        # files
        ("SELECT * FROM '/etc/passwd'", "no table '/etc/passwd'"),
        ("SELECT * FROM 'x.csv'", "no table 'x.csv'"),
        ("SELECT DISTINCT * FROM read_csv('x.csv')", "read_csv() reads"),
        ("SELECT * FROM t, read_text('/etc/passwd')", "read_text() reads"),
        ("SELECT * FROM glob('*')", "glob() reads"),
        ("SELECT DISTINCT (SELECT content FROM read_text('/etc/passwd')) FROM t", "read_text() reads"),
        ("FROM t SELECT (FROM parquet_metadata('x'))", "no function PARQUET_METADATA"),
        # what differs from call to call, or tells of this machine
        ("SELECT random() FROM t", "random"),
        ("SELECT DISTINCT ward FROM t ORDER BY random()", "random"),
        ("SELECT list_transform([age], lambda x: x + random()) FROM t", "random"),
        ("SELECT DISTINCT getenv('HOME') FROM t", "getenv"),
        ("SELECT system.main.current_setting('threads') FROM t", "current_setting"),
        ("SELECT DISTINCT current_user FROM t", "current_user"),
        ("SELECT DISTINCT version() FROM t", "no function VERSION"),
        ("SELECT MAX(version()), AVG(age) FROM t", "no function VERSION"),
        ("SELECT SUM(age) FROM t WHERE ward = pg_get_viewdef(1)", "no function PG_GET_VIEWDEF"),
        ("SELECT DISTINCT pg_get_viewdef(1) FROM t", "no function PG_GET_VIEWDEF"),
        ("SELECT DISTINCT nextval('x') FROM t", "nextval"),
        ("SELECT reservoir_quantile(age, 0.5) OVER () FROM t", "reservoir_quantile"),
        # no SELECT, or no value
        ("SELECT DISTINCT ward FROM t WHERE age > ?", "parameter"),
        ("SELECT DISTINCT ward FROM t WHERE age > $limit", "parameter"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1; DROP TABLE t", ""),
        ("ATTACH 'x.db'", "SELECT"),
        ("COPY t TO 'x.csv'", "SELECT"),
        ("SET threads = 1", "SELECT"),
        ("EXPLAIN SELECT 1", "SELECT"),
        ("INSTALL httpfs", "SELECT"),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "SELECT"),
        ("WITH x AS (INSERT INTO t VALUES ('a') RETURNING *) SELECT * FROM x", "SELECT"),
        ("CREATE TABLE x AS SELECT * FROM t", "SELECT"),
        ("CALL pragma_version()", "SELECT"),
        ("PIVOT t ON ward", "SELECT"),
        # what DuckDB does not understand either
        ("SELECT DISTINCT wardd FROM t", "there is no column 'wardd'"),
        ("SELECT DISTINCT nosuch(ward) FROM t", "no function NOSUCH"),
        ("SELECT FROM WHERE", "syntax error"),
    ],
)
def test_a_query_that_nobody_can_answer_is_refused(sql: str, reason: str, t: Schema) -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query(sql, t, "t", others={"wards": WARDS})
    assert reason in refused.value.message


def test_the_plan_names_what_may_be_read(t: Schema) -> None:
    made = plan("SELECT ward, beds FROM t JOIN Wards USING (ward) WHERE age > 3 ORDER BY 2", t)
    assert made.rows()["t"] == ("ward", "age")
    assert made.reads["wards"] == ("ward", "beds")
    assert (made.reason, made.types) == ("no service answers a join", ("VARCHAR", "BIGINT"))
    assert plan("SELECT * FROM t", t).rows()["t"] == ("ward", "day", "age", "name")
    assert plan("SELECT * FROM wards", t).rows()["t"] == ()
    assert plan("SELECT DISTINCT 1", t).reads == {"t": ()}


def test_only_what_a_service_cannot_answer_is_answered_here(t: Schema) -> None:
    made = plan_query("SELECT ward, avg(age) FROM t GROUP BY ward", t, "t", others={"wards": WARDS})
    assert isinstance(made, QueryPlan)
    assert not made.sends_nothing
    with pytest.raises(QueryRefused, match="SELECT DISTINCT"):
        plan_query("SELECT DISTINCT ward FROM t", t, "t", cloud_only=True)


@pytest.mark.parametrize(
    "name", ["source", "selected", "grouped", "memory", "the answer", "select", 'a"b', "main", "t.x"]
)
def test_a_table_may_be_called_anything(name: str, t: Schema) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert plan(f"SELECT DISTINCT {quoted}.ward FROM {quoted}", t, name).rows()[name] == ("ward",)


def test_every_function_of_tables_is_known_or_refused() -> None:
    """What DuckDB has and nobody looked at yet is refused; what is let through makes rows of its arguments alone."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')"
        ).fetchall()
    harmless = {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
    assert {name for (name,) in rows} & functions.ROW_MAKING == harmless


def test_a_reason_is_given_without_the_literals_of_the_question(t: Schema) -> None:
    for sql in (
        "SELECT DISTINCT nosuch('secret') FROM t",
        "SELECT DISTINCT 'secret'::DATE FROM t WHERE wrd = 'secret'",
    ):
        with pytest.raises(QueryRefused) as refused:
            plan_query(sql, t, "t")
        assert "secret" not in f"{refused.value.message} {refused.value.hint}"
