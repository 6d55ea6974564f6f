"""Answers over PostgreSQL's protocol are DuckDB's over the same tables, types included."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import uuid
from contextlib import closing
from decimal import Decimal

import psycopg
import pytest

from tests.gateway.conftest import Gateway

QUESTIONS = (
    "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), MIN(day), MAX(seen), MAX(big) FROM visits WHERE ward = 'A'",
    "SELECT * FROM visits ORDER BY id LIMIT 40",
    "SELECT region, COUNT(bill) AS n FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region",
    "SELECT name, level, insured FROM visits WHERE id BETWEEN 10 AND 17 ORDER BY id",
    "SELECT SUM(big) AS total, SUM(big::HUGEINT * 1000000000000) AS wide FROM visits",
    "WITH w AS (SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward) SELECT MAX(s) FROM w",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY n DESC, day LIMIT 5",
    'SELECT "visits"."ward" FROM "public"."visits" WHERE "public"."visits"."id" < 3 ORDER BY "visits"."id"',
)
TIMES = (datetime.time(7, 30, 15, 250_000), datetime.time(), datetime.time(23, 59, 59, 999_999))
CLOCKS = ("clock = ?", "clock > ?", "? >= clock", "clock IN (?)", "clock BETWEEN '01:00:00' AND ?", "clock <> ?")
# By SQL: the OID of PostgreSQL's type, and psycopg's value of it.
TYPES = {
    "TRUE": (16, True),
    "FALSE": (16, False),
    "(-7)::TINYINT": (21, -7),
    "7::UTINYINT": (21, 7),
    "(-32768)::SMALLINT": (21, -32768),
    "65535::USMALLINT": (23, 65535),
    "(-2147483648)::INTEGER": (23, -(2**31)),
    "4294967295::UINTEGER": (20, 2**32 - 1),
    "(-9223372036854775808)::BIGINT": (20, -(2**63)),
    "18446744073709551615::UBIGINT": (1700, Decimal(2**64 - 1)),
    "12345678901234567890123456789012345678::HUGEINT": (1700, Decimal("12345678901234567890123456789012345678")),
    "(-1)::HUGEINT": (1700, Decimal(-1)),
    "0::HUGEINT": (1700, Decimal(0)),
    "0.5::FLOAT": (700, 0.5),
    "100000::FLOAT": (700, 100000.0),
    "1e30::FLOAT": (700, None),
    "0.1::DOUBLE": (701, 0.1),
    "-1e300::DOUBLE": (701, -1e300),
    "1e15::DOUBLE": (701, 1e15),
    "123456789012345680::DOUBLE": (701, 123456789012345680.0),
    "'inf'::DOUBLE": (701, math.inf),
    "'-inf'::FLOAT": (700, -math.inf),
    "12.50::DECIMAL(9, 2)": (1700, Decimal("12.50")),
    "(-0.0001)::DECIMAL(9, 4)": (1700, Decimal("-0.0001")),
    "10000::DECIMAL(9, 4)": (1700, Decimal("10000.0000")),
    "99990000.00010000::DECIMAL(38, 8)": (1700, Decimal("99990000.00010000")),
    "0::DECIMAL(38, 38)": (1700, Decimal(0).scaleb(-38)),
    "'O''Hara \\ \"' || chr(128512)": (25, "O'Hara \\ \"\U0001f600"),
    "''": (25, ""),
    "'\\xAB\\x00z'::BLOB": (17, b"\xab\0z"),
    "''::BLOB": (17, b""),
    "DATE '2024-02-29'": (1082, datetime.date(2024, 2, 29)),
    "DATE '0001-01-01'": (1082, datetime.date(1, 1, 1)),
    "DATE '9999-12-31'": (1082, datetime.date(9999, 12, 31)),
    "TIME '23:59:59.000001'": (1083, datetime.time(23, 59, 59, 1)),
    "TIMESTAMP '1999-12-31 23:59:59.999999'": (1114, datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
    "TIMESTAMP_S '1900-03-01 00:00:00'": (1114, datetime.datetime(1900, 3, 1)),  # noqa: DTZ001
    "TIMESTAMPTZ '2024-01-01 10:00:00+02'": (1184, datetime.datetime(2024, 1, 1, 8, tzinfo=datetime.UTC)),
    "TIMETZ '12:00:00+02:30'": (
        1266,
        datetime.time(12, tzinfo=datetime.timezone(datetime.timedelta(hours=2, minutes=30))),
    ),
    "INTERVAL '40 days 01:02:03.5'": (1186, datetime.timedelta(40, 3723.5)),
    "INTERVAL '-1 day'": (1186, datetime.timedelta(-1)),
    "INTERVAL '-0.5 seconds'": (1186, datetime.timedelta(seconds=-0.5)),
    "'12345678-1234-5678-1234-567812345678'::UUID": (2950, uuid.UUID("12345678123456781234567812345678")),
    "[1, NULL, 3]": (1007, [1, None, 3]),
    "['a''b', '\"', '']": (1009, ["a'b", '"', ""]),
    "[[1], NULL]": (114, [[1], None]),
    "{'a': 1, 'b': [DATE '2024-01-01']}": (114, {"a": 1, "b": ["2024-01-01"]}),
    "MAP {'k': 1.5}": (114, {"k": 1.5}),
    "'{\"a\": 1}'::JSON": (114, {"a": 1}),
    "'101'::BIT": (25, "101"),
    "'b'::ENUM('a', 'b')": (25, "b"),
    "TIMESTAMP_NS '2024-01-01 00:00:00.123456789'": (25, "2024-01-01 00:00:00.123456789"),
}
# Values for which psycopg has none, in PostgreSQL's text.
SHOWN = {
    "DATE '0044-03-15 (BC)'": "0044-03-15 BC",
    "TIMESTAMP '0044-03-15 (BC) 12:00:00'": "0044-03-15 12:00:00 BC",
    "DATE '20240-01-01'": "20240-01-01",
    "DATE 'infinity'": "infinity",
    "TIMESTAMP '-infinity'": "-infinity",
    "INTERVAL '1 year 2 months 3 days'": "1 year 2 mons 3 days",
    "1e15::DOUBLE": "1e+15",
    "-1234567::FLOAT": "-1.234567e+06",
    "1e-7::DOUBLE": "1e-07",
    "123456::FLOAT": "123456",
    "'NaN'::DOUBLE": "NaN",
    "1e30::FLOAT": "1e+30",
}


def plain(value: object) -> object:
    """A value of DuckDB's as PostgreSQL's drivers have it."""
    return Decimal(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value


def expected(gateway: Gateway, sql: str) -> list[tuple[object, ...]]:
    sql = sql.replace('"public".', "")
    return [tuple(map(plain, row)) for row in gateway.truth.execute(sql).fetchall()]


def alike(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Integers of 128 bits are decimals on the way."""
    whole = [
        [int(each) if isinstance(each, Decimal) and each.as_tuple().exponent == 0 else each for each in row]
        for row in rows
    ]
    return list(map(tuple, whole))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_rows_are_those_of_duckdb(gateway: Gateway, binary: bool) -> None:
    with closing(gateway.connect()) as connection, connection.cursor(binary=binary) as cursor:
        for sql in QUESTIONS:
            for prepare in (False, True):
                rows = cursor.execute(sql, prepare=prepare).fetchall()
                assert alike(rows) == alike(expected(gateway, sql)), sql


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types_are_those_of_postgresql(gateway: Gateway, binary: bool) -> None:
    """With a table and without: values of both come another way."""
    for source in ("", " FROM wards WHERE ward = 'A'"):
        with closing(gateway.connect()) as connection, connection.cursor(binary=binary) as cursor:
            for some in itertools.batched(TYPES.items(), 12) if hasattr(itertools, "batched") else [TYPES.items()]:
                cursor.execute(f"SELECT {', '.join(sql for sql, _ in some)}{source}")
                (row,) = cursor.fetchall()
                for (sql, (oid, value)), found, column in zip(some, row, cursor.description, strict=True):
                    assert column.type_code == oid, sql
                    if value is not None:
                        assert (found, type(found)) == (value, type(value)), sql
            assert cursor.execute(f"SELECT NULL, NULL::INTEGER[], 'NaN'::DOUBLE{source}").fetchall()[0][:2] == (
                None,
                None,
            )


def test_texts_that_psycopg_does_not_read(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(SHOWN)}")
        shown = [cursor.pgresult.get_value(0, place).decode() for place in range(len(SHOWN))]
        assert shown == list(SHOWN.values())


def test_dates_in_binary_are_days_since_2000(gateway: Gateway) -> None:
    """For every month of 800 years, and years before 1."""
    dates = "SELECT DATE '1600-02-28' + (i * 17)::INTEGER FROM range(16000) r(i)"
    with closing(gateway.connect()) as connection, connection.cursor(binary=True) as cursor:
        assert cursor.execute(dates).fetchall() == gateway.truth.execute(dates).fetchall()
        cursor.execute("SELECT DATE '0001-01-01' - 1, DATE '0001-01-01' - 800, TIMESTAMP '20000-01-01 00:00:00'")
        first, before, late = (
            int.from_bytes(cursor.pgresult.get_value(0, place), "big", signed=True) for place in range(3)
        )
    day = (datetime.date(1, 1, 1) - datetime.date(2000, 1, 1)).days
    ((micro,),) = gateway.truth.execute(
        "SELECT epoch_us(TIMESTAMP '20000-01-01') - epoch_us(TIMESTAMP '2000-01-01')"
    ).fetchall()
    assert (first, before, late) == (day - 1, day - 800, micro)


@pytest.mark.parametrize("form", ["s", "t", "b"])
def test_parameters_are_bound(gateway: Gateway, form: str) -> None:
    """As texts without a type, as texts of a type, and in binary."""
    nasty = ["O'Hara \\ \"\U0001f6001", "' OR '1'='1", "\\' OR 1=1 -- ", "?", "$1", "A'; DROP TABLE visits", '"', "\\"]
    with closing(gateway.connect()) as connection:

        def same(sql: str, *given: object) -> None:
            truth = gateway.truth.execute(sql, given).fetchall()
            for prepare in (False, True):
                asked = connection.execute(sql.replace("?", f"%{form}"), given, prepare=prepare)
                assert asked.fetchall() == truth, (sql, given)

        for text in nasty:
            same("SELECT COUNT(*) FROM visits WHERE name = ?", text)
        sql = "SELECT COUNT(*) FROM visits WHERE id > ? AND day >= ? AND bill > ? AND level > ? AND coalesce(?, 1) = 1"
        same(sql, 7, datetime.date(2024, 3, 1), Decimal("12.50"), 0.25, None)
        same("SELECT COUNT(*) FROM visits WHERE seen > ? AND insured = ?", datetime.datetime(2024, 1, 1, 5), True)  # noqa: DTZ001
        same("SELECT id FROM visits ORDER BY id LIMIT ? OFFSET ?", 3, 5)
        for condition, time in itertools.product(CLOCKS, TIMES):
            same(f"SELECT COUNT(*) FROM visits WHERE {condition}", time)
        for span in (datetime.timedelta(hours=27, microseconds=1), -datetime.timedelta(minutes=90)):
            same("SELECT COUNT(*) FROM visits WHERE seen - TIMESTAMP '2024-01-01' > ?", span)
        for listed, given in (
            ("id", [1, 2, 2999, 5000]),
            ("ward", ["A", "C", "x,y", '{"']),
            ("bill", [Decimal("79.19")]),
        ):
            asked = connection.execute(f"SELECT COUNT(*) FROM visits WHERE {listed} = ANY(%{form})", (given,))
            truth = gateway.truth.execute(f"SELECT COUNT(*) FROM visits WHERE {listed} IN (SELECT unnest(?))", [given])
            assert asked.fetchall() == truth.fetchall(), listed
        whole = (
            2**40,
            "x",
            None,
            Decimal("-12345.6700"),
            datetime.date(1, 1, 1),
            b"\0\xff",
            uuid.UUID(int=5),
            0.1,
            True,
        )
        holes = ", ".join([f"%{form}"] * len(whole))
        assert connection.execute(f"SELECT {holes}", whole).fetchall() == [whole]


def test_time_ranges_of_superset(gateway: Gateway) -> None:
    """Of PostgreSQL's functions these two alone, with a text and these formats."""
    range_ = (
        "day >= TO_DATE('2024-02-01', 'YYYY-MM-DD') AND seen < TO_TIMESTAMP('2024-01-02 00:00:00.000001', "
        "'YYYY-MM-DD HH24:MI:SS.US')"
    )
    truth = (
        "SELECT COUNT(*) FROM visits WHERE day >= DATE '2024-02-01' AND seen < TIMESTAMP '2024-01-02 00:00:00.000001'"
    )
    assert gateway.rows(f"SELECT COUNT(*) FROM visits WHERE {range_}") == gateway.truth.execute(truth).fetchall()
    alone = "SELECT TO_DATE('2024-02-01', 'YYYY-MM-DD'), TO_TIMESTAMP('2024-01-02 03:04:05', 'YYYY-MM-DD HH24:MI:SS')"
    assert gateway.rows(alone) == [(datetime.date(2024, 2, 1), datetime.datetime(2024, 1, 2, 3, 4, 5))]  # noqa: DTZ001
    for other in ("TO_DATE('01.02.2024', 'DD.MM.YYYY')", "TO_DATE(name, 'YYYY-MM-DD')", "TO_TIMESTAMP('x', 'Q')"):
        with pytest.raises(psycopg.errors.Error):
            gateway.rows(f"SELECT COUNT(*) FROM visits WHERE day >= {other}")


def test_types_of_parameters_are_found(gateway: Gateway) -> None:
    """As a driver asks that binds what it is told, in binary."""
    asked = {
        "SELECT * FROM visits WHERE id = $1 AND ward = $2 AND day > $3 LIMIT $4": [20, 25, 1082, 20],
        "SELECT $1::SMALLINT + 1, $2": [21, 25],
        "SELECT bill FROM public.visits WHERE seen BETWEEN $1 AND $2 AND insured = $3": [1114, 1114, 16],
        "SELECT 1 FROM visits WHERE id = ANY($1) OR ward = ANY($2)": [1016, 1009],
        "SELECT relname FROM pg_class WHERE oid = $1 AND relkind = $2": [26, 25],
        "SELECT COUNT(*) FROM wards": [],
        "SHOW server_version": [],
    }
    with closing(gateway.connect()) as connection:
        for sql, oids in asked.items():
            connection.pgconn.prepare(b"s", sql.encode())
            told = connection.pgconn.describe_prepared(b"s")
            assert [told.param_type(place) for place in range(told.nparams)] == oids, sql
            assert told.nfields >= 1, sql
            connection.execute("DEALLOCATE s")
        connection.pgconn.prepare(b"s", b"SELECT 1")
        assert connection.execute("DEALLOCATE ALL").statusmessage == "DEALLOCATE ALL"
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            connection.execute("DEALLOCATE s")


def test_a_description_holds(gateway: Gateway) -> None:
    """What was described is sent, whatever the type of a value: and never as another type."""
    with closing(gateway.connect()) as connection:
        connection.pgconn.prepare(b"s", b"SELECT bill + $1 AS s, $2 AS t FROM visits WHERE id = 1")
        told = connection.pgconn.describe_prepared(b"s")
        assert [told.ftype(place) for place in range(2)] == [701, 25]
        for value in (b"1", b"1.5"):
            got = connection.pgconn.exec_prepared(b"s", [value, b"x"])
            assert [got.ftype(place) for place in range(2)] == [701, 25]
            assert float(got.get_value(0, 0)) == 79.19 + float(value)


def test_bounds_and_notices(gateway: Gateway) -> None:
    with closing(gateway.connect("counter")) as connection:
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute("SET cleave_bounds = 1")
        cursor = connection.execute("SELECT ward, SUM(level) AS s FROM visits GROUP BY ward ORDER BY ward")
        assert [each.name for each in cursor.description] == ["ward", "s", "s_bound", "undecided", "hidden"]
        truth = expected(gateway, "SELECT ward, fsum(level) FROM visits GROUP BY ward ORDER BY ward")
        for (ward, total, bound, *marks), (same, exact) in zip(cursor.fetchall(), truth, strict=True):
            assert ward == same
            assert abs(total - exact) <= bound + 1e-9
            assert marks == [None, None]
        message, note = told
        assert "column s: values are within" in message
        assert note == "Groups of fewer than 3 rows are left out, if there are any, and figures over fewer (rule G3)."
        connection.execute("SET cleave_bounds = 0")
        cursor = connection.execute("SELECT SUM(level) AS s FROM visits")
        assert [each.name for each in cursor.description] == ["s"]


def test_rows_in_parts(gateway: Gateway) -> None:
    """Cursors, portals with a limit and COPY have all rows, in order."""
    sql = "SELECT id, name, bill FROM visits ORDER BY id"
    truth = gateway.truth.execute(sql).fetchall()
    with closing(gateway.connect()) as connection:
        for binary in (False, True):
            with connection.transaction(), connection.cursor("c", binary=binary) as cursor:
                cursor.itersize = 700
                cursor.execute(sql)
                assert cursor.fetchmany(3) == truth[:3]
                assert list(cursor) == truth[3:]
                assert cursor.fetchall() == []
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR FOR {sql}")
            assert connection.execute("FETCH c").fetchall() == truth[:1]
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="formats"), connection.transaction():
                connection.execute("FETCH c", binary=True)
            assert connection.execute("FETCH FORWARD 2 FROM c").fetchall() == truth[1:3]
        with connection.transaction(), connection.cursor("d") as cursor:
            cursor.execute(sql.replace("ORDER", "WHERE id >= %s ORDER"), (2990,))
            assert len(cursor.fetchall()) == 10
        connection.execute("BEGIN; DECLARE d CURSOR FOR SELECT 1; DECLARE e CURSOR WITH HOLD FOR SELECT 2; COMMIT")
        assert connection.execute("FETCH ALL FROM e").fetchall() == [(2,)]
        assert connection.execute("FETCH e").fetchall() == []
        for closed in ("FETCH 1 FROM d", "CLOSE e; FETCH e"):
            with pytest.raises(psycopg.errors.InvalidCursorName):
                connection.execute(closed)
        assert list(connection.cursor().stream(sql)) == truth
        with connection.cursor() as cursor:
            for options in ("", "(FORMAT binary)"):
                with cursor.copy(f"COPY ({sql}) TO STDOUT {options}") as copy:
                    copy.set_types(["int8", "text", "numeric"])
                    assert list(copy.rows()) == truth, options
            for named in ("wards (region, ward)", 'public.wards ("region", WARD)', '"wards"(region,ward)'):
                with cursor.copy(f"COPY {named} TO STDOUT WITH (FORMAT csv, HEADER)") as copy:
                    assert b"".join(copy).lower() == b"region,ward\nnorth,a\nsouth,b\nnorth,c\n"
            with cursor.copy("COPY (SELECT 'a,\"\n' AS x, '' AS y, NULL AS z) TO STDOUT CSV") as copy:
                assert b"".join(copy) == b'"a,""\n","",\n'
            with cursor.copy("COPY (SELECT 'a\t\\\n' AS x, '' AS y, NULL AS z) TO STDOUT") as copy:
                assert b"".join(copy) == b"a\\t\\\\\\n\t\t\\N\n"


def test_transactions_are_words(gateway: Gateway) -> None:
    with closing(gateway.connect(autocommit=False)) as connection:
        connection.execute("SELECT 1")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM nowhere")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        with connection.transaction():
            with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
                connection.execute("SELECT nothing FROM visits")
            assert connection.execute("SELECT COUNT(*) FROM wards").fetchall() == [(3,)]
        connection.execute("SET statement_timeout = '5s'")
        connection.rollback()
        assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]
        connection.execute("SET LOCAL statement_timeout = 7000")
        connection.commit()
        assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]


def test_several_statements_are_answered_in_turn(gateway: Gateway) -> None:
    """An error ends them."""
    with closing(gateway.connect()) as connection:
        cursor = connection.execute(
            "SELECT 1; SELECT ';' AS x, \"ward\" FROM wards LIMIT 1; SET jit = off; -- nothing\n;"
        )
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [(";", "A")]
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SET application_name = 'a'; SELECT * FROM nowhere; SET application_name = 'b'")
        assert connection.execute("SHOW application_name").fetchall() == [("a",)]
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("SELECT %s; SELECT 1", (1,))
        assert connection.execute("").description is None


REFUSED = [
    ("INSERT INTO visits VALUES (1)", "25006", "INSERT"),
    ("DROP TABLE visits", "25006", "nothing can be changed"),
    ("CREATE TABLE x AS SELECT * FROM visits", "25006", "CREATE"),
    ("/* a */ DELETE FROM visits", "25006", "DELETE"),
    ("WITH d AS (DELETE FROM wards RETURNING *) SELECT * FROM d", None, ""),
    ("SELECT * FROM nowhere", "42P01", "there is no table 'nowhere'"),
    ("SELECT nothing FROM visits", "42703", "there is no column 'nothing'"),
    ("SELECT nothing(id) FROM visits", "42883", "there is no function"),
    ("SELECT * FROM read_csv('/etc/passwd')", None, "read_csv() reads something other than the table"),
    ("EXPLAIN SELECT 1", "0A000", "EXPLAIN is not answered here"),
    ("LISTEN x", "0A000", "LISTEN"),
    ("PREPARE x AS SELECT 1", "0A000", "PREPARE"),
    ("SET x = 1", "42704", "'x' is not known"),
    ("SET TimeZone = 'Europe/Berlin'", "22023", "UTC"),
    ("SET client_encoding = 'LATIN1'", "22023", "UTF8"),
    ("SET server_version = '9'", "55P02", "cannot be changed"),
    ("SELECT * FROM '/etc/passwd'", None, ""),
    ("SELECT * FROM query('SELECT 42')", None, ""),
    ("SELECT * FROM duckdb_settings()", None, ""),
    ("SELECT content FROM read_text('/proc/self/environ'), visits", None, ""),
    ("SELECT * FROM visits, pg_class", "0A000", "cannot be read in one statement"),
    ("SELECT * FROM pg_catalog.pg_nothing", "42P01", "pg_catalog.pg_nothing"),
    ("COPY visits TO '/tmp/x'", "0A000", "COPY"),
    ("COPY visits TO PROGRAM 'id'", "0A000", "COPY"),
    ("COPY visits FROM STDIN", "25006", "nothing can be changed"),
    ("FETCH 1 FROM nothing", "34000", "nothing"),
    ("ROLLBACK TO nothing", "25P01", "transaction"),
    ("SELECT CAST(name AS INTEGER) FROM visits", "22P02", "cannot be computed"),
    ("SELECT", "42601", ""),
    ("SELECT ((((", "42601", ""),
    ("SELECT '", "42601", ""),
]


def test_refused_statements_have_their_sqlstate(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection:
        for sql, code, words in REFUSED:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql)
            assert code is None or caught.value.sqlstate == code, sql
            assert words in str(caught.value), sql
            assert str(gateway.folder) not in str(caught.value), sql
        assert connection.execute("SELECT COUNT(*) FROM wards").fetchall() == [(3,)]


def test_what_json_has_no_numbers_for(gateway: Gateway) -> None:
    from tests.gateway.test_http import post  # noqa: PLC0415 - which imports this

    values = (
        "'NaN'::DOUBLE, '-inf'::FLOAT, DATE '0001-01-01' - 400, TIMESTAMP 'infinity', 1e300, [1, 2], INTERVAL 1 DAY"
    )
    told = ["NaN", "-Infinity", "0002-11-28 (BC)", "infinity", "1e+300", "[1, 2]", "1 day"]
    for source in ("", " FROM wards WHERE ward = 'A'"):
        assert json.loads(post(gateway, {"sql": f"SELECT {values}{source}"}).text)["rows"] == [told]


@pytest.mark.parametrize("bounds", [0, 1])
def test_columns_of_one_name_are_sent_as_they_were_described(gateway: Gateway, bounds: int) -> None:
    with closing(gateway.connect()) as connection:
        connection.execute(f"SET cleave_bounds = {bounds}")
        connection.pgconn.prepare(b"s", b"SELECT id, id, bill AS undecided FROM visits WHERE id = 1")
        told, got = connection.pgconn.describe_prepared(b"s"), connection.pgconn.exec_prepared(b"s", None)
        names = [[each.fname(place) for place in range(each.nfields)] for each in (told, got)]
        assert names[0] == names[1]
        assert names[0][:3] == [b"id", b"id_1", b"undecided"]
