"""Answers that depend on the order of rows are those of the file's order, however many threads DuckDB has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.sql.order import follows_order, shows_order
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store import columns
from cleave.table.batches import open_stream
from cleave.table.duck import tree_of
from cleave.table.lazy import of_files
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.table import Table
from tests.store.trial import World
from tests.unit.simulate import number

ROWS, SEGMENT = 150_000, 61_000  # the last one is shorter: what reads it is done first
QUESTIONS = (
    "SELECT FIRST(k), LAST(s), ANY_VALUE(k) FILTER (k > 3) FROM t",
    "SELECT md5(CAST(LIST(k) AS VARCHAR)), md5(STRING_AGG(s, ',')) FROM t",
    "SELECT ARG_MIN(k, tie), MAX_BY(k, tie), ARG_MIN(k, tie, 3), MODE(k % 2) FROM t",
    "SELECT g, FIRST(k), md5(CAST(LIST(k) AS VARCHAR)), ARG_MAX(k, tie) FROM t GROUP BY g ORDER BY g",
    "SELECT md5(CAST(LIST(k ORDER BY tie) AS VARCHAR)), SUM(x) FROM t WHERE k % 3 = 0",
    "SELECT k FROM t LIMIT 3 OFFSET 70000",
    "SELECT SUM(k) FROM (SELECT k FROM t WHERE k % 2 = 1 LIMIT 40000)",
    "SELECT DISTINCT ON (g) g, k FROM t ORDER BY g",
    "SELECT g, k FROM t QUALIFY row_number() OVER (PARTITION BY g) = 1 ORDER BY g",
    "SELECT k, row_number() OVER () AS n FROM t QUALIFY n IN (1, 99999)",
    "SELECT MAX(n) FROM (SELECT k, row_number() OVER (ORDER BY tie) AS n FROM t) WHERE k < 10",
    "WITH a AS (SELECT k FROM t WHERE k % 7 = 1) SELECT LAST(k), FIRST(k) FROM a",
    "SELECT md5(CAST(LIST(a.k) AS VARCHAR)) FROM t AS a JOIN t AS b ON a.k = b.k",
)
SCHEMA = Schema(
    (
        Column("k", Kind.SEALED, "BIGINT"),
        Column("s", Kind.SEALED, "VARCHAR"),
        Column("g", Kind.PLAIN, "VARCHAR"),
        Column("tie", Kind.SEALED, "BIGINT"),
        Column("x", Kind.SEALED, "DOUBLE"),
    ),
    CsvDialect(),
)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS k, 's' || i % 7 AS s, 'g' || i % 3 AS g, i % 5 AS tie, "
            f"i * 37 % 101 / 7 AS x FROM range({ROWS}) AS r(i)"
        )
        yield connection


@contextmanager
def asking(
    what: str, oracle: duckdb.DuckDBPyConnection, folder: Path, key: OwnerKey, key_file: Path
) -> Iterator[Session]:
    """A session that was asked nothing yet. `what`: over the file, or a stored table of its rows, "by" columns."""
    oracle.execute(f"COPY t TO '{folder / 't.csv'}'")
    world = World(Folder(folder / "store"), key, folder, name="t")
    kind, *by = what.split(" by ")
    lazy = of_files([folder / "t.csv"], SCHEMA)
    with world.over(lazy, key_file, *by, file=kind == "file", segment_rows=SEGMENT) as opened:
        yield opened


@pytest.fixture(scope="module", params=["file", "stored", "stored by g"])
def session(
    request: pytest.FixtureRequest,
    oracle: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    key: OwnerKey,
    key_file: Path,
) -> Iterator[Session]:
    with asking(request.param, oracle, tmp_path_factory.mktemp("order"), key, key_file) as opened:
        yield opened


@pytest.mark.sampled(5)  # over each of the three
@pytest.mark.parametrize("sql", [*QUESTIONS, "SELECT g, AVG(k), AVG(tie), AVG(x) FROM t GROUP BY g ORDER BY g"])
def test_the_answer_is_that_of_the_file_s_order(session: Session, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Twice: first rows are streamed; then they may be a table of the session's."""
    expected = [list(map(number, row)) for row in oracle.execute(sql).fetchall()]
    for _ in range(2):
        assert [list(map(number, row)) for row in session.ask(session.plan(sql)).result.rows] == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("aggregate", "ordered"),
    [
        ("AVG(k)", False),
        ("MEAN(CAST(k AS DECIMAL(15,2)) * 2) FILTER (tie > 1)", False),
        ("SUM(k) + AVG(tie)", False),
        ("AVG(x)", True),
        ("AVG(CAST(k AS DECIMAL(30,2)))", True),
        ("STDDEV(k)", True),
        ("AVG(k) + FIRST(tie)", True),
    ],
)
def test_exact_means_are_computed_by_several_threads(aggregate: str, *, ordered: bool) -> None:
    plan = plan_query(f"SELECT g, {aggregate} FROM t GROUP BY g", SCHEMA, "t")
    assert isinstance(plan, QueryPlan)
    assert any(each.ordered for each in plan.local) == ordered


def test_one_thread_takes_all_batches(
    tmp_path: Path, key: OwnerKey, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def watched(schema: Any, batches: Iterator[Any], failed: Any) -> Any:
        def each() -> Iterator[Any]:
            for batch in batches:
                threads.add(threading.get_ident())
                yield batch

        return open_stream(schema, each(), failed)

    monkeypatch.setattr(columns, "open_stream", watched)
    (tmp_path / "t.csv").write_text("k,s,g,tie,x\n" + "".join(f"{i},a,b,1,1.5\n" for i in range(12_000)))
    world = World(Folder(tmp_path / "store"), key, tmp_path, name="t")
    with world.over(of_files([tmp_path / "t.csv"], SCHEMA), key_file, file=False, segment_rows=1_000) as opened:
        for sql in ("SELECT FIRST(k) FROM t", "SELECT g, LIST(s) FROM t GROUP BY g", "SELECT LAST(tie) OVER () FROM t"):
            threads.clear()
            opened.ask(opened.plan(sql))
            assert len(threads) == 1, sql


@pytest.mark.parametrize(
    ("sql", "follows"),
    [
        *((sql, True) for sql in QUESTIONS),
        ("SELECT ARRAY(SELECT k FROM t)", True),
        ("SELECT list_aggregate(s, 'first') FROM t", True),
        ("SELECT k FROM t USING SAMPLE reservoir(3 ROWS) REPEATABLE (1)", True),
        ("SELECT * FROM t POSITIONAL JOIN u", True),
        ("SELECT APPROX_QUANTILE(k, 0.5) FROM t", True),
        ("SELECT SUM(k), MIN(k), COUNT(DISTINCT s) FROM t GROUP BY g ORDER BY g LIMIT 3", False),
        ("SELECT a.k FROM t AS a JOIN t AS b USING (k) WHERE a.g IN (SELECT g FROM t)", False),
        ("SELECT DISTINCT s FROM t", False),
    ],
)
def test_statements_that_depend_on_the_order_of_rows(sql: str, *, follows: bool) -> None:
    assert follows_order(tree_of(sql)) == follows


@pytest.mark.parametrize(
    ("sql", "shows"),
    [
        ("SELECT * FROM t", True),
        ("SELECT * FROM (SELECT * FROM t ORDER BY k)", True),
        ("SELECT k, (SELECT MAX(k) FROM t) FROM t", True),
        ("SELECT MAX(k) OVER () FROM t", True),
        ("SELECT list_transform([k], x -> x + 1) FROM t", True),
        ("SELECT g, SUM(k) FROM t GROUP BY g", True),
        ("SELECT SUM(k) FROM t GROUP BY GROUPING SETS ((g), (s))", True),
        ("SELECT SUM(k) FROM t GROUP BY ALL", True),
        ("SELECT SUM(k) FROM t UNION ALL SELECT k FROM t", True),
        ("SELECT 100 * SUM(k) FILTER (x > 3) / COUNT(*) FROM t", False),
        ("SELECT CASE WHEN MAX(x) > 3 THEN (SELECT g FROM t LIMIT 1) END FROM t HAVING SUM(k) > 1", False),
        ("SELECT k FROM t ORDER BY tie LIMIT 3", False),
        ("SELECT * FROM t ORDER BY ALL", False),
        ("WITH a AS (SELECT k FROM t) SELECT * FROM a UNION ALL SELECT tie FROM t ORDER BY k", False),
    ],
)
def test_rows_without_an_order_are_shown_as_they_are_read(sql: str, *, shows: bool) -> None:
    assert shows_order(tree_of(sql)) == shows


@pytest.mark.parametrize("what", ["file", "stored by g"])
def test_what_order_by_sorts_is_not_sorted_before(
    oracle: duckdb.DuckDBPyConnection, tmp_path: Path, key: OwnerKey, key_file: Path, what: str
) -> None:
    """No table of all rows is made for the few that are shown, or for an aggregate of all, and no row numbers are read.
    Without ORDER BY rows are shown in the file's order.
    """
    with asking(what, oracle, tmp_path, key, key_file) as session:
        for sql, fill in (
            ("SELECT k, g, x FROM t ORDER BY x DESC, k LIMIT 5", None),
            ("SELECT MAX(k) - MIN(k) FROM t WHERE k > (SELECT AVG(tie) FROM t)", None),
            ("SELECT k, g FROM t WHERE k % 10007 = 3", Table.fill),
        ):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Table, "fill", fill)
                rows = session.ask(session.plan(sql)).result.rows
            assert [list(map(number, row)) for row in rows] == [
                list(map(number, row)) for row in oracle.execute(sql).fetchall()
            ]
