"""WHERE and GROUP BY over encrypted columns: answered as DuckDB answers, and nothing of them is sent."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from cleave.ask.question import Answer
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.sql.planner import plan_query
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.transport.base import Transport
from cleave_shared.errors import QueryRefused
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.answering import run_query
from tests.samples import write_table
from tests.unit.simulate import differences, number

TYPES = {
    "ward": "plain VARCHAR",
    "bed": "plain BIGINT",
    "fee": "plain DECIMAL(38,2)",
    "long": "plain DECIMAL(38,0)",
    "age": "encrypted BIGINT",
    "bill": "encrypted DECIMAL(18,2)",
    "smoker": "encrypted BOOLEAN",
    "kg": "encrypted DOUBLE",
}
ROWS = """\
north,1,10.50,18446744073709551615,61,1000000000000000.25,true,70.5
south,2,20.25,-1,72,-9999999999999999.99,false,80.25
north,3,123456789012345678901234567890.12,12345678901234567890,61,0.05,true,64
,4,-0.05,9223372036854775808,,9999999999999999.99,,
south,5,,7,30,-0.01,false,90.75
"""


class Recorder:
    """Passes requests on and remembers them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.plain_requests: list[PlainRequest] = []
        self.sensitive_requests: list[SumsRequest] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def plain(self, request: PlainRequest) -> PlainResponse:
        self.plain_requests.append(request)
        return self._transport.plain(request)

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        self.sensitive_requests.append(request)
        return self._transport.sensitive(request)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    path = write_table(tmp_path_factory.mktemp("table") / "t.csv", f"{','.join(TYPES)}\n{ROWS}", **TYPES)
    with open_table(path, load_schema(path.with_suffix(".schema.toml"))) as table:
        yield table


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}" {type_.split()[1]}' for name, type_ in TYPES.items())
        connection.execute(f"CREATE TABLE t ({columns})")
        rows = [[cell or None for cell in line.split(",")] for line in ROWS.splitlines()]
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(TYPES))})", rows)
        yield connection


def ask(sql: str, table: Table, key: SecretKey) -> tuple[Answer, Recorder]:
    transport = Recorder(embedded_services())
    answer = run_query(table, plan_query(sql, table.schema, "t"), key, transport, Silent())  # type: ignore[arg-type]
    return answer, transport


def check(sql: str, answer: Answer, oracle: duckdb.DuckDBPyConnection) -> None:
    expected = [[number(value) for value in row] for row in oracle.execute(sql).fetchall()]
    assert not differences(answer.result, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), SUM(age), AVG(kg) FROM t WHERE age > 60",
        "SELECT COUNT(*), COUNT(bed), SUM(bed), AVG(bed), SUM(fee) FROM t WHERE age > 60",
        "SELECT age, COUNT(*), SUM(bed), AVG(kg) FROM t GROUP BY age ORDER BY age",
        "SELECT smoker, ward, COUNT(*) FROM t GROUP BY ALL ORDER BY ALL",
        "SELECT age // 10 AS decade, SUM(bill) FROM t GROUP BY decade HAVING COUNT(*) > 1 ORDER BY decade",
        "SELECT ward, SUM(bed) FILTER (WHERE bed > 1), COUNT(*) FILTER (WHERE ward = 'north') FROM t "
        "WHERE smoker OR kg > 80 GROUP BY ward ORDER BY ward",
        "SELECT STDDEV(bed), VAR_POP(bed), COUNT(ward) FROM t WHERE bill < 0",
        "SELECT COUNT(*), SUM(bed) FROM t WHERE age > 1000",
        "SELECT ward, SUM(bed) FROM t WHERE age > 1000 GROUP BY ward",
        "SELECT ward || '!', 2 * SUM(bed) + COUNT(*) FROM t WHERE kg > 1 GROUP BY ward ORDER BY 1 DESC LIMIT 1",
    ],
)
def test_an_encrypted_selection_is_answered_and_the_plain_service_is_not_asked(
    sql: str, table: Table, key: SecretKey, oracle: duckdb.DuckDBPyConnection
) -> None:
    answer, transport = ask(sql, table, key)
    check(sql, answer, oracle)
    assert not transport.plain_requests
    assert {column.source for column in answer.result.columns} <= {"key", "encrypted", "local"}


def test_a_plain_selection_still_asks_the_plain_service(
    table: Table, key: SecretKey, oracle: duckdb.DuckDBPyConnection
) -> None:
    sql = "SELECT ward, COUNT(*), SUM(age), MIN(bed) FROM t WHERE bed > 1 GROUP BY ward ORDER BY ward"
    answer, transport = ask(sql, table, key)
    check(sql, answer, oracle)
    assert [column.source for column in answer.result.columns] == ["key", "plain", "encrypted", "plain"]
    assert [request.where for request in transport.plain_requests] == ['"bed" > 1']


def test_what_is_sent_is_the_same_for_any_selection_of_as_many_rows(table: Table, key: SecretKey) -> None:
    def shape(sql: str) -> list[object]:
        _, transport = ask(sql, table, key)
        return [
            (each.profile, [(lane.start, lane.stop, len(lane.objects)) for lane in each.lanes])
            for each in transport.sensitive_requests
        ]

    assert shape("SELECT SUM(bed), AVG(kg) FROM t WHERE age = 61") == shape(
        "SELECT SUM(bed), AVG(kg) FROM t WHERE age < 73 AND age <> 61"
    )
    assert shape("SELECT SUM(bed) FROM t WHERE age = 61")


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT MIN(ward) FROM t WHERE age > 60", "MIN over rows that 'age' selects", "SUM"),
        ("SELECT age, string_agg(ward, ',' ORDER BY ward) FROM t GROUP BY age", "rows that 'age' selects", "SUM"),
        ("SELECT COUNT(DISTINCT ward) FROM t WHERE age > 60", "COUNT(DISTINCT ...) over rows that 'age'", "SUM"),
        ("SELECT MEDIAN(bed) FROM t WHERE kg > 60", "only you may know them", "SUM"),
        ("SELECT SUM(age) FROM t WHERE SUM(age) > 3", "WHERE cannot hold an aggregate", "HAVING"),
    ],
)
def test_what_no_sum_gives_is_refused_where_only_the_services_may_answer(
    sql: str, message: str, hint: str, table: Table
) -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query(sql, table.schema, "t", cloud_only=True)
    assert message in str(refused.value)
    assert hint in str(refused.value.hint)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(bill), COUNT(bill), AVG(bill) FROM t",
        "SELECT ward, SUM(bill) FROM t GROUP BY ward ORDER BY ward",
        "SELECT SUM(bill * 1000.00::DECIMAL(20,2)) FROM t WHERE bed < 3",
        "SELECT SUM(CAST(bill AS DECIMAL(38,10))), SUM(bill::DECIMAL(38,2) * 1000000) FROM t",
        "SELECT SUM(fee), SUM(long), AVG(long) FROM t WHERE age > 0 OR age IS NULL",
        "SELECT SUM(CAST(long AS UBIGINT)) FROM t WHERE long > 0 AND (age > 0 OR age IS NULL)",
        "SELECT SUM(CAST(age AS HUGEINT) * 10000000000000000000) FROM t",
    ],
)
def test_numbers_of_more_than_18_digits_and_of_more_than_63_bits(
    sql: str, table: Table, key: SecretKey, oracle: duckdb.DuckDBPyConnection
) -> None:
    answer, _ = ask(sql, table, key)
    check(sql, answer, oracle)
