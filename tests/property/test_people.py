"""Answers under a threshold over frames and files, in people or rows: exactly what a mirror says is shown."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave_shared.errors import InputError, QueryRefused
from tests.cli.runner import Cli
from tests.people import HEADER, SCHEMA, Row, expected, question, rows_of

ENTITIES: tuple[tuple[str, ...], ...] = ((), ("patient",), ("house", "patient"))


def frame(rows: list[Row]) -> pd.DataFrame:
    types = dict.fromkeys(("house", "x", "y", "z"), "Int64")
    return pd.DataFrame(rows, columns=list(HEADER)).astype(types)


def schema_file(folder: Path, entity: tuple[str, ...]) -> Path:
    path = folder / f"{'-'.join(entity)}.toml"
    path.write_text(SCHEMA + (f"[privacy]\nentity = {json.dumps(list(entity))}\n" if entity else ""))
    return path


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_over_a_frame_shows_what_the_mirror_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows, least, entity = rows_of(chance), chance.randint(2, 6), chance.choice(ENTITIES)
    for _ in range(3):
        asked = question(chance, "frame")
        answer = cleave.query(frame(rows), asked.sql, schema=schema_file(tmp_path, entity), min_group=least)
        values, marks = expected(asked, rows, least, entity)
        assert [list(row) for row in answer.rows] == values, asked.sql
        assert found_hidden(answer) == marks, asked.sql


WARDS = [("A", 1), ("A", 2), ("B", 1)]  # A is there twice: its rows double, its people do not


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("how", ["JOIN", "LEFT JOIN"])
def test_an_answer_over_a_join_shows_what_the_mirror_does(tmp_path: Path, seed: int, how: str) -> None:
    chance = random.Random(f"join {seed}")
    rows, least, entity = rows_of(chance), chance.randint(2, 6), chance.choice(ENTITIES[1:])
    wards = pd.DataFrame(WARDS, columns=["ward", "floor"])
    joined = [row for row in rows for ward, _ in WARDS if ward == row["ward"]]
    joined += [row for row in rows if row["ward"] == "C" and how == "LEFT JOIN"]
    asked = question(chance, f"frame {how} wards USING (ward)")
    answer = cleave.query(
        frame(rows), asked.sql, schema=schema_file(tmp_path, entity), min_group=least, others={"wards": wards}
    )
    values, marks = expected(asked, joined, least, entity)
    assert [list(row) for row in answer.rows] == values, asked.sql
    assert found_hidden(answer) == marks, asked.sql


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("SUM(x), SUM(w.floor) FROM frame JOIN wards w USING (ward)", "about those of 2"),
        ("SUM(w.floor) FROM frame JOIN wards w USING (ward)", "'w' names none"),
        ("SUM(a.x), SUM(b.x) FROM frame a JOIN frame b USING (ward)", "about those of 2"),
        ("COUNT(*) FROM frame a JOIN frame b USING (ward)", "about those of 2"),
        ("SUM(x) FROM frame FULL JOIN wards USING (ward)", "a minimum group size cannot be kept"),
        ("SUM(x) FROM frame, wards", "a minimum group size cannot be kept"),
        ("SUM(x) FROM frame JOIN wards ON frame.x IN (SELECT floor FROM wards)", "cannot be kept"),
        ("SUM(x) FROM frame JOIN (SELECT * FROM wards) w USING (ward)", "cannot be kept"),
        ("x * 2 AS b, SUM(b) FROM frame JOIN wards USING (ward) GROUP BY ALL", "cannot be kept"),
    ],
)
def test_joins_that_name_no_people_are_refused(tmp_path: Path, select: str, said: str) -> None:
    data, schema = frame(rows_of(random.Random(1))), schema_file(tmp_path, ("patient",))
    others = {"wards": pd.DataFrame(WARDS, columns=["ward", "floor"])}
    with pytest.raises(QueryRefused, match=said):
        cleave.query(data, f"SELECT {select}", schema=schema, min_group=3, others=others)


def test_a_join_that_fails_in_some_row_quotes_no_value(tmp_path: Path) -> None:
    data, schema = frame(rows_of(random.Random(1))), schema_file(tmp_path, ("patient",))
    others = {"wards": pd.DataFrame(WARDS, columns=["ward", "floor"])}
    sql = "SELECT SUM(x) FROM frame JOIN wards w ON CAST(frame.ward AS INTEGER) = w.floor"
    with pytest.raises(
        InputError, match=r"^the join cannot be computed on these tables: a value does not fit its type$"
    ):
        cleave.query(data, sql, schema=schema, min_group=3, others=others)


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_over_a_file_shows_what_the_mirror_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(f"file {seed}")
    rows, least, entity = rows_of(chance) or [rows_of(chance, 1)], chance.randint(2, 6), chance.choice(ENTITIES)
    with (tmp_path / "stays.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        writer.writerows(rows)
    asked = question(chance, "stays")
    schema = schema_file(tmp_path, entity)
    printed = Cli().run("query", file.name, asked.sql, "--schema", schema, "--min-group", least, "--json").stdout
    answer = json.loads(printed)
    values, marks = expected(asked, rows, least, entity)
    assert answer["rows"] == values, asked.sql
    assert answer.get("hidden", [[False] * len(row) for row in values]) == marks, asked.sql


def found_hidden(answer: cleave.Result) -> list[Any]:
    table = answer._table
    return [[table.is_hidden(row, place) for place in range(len(table.columns))] for row in range(len(table.rows))]
