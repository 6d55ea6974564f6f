"""Questions answered on this machine as a whole: DuckDB's answer, nothing sent, no value in an error, no waiting."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import cleave
from cleave.ask import finishing
from cleave.ask.files import FileSource
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.deadline import Deadline, OutOfTime
from cleave.table.lazy import of_files
from cleave.text import figures
from cleave_shared.errors import InputError, QueryRefused
from tests.answering import run_local, table_of
from tests.functional.processes import HANGS, met
from tests.samples import write_table

ROWS = """ward,day,age,bill,name
A,2024-01-02,31,100.50,Ann
A,2024-01-03,42,200.25,Bob
B,2024-02-02,53,50.00,Cid
B,,64,75.10,Dee
C,2024-03-01,16,,secretvalue
"""
COLUMNS = {
    "ward": "plain VARCHAR",
    "day": "plain DATE",
    "age": "encrypted BIGINT",
    "bill": "encrypted DECIMAL(9,2)",
    "name": "sealed VARCHAR",
}


@pytest.fixture(scope="module", params=["t", "source", "selected", "the question", "other0"])
def named(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Session]]:
    """The table under names that are the client's own inside, without key and services."""
    yield from opened(tmp_path_factory.mktemp("named"), request.param)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    for _, one in opened(tmp_path_factory.mktemp("session"), "t"):
        yield one


def opened(folder: Path, name: str) -> Iterator[tuple[str, Session]]:
    table = write_table(folder / "t.csv", ROWS, **COLUMNS)
    wards = write_table(folder / "wards.csv", "ward,beds\nA,10\nB,20\n", ward="local VARCHAR", beds="local INTEGER")
    with Session(FileSource(of_files([table], name=name), others=[of_files([wards])])) as one:
        yield name, one


QUERIES = [
    "SELECT DISTINCT ward FROM {t}",
    "SELECT * FROM {t}",
    "SELECT name, bill, avg(bill) OVER (PARTITION BY ward) AS a, {t}.age AS {t} FROM {t}",
    "SELECT ward, age FROM {t} QUALIFY row_number() OVER (PARTITION BY ward ORDER BY age DESC) = 1",
    "WITH x AS (SELECT ward, max(age) AS m FROM main.{t} GROUP BY ward) SELECT x.* FROM x WHERE m > 20",
    "WITH {t} AS (SELECT 7 AS seven) SELECT * FROM {t}",
    "SELECT ward, age FROM {t} WHERE age > (SELECT avg(age) FROM {t})",
    "SELECT ward, sum(bill) AS s, any_value(beds) FROM {t} LEFT JOIN wards USING (ward) GROUP BY ward",
    "SELECT ward FROM {t} UNION ALL BY NAME SELECT beds FROM wards",
    "SELECT [age, NULL], {{'a': day, 'b': name}}, map {{ward: bill}}, INTERVAL 3 DAY, day FROM {t}",
    "SELECT count(*) FROM {t} AS x, {t} AS y WHERE x.age < y.age",
    "PIVOT {t} ON ward IN ('A', 'B') USING sum(bill) GROUP BY day",
    "SELECT NULL, NULL::DOUBLE, 'nan'::DOUBLE, 1e300 * 1e300 FROM {t}",
    "SELECT ward, ward, 1 AS WARD FROM {t} WHERE false",
    "SELECT * FROM (SUMMARIZE {t})",
    "SELECT median(age), mode(ward) FROM (SELECT * FROM {t} ORDER BY age LIMIT 50%)",
]


TABLES = """
CREATE TABLE {t} (ward VARCHAR, day DATE, age BIGINT, bill DECIMAL(9,2), name VARCHAR);
INSERT INTO {t} VALUES ('A', '2024-01-02', 31, 100.50, 'Ann'), ('A', '2024-01-03', 42, 200.25, 'Bob'),
    ('B', '2024-02-02', 53, 50.00, 'Cid'), ('B', NULL, 64, 75.10, 'Dee'), ('C', '2024-03-01', 16, NULL, 'secretvalue');
CREATE TABLE wards AS FROM (VALUES ('A', 10), ('B', 20)) AS wards(ward, beds);
"""


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(8, 2)
def test_a_local_answer_is_duckdbs(named: tuple[str, Session], query: str) -> None:
    name, session = named
    sql = query.format(t=f'"{name}"')
    answer = session.ask(session.plan(sql))
    with duckdb.connect() as connection:
        connection.execute(TABLES.format(t=f'"{name}"'))
        described = connection.execute(f"DESCRIBE {sql}").fetchall()
        connection.execute(f"CREATE TABLE answer AS {sql}")
        columns = ", ".join(f"c{place}" for place in range(len(described)))
        texts = connection.execute(
            f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (SELECT * FROM answer AS a({columns}))"
        ).fetchall()
    assert [output.name for output in answer.result.columns] == [row[0] for row in described]
    assert answer.result.types == [row[1] for row in described]
    shown = [tuple(None if value is None else figures.plain(value) for value in row) for row in answer.result.rows]
    expected = [tuple(None if text is None else _plain(text) for text in row) for row in texts]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))
    assert {output.source for output in answer.result.columns} == {"local"}
    assert (answer.usage.requests, answer.usage.bytes_sent, answer.usage.key_id) == (0, 0, None)
    assert set(answer.checks.values()) == {"not needed"}


def _plain(text: str) -> str:
    """A double's text as the client writes it."""
    return {"nan": "NaN", "inf": "Infinity"}.get(text, text)


def test_order_and_limit_are_kept(session: Session) -> None:
    answer = session.ask(session.plan("SELECT name, age FROM t ORDER BY age DESC LIMIT 3"))
    assert answer.result.rows == [["Dee", 64], ["Cid", 53], ["Bob", 42]]
    assert answer.result.exact == [[True, True]] * 3


def test_a_double_has_no_bound(session: Session) -> None:
    answer = session.ask(session.plan("SELECT DISTINCT age / 3 AS third FROM t ORDER BY 1 LIMIT 1"))
    assert (answer.result.bounds, answer.result.exact) == ([[None]], [[None]])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT CAST(name AS INTEGER) FROM t",
        "SELECT DISTINCT CAST(name AS DATE) FROM t ORDER BY ALL",
        "SELECT error(name) OVER () FROM t",
        "SELECT DISTINCT age + 9223372036854775807 FROM t",
        "SELECT name FROM t WHERE strptime(name, '%Y') > DATE '2020-01-01'",
        "SELECT DISTINCT CAST('[' || name AS INTEGER[]) FROM t",
        "SELECT (SELECT name FROM t AS u WHERE u.age > t.age OR u.age <= t.age) FROM t",
    ],
)
def test_an_error_quotes_no_value(session: Session, sql: str) -> None:
    with pytest.raises((InputError, QueryRefused)) as caught:
        session.ask(session.plan(sql))
    error: BaseException | None = caught.value
    while error is not None:
        assert "secretvalue" not in f"{error!r} {getattr(error, 'hint', '')}"
        error = error.__cause__ or error.__context__
    assert session.ask(session.plan("SELECT DISTINCT 1 FROM t")).result.rows == [[1]]  # and the session goes on


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sql", "exact"),
    [
        ("SELECT (SUM(SUM(x)) OVER ())::INT FROM {}", None),
        ("SELECT s::INT FROM (SELECT SUM(x) AS s FROM {})", None),
        ("WITH a AS (SELECT g, AVG(x) AS s FROM {} GROUP BY g) SELECT COUNT(*) FROM a WHERE s > 1", None),
        ("SELECT (SELECT VARIANCE(x) FROM {})::DECIMAL(18, 2)", None),
        ("SELECT SUM(SUM(n)) OVER () FROM {}", True),
        ("SELECT s::INT FROM (SELECT MAX(x) AS s FROM {})", True),
        ("SELECT (SELECT MEDIAN(x) FROM {}) > 1", None),
        ("SELECT (SELECT MAX(x) FROM {}) > 1", True),
        ("SELECT n FROM {} WHERE x / 3 > 0.5", True),
        ("SELECT c FROM (SELECT COUNT(*) AS c, SUM(x) AS s FROM {})", True),
    ],
)
def test_a_cast_makes_no_sum_of_doubles_exact(sql: str, exact: bool | None) -> None:
    """The last digits of DuckDB's sums of doubles depend on the order of rows."""
    frame = pd.DataFrame({"g": ["a", "b"], "n": [1, 2], "x": [0.5, 1.75]})
    kinds = {"g": "plain", "n": "encrypted", "x": {"kind": "sealed", "type": "DOUBLE"}}
    answer = cleave.query(frame, sql.format("frame"), schema=kinds, table="frame")
    assert answer.sources == ("local",)
    assert answer.exact == [(exact,)]


SLOW = "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b, t"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, no question is left to end by itself."""
    monkeypatch.setattr(finishing, "_PATIENCE", HANGS)


@pytest.mark.usefixtures("patient")
def test_work_here_ends_with_its_time(session: Session) -> None:
    with pytest.raises(OutOfTime, match=r"0\.3 seconds"):
        session.ask(session.plan(SLOW), seconds=0.3)
    assert session.ask(session.plan("SELECT DISTINCT 1 FROM t")).result.rows == [[1]]


@pytest.mark.usefixtures("patient")
def test_a_time_that_is_over_already(session: Session) -> None:
    with pytest.raises(OutOfTime):
        run_local(table_of(session), session.plan(SLOW).cut, deadline=Deadline(0))


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM t", "SELECT DISTINCT 1 FROM t"])
def test_an_answer_that_comes_too_late_is_none(session: Session, sql: str) -> None:
    """DuckDB may have ended before it is interrupted."""
    with pytest.raises(OutOfTime, match="1e-09 seconds"):
        session.ask(session.plan(sql), seconds=1e-9)


@pytest.mark.usefixtures("patient")
def test_no_thread_outlives_its_question(session: Session) -> None:
    """Python aborts where DuckDB's thread asks for its lock while the program ends."""
    before = set(threading.enumerate())
    with pytest.raises(OutOfTime):
        session.ask(session.plan(SLOW), seconds=0.001)
    assert set(threading.enumerate()) == before


@pytest.mark.usefixtures("patient")
def test_a_question_that_is_interrupted_is_stopped(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deadline, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.ask(session.plan(SLOW))
    assert set(threading.enumerate()) == before


def test_a_question_left_at_work_disturbs_no_other(session: Session) -> None:
    connection, over = table_of(session).connection, threading.Event()

    def work() -> None:
        while not over.is_set():
            with contextlib.suppress(duckdb.Error):  # interrupted, or `is_busy` was at it
                connection.execute("SELECT count(*) FROM range(1000000000000)")

    left = threading.Thread(target=work, daemon=True)
    left.start()
    try:
        assert met(lambda: is_busy(connection))
        assert session.ask(session.plan("SELECT DISTINCT 1 FROM t")).result.rows == [[1]]
        assert met(lambda: is_busy(connection))  # still
    finally:
        over.set()
        assert met(lambda: connection.interrupt() or not left.is_alive())


def is_busy(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        connection.execute("SELECT 1")
    except duckdb.Error as error:
        return "busy" in str(error)
    return False


def test_a_minimum_group_size_is_refused_where_it_cannot_be_kept(session: Session) -> None:
    with pytest.raises(QueryRefused, match="minimum group size"):
        session.plan("SELECT DISTINCT ward FROM t", Options(min_group=2))


def test_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    for _ in opened(tmp_path, "t"):
        wards = [of_files([tmp_path / "wards.csv"], name=each) for each in ("wards", "WARDS")]
        with pytest.raises(InputError, match="two tables have the name 'WARDS'"):
            FileSource(of_files([tmp_path / "t.csv"]), others=wards)


def test_nothing_is_left_behind(session: Session) -> None:
    """Neither the names of a question nor its answer are seen by the next one."""
    session.ask(session.plan("SELECT DISTINCT ward FROM t"))
    catalogs = table_of(session).connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    assert not [name for (name,) in catalogs if "question" in name]
