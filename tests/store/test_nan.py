"""NaN of either sign, alone or beside numbers, as a key and as a figure: DuckDB's answer over the unsplit table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import pytest

import cleave
from cleave.ckks.key_file import create_key

ROWS = pd.DataFrame({"w": ["a", "b", "a"], "v": ["d", "c", "d"], "x": [1.5, 2.0, 0.5], "p": [1.5, 2.0, 0.5]})
X = {"kind": "encrypted", "type": "DECIMAL(18,1)", "decimals": 1, "nullable": False, "lower": -8, "upper": 8}
SCHEMA = {"w": "sealed", "v": "plain", "x": X, "p": "plain"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("nan")
    create_key(folder / "key.json", None)
    place = {"store": folder / "store", "key": folder / "key.json"}
    cleave.put(ROWS, "t", schema=SCHEMA, by=["v"], **place)
    return place


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (w VARCHAR, v VARCHAR, x DECIMAL(18,1), p DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS.to_numpy().tolist())
        yield connection


@pytest.mark.sampled(8)
@pytest.mark.parametrize("made", ["sqrt(-{})", "-sqrt(-{})", "CASE WHEN v = 'c' THEN {} ELSE sqrt(-{}) END"])
@pytest.mark.parametrize("column", ["x", "p"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT w, MAX({}) AS m FROM t GROUP BY w",
        "SELECT v, MIN({}) AS m, SUM(x) FROM t GROUP BY v",
        "SELECT {} AS r, COUNT(*) FROM t GROUP BY r",
        "SELECT v, {} AS r, SUM(x) FROM t GROUP BY v, r",
        "SELECT v, MAX({}) FROM t GROUP BY ROLLUP (v)",
    ],
)
def test_an_answer_with_nan_is_duckdbs(
    oracle: duckdb.DuckDBPyConnection, stored: dict[str, Any], sql: str, column: str, made: str
) -> None:
    query = sql.format(made.format(column, column))
    expected = sorted(map(_comparable, oracle.execute(query).fetchall()))
    for data, how in ((ROWS, {"schema": SCHEMA, "table": "t"}), ("t", stored)):
        assert sorted(map(_comparable, cleave.query(data, query, **how).rows)) == expected, how


def _comparable(row: Any) -> tuple[str, ...]:
    return tuple("NaN" if isinstance(each, float) and math.isnan(each) else str(each) for each in row)
