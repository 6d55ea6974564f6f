"""AVG of encrypted dates, times, timestamps and intervals is DuckDB's own, to the microsecond."""

from __future__ import annotations

import random

import duckdb
import pytest

from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.cast import cast
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from tests.unit.simulate import differences, schema, simulate

ROWS = 120


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(
        g="plain BIGINT",
        d="encrypted DATE",
        s="encrypted TIMESTAMP",
        t="encrypted TIME",
        n="encrypted INTEGER",
        p="plain TIMESTAMP",
    )


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    """Before 1970 and before Christ too; in groups of 0 to many values."""
    chance = random.Random(5)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (g BIGINT, d DATE, s TIMESTAMP, t TIME, n INTEGER, p TIMESTAMP)")
    for row in range(ROWS):
        day, micros = chance.randint(-900_000, 900_000), chance.choice([1, 7, 10**6, 10**15]) * chance.randint(-99, 99)
        values = [day, micros, chance.randint(0, 86_400_000_000), chance.randint(-500, 500)]
        nulls = [None if row % 9 == 4 or chance.random() < 0.2 else value for value in values]
        connection.execute(
            "INSERT INTO t SELECT ?, DATE '1970-01-01' + ?::INTEGER, make_timestamp(?::BIGINT), "
            "TIME '00:00:00' + to_microseconds(?::BIGINT), ?, make_timestamp(?)",
            [row % 9, *nulls, micros],
        )
    return connection


ITEMS = (
    "avg(d)",
    "avg(s)",
    "mean(t)",
    "avg(s - TIMESTAMP '2001-02-03 04:05:06.789')",
    "avg(s - d)",
    "avg(s - p)",
    "avg(to_months(n) + to_days(3 * n) - to_microseconds(7 * n))",
    "avg(INTERVAL (n) MONTH)",
    "avg(s) FILTER (WHERE n > 0)",
    "avg(CASE WHEN n > 0 THEN d END)",
    "avg(s) + INTERVAL 1 DAY",
    "avg(d - DATE '2000-01-01')",
    "date_part('year', avg(d)) - 1",
    "CASE WHEN avg(s) > avg(d) THEN 'later' ELSE avg(t)::VARCHAR END",
)


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("rest", ["GROUP BY g ORDER BY g", "GROUP BY ROLLUP (g) ORDER BY g", "", "WHERE g = 99"])
@pytest.mark.sampled(10, 2)
def test_means_are_duckdbs(table: Schema, engine: duckdb.DuckDBPyConnection, item: str, rest: str) -> None:
    keys = "g, " if "g" in rest.split("WHERE", maxsplit=1)[0] else ""
    sql = f"SELECT {keys}{item} AS m FROM t {rest}"
    result = simulate(sql, table, engine, "t")
    is_number = result.types[-1] in ("DOUBLE", "BIGINT")
    shown = "m" if is_number else "m::VARCHAR"
    expected = engine.execute(f"SELECT {keys}{shown} FROM ({sql}) {'ORDER BY g' if keys else ''}").fetchall()
    assert differences(result, expected) == []
    assert result.columns[-1].source == "encrypted"
    assert all(row[-1] for row in result.exact)
    assert result.types[-1] == engine.execute(f"SELECT typeof({item}) FROM t LIMIT 1").fetchall()[0][0]


@pytest.mark.parametrize(
    "order", ["avg(d)", "avg(s - TIMESTAMP '2001-02-03') DESC", "avg(INTERVAL (n) DAY)", "avg(s) DESC NULLS LAST"]
)
def test_they_are_ordered_as_what_they_are(table: Schema, engine: duckdb.DuckDBPyConnection, order: str) -> None:
    """Not as text, by which 9 days come after 10."""
    sql = f"SELECT g FROM t GROUP BY g ORDER BY {order}, g LIMIT 6"
    assert differences(simulate(sql, table, engine, "t"), engine.execute(sql).fetchall()) == []


def test_having_compares_them(table: Schema, engine: duckdb.DuckDBPyConnection) -> None:
    having = "avg(s) > TIMESTAMP '1970-01-01' AND avg(d) < DATE '2900-01-01'"
    sql = f"SELECT g, count(*) FROM t GROUP BY g HAVING {having} ORDER BY g"
    expected = engine.execute(sql).fetchall()
    assert 0 < len(expected) < 9
    assert differences(simulate(sql, table, engine, "t"), expected) == []


def test_a_day_takes_no_more_than_its_32_bits(table: Schema) -> None:
    plan = plan_query("SELECT avg(d), avg(t), avg(d - DATE '2000-01-01') FROM t", table, "t")
    assert isinstance(plan, QueryPlan)
    widths = {argument.type: argument.domain.width for argument in plan.arguments if not argument.counted}
    assert widths["INTEGER"] == 2**32 - 1
    assert widths["BIGINT"] in (86_400_000_000, 2**33)
    assert all(argument.counted or argument.domain.width < 2**37 for argument in plan.arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("3 days 04:05:06.789", "3 days 04:05:06.789"),
        ("1 year 2 months", "1 year 2 months"),
        ("-5 days -00:00:01", "-5 days -00:00:01"),
        ("27:05", "27:05:00"),
        (" 90 minutes ", "01:30:00"),
        ("2 months 1 day 00:00:00.000001", "2 months 1 day 00:00:00.000001"),
        ("", None),
        ("P3D", "unreadable"),
        ("3", "unreadable"),
        ("3 fortnights", "unreadable"),
        ("3 days ago", "unreadable"),
        ("1.5 days", "unreadable"),
    ],
)
def test_a_field_is_an_interval_as_duckdb_writes_them(field: str, value: str | None) -> None:
    made = cast("f", Column("f", Kind.ENCRYPTED, "INTERVAL"), CsvDialect())
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT ?::VARCHAR AS f", [field])
        ((unreadable,),) = connection.execute(f"SELECT coalesce({made.unreadable}, false) FROM t").fetchall()
        assert unreadable == (value == "unreadable")
        if not unreadable:
            assert connection.execute(f"SELECT ({made.value})::VARCHAR FROM t").fetchall() == [(value,)]
