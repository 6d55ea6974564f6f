"""Naming the table on the command line: several files, a pattern, standard input, a name for SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Cli

SUM = "SELECT SUM(age) AS s FROM {}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for month, ages in ((1, "61\n47"), (2, "33")):
        (tmp_path / f"visits-{month}.csv").write_text(f"age\n{ages}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(cli: Cli, *words: object, typed: str | None = None) -> Any:
    result = cli.run("query", *words, "--json", typed=typed)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["rows"]


def test_several_files_or_a_pattern_are_one_table(ready: Cli, folder: Path) -> None:
    assert ready.run("schema", "visits-1.csv", "visits-2.csv", "--yes").exit_code == 0
    assert (folder / "visits.schema.toml").exists()
    for files in (["visits-1.csv", "visits-2.csv"], ["visits-*.csv"]):
        assert answer(ready, *files, SUM.format("visits")) == [[141]]
    shown = ready.run("plan", "visits-*.csv", SUM.format("visits"), "--verbose")
    assert shown.stdout.startswith("visits: 3 rows")


def test_a_table_gets_a_name_for_sql(ready: Cli, folder: Path) -> None:
    assert ready.run("schema", "visits-1.csv", "--table", "stays", "--yes").exit_code == 0
    assert answer(ready, "visits-1.csv", SUM.format("stays")) == [[108]]
    assert answer(ready, "visits-1.csv", SUM.format("beds"), "--table", "beds") == [[108]]
    assert "visits-1" in ready.fails(4, "query", "visits-1.csv", SUM.format('"visits-1"'))


def test_a_table_is_read_from_standard_input(ready: Cli, folder: Path) -> None:
    table = (folder / "visits-1.csv").read_text()
    assert "-o" in ready.fails(3, "schema", "-")
    assert ready.run("schema", "-", "-o", "s.toml", "--yes", typed=table).exit_code == 0
    assert answer(ready, "-", SUM.format("stdin"), "--schema", "s.toml", typed=table) == [[108]]
    assert answer(ready, "-", SUM.format("t"), "--schema", "s.toml", "--table", "t", typed=table) == [[108]]


def test_lines_before_the_header_are_skipped(ready: Cli, folder: Path) -> None:
    (folder / "t.csv").write_text("Export\n\nage\n61\n")
    assert ready.run("schema", "t.csv", "--skip", "2", "--yes").exit_code == 0
    assert answer(ready, "t.csv", SUM.format("t")) == [[61]]


@pytest.mark.parametrize("words", [[], ["visits-1.csv"], ["visits-1.csv", "SELECT 1 FROM t", "--sql-file", "q.sql"]])
def test_exactly_one_question(ready: Cli, folder: Path, words: list[str]) -> None:
    for command in ("plan", "query"):
        assert ready.run(command, *words).exit_code == 2


def test_what_is_not_there_is_named(ready: Cli, folder: Path) -> None:
    assert "nothing.csv: there is no such file" in ready.fails(3, "query", "visits-1.csv", "nothing.csv", "SELECT 1")
    assert "*.parquet: matches no file" in ready.fails(3, "query", "*.parquet", "SELECT 1")
