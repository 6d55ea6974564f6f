"""The comparison finds what is wrong with an answer."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest

from cleave.finish import ResultTable
from cleave.sql.plan import Output
from tests.conformance.asked import Call, Expected, bare_calls, expect, is_ordered
from tests.conformance.compare import differences

SQL = "SELECT g, SUM(n) AS n, AVG(x) AS x, CORR(x, y) AS r, SUM(x) / 3 AS third FROM t GROUP BY g"
SOURCES = ("key", "encrypted", "encrypted", "encrypted", "encrypted")


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE t AS SELECT 'g' || i % 2 AS g, (i / 4)::DECIMAL(9,2) AS n, sqrt(i) AS x, i * 1.5e0 + i % 3 AS y "
        "FROM range(20) AS r(i)"
    )
    return connection


def asked(oracle: duckdb.DuckDBPyConnection, sql: str) -> tuple[ResultTable, Expected, list[Call | None]]:
    """DuckDB's own answer as if it were ours, each double with a bound of 1e-9."""
    calls = bare_calls(sql)
    expected = expect(oracle, sql, [call for call in calls if call])
    bounds = [[1e-9 if isinstance(value, float) else 0.0 for value in row] for row in expected.rows]
    exact = [[not isinstance(value, float) for value in row] for row in expected.rows]
    columns = [Output(name, source) for name, source in zip(expected.names, SOURCES, strict=True)]  # type: ignore[arg-type]
    return ResultTable(columns, list(expected.types), deepcopy(expected.rows), bounds, exact), expected, calls


def test_duckdbs_own_answer_is_right(oracle: duckdb.DuckDBPyConnection) -> None:
    answer, expected, calls = asked(oracle, SQL)
    assert [call and call.name for call in calls] == [None, "sum", "avg", "corr", None]
    assert differences(answer, expected, calls, ordered=False) == []
    turned = replace(answer, rows=answer.rows[::-1], bounds=answer.bounds[::-1], exact=answer.exact[::-1])
    assert differences(turned, expected, calls, ordered=False) == []
    assert differences(turned, expected, calls, ordered=True)


def _change(row: int, column: int, change: Callable[[object], object]) -> Callable[[ResultTable], None]:
    def apply(answer: ResultTable) -> None:
        answer.rows[row][column] = change(answer.rows[row][column])

    return apply


@pytest.mark.parametrize(
    "spoil",
    [
        _change(0, 0, lambda _: "g2"),
        _change(0, 0, lambda _: None),
        _change(1, 1, lambda value: value + Decimal("0.01")),
        _change(1, 1, float),
        _change(0, 2, lambda value: value + 2e-9),
        _change(0, 2, Decimal),
        _change(0, 2, lambda _: float("nan")),
        _change(0, 3, lambda value: value - 2e-9),
        _change(1, 3, lambda _: None),
        _change(1, 4, lambda value: value + 2e-9),
        lambda answer: answer.exact[0].__setitem__(2, True) or answer.rows[0].__setitem__(2, 2.0),
        lambda answer: answer.bounds[0].__setitem__(2, None),
        lambda answer: answer.bounds[0].__setitem__(4, float("inf")),
        lambda answer: answer.rows.pop(),
        lambda answer: answer.rows.__setitem__(1, answer.rows[0]),
        lambda answer: answer.types.__setitem__(1, "DECIMAL(38,3)"),
        lambda answer: answer.columns.__setitem__(1, Output("sum(n)", "encrypted")),
        lambda answer: answer.warnings.append("undecided"),
    ],
)
def test_a_wrong_answer_is_found(oracle: duckdb.DuckDBPyConnection, spoil: Callable[[ResultTable], None]) -> None:
    answer, expected, calls = asked(oracle, SQL)
    spoil(answer)
    assert differences(answer, expected, calls, ordered=False)


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT g FROM t ORDER BY g", True),
        ("SELECT g FROM t ORDER BY ALL LIMIT 2", True),
        ("SELECT g FROM (SELECT g FROM t ORDER BY g)", False),
        ("SELECT list(g ORDER BY g) FROM t", False),
        ("SELECT g FROM t UNION SELECT g FROM t ORDER BY 1", True),
        ("WITH a AS (SELECT g FROM t ORDER BY g) SELECT g FROM a", False),
    ],
)
def test_where_order_is_compared(oracle: duckdb.DuckDBPyConnection, sql: str, ordered: bool) -> None:
    assert is_ordered(oracle, sql) is ordered
