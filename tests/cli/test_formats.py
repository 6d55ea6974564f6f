"""The answer in every format, to stdout and into a file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import stdev
from typing import Any

import duckdb
import pytest

from cleave.cli.answer import Format, answer_bytes
from tests.cli.runner import Cli
from tests.cli.test_report import answer, undecided
from tests.samples import write_table

SQL = "SELECT ward, COUNT(*) AS n, SUM(age) AS s, STDDEV(kg) AS d FROM t GROUP BY ward"
BOUNDED = ["ward", "n", "s", "s_bound", "d", "d_bound"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = 'ward,age,kg\n"A|,""",61,70.5\n"A|,""",47,80.123456789\n,33,64.2\n'
    columns = {"ward": "plain VARCHAR", "age": "encrypted BIGINT", "kg": "encrypted DOUBLE"}
    return write_table(tmp_path / "t.csv", rows, **columns)


def ask(cli: Cli, *options: object) -> tuple[str, str]:
    result = cli.run("query", "t.csv", SQL, *options)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def check(rows: list[dict[str, Any]]) -> None:
    assert [list(row) for row in rows] == [BOUNDED] * 2
    group, null = rows
    assert (group["ward"], int(group["n"]), int(group["s"]), float(group["s_bound"])) == ('A|,"', 2, 108, 0.0)
    assert abs(float(group["d"]) - stdev([70.5, 80.123456789])) <= float(group["d_bound"])
    assert 0 <= float(group["d_bound"]) < 1e-6
    assert null["ward"] in (None, "")
    assert null["d"] in (None, "")  # the standard deviation of one value


def test_the_footer_is_no_result(ready: Cli, table: Path) -> None:
    shown, told = ask(ready)
    assert len(shown.splitlines()) == 5
    assert "checks passed" in told
    assert ask(ready, "--format", "table")[0].splitlines()[:3] == shown.splitlines()[:3]
    assert ask(ready, "--quiet")[1] == ""


def test_csv_holds_the_answer(ready: Cli, table: Path) -> None:
    check(list(csv.DictReader(io.StringIO(ask(ready, "--format", "csv")[0]))))


def test_ndjson_holds_the_answer(ready: Cli, table: Path) -> None:
    check([json.loads(line) for line in ask(ready, "--format", "ndjson")[0].splitlines()])


def test_json_is_that_of_the_option_json(ready: Cli, table: Path) -> None:
    by_format, told = ask(ready, "--format", "json")
    assert json.loads(by_format).keys() == json.loads(ask(ready, "--json")[0]).keys()
    assert told == ""


def test_markdown_holds_the_answer(ready: Cli, table: Path) -> None:
    lines = ask(ready, "--format", "markdown")[0].splitlines()
    assert lines[:2] == ["| ward | n | s | d |", "| --- | ---: | ---: | ---: |"]
    assert lines[2].startswith('| A\\|,"')
    assert "108 exact" in lines[2]


def test_parquet_holds_the_answer_with_its_types(ready: Cli, table: Path) -> None:
    shown, told = ask(ready, "-o", "answer.parquet")
    assert shown == ""
    assert "wrote answer.parquet" in told
    found = duckdb.execute("SELECT * FROM 'answer.parquet'")
    names = [column[0] for column in found.description or ()]
    check([dict(zip(names, row, strict=True)) for row in found.fetchall()])
    types = dict(row[:2] for row in duckdb.execute("DESCRIBE SELECT * FROM 'answer.parquet'").fetchall())
    assert (types["s"], types["s_bound"]) == ("DECIMAL(38,0)", "DOUBLE")  # a HUGEINT would become a double


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.ndjson", "a.jsonl", "a.md", "a.txt", "a.parquet"])
@pytest.mark.sampled(6)
def test_a_file_holds_what_stdout_would(ready: Cli, table: Path, name: str) -> None:
    ask(ready, "-o", name)
    content = Path(name).read_bytes()
    assert content
    before = sorted(path.name for path in Path().iterdir())
    assert f"{name}: already exists" in ready.fails(3, "query", "t.csv", SQL, "-o", name)
    assert Path(name).read_bytes() == content
    assert ready.run("query", "t.csv", "SELECT COUNT(*) AS replaced FROM t", "-o", name, "--force").exit_code == 0
    assert Path(name).read_bytes() != content
    assert sorted(path.name for path in Path().iterdir()) == before


def test_no_format_has_a_digit_beyond_the_bound() -> None:
    given = answer([["a", 3, 2.512345]], [[None, None, 0.25]], [[None, None, False]])
    for chosen in Format:
        assert b"2.51" not in answer_bytes(given, chosen), chosen


def test_what_is_undecided_is_a_column() -> None:
    rows = [json.loads(line) for line in answer_bytes(undecided(), Format.NDJSON).splitlines()]
    assert [row["undecided"] for row in rows] == ["sum", "HAVING, LIMIT"]
    assert b"undecided" in answer_bytes(undecided(), Format.CSV).splitlines()[0]


def test_repeated_names_stay_apart(ready: Cli, table: Path) -> None:
    shown = ready.run("query", "t.csv", "SELECT SUM(age) AS s, SUM(age) AS s FROM t", "--format", "ndjson").stdout
    assert json.loads(shown) == {"s": 141, "s_bound": 0.0, "s_1": 141, "s_bound_1": 0.0}


def test_an_answer_without_rows_has_its_header_alone(ready: Cli, table: Path) -> None:
    for chosen, lines in (("csv", 1), ("ndjson", 0), ("markdown", 2)):
        shown = ready.run("query", "t.csv", f"{SQL} HAVING COUNT(*) > 9", "--format", chosen).stdout
        assert len(shown.splitlines()) == lines
