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
