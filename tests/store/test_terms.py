"""Every term of ORDER BY, HAVING, DISTINCT ON and QUALIFY counts, over a file and over a stored table: generated
statements against DuckDB.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.table.lazy import LazyTable, of_files
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from tests.store.trial import World
from tests.unit.simulate import number

SETS = ("ROLLUP (a, b)", "CUBE (a, b)", "GROUPING SETS ((a), (b), ())", "GROUPING SETS ((b), (a, b))", "a, b")
TERMS = (
    *("GROUPING()", "GROUPING(b)", "GROUPING(a, b) = 1", "NOT GROUPING(a) = 1", "GROUPING(b) IN (1, 2)"),
    *("CASE WHEN GROUPING(b) = 1 THEN 0 ELSE 1 END", "CASE GROUPING() WHEN 1 THEN 'x' ELSE 'y' END"),
    *("GROUPING(a) BETWEEN 1 AND 2", "COALESCE(NULL, GROUPING(b))", "CAST(GROUPING() AS VARCHAR)", "[GROUPING(b)]"),
    *("GROUPING(b) + COUNT(*)", "COUNT(*) % 3", "SUM(x)", "-SUM(x) * GROUPING(a)", "SUM(p) % 5", "MAX(p) > 7"),
    *("MEDIAN(x)", "MEDIAN(p) + GROUPING(b)", "a", "b || 'z' < 'm'", "COALESCE(b, 'c')", "a IS NULL"),
)
REST = "a DESC, b"  # leaves no ties


def statement(chance: random.Random, oracle: duckdb.DuckDBPyConnection) -> str:
    term, other = chance.sample(TERMS, 2)
    sets, way = chance.choice(SETS), chance.choice(("place", "alias", "expression"))
    shown = f"{term} AS g, a, b, SUM(x), COUNT(*)"
    meant = {"place": "1", "alias": "g", "expression": term}[way]
    direction = chance.choice(("", "DESC", "NULLS FIRST", "DESC NULLS FIRST", "DESC NULLS LAST"))
    order, limit = f"ORDER BY {meant} {direction}, {other}, {REST}", f"LIMIT {chance.randint(1, 4)}"
    named = "g" if way == "alias" else term  # no place means a column there
    match chance.choice(("order", "order", "having", "distinct", "qualify")):
        case "order":
            return f"SELECT {shown} FROM t GROUP BY {sets} {order} {limit}"
        case "having":
            (value,) = oracle.execute(f"SELECT CAST({term} AS VARCHAR) FROM t GROUP BY {sets} ORDER BY 1").fetchall()[0]
            return f"SELECT {shown} FROM t GROUP BY {sets} HAVING CAST({named} AS VARCHAR) = '{value}' {order}"
        case "distinct":
            return f"SELECT DISTINCT ON ({meant}) {shown} FROM t GROUP BY {sets} ORDER BY {meant} {direction}, {REST}"
        case _:
            ranked = f"row_number() OVER (PARTITION BY {named} ORDER BY {REST}) = 1"
            return f"SELECT {shown} FROM t GROUP BY {sets} QUALIFY {ranked} {order}"


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 'a' || i % 2 AS a, 'b' || i % 3 AS b, i AS x, i * 7 % 11 AS p "
            "FROM range(30) AS r(i)"
        )
        yield connection


@pytest.fixture(scope="module", params=["file", "stored"])
def session(
    request: pytest.FixtureRequest,
    oracle: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    key: OwnerKey,
    key_file: Path,
) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("terms")
    world = World(Folder(folder / "store"), key, folder, name="t")
    with world.over(rows(oracle, folder), key_file, "a", "b", file=request.param == "file") as opened:
        yield opened


def rows(oracle: duckdb.DuckDBPyConnection, folder: Path) -> LazyTable:
    oracle.execute(f"COPY t TO '{folder / 't.csv'}'")
    kinds = {"a": Kind.PLAIN, "b": Kind.PLAIN, "x": Kind.ENCRYPTED, "p": Kind.PLAIN}
    columns = tuple(Column(name, kind, "VARCHAR" if name in "ab" else "BIGINT") for name, kind in kinds.items())
    return of_files([folder / "t.csv"], Schema(columns, CsvDialect()))


def check(session: Session, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    expected = [list(map(number, row)) for row in oracle.execute(sql).fetchall()]
    assert [list(map(number, row)) for row in session.ask(session.plan(sql)).result.rows] == expected, sql


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sampled(16, 4)  # one over each
def test_every_term_counts(session: Session, oracle: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        check(session, oracle, statement(chance, oracle))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("term", ["4", "g", "GROUPING()", "CASE WHEN GROUPING() = 3 THEN 1 ELSE 0 END"])
def test_grouping_orders_rows(session: Session, oracle: duckdb.DuckDBPyConnection, term: str) -> None:
    sql = f"SELECT a, b, SUM(x), GROUPING() AS g FROM t GROUP BY ROLLUP (a, b) ORDER BY {term} DESC LIMIT 1"
    check(session, oracle, sql)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("constant", ["5", "'x'", "NULL", "CAST(5 AS INTEGER)"])
def test_a_constant_key_that_a_set_leaves_out_orders_rows(
    session: Session, oracle: duckdb.DuckDBPyConnection, constant: str
) -> None:
    for nulls in ("FIRST", "LAST"):
        sql = f"SELECT {constant} AS k, SUM(x), a FROM t GROUP BY ROLLUP (k), a ORDER BY k NULLS {nulls}, a DESC"
        check(session, oracle, sql)
