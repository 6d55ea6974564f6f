"""`cleave.connect` as PEP 249 has it, and parameters that stay values whatever they hold."""

from __future__ import annotations

import datetime
import gc
import math
import os
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import cleave
from cleave.api.errors import translated
from cleave.deadline import OutOfTime
from cleave.sql.parameters import Typed
from cleave.sql.read import read_statement
from cleave_shared import errors

PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"
WARDS = "SELECT ward, COUNT(*) AS stays, AVG(age) AS age FROM patients GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def in_duckdb(oracle: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    (row,) = oracle.execute(sql).fetchall()
    return tuple(row)


@pytest.fixture
def connection(key_file: Path) -> Iterator[cleave.Connection]:
    with cleave.connect(PATIENTS, key=key_file) as opened:
        yield opened


def test_the_module_says_what_it_is() -> None:
    assert (cleave.apilevel, cleave.threadsafety, cleave.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(cleave.Warning, Exception)
    assert issubclass(cleave.InterfaceError, cleave.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        kind = getattr(cleave, f"{name}Error")
        assert issubclass(kind, cleave.DatabaseError)
        assert getattr(cleave.Connection, f"{name}Error") is kind
    assert cleave.Date(2025, 1, 2) == datetime.date(2025, 1, 2)
    assert cleave.Binary(b"x") == b"x"
    assert isinstance(cleave.TimeFromTicks(0), cleave.Time)
    assert isinstance(cleave.TimestampFromTicks(0), cleave.Timestamp)


def test_a_cursor_fetches_rows_once_and_in_order(connection: cleave.Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.rownumber, cursor.arraysize) == (None, -1, None, 1)
    assert cursor.execute(WARDS) is cursor
    assert cursor.rowcount == 6
    first = cursor.fetchone()
    assert first is not None
    assert first[0] == "Cardiology"
    assert [row[0] for row in cursor.fetchmany()] == ["Geriatrics"]
    assert [row[0] for row in cursor.fetchmany(2)] == ["Maternity", "Oncology"]
    assert cursor.rownumber == 4
    assert [row[0] for row in cursor] == ["Paediatrics", "Surgery"]
    assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])
    assert cursor.sources == ("key", "plain", "encrypted")
    assert cursor.bounds[0] == (None, 0.0, 0.0)
    assert cursor.result.checks
    cursor.setinputsizes([])
    cursor.setoutputsize(3)


def test_a_description_has_type_codes_and_precision(connection: cleave.Connection) -> None:
    cursor = connection.execute(
        "SELECT ward, SUM(bill), STDDEV(weight), MIN(admitted), COUNT(*) > 3 FROM patients GROUP BY ward"
    )
    assert cursor.description is not None
    codes = [each[1] for each in cursor.description]
    assert all(len(each) == 7 for each in cursor.description)
    assert codes == [cleave.STRING, cleave.NUMBER, cleave.NUMBER, cleave.DATETIME, cleave.NUMBER]
    assert codes[0] not in (cleave.NUMBER, cleave.DATETIME, cleave.BINARY, cleave.ROWID)
    assert cursor.description[1][4:6] == (38, 2)
    row = cursor.fetchone()
    assert row is not None
    assert [type(value) for value in row] == [str, Decimal, float, datetime.date, bool]


CONSTANTS = """
BIGINT: 9007199254740993
BIGNUM: 1234567890123456789012345678901234567890
BIGNUM: -340282366920938463463374607431768211457
BIT: B'101'
BLOB: x'AA00FF'
BOOLEAN: true
DATE: DATE '2024-02-29'
DECIMAL(38,2): 123456789012345678901234567890123456.78
DOUBLE: 1e308
DOUBLE: 'nan'::DOUBLE
FLOAT: 1.5::FLOAT
HUGEINT: 170141183460469231731687303715884105727
INTEGER: -7
INTEGER[]: [1, 2]
INTERVAL: INTERVAL '1 month 3 hours'
SMALLINT: 7::SMALLINT
STRUCT(a INTEGER): {'a': 1}
TIME: TIME '12:34:56'
TIMESTAMP: TIMESTAMP '2024-02-29 12:00:00'
TIMESTAMP WITH TIME ZONE: TIMESTAMPTZ '2024-02-29 12:00:00+02'
UBIGINT: 18446744073709551615::UBIGINT
UHUGEINT: 340282366920938463463374607431768211455
UUID: UUID '47183823-2574-4bfd-b411-99ed177d3e43'
VARCHAR: 'it''s'
"""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("line", CONSTANTS.strip().splitlines())
def test_a_constant_of_every_type(connection: cleave.Connection, oracle: duckdb.DuckDBPyConnection, line: str) -> None:
    """In SELECT and WHERE, where services answer and where this machine does, and as a parameter."""
    type_, constant = line.split(": ", 1)
    oracle.execute(f"CREATE OR REPLACE VIEW patients AS FROM read_csv('{PATIENTS}')")
    text, found = in_duckdb(oracle, f"SELECT CAST({constant} AS VARCHAR), typeof({constant})")
    for sql in (
        f"SELECT CAST({constant} AS VARCHAR) AS t, typeof({constant}) AS k, SUM(age) AS s FROM patients",
        f"SELECT SUM(age) AS s, COUNT(*) AS n FROM patients WHERE {constant} IS NOT DISTINCT FROM {constant}",
        f"SELECT ward, age FROM patients WHERE {constant} = {constant} ORDER BY ALL LIMIT 3",
    ):
        assert connection.execute(sql).fetchall() == oracle.execute(sql).fetchall(), sql
    assert connection.execute(f"SELECT {constant} AS c, MAX(age) FROM patients").result.types[0] == found
    typed = connection.execute("SELECT CAST(? AS VARCHAR) AS t, SUM(age) AS s FROM patients", [Typed(text, type_)])
    assert typed.fetchall() == [(text, 28575)]


def test_a_parameter_of_more_digits_than_any_integer(connection: cleave.Connection) -> None:
    rows = connection.execute("SELECT CAST(? AS VARCHAR) AS t, SUM(age) AS s FROM patients WHERE ? > 4", [10**45] * 2)
    assert rows.fetchall() == [(str(10**45), 28575)]


def test_pandas_reads_through_it(connection: cleave.Connection) -> None:
    sql = "SELECT ward, AVG(age) AS age FROM patients WHERE ward <> ? GROUP BY ward ORDER BY ward"
    with cleave.connect(PATIENTS):  # which leaves pandas nothing to warn of
        frame = pd.read_sql(sql, connection, params=["Surgery"])
    assert list(frame.columns) == ["ward", "age"]
    assert len(frame) == 5
    told = (pd.errors.DatabaseError, cleave.ProgrammingError)  # by its release, pandas wraps what a driver raises
    with pytest.raises(told, match="no column"):
        pd.read_sql("SELECT nothing FROM patients", connection)


def test_executemany_asks_each(connection: cleave.Connection) -> None:
    cursor = connection.cursor().executemany(
        "SELECT COUNT(*) FROM patients WHERE ward = ?", [["Surgery"], ["Maternity"]]
    )
    assert cursor.fetchall() == [(93,)]
    with pytest.raises(cleave.NotSupportedError):
        cursor.callproc("f")


def test_what_is_closed_is_closed(key_file: Path) -> None:
    connection = cleave.connect(PATIENTS, key=key_file)
    with connection.cursor() as cursor, pytest.raises(cleave.InterfaceError, match="nothing has been executed"):
        cursor.fetchone()
    with pytest.raises(cleave.InterfaceError, match="cursor is closed"):
        cursor.execute(WARDS)
    connection.commit()
    connection.rollback()
    other = connection.cursor()
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, lambda: other.execute(WARDS), other.fetchall):
        with pytest.raises(cleave.InterfaceError, match="connection is closed"):
            use()


def test_a_connection_that_nobody_closes_gives_up_what_it_has(key_file: Path) -> None:
    def opened() -> int:
        return sum(
            "memfd:parquet" in os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()
        )

    gc.collect()
    before = opened()
    connection = cleave.connect(PATIENTS, key=key_file)
    connection.execute(WARDS)
    assert opened() == before + 2  # one to read Parquet from, one to write it to
    del connection
    gc.collect()
    assert opened() == before


def test_a_failed_statement_leaves_no_rows_of_the_one_before(connection: cleave.Connection) -> None:
    cursor = connection.execute(WARDS)
    with pytest.raises(cleave.ProgrammingError):
        cursor.execute("SELECT nothing FROM patients")
    with pytest.raises(cleave.InterfaceError, match="nothing has been executed"):
        cursor.fetchall()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.InputError("m", hint="h"), cleave.DataError),
        (errors.Undecided("m"), cleave.DataError),
        (errors.QueryRefused("m"), cleave.ProgrammingError),
        (errors.KeyFileError("m"), cleave.OperationalError),
        (errors.ServiceError("m", status=500), cleave.OperationalError),
        (errors.ProcessDied("m", signal=9), cleave.OperationalError),
        (OutOfTime("m"), cleave.OperationalError),
        (errors.WireError("m"), cleave.OperationalError),
        (errors.CheckFailed("sentinel", "m"), cleave.IntegrityError),
        (errors.CleaveError("m"), cleave.DatabaseError),
    ],
)
def test_errors_are_those_of_cleave_and_of_dbapi(error: errors.CleaveError, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^m$") as caught, translated():
        raise error
    assert isinstance(caught.value, type(error))
    assert type(caught.value).__name__ == type(error).__name__
    assert vars(caught.value) == vars(error)
    assert caught.value.__cause__ is None


def test_wrong_uses_raise_dbapi_errors(connection: cleave.Connection, tmp_path: Path) -> None:
    with pytest.raises(cleave.DataError, match="no such file"):
        cleave.connect(tmp_path / "nothing.csv")
    with pytest.raises(cleave.OperationalError, match="no such key"):
        cleave.connect("patients", store=tmp_path, key=tmp_path / "missing.json").execute(WARDS)
    with pytest.raises(cleave.DataError, match="number of people or rows"):
        cleave.connect(PATIENTS, min_group=-1)
    with pytest.raises(cleave.ProgrammingError, match="has 1 placeholder, and values of 2"):
        connection.execute("SELECT COUNT(*) FROM patients WHERE ward = ?", ["a", "b"])
    with pytest.raises(cleave.ProgrammingError, match="sequence"):
        connection.execute("SELECT COUNT(*) FROM patients WHERE ward = ?", {"ward": 1})  # type: ignore[arg-type]
    with pytest.raises(cleave.ProgrammingError, match="sequence"):
        connection.execute("SELECT COUNT(*) FROM patients WHERE ward = ?", "a")


# fmt: off
VALUES: list[Any] = [
    None, True, False, 0, 7, -7, 2**70, -(2**63), 1.5, -0.0, 1e300, 5e-324, math.inf, -math.inf,
    Decimal("12.50"), Decimal("-1E+3"), Decimal("0.001"), "", "O'Hara", "''", "'; DROP TABLE t; --", "\\'", "$$", "a?b",
    "ä\U0001f600", "line\nbreak", 'quote"', "/* ? */", "-- ?", "\\x00", np.int64(3), np.float64(2.5), np.bool_(True),
    np.str_("n"), datetime.date(2025, 1, 2), datetime.datetime(2025, 1, 2, 3, 4, 5, 678), datetime.time(1, 2, 3),  # noqa: DTZ001
    datetime.timedelta(days=-1, microseconds=5), uuid.UUID(int=5), b"", b"\x00'\xff?", pd.Timestamp("2025-01-02"),
]
# fmt: on


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_parameter_comes_out_of_duckdb_as_it_went_in(oracle: duckdb.DuckDBPyConnection, value: object) -> None:
    """Between a text with a ? in it and comments with one, which are none."""
    sql = "SELECT 'ä?', ? /* ? */, $$?$$, e'\\'?', \"?\" -- ?\nFROM (SELECT 1 AS \"?\")"
    row = in_duckdb(oracle, read_statement(sql, [value]).sql)
    assert (row[0], row[2], row[3], row[4]) == ("ä?", "?", "'?", 1)
    expected = value.item() if isinstance(value, np.generic) else value
    assert row[1] == expected
    assert isinstance(row[1], bool) == isinstance(expected, bool)
    if isinstance(expected, float):
        assert math.copysign(1, row[1]) == math.copysign(1, expected)
        assert isinstance(row[1], float)


def test_not_a_number_is_one_too(oracle: duckdb.DuckDBPyConnection) -> None:
    assert math.isnan(in_duckdb(oracle, read_statement("SELECT ?", [math.nan]).sql)[0])


@pytest.mark.parametrize(
    "value", ["\0", "\ud800", Decimal("NaN"), [1], {"a": 1}, object(), 1j, datetime.time(1, tzinfo=datetime.UTC)]
)
def test_what_has_no_literal_is_refused_without_quoting_it(value: object) -> None:
    with pytest.raises(errors.QueryRefused, match=r"^parameter 2: this .* has no literal in SQL$"):
        read_statement("SELECT ?, ?", [1, value])


def test_parameters_reach_the_question(connection: cleave.Connection, oracle: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT COUNT(*) FROM patients WHERE ward = ? AND admitted >= ? AND age < ? AND weight > ? LIMIT ?"
    day = datetime.date(2025, 2, 1)
    (row,) = connection.execute(sql, ["Surgery", day, 50, 60.5, 1]).fetchall()
    where = "ward = 'Surgery' AND admitted >= DATE '2025-02-01' AND age < 50 AND weight > 60.5"
    assert row == in_duckdb(oracle, f"SELECT COUNT(*) FROM '{PATIENTS}' WHERE {where}")


SECRET = 735_146_820_193


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("sql", "value", "said"),
    [
        ("SELECT SUM(CAST(email || ? AS INTEGER)) FROM patients", f"{SECRET}", "cannot be computed"),
        ("SELECT SUM(age) FROM patients WHERE CAST(ward || ? AS INT) > 1", f"{SECRET}", "cannot be computed in some"),
        ("SELECT SUM(age) FROM patients GROUP BY CAST(ward || ? AS INT)", f"{SECRET}", "cannot be computed in some"),
        ("SELECT MEDIAN(CAST(email || ? AS INT)) FROM patients", f"{SECRET}", "cannot be computed in some row"),
        ("SELECT SUM(age * ?), COUNT(*) FROM patients", SECRET << 21, "cannot be computed in some row"),
        ("SELECT SUM(weight * ?) FROM patients", SECRET * 1e295, "is infinite or NaN"),
        ("SELECT email, CAST(email || ? AS INT) FROM patients", f"{SECRET}", "cannot be computed"),
        ("SELECT struct_extract({'a': age}, ?) FROM patients", f"x\n\n{SECRET}", "no such field"),
        ("SELECT *, COUNT(*) FROM (SELECT ? FROM patients)", f"{SECRET}", "neither in GROUP BY nor in"),
        ("SELECT *, COUNT(*) FROM (SELECT ? FROM patients)", SECRET, "neither in GROUP BY nor in"),
        ("SELECT *, COUNT(*) FROM (SELECT age + ? FROM patients)", SECRET, "neither in GROUP BY nor in"),
        ("SELECT * FROM patients WHERE admitted = ?", f"{SECRET}", "compared with 'admitted' is no DATE"),
        ("SELECT COUNT(*) FROM patients WHERE admitted = ?", SECRET, "compared with 'admitted' is no DATE"),
        ("SELECT list_aggregate([age], ?) FROM patients", f"f{SECRET}", "names an aggregate that cannot be called"),
        ("SELECT SUM(age) FROM patients WHERE list_aggr([ward], ?) = 1", f"f{SECRET}", "names an aggregate"),
        ("SELECT SUM(age) FROM patients ORDER BY ?", SECRET, "must be the number of a select item, 1 to 1"),
        ("SELECT SUM(age) FROM patients GROUP BY ?", SECRET, "must be the number of a select item, 1 to 1"),
    ],
)
def test_no_error_quotes_a_parameter(connection: cleave.Connection, sql: str, value: object, said: str) -> None:
    with pytest.raises(cleave.Error, match=said) as failure:
        connection.execute(sql, [value])
    error: BaseException | None = failure.value
    while error is not None:
        shown = f"{error!r} {error} {getattr(error, 'hint', '')}"
        assert not any(each in shown for each in (str(SECRET), str(value)))
        error = error.__cause__ or error.__context__


def test_a_parameter_is_never_sql(connection: cleave.Connection) -> None:
    (row,) = connection.execute("SELECT COUNT(*) FROM patients WHERE ward = ?", ["' OR '1'='1"]).fetchall()
    assert row == (0,)
