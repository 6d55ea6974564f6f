"""A table that is put is asked: cells, rows, other versions of it; against DuckDB on the table itself."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import DEFAULTS, Options, Result
from cleave.session import Silent
from cleave.store import put as putting
from cleave.store.locate import Stores
from cleave.store.memory import Memory
from cleave.store.storage import Storage
from cleave.store.stored import Stored
from cleave.store.tables import Tables
from cleave.table.schema import load_schema
from cleave.table.table import open_table
from tests.store.asking import ask

SAMPLE = Path(__file__).parents[1] / "samples"


class World:
    def __init__(self, storage: Storage, key: SecretKey, tmp_path: Path) -> None:
        self.key = key
        self.stores = Stores(storage, storage)
        self.tables = Tables(self.stores, key, Memory(tmp_path / "tables.json"))

    def put(self, *by: str, append: bool = False, **options: bool) -> None:
        schema = load_schema(SAMPLE / "patients.schema.toml")
        with open_table([SAMPLE / "patients.csv"], schema) as table:
            if append:
                putting.append(self.tables, self.stores, self.key, table, "trial", Silent())
            else:
                putting.put(self.tables, self.stores, self.key, table, "trial", by, Silent(), **options)

    def stored(self) -> Stored:
        return Stored(self.tables, self.tables.open("trial"), self.key)

    def ask(self, sql: str, options: Options = DEFAULTS) -> Result:
        return ask(self.stored(), sql, options)


@pytest.fixture
def world(storage: Storage, key: SecretKey, tmp_path: Path) -> World:
    return World(storage, key, tmp_path)


def truth(sql: str) -> list[tuple[object, ...]]:
    schema = load_schema(SAMPLE / "patients.schema.toml")
    with open_table([SAMPLE / "patients.csv"], schema) as table:
        table.connection.execute(f"CREATE VIEW trial AS SELECT * FROM {table.relation}")
        return table.connection.execute(sql).fetchall()


QUESTIONS = [
    "SELECT ward, COUNT(*), SUM(bill), AVG(age), STDDEV(weight) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), SUM(bill) FROM trial WHERE ward <> 'Surgery'",
    "SELECT admitted, VAR_POP(bill), COUNT(weight) FROM trial WHERE ward LIKE '%y' GROUP BY admitted ORDER BY 1",
    "SELECT SUM(bill) FILTER (WHERE admitted < DATE '2024-06-01') AS f, AVG(age) FROM trial",
    "SELECT ward, SUM(bill) / COUNT(*) FROM trial GROUP BY ward HAVING COUNT(*) > 100 ORDER BY 2 DESC LIMIT 2",
    "SELECT SUM(age) FROM trial WHERE ward = 'nowhere'",
    "SELECT ward, admitted < DATE '2024-06-01' AS e, SUM(bill) FROM trial GROUP BY CUBE (ward, e) ORDER BY ALL",
]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_cells_answer_as_duckdb_does(world: World, sql: str) -> None:
    world.put("ward", "admitted")
    answer = world.ask(sql).result
    check(answer.rows, answer.bounds, truth(sql))


def check(rows: list[list[object]], bounds: list[list[float | None]], expected: list[tuple[object, ...]]) -> None:
    assert len(rows) == len(expected)
    for row, limits, wanted in zip(rows, bounds, expected, strict=True):
        for value, bound, exact in zip(row, limits, wanted, strict=True):
            if isinstance(exact, float) and isinstance(value, float):
                assert abs(Fraction(value) - Fraction(exact)) <= Fraction(bound or 0) + abs(Fraction(exact)) / 10**12
            else:
                assert value == exact or str(value) == str(exact)


def test_appended_rows_count(world: World) -> None:
    world.put("ward", "admitted")
    world.put(append=True)
    (row,) = world.ask("SELECT COUNT(*), SUM(bill), VAR_POP(bill) FROM trial").result.rows
    ((count, total, variance),) = truth("SELECT COUNT(*), SUM(bill), VAR_POP(bill) FROM trial")
    assert row[:2] == [2 * int(str(count)), total * 2]  # type: ignore[operator]
    assert row[2] == pytest.approx(variance)


def test_segments_are_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., object] = putting.slices
    monkeypatch.setattr(putting, "slices", lambda table: whole(table, 97))
    world.put("ward")
    assert len(world.stored().manifest.segments) == 7
    check_one = QUESTIONS[0]
    answer = world.ask(check_one).result
    check(answer.rows, answer.bounds, truth(check_one))


@pytest.mark.parametrize("lossless", [False, True])
def test_rows_come_back(world: World, lossless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., object] = putting.slices
    monkeypatch.setattr(putting, "slices", lambda table: whole(table, 250))
    world.put("ward", lossless=lossless)
    stored = world.stored()
    names = [column.name for column in stored.schema.columns]
    wanted = truth(f"SELECT {', '.join(names)} FROM trial")
    with stored.rows.table(names, ordered=True) as table:
        found = table.connection.execute(f"SELECT {', '.join(names)} FROM {table.relation}").fetchall()
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted, strict=True):
        for name, value, exact in zip(names, row, expected, strict=True):
            if name == "weight" and not lossless and exact is not None:
                assert value == pytest.approx(exact, rel=1e-12)
            else:
                assert value == exact


@pytest.mark.parametrize("names", [["age"], ["ward"], ["bill", "ward"], ["admitted", "age"], ["email"], []])
def test_some_columns_come_back(world: World, names: list[str]) -> None:
    world.put("ward")
    with world.stored().rows.table(names) as table:
        selected = ", ".join(names) or "1"
        found = table.connection.execute(f"SELECT {selected} FROM {table.relation} ORDER BY ALL").fetchall()
    assert found == truth(f"SELECT {selected} FROM trial ORDER BY ALL")
