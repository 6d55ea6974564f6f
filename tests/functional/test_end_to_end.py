"""The same questions through every path: embedded services, `cleave serve` over HTTP, and the Lambda handlers.

Each answer is compared with DuckDB's on the unsplit table: equal where it says exact, within its bound elsewhere.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.ask.question import Answer
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.sql import split
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.duck import identifier
from cleave.table.schema import Kind, load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.table.types import is_number
from cleave.transport.base import Transport
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave_shared import limits
from cleave_shared.params import AGGREGATE_OF
from tests.answering import run_query
from tests.samples import write_schema
from tests.security.ways import Record, recorded

ROWS = 700


@dataclass(frozen=True)
class Column:
    name: str
    kind: str
    type: str
    cells: list[str]  # "" is NULL


def _columns() -> list[Column]:
    """Names that need quotes, types of every sort, NULLs in keys and in figures."""
    drawn = random.Random(7)

    def cells(make: Any, nulls: float = 0.0) -> list[str]:
        return ["" if drawn.random() < nulls else str(make()) for _ in range(ROWS)]

    day = ("2024-02-29", "2023-12-31", "1999-01-01", "2024-03-01")
    return [
        Column(
            "ward", "plain", "VARCHAR", cells(lambda: drawn.choice(["Köln", "量子", "a,b", 'q"q', "it's", " x"]), 0.1)
        ),
        Column("day", "plain", "DATE", cells(lambda: drawn.choice(day), 0.1)),
        Column("at", "plain", "TIMESTAMP", cells(lambda: drawn.choice(day) + " 12:30:00.5")),
        Column("open", "plain", "BOOLEAN", cells(lambda: drawn.choice(["true", "false"]), 0.2)),
        Column("n", "plain", "BIGINT", cells(lambda: drawn.randrange(-5, 10))),
        Column("x", "plain", "DOUBLE", cells(lambda: drawn.gauss(0, 1), 0.1)),
        Column("fee", "plain", "DECIMAL(9,2)", cells(lambda: f"{drawn.uniform(0, 99):.2f}")),
        Column("many", "plain", "BIGINT", [str(row % 90) for row in range(ROWS)]),
        Column('with "quotes"', "plain", "VARCHAR", cells(lambda: drawn.choice("ab"))),
        Column("group", "plain", "BIGINT", cells(lambda: drawn.randrange(3))),
        Column("rowid", "plain", "BIGINT", cells(lambda: drawn.randrange(3), 0.1)),
        Column("age", "encrypted", "BIGINT", cells(lambda: drawn.randrange(100), 0.1)),
        Column("bill", "encrypted", "DECIMAL(18,2)", cells(lambda: f"{drawn.uniform(-500, 9999):.2f}", 0.1)),
        Column("weight", "encrypted", "DOUBLE", cells(lambda: drawn.gauss(70, 12), 0.1)),
        Column("smoker", "encrypted", "BOOLEAN", cells(lambda: drawn.choice(["true", "false"]), 0.1)),
        Column("select", "encrypted", "BIGINT", cells(lambda: drawn.randrange(1000))),
        Column("größe 量.x", "encrypted", "DOUBLE", cells(drawn.random)),
        Column("never", "encrypted", "DOUBLE", [""] * ROWS),
        Column("note", "local", "VARCHAR", cells(lambda: "private\nnote")),
        Column("name", "sealed", "VARCHAR", cells(lambda: "Ada")),
    ]


COLUMNS = _columns()


def write(path: Path, rows: int) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in COLUMNS])
        writer.writerows([column.cells[row] for column in COLUMNS] for row in range(rows))
    write_schema(path, {column.name: f"{column.kind} {column.type}" for column in COLUMNS})
    return path


def unsplit(path: Path, rows: int) -> duckdb.DuckDBPyConnection:
    """The same cells in one DuckDB table, put there without any CSV reader."""
    connection = duckdb.connect()
    quoted = ['"' + column.name.replace('"', '""') + '"' for column in COLUMNS]
    columns = ", ".join(f"{name} {column.type}" for name, column in zip(quoted, COLUMNS, strict=True))
    connection.execute(f'CREATE TABLE "{path.stem}" ({columns})')
    values = ", ".join(f"unnest(?::VARCHAR[])::{column.type}" for column in COLUMNS)
    cells = [[cell or None for cell in column.cells[:rows]] for column in COLUMNS]
    connection.execute(f'INSERT INTO "{path.stem}" SELECT {values}', cells)
    return connection


@dataclass(frozen=True)
class World:
    tables: Mapping[int, Table]  # by number of rows
    oracles: Mapping[int, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    tables, oracles = {}, {}
    for rows in (ROWS, 1, 0):
        path = write(tmp_path_factory.mktemp("table") / "t.csv", rows)
        tables[rows] = open_table(path, load_schema(path.with_suffix(".schema.toml")))
        oracles[rows] = unsplit(path, rows)
    yield World(tables, oracles)
    for table, oracle in zip(tables.values(), oracles.values(), strict=True):
        table.__exit__(None, None, None)
        oracle.close()


PATHS = ("embedded", "served", "lambda")


@pytest.fixture(params=PATHS)
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    transport: Transport
    if request.param == "embedded":
        transport = embedded_services()
    elif request.param == "served":
        transport = connect_http(read_endpoints(request.getfixturevalue("service"), insecure_http=False))
    else:
        transport = recorded("lambda", Record(), "")()
    yield transport
    transport.close()


class Silent:
    def stage(self, name: str, total: int) -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


@cache
def plan(sql: str, table: Table) -> QueryPlan:
    return plan_query(sql, table.schema, table.name)


def ask(world: World, key: SecretKey, transport: Transport, sql: str, rows: int = ROWS) -> Answer:
    table = world.tables[rows]
    return run_query(table, plan(sql, table), key, transport, Silent())


# What DuckDB's own float64 may lose of these 700 well-conditioned rows, relative; tests.oracle bounds it for any.
DUCKDB_LOSS = 1e-12


def compare(answer: Answer, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    result = answer.result
    head = oracle.execute(sql).description or ()
    assert [column.name for column in result.columns] == [column[0] for column in head]
    values = oracle.fetchall()
    texts = oracle.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql.rstrip(';')}\n)").fetchall()
    if "ORDER BY" not in sql:  # ours come by key
        values.sort(key=lambda row: row[0])
        texts.sort(key=lambda row: [row[0] for row in values].index(int(row[0])) if len(values) > 1 else 0)
    assert len(result.rows) == len(values)
    for ours, bounds, exacts, row, text in zip(result.rows, result.bounds, result.exact, values, texts, strict=True):
        for place, (value, bound, exact) in enumerate(zip(ours, bounds, exacts, strict=True)):
            column = result.columns[place]
            truth = text[place] if isinstance(value, str) else row[place]
            where = f"{column.name}: {value!r} against {truth!r}, bound {bound!r}"
            if column.source == "encrypted" and isinstance(value, float) and truth is not None:
                assert bound is not None, where
                allowed = Fraction(bound) + Fraction(DUCKDB_LOSS * abs(truth))
                assert abs(Fraction(value) - Fraction(truth)) <= allowed, where
            elif exact or column.source == "key" or value is None or truth is None or isinstance(value, str | bool):
                assert value == truth, where
            elif column.source == "encrypted":
                assert bound is not None, where
                assert abs(Fraction(value) - Fraction(truth)) <= Fraction(bound), where
            else:
                assert math.isclose(value, truth, rel_tol=1e-9, abs_tol=1e-12), where
    assert set(answer.checks.values()) <= {"passed", "not needed"}


ALL = "COUNT({0}), SUM({0}), AVG({0}), VAR_SAMP({0}), VAR_POP({0}), STDDEV_SAMP({0}), STDDEV_POP({0})"
QUESTIONS = {
    "count": "SELECT COUNT(*) FROM t",
    "every aggregate of integers": f"SELECT {ALL.format('age')} FROM t",
    "every aggregate of decimals": f"SELECT {ALL.format('bill')} FROM t",
    "every aggregate of floats": f"SELECT {ALL.format('weight')} FROM t",
    "every aggregate of NULLs": f"SELECT {ALL.format('never')}, PRODUCT(never) FROM t",
    "plain and encrypted": "SELECT SUM(n), AVG(x), PRODUCT(x), SUM(fee), MIN(ward), SUM(age), MAX(day) FROM t",
    "plain alone": "SELECT ward, COUNT(x), MEDIAN(x), SUM(fee) FROM t GROUP BY ward ORDER BY ward",
    "products": "SELECT open, PRODUCT(weight / 70), PRODUCT(age - 50) FROM t WHERE n = 3 GROUP BY open ORDER BY open",
    "aliases": 'SELECT ward AS w, SUM(age) AS "the sum", COUNT(*) total FROM t GROUP BY w ORDER BY w',
    "the same name twice": "SELECT SUM(age) AS a, AVG(age) AS a FROM t",
    "the same figure twice": "SELECT SUM(age), SUM(age), sum(AGE) FROM t",
    "order by an encrypted figure": "SELECT n, SUM(bill) AS s FROM t GROUP BY n ORDER BY s DESC, n LIMIT 3 OFFSET 1",
    "order by place": "SELECT n, AVG(weight) FROM t GROUP BY 1 ORDER BY 2 LIMIT 5",
    "order by what is not shown": "SELECT n FROM t GROUP BY n ORDER BY SUM(age) DESC",
    "limit none": "SELECT n, SUM(age) FROM t GROUP BY n ORDER BY n LIMIT 0",
    "having": "SELECT n, SUM(age) FROM t GROUP BY n HAVING SUM(age) > 2000 AND COUNT(*) > 40 ORDER BY n",
    "having nothing": "SELECT n, SUM(age) FROM t GROUP BY n HAVING SUM(age) < -1 ORDER BY n",
    "having without groups": "SELECT SUM(age) FROM t HAVING COUNT(*) > 1e6",
    "arithmetic over aggregates": "SELECT n, SUM(bill) / COUNT(*) + AVG(age) * 2 - MAX(n) FROM t GROUP BY n ORDER BY n",
    "arithmetic on keys": "SELECT n * 2, n + SUM(age), AVG(weight) FROM t GROUP BY n ORDER BY n",
    "functions of figures": "SELECT ROUND(AVG(bill), 1), SQRT(SUM(age)), COALESCE(SUM(never), 0) FROM t",
    "a condition on a figure": "SELECT n, CASE WHEN SUM(age) > 2000 THEN 'many' ELSE 'few' END, SUM(age) > 2000 FROM t "
    "GROUP BY n ORDER BY n",
    "filter by encrypted": "SELECT ward, SUM(age) FILTER (WHERE smoker), COUNT(*) FILTER (WHERE weight > 70 OR n > 3), "
    "COUNT(*) FILTER (WHERE open) FROM t GROUP BY ward ORDER BY ward",
    "expressions": "SELECT SUM(age * bill), SUM(bill * n), AVG(weight - age), SUM(age::DOUBLE / 3 + x), SUM(age + 1), "
    "AVG(CASE WHEN open THEN age END), SUM(abs(bill)), COUNT(weight + never) FROM t",
    "booleans": "SELECT SUM(smoker::INT), AVG(smoker::INT), COUNT(smoker) FROM t",
    "where": "SELECT n, SUM(age) FROM t WHERE x > 0 AND (ward LIKE 'K%' OR open) AND fee < 80 GROUP BY n ORDER BY n",
    "where on dates": """SELECT COUNT(*), SUM(bill) FROM t WHERE day >= DATE '2023-12-31' AND year("at") = 2024""",
    "dates as keys": 'SELECT day, SUM(age), MIN("at") FROM t GROUP BY day ORDER BY day',
    "timestamps as keys": 'SELECT "at", SUM(age) FROM t GROUP BY "at" ORDER BY "at"',
    "booleans as keys": "SELECT open, AVG(age) FROM t GROUP BY open ORDER BY open NULLS FIRST",
    "expressions as keys": "SELECT date_trunc('month', \"at\") AS month, n % 2 AS odd, SUM(bill) FROM t "
    "GROUP BY month, odd ORDER BY month, odd",
    "floats as keys": "SELECT round(x), COUNT(age) FROM t GROUP BY round(x) ORDER BY 1",
    "several keys": "SELECT open, day, SUM(weight) FROM t GROUP BY ALL ORDER BY ALL",
    "odd names": 'SELECT "with ""quotes""", "group", rowid, SUM("select"), AVG("größe 量.x") FROM t '
    "GROUP BY ALL ORDER BY ALL",
    "a column called rowid": "SELECT rowid, SUM(age) FROM t WHERE rowid > 0 GROUP BY rowid ORDER BY rowid",
    "long heads": "SELECT SUM(age) + SUM(age) + SUM(age) + SUM(age) + SUM(bill) / 3 + COUNT(*) FROM t",
    "many groups": "SELECT many, SUM(age), AVG(bill) FROM t GROUP BY many ORDER BY many",
    "nothing selected": "SELECT COUNT(*), SUM(age), AVG(bill), STDDEV(weight), MIN(n) FROM t WHERE n > 99",
    "no group selected": "SELECT n, SUM(age), COUNT(*) FROM t WHERE n > 99 GROUP BY n ORDER BY n",
    "no order": "SELECT n, SUM(age) FROM t GROUP BY n",
    "qualified": "SELECT T.n, SUM(t.age) FROM t GROUP BY t.n ORDER BY t.n",
    "table alias": "SELECT a.n, SUM(a.age) FROM t AS a GROUP BY a.n ORDER BY a.n",
    "semicolon and comments": "SELECT /* all */ SUM(age) -- in years\nFROM t;",
    "a constant": "SELECT 1, 'a', SUM(age), NULL FROM t",
    "distinct plain": "SELECT COUNT(DISTINCT n), SUM(age) FROM t",
}


@pytest.mark.parametrize(
    ("transport", "name"),
    [(PATHS[(number + turn) % 3], name) for number, name in enumerate(QUESTIONS) for turn in range(3)],
    indirect=["transport"],
)
@pytest.mark.sampled(10, 4)  # the paths in turn
def test_every_question_through_every_path(world: World, key: SecretKey, transport: Transport, name: str) -> None:
    compare(ask(world, key, transport, QUESTIONS[name]), world.oracles[ROWS], QUESTIONS[name])


@pytest.mark.parametrize("operation", AGGREGATE_OF)
@pytest.mark.sampled(3)
def test_every_operation_is_answered_as_duckdb_answers(world: World, key: SecretKey, operation: str) -> None:
    transport = embedded_services()
    numbers = [each for each in world.tables[1].schema.columns if is_number(each.type)]
    names = [each.name for each in numbers if each.kind in (Kind.PLAIN, Kind.ENCRYPTED)]
    sql = f"SELECT {', '.join(f'{AGGREGATE_OF[operation]}({identifier(name)})' for name in names)} FROM t"
    for rows in (1, 0) if operation == "product" else (ROWS, 1, 0):  # 700 factors of about 5,000 overflow
        compare(ask(world, key, transport, sql, rows), world.oracles[rows], sql)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.sampled(4)
def test_tables_of_hardly_any_rows_are_answered(world: World, key: SecretKey, transport: Transport, rows: int) -> None:
    for name in ("plain and encrypted", "filter by encrypted", "where"):
        compare(ask(world, key, transport, QUESTIONS[name], rows), world.oracles[rows], QUESTIONS[name])


WIDE = ", ".join(f"STDDEV(weight + {place})" for place in range(8))  # so many lanes that 700 rows take several chunks
IN_PARTS = [
    f"SELECT SUM(n), AVG(x), STDDEV(x), MIN(ward), SUM(fee), SUM(age), {WIDE} FROM t",
    f"SELECT ward, open, COUNT(x), SUM(fee), SUM(age), {WIDE} FROM t GROUP BY ALL ORDER BY ALL",
    f"SELECT COUNT(*), MAX(ward), AVG(x), SUM(age), {WIDE} FROM t WHERE n > 99",
    f'SELECT "at", AVG(fee), AVG(bill), {WIDE} FROM t WHERE x > -1 GROUP BY ALL ORDER BY ALL',
]


@pytest.mark.parametrize("sql", IN_PARTS, ids=["whole", "keys", "nothing", "where"])
@pytest.mark.sampled(3)
def test_several_requests_to_each_service(
    world: World, key: SecretKey, transport: Transport, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(split, "_PARQUET_BYTES", 2_000)
    monkeypatch.setattr(limits, "MAX_REQUEST_CHUNKS", 1)
    answer = ask(world, key, transport, sql)
    compare(answer, world.oracles[ROWS], sql)
    assert transport.requests - answer.usage.sensitive_requests > 1
    assert answer.usage.sensitive_requests > 1 or not answer.usage.selected_rows
