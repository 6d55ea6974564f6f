"""A table that is put is asked: cells, rows, other versions of it; against DuckDB on the table itself."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from cleave.store.put import put
from cleave.store.schemas import check_fits, stored_schema
from cleave.table.progress import Silent
from cleave.table.schema import load_schema, read_schema
from cleave.table.stream import open_table
from cleave_shared.errors import InputError
from tests.store.trial import SAMPLE, World, check, truth

QUESTIONS = [
    "SELECT ward, COUNT(*), SUM(bill), AVG(age), STDDEV(weight) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), SUM(bill) FROM trial WHERE ward <> 'Surgery'",
    "SELECT admitted, VAR_POP(bill), COUNT(weight) FROM trial WHERE ward LIKE '%y' GROUP BY admitted ORDER BY 1",
    "SELECT SUM(bill) FILTER (WHERE admitted < DATE '2024-06-01') AS f, AVG(age) FROM trial",
    "SELECT ward, SUM(bill) / COUNT(*) FROM trial GROUP BY ward HAVING COUNT(*) > 100 ORDER BY 2 DESC LIMIT 2",
    "SELECT SUM(age) FROM trial WHERE ward = 'nowhere'",
    "SELECT ward, admitted < DATE '2024-06-01' AS e, SUM(bill) FROM trial GROUP BY CUBE (ward, e) ORDER BY ALL",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_cells_answer_as_duckdb_does(world: World, sql: str) -> None:
    world.put("ward", "admitted")
    answer = world.ask(sql).result
    check(answer.rows, answer.bounds, truth(sql))


def test_appended_rows_count(world: World) -> None:
    world.put("ward", appended=1)
    (row,) = world.ask("SELECT COUNT(*), SUM(bill), VAR_POP(bill) FROM trial").result.rows
    ((count, total, variance),) = truth("SELECT COUNT(*), SUM(bill), VAR_POP(bill) FROM trial")
    assert row[:2] == [2 * int(str(count)), total * 2]  # type: ignore[operator]
    assert row[2] == pytest.approx(variance)


def test_segments_are_cut(world: World) -> None:
    world.put("ward", segment_rows=250)
    assert len(world.stored().manifest.segments) == 3
    check_one = QUESTIONS[0]
    answer = world.ask(check_one).result
    check(answer.rows, answer.bounds, truth(check_one))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scan", [False, True])
def test_rows_come_back(world: World, scan: bool) -> None:
    world.put("ward", scan=scan, segment_rows=250)
    stored = world.stored()
    names = [column.name for column in stored.schema.columns]
    wanted = truth(f"SELECT {', '.join(names)} FROM trial")
    with stored.rows.table(names, ordered=True) as table:
        found = table.connection.execute(f"SELECT {', '.join(names)} FROM {table.relation}").fetchall()
    assert found == wanted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", [["age"], ["ward"], ["bill", "ward"], ["admitted", "age"], ["email"], []])
def test_some_columns_come_back(world: World, names: list[str]) -> None:
    world.put("ward")
    with world.stored().rows.table(names) as table:
        selected = ", ".join(names) or "1"
        found = table.connection.execute(f"SELECT {selected} FROM {table.relation} ORDER BY ALL").fetchall()
    assert found == truth(f"SELECT {selected} FROM trial ORDER BY ALL")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("ward", "wing", "column 'ward' is missing"),
        ('"DATE"', '"TIMESTAMP"', "column 'admitted' is plain TIMESTAMP, and plain DATE there"),
        (
            '[columns.ward]\nkind = "plain"',
            '[columns.ward]\nkind = "sealed"',
            "column 'ward' is sealed VARCHAR, and plain",
        ),
        (
            "[columns.ward]",
            '[columns.bed]\nkind = "plain"\ntype = "INTEGER"\n[columns.ward]',
            "column 'bed' is none of",
        ),
    ],
)
def test_the_column_is_named_that_rows_cannot_be_added_for(before: str, after: str, told: str) -> None:
    text = (SAMPLE / "patients.schema.toml").read_text()
    assert before in text
    mine, stored = (
        read_schema(tomllib.loads(each, parse_float=Decimal), "it") for each in (text.replace(before, after), text)
    )
    with pytest.raises(InputError, match=f"not that of stored table 't': {told}"):
        check_fits(mine, stored_schema(stored, "t"), "t")


@pytest.mark.parametrize("kind", ["plain", "encrypted"])
@pytest.mark.parametrize("name", ["Number of the cell", "row of the segment", "File_row_number"])
def test_names_that_tables_have_here_are_refused(world: World, tmp_path: Path, name: str, kind: str) -> None:
    """A cell's number was read in the place of such a column's value."""
    (tmp_path / "t.csv").write_text(f"g,{name}\n1,20\n1,30\n")
    (tmp_path / "t.schema.toml").write_text(
        f"""[columns.g]\nkind = "plain"\ntype = "INTEGER"\n[columns."{name}"]\nkind = "{kind}"\ntype = "INTEGER"\n"""
    )
    with (
        open_table([tmp_path / "t.csv"], load_schema(tmp_path / "t.schema.toml")) as table,
        pytest.raises(InputError, match=f"column '{name}'") as refused,
    ):
        put(world.tables, table, "t", [name], Silent())
    assert refused.value.hint is not None
    assert not world.tables.stores.sensitive.exists()
