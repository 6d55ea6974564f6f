"""Clients of PostgreSQL are told DuckDB's truth by the gateway. They are fetched from their registries."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.gateway.clients.made import Clients
from tests.gateway.conftest import PASSWORD
from tests.gateway.stays import TYPES

pytestmark = pytest.mark.clients

WITHOUT = list(TYPES).index("gap")  # every language has another idea of an interval; recordings compare its bytes
QUERY = "SELECT * FROM stays ORDER BY id"
PREPARED = "SELECT id, name, bill, day FROM stays WHERE id > 1 AND ward <> 'A'' \\' AND bill > 12.5 ORDER BY id"
FETCHED = "SELECT id, bill FROM stays ORDER BY id"
TABLES = [["public", "stays", "TABLE"], ["public", "wards", "TABLE"]]
CODES = ["42703", "42P01", "42601"]
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients")


@pytest.fixture
def answers(folder: Path, stays_port: int) -> Callable[[str], Answer]:
    def ask(name: str) -> Answer:
        return json.loads(Clients(folder).run(name, stays_port, PASSWORD))

    return ask


def plain(value: Any) -> Any:
    """A cell as every driver has it: numbers and booleans as such, times without their T, zone and last zeros."""
    if isinstance(value, dict):  # pgx has a time of day as microseconds
        seconds, micro = divmod(value["Microseconds"], 1_000_000)
        value = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micro:06d}"
    if value is None or isinstance(value, bool):
        return value if value is None else Decimal(int(value))
    text = {"t": "1", "f": "0"}.get(str(value), str(value))
    try:
        return Decimal(text)
    except InvalidOperation:
        text = re.sub(r"^(\d{4}-\d\d-\d\d)T(?=\d)", r"\1 ", text)
        text = re.sub(r"(?<=\d)(Z|\+00(:00)?)$", "", text)
        return re.sub(r"^([\d: -]+\.\d*?)0+$", r"\1", text).removesuffix(" 00:00:00")


def alike(rows: Any) -> list[list[Any]]:
    return [[plain(each) for each in row] for row in rows]


def trimmed(rows: Any) -> list[list[Any]]:
    """Rows of all columns, without the interval."""
    return [row[:WITHOUT] + row[WITHOUT + 1 :] for row in alike(rows)]


def truth(stays: duckdb.DuckDBPyConnection, sql: str) -> list[list[Any]]:
    """DuckDB's rows, as texts of each cell."""
    return alike(stays.execute(f"SELECT columns(*)::VARCHAR FROM ({sql})").fetchall())


def whole(stays: duckdb.DuckDBPyConnection) -> list[list[Any]]:
    found = truth(stays, QUERY)
    for row in found:
        row[list(TYPES).index("insured")] = {"true": Decimal(1), "false": Decimal(0), None: None}[row[3]]
    return trimmed(found)


@pytest.mark.parametrize("client", ["psycopg", "asyncpg", "alchemy", "odbc", "jdbc", "node"])
def test_rows_are_duckdbs(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection, client: str) -> None:
    told = answers(client)
    assert trimmed(told["query"]) == whole(stays)
    if "binary" in told and client != "node":
        assert trimmed(told["binary"]) == whole(stays)
    for name in {"prepared", "unnamed"} & told.keys():
        assert alike(told[name]) == truth(stays, PREPARED)
    for name in {"fetched", "cursor"} & told.keys():
        assert alike(told[name]) == truth(stays, FETCHED)
    if client == "psycopg":
        assert [each for each in told["errors"] if each != "25P02"] == [*CODES, "22P02", "42883"]
    elif "errors" in told:
        assert told["errors"] == CODES


def test_asyncpg_has_arrays(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection) -> None:
    ids, typed, bills, names = answers("asyncpg")["arrays"]
    assert ids == [[3], [5]]
    assert typed == [[[1, None], ["2001-01-16", None], ["a,b", "NULL", None]]]
    ((truth,),) = stays.execute("SELECT list(bill ORDER BY id) FROM stays WHERE id < 3").fetchall()
    assert bills == [[[each if each is None else str(each) for each in truth]]]
    assert names == [["int4"], ["text"]]


def test_pgx_has_duckdbs_rows(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection) -> None:
    told = answers("pgx")
    ways = [name for name in told if name.startswith("query ")]
    assert len(ways) == 4
    for way in ways:
        assert trimmed(told[way]) == whole(stays)
        assert alike(told[way.replace("query", "prepared")]) == truth(stays, PREPARED)
    assert told["errors"] == CODES


def test_pgjdbc_reads_the_catalogue(answers: Callable[[str], Answer]) -> None:
    told = answers("jdbc")
    assert told["tables"] == TABLES
    assert [each[0] for each in told["columns"]] == list(TYPES)
    kinds = {name: (kind, scale) for name, kind, _, _, scale, *_ in told["columns"]}
    assert kinds["bill"] == ("2", "2")  # java.sql.Types.NUMERIC
    assert kinds["zoned"] == ("93", "6")
    assert told["keys"] == [["id", "1"]]
    assert told["indexes"] == told["best"] == [["id"]]
    assert told["imported"] == told["functions"] == []
    assert told["schema"] == "public"
    assert told["valid"] is True


def test_odbc_tells_numbers_and_texts_apart(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection) -> None:
    told = answers("odbc")
    assert alike(told["mixed"]) == truth(stays, "SELECT num, bill, name, level, big, ratio FROM stays ORDER BY id")
    assert [each[1] for each in told["typed"]] == ["int", "Decimal", "str", "float", "int", "float"]
    assert [each[1:] for each in told["tables"]] == TABLES
    assert [each[0] for each in told["columns"]] == list(TYPES)
    assert told["keys"] == ["id"]


def test_sqlalchemy_reflects(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection) -> None:
    told = answers("alchemy")
    assert sorted(told["tables"]) == ["stays", "wards"]
    assert told["columns"][7] == ["bill", "NUMERIC(9, 2)", True]
    assert told["columns"][0] == ["id", "BIGINT", False]
    assert told["keys"] == ["id"]
    assert told["has"] == [True, False]
    means = "SELECT ward, avg(bill) FROM stays WHERE id > 1 GROUP BY ward ORDER BY ward NULLS LAST"
    assert alike(told["core"]) == truth(stays, means)


def test_data_frames(answers: Callable[[str], Answer], stays: duckdb.DuckDBPyConnection) -> None:
    told = answers("pandas")
    assert told["types"] == ["int64", "str", "float64", "object", "datetime64[us]", "datetime64[us, UTC]", "object"]
    assert told["table"] == [["A", "north"], ["B", "south"], ["C", "north"]]
    assert told["chunks"] == [4, 4, 2]
    told = answers("polars")
    columns = "id, name, ward, bill, level, day, seen, insured::INTEGER AS insured"
    rows = truth(stays, f"SELECT {columns} FROM stays ORDER BY id")
    assert alike(told["connectorx"]) == alike(told["adbc"]) == rows
    assert [each[0] for each in told["schema"]] == list(TYPES)


def test_psql_describes_and_copies(folder: Path, stays_port: int, stays: duckdb.DuckDBPyConnection) -> None:
    said = Clients(folder).run("psql", stays_port, PASSWORD)
    lines = [re.sub(r" +", " ", line.strip()) for line in said.splitlines()]
    assert "bill | numeric(9,2) | | |" in lines
    assert "id | bigint | | not null |" in lines
    assert '"stays_pkey" PRIMARY KEY, btree (id)' in lines
    assert "public | stays | table | owner" in lines
    assert "COPY 12" in lines
    with (folder / "stays.csv").open(newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["id", "name", "bill", "day", "insured"]
    empty = [
        ["" if cell is None else cell for cell in row]
        for row in stays.execute(f"SELECT columns(*)::VARCHAR FROM ({FETCHED})").fetchall()
    ]
    assert [[row[0], row[2]] for row in rows] == empty
