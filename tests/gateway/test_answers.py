"""Answers over MySQL's protocol are DuckDB's over the same tables, types included."""

from __future__ import annotations

import datetime
from contextlib import closing
from decimal import Decimal

import mysql.connector
import pymysql
import pytest

from tests.gateway.conftest import PASSWORD, Gateway

QUESTIONS = (
    "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), MIN(day), MAX(seen), MAX(big) FROM visits WHERE ward = 'A'",
    "SELECT * FROM visits ORDER BY id LIMIT 40",
    "SELECT region, COUNT(bill) AS n FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region",
    "SELECT name, level, insured FROM visits WHERE id BETWEEN 10 AND 17 ORDER BY id",
    "SELECT SUM(big) AS total, SUM(big::HUGEINT * 1000000000000) AS wide FROM visits",
    "WITH w AS (SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward) SELECT MAX(s) FROM w",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY n DESC, day LIMIT 5",
)
IN_MYSQL = {
    'SELECT `ward`, COUNT(*) AS n FROM `cleave`.`visits` WHERE `ward` = "A" GROUP BY 1': (
        "SELECT ward, COUNT(*) AS n FROM visits WHERE ward = 'A' GROUP BY 1"
    ),
    "SELECT DATE_FORMAT(`day`, '%Y-%m') AS m, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1": (
        "SELECT strftime(day, '%Y-%m') AS m, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1"
    ),
    "SELECT IFNULL(`ward`, '-') AS w, COUNT(*) AS n FROM `visits` GROUP BY 1 ORDER BY 1 LIMIT 1, 2": (
        "SELECT coalesce(ward, '-') AS w, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1 LIMIT 2 OFFSET 1"
    ),
    "SELECT str_to_date(concat(yearweek(`day`), ' Sunday'), '%X%V %W') AS w, COUNT(*) AS n FROM `visits` GROUP BY 1 "
    "ORDER BY 1": (
        "SELECT date_trunc('week', day + 1)::DATE - 1 AS w, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1"
    ),
    "SELECT DAYOFWEEK(`day`) AS d, WEEKDAY(`day`) AS e, WEEK(`day`, 3) AS w, WEEK(`day`) AS v, COUNT(*) AS n "
    "FROM `visits` GROUP BY 1, 2, 3, 4 ORDER BY 1, 3, 4": (
        "SELECT dayofweek(day) + 1 AS d, (dayofweek(day) + 6) % 7 AS e, weekofyear(day) AS w, "
        "strftime(day, '%U')::INTEGER AS v, COUNT(*) AS n FROM visits GROUP BY 1, 2, 3, 4 ORDER BY 1, 3, 4"
    ),
    "SELECT MAKEDATE(YEAR(`day`), 32) AS y, ADDDATE(MAX(`day`), INTERVAL 2 DAY) AS a, SUBDATE(MAX(`day`), INTERVAL 1 "
    "MONTH) AS b FROM `visits` GROUP BY YEAR(`day`) ORDER BY 1": (
        "SELECT make_date(year(day), 2, 1), max(day) + INTERVAL 2 DAY, max(day) - INTERVAL 1 MONTH FROM visits "
        "GROUP BY year(day) ORDER BY 1"
    ),
    "SELECT UNIX_TIMESTAMP(seen) DIV 86400 * 86400 AS time, COUNT(*) AS n FROM visits WHERE seen BETWEEN "
    "FROM_UNIXTIME(1704070000) AND FROM_UNIXTIME(1704200000) GROUP BY 1 ORDER BY 1": (
        "SELECT epoch(date_trunc('day', seen))::BIGINT AS time, COUNT(*) AS n FROM visits WHERE seen BETWEEN "
        "make_timestamp(1704070000000000) AND make_timestamp(1704200000000000) GROUP BY 1 ORDER BY 1"
    ),
    "SELECT REGEXP_SUBSTR(`region`, '[r-t]+') AS r FROM `wards` ORDER BY 1": (
        "SELECT regexp_extract(region, '[r-t]+') AS r FROM wards ORDER BY 1"
    ),
    "SELECT YEAR(`day`) AS y, SUM(`bill`) AS s FROM `visits` GROUP BY YEAR(`day`) ORDER BY y": (
        "SELECT year(day) AS y, SUM(bill) AS s FROM visits GROUP BY 1 ORDER BY 1"
    ),
}


def plain(value: object) -> object:
    """A value of DuckDB's as MySQL's drivers have it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime.time):
        midnight = datetime.datetime.combine(datetime.date(1, 1, 1), datetime.time())
        return datetime.datetime.combine(datetime.date(1, 1, 1), value) - midnight
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return Decimal(value)
    return value


def expected(gateway: Gateway, sql: str) -> list[tuple[object, ...]]:
    return [tuple(map(plain, row)) for row in gateway.truth.execute(sql).fetchall()]


def alike(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Integers of 128 bits are decimals on the way."""
    whole = Decimal(1)
    return [
        tuple(int(each) if isinstance(each, Decimal) and each == each.to_integral() and each.as_tuple().exponent == 0
              and whole else each for each in row)
        for row in rows
    ]  # fmt: skip


def test_texts_over_pymysql(gateway: Gateway) -> None:
    for sql in QUESTIONS:
        assert alike(gateway.rows(sql)) == alike(expected(gateway, sql)), sql


def test_mysqls_dialect(gateway: Gateway) -> None:
    for sql, duck in IN_MYSQL.items():
        assert gateway.rows(sql) == expected(gateway, duck), sql


def test_prepared_statements(gateway: Gateway) -> None:
    nasty = ["O'Hara \\ \"\U0001f6001", "' OR '1'='1", "\\' OR 1=1 -- ", "?", "A'; DROP TABLE visits", "`", '"', "\\"]
    with closing(
        mysql.connector.connect(
            host="127.0.0.1", port=gateway.port, user="owner", password=PASSWORD, use_pure=True, database="cleave"
        )
    ) as connection:
        cursor = connection.cursor(prepared=True)
        for sql in QUESTIONS:
            cursor.execute(sql)
            assert alike([tuple(row) for row in cursor.fetchall()]) == alike(expected(gateway, sql)), sql
        for text in nasty:
            cursor.execute("SELECT COUNT(*) AS n FROM visits WHERE name = ?", (text,))
            ((found,),) = cursor.fetchall()
            assert found == gateway.truth.execute("SELECT COUNT(*) FROM visits WHERE name = ?", [text]).fetchone()[0]
        given = (7, datetime.date(2024, 3, 1), Decimal("12.50"), 0.25, None)
        sql = "SELECT COUNT(*) FROM visits WHERE id > ? AND day >= ? AND bill > ? AND level > ? AND coalesce(?, 1) = 1"
        cursor.execute(sql, given)
        assert cursor.fetchall() == gateway.truth.execute(sql, given).fetchall()
        cursor.execute("SELECT COUNT(*) FROM `visits` WHERE `name` = ? AND \"?\" = '?'", (nasty[0],))
        assert cursor.fetchall() == [(1,)]


TIMES = (datetime.time(7, 30, 15, 250_000), datetime.time(), datetime.time(23, 59, 59, 999_999))
CLOCKS = ("clock = ?", "clock > ?", "? >= clock", "clock IN (?)", "clock BETWEEN '01:00:00' AND ?", "clock <> ?")


def test_times_as_parameters(gateway: Gateway) -> None:
    with closing(
        mysql.connector.connect(
            host="127.0.0.1", port=gateway.port, user="owner", password=PASSWORD, use_pure=True, database="cleave"
        )
    ) as connection:
        cursor = connection.cursor(prepared=True)
        for condition in CLOCKS:
            for time in TIMES:
                sql = f"SELECT COUNT(*) FROM visits WHERE {condition}"
                cursor.execute(sql, (time,))
                assert cursor.fetchall() == gateway.truth.execute(sql, [time]).fetchall(), (condition, time)
        for span in (datetime.timedelta(hours=27, microseconds=1), -datetime.timedelta(minutes=90)):
            sql = "SELECT COUNT(*) FROM visits WHERE seen - TIMESTAMP '2024-01-01' > ?"
            cursor.execute(sql, (span,))
            assert cursor.fetchall() == gateway.truth.execute(sql, [span]).fetchall(), span


def test_a_text_is_a_value_on_every_way(gateway: Gateway) -> None:
    sql = "SELECT COUNT(*) FROM `visits` WHERE `ward` = %s"
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        for text in ("A", "\\' OR 1=1 -- ", "' OR ''='"):
            cursor.execute(sql, (text,))
            ((found,),) = cursor.fetchall()
            assert found == gateway.truth.execute("SELECT COUNT(*) FROM visits WHERE ward = ?", [text]).fetchone()[0]


def test_bounds_and_warnings(gateway: Gateway) -> None:
    with closing(gateway.connect("counter")) as connection, connection.cursor() as cursor:
        cursor.execute("SET cleave_bounds = 1")
        cursor.execute("SELECT ward, SUM(level) AS s FROM visits GROUP BY ward ORDER BY ward")
        assert [each[0] for each in cursor.description] == ["ward", "s", "s_bound"]
        truth = expected(gateway, "SELECT ward, fsum(level) FROM visits GROUP BY ward ORDER BY ward")
        for (ward, total, bound), (same, exact) in zip(cursor.fetchall(), truth, strict=True):
            assert ward == same
            assert abs(total - exact) <= bound + 1e-9
        cursor.execute("SHOW WARNINGS")
        ((level, code, message),) = cursor.fetchall()
        assert (level, code) == ("Note", 0)
        assert "column s: values are within" in message
        cursor.execute("SET cleave_bounds = 0")
        cursor.execute("SELECT SUM(level) AS s FROM visits")
        assert [each[0] for each in cursor.description] == ["s"]


def test_a_limit_of_the_session_holds(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SQL_SELECT_LIMIT = 3")
        cursor.execute("SELECT id FROM visits ORDER BY id")
        assert cursor.fetchall() == ((0,), (1,), (2,))


REFUSED = [
    ("INSERT INTO visits VALUES (1)", "SELECT"),
    ("DROP TABLE visits", "nothing can be changed"),
    ("CREATE TABLE x AS SELECT * FROM visits", "SELECT"),
    ("SELECT 1; SELECT 2", "several statements"),
    ("SELECT * FROM nowhere", "there is no table 'nowhere'"),
    ("SELECT nothing FROM visits", "there is no column 'nothing'"),
    ("SELECT * FROM read_csv('/etc/passwd')", "read_csv() reads something other than the table (--with FILE adds"),
    ("SET @x = 1", "@x cannot be set"),
    ("SELECT @x", "there is no variable @x"),
    ("SELECT COUNT(*) FROM visits WHERE ward = @x", "there is no variable @x"),
    ("SELECT WEEK(`day`, 6) FROM visits", "WEEK() is answered with mode 0 or 3 only"),
    ("SELECT FROM_UNIXTIME(`id`, '%Y') FROM visits", "FROM_UNIXTIME() takes one argument"),
    ("EXPLAIN SELECT 1", "EXPLAIN is not answered here"),
    ("SELECT * FROM '/etc/passwd'", ""),
    ("SELECT * FROM query('SELECT 42')", ""),
    ("SELECT * FROM duckdb_settings()", ""),
    ("SELECT content FROM read_text('/proc/self/environ'), visits", ""),
    ("COPY visits TO '/tmp/x'", "nothing can be changed"),
    ("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE visits", ""),
    ("SELECT", ""),
    ("SELECT ((((", ""),
    ("SELECT '", ""),
]


def test_what_is_refused(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        for sql, words in REFUSED:
            with pytest.raises(pymysql.err.Error) as caught:
                cursor.execute(sql)
            assert words in str(caught.value), sql
            assert str(gateway.folder) not in str(caught.value), sql
        cursor.execute("SELECT COUNT(*) FROM wards")
        assert cursor.fetchall() == ((3,),)


def test_what_mysql_has_no_values_for(gateway: Gateway) -> None:
    values = (
        "'NaN'::DOUBLE, '-inf'::FLOAT, DATE '0001-01-01' - 400, TIMESTAMP 'infinity', 1e300, [1, 2], INTERVAL 1 DAY"
    )
    told = (None, None, None, None, 1e300, "[1, 2]", "1 day")
    assert gateway.rows(f"SELECT {values}") == [told]
    assert gateway.rows(f"SELECT {values}, {{'a': name}} AS s FROM visits WHERE id = 0") == [(*told, "{'a': NULL}")]
