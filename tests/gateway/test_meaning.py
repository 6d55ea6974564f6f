"""Where DuckDB's SQL differs from PostgreSQL's: docs/gateway.md lists it, and says what both answer.

`recorded/meaning.ndjson` has statements with PostgreSQL's answers as texts, or the code of its error. `here`: DuckDB's
answer, where it is another; `row`: the row of the table in docs that tells it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tests.gateway import postgres
from tests.gateway.conftest import connect
from tests.gateway.replay import RECORDED
from tests.gateway.stays import TYPES

CASES = [json.loads(line) for line in (RECORDED / "meaning.ndjson").read_text().splitlines()]
DOCS = Path(__file__).parents[2] / "docs" / "gateway.md"
Rows = list[list[str | None]]


def here(stays: duckdb.DuckDBPyConnection, sql: str) -> Rows | str:
    """DuckDB's answer as texts, or "error"."""
    try:
        return [list(row) for row in stays.execute(f"SELECT columns(*)::VARCHAR FROM ({sql})").fetchall()]
    except duckdb.Error:
        return "error"


def value(text: str | None) -> Any:
    """A value of either side: booleans and numbers as such."""
    if text in ("t", "f", "true", "false"):
        return text[0] == "t"
    try:
        return float(Decimal(text or ""))
    except InvalidOperation:
        return text


def alike(one: Rows | str, other: Rows | str) -> bool:
    """Check whether two answers mean the same: numbers within a billionth, two errors."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return len(one) == len(other) and all(
        len(row) == len(there) and all(map(is_alike, map(value, row), map(value, there)))
        for row, there in zip(one, other, strict=True)
    )


def is_alike(one: Any, other: Any) -> bool:
    return one == other or (isinstance(one, float) and isinstance(other, float) and math.isclose(one, other))


@pytest.mark.parametrize("case", CASES, ids=[each["sql"] for each in CASES])
def test_duckdb_differs_where_it_is_said(stays: duckdb.DuckDBPyConnection, case: dict[str, Any]) -> None:
    answer = here(stays, case["sql"])
    assert alike(answer, case["postgres"]) == ("here" not in case), answer
    if "here" in case:
        assert answer == case["here"]


def table() -> dict[str, list[tuple[str, str, str]]]:
    """Of the table in docs: the first cell of each row, and its examples as (expression, here, PostgreSQL)."""
    found = {}
    section = DOCS.read_text().split("\n## Where DuckDB's SQL differs from PostgreSQL's\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] and set(cells[0]) != {"-"}:
            name, example, *answers = (each.replace("\\|", "|") for each in cells)
            found[name] = [(code, *answers) for code in re.findall(r"`([^`]+)`", example)]
    return found


def shown(answer: Rows | str) -> str:
    """An answer as docs show it."""
    if isinstance(answer, str):
        return "error"
    return ", ".join("NULL" if row[0] is None else row[0] for row in answer)


def test_docs_list_the_differences() -> None:
    differing = {case["row"] for case in CASES if "here" in case}
    assert table().keys() == differing - {"missing"}


EXAMPLES = [(name, *row) for name, rows in table().items() for row in rows]


@pytest.mark.parametrize(("name", "code", "ours", "theirs"), EXAMPLES, ids=[each[0] for each in EXAMPLES])
def test_docs_show_what_both_answer(name: str, code: str, ours: str, theirs: str) -> None:
    (case,) = (each for each in CASES if each["sql"] in (code, f"SELECT {code}"))
    assert case["row"] == name
    assert shown(case["here"]) == ours
    assert shown(case["postgres"]) == theirs


def test_the_gateway_answers_as_docs_show(stays_port: int) -> None:
    """In the texts of its protocol, of which DuckDB writes some in another way."""
    wrong = []
    with closing(connect(stays_port)) as connection:
        for _, code, ours, _ in EXAMPLES:
            try:
                sql = code if code.startswith("SELECT") else f"SELECT {code} FROM wards LIMIT 1"
                result = connection.execute(sql).pgresult
                values = [result.get_value(row, 0) for row in range(result.ntuples)]
                answer = ", ".join("NULL" if each is None else each.decode() for each in values)
            except psycopg.Error:
                answer = "error"
            if not is_alike(value(answer), value(ours)):
                wrong.append((code, answer, ours))
    assert wrong == []


@pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed")
def test_postgresql_answers_as_recorded(free_port: Callable[[], int], stays: duckdb.DuckDBPyConnection) -> None:
    port, wrong = free_port(), []
    with postgres.server(port) as folder:
        postgres.load(folder, port, stays, "stays", TYPES, "id")
        postgres.load(folder, port, stays, "wards", {"ward": "TEXT", "region": "TEXT"})
        with psycopg.connect(host="127.0.0.1", port=port, user="owner", dbname="cleave", autocommit=True) as connection:
            for case in CASES:
                try:
                    result = connection.execute(case["sql"]).pgresult
                    texts = [
                        [result.get_value(row, place) for place in range(result.nfields)]
                        for row in range(result.ntuples)
                    ]
                    answer = [[None if each is None else each.decode() for each in row] for row in texts]
                except psycopg.Error as error:
                    answer = f"error {error.sqlstate}"
                if answer != case["postgres"]:
                    wrong.append((case["sql"], answer, case["postgres"]))
    assert wrong == []
