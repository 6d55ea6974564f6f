"""`--sheet` and `--flatten` mean the same in every command and in Python, and the schema keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

import cleave
from tests.cli.runner import Cli

MONTHS = {"Jan": [("A", 10), ("B", 20)], "Feb": [("A", 5), ("C", 7)]}
LOG = [{"id": 1, "user": {"name": "Ann", "geo": {"land": "DE"}}, "ms": 12.5}, {"id": 2, "user": None, "ms": 7.5}]
BY_LAND = 'SELECT "user.geo.land" AS land, SUM(ms) AS ms FROM log GROUP BY land ORDER BY land'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for month, rows in MONTHS.items():
        sheet = book.create_sheet(month)
        for row in [("ward", "stays"), *rows]:
            sheet.append(row)
    book.save(tmp_path / "year.xlsx")
    (tmp_path / "log.ndjson").write_text("".join(f"{json.dumps(each)}\n" for each in LOG))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(cli: Cli, *words: object) -> str:
    result = cli.run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(cli: Cli, *words: object) -> Any:
    return json.loads(done(cli, "query", *words, "--json"))["rows"]


def total(month: str) -> list[list[int]]:
    return [[sum(stays for _, stays in MONTHS[month])]]


def test_a_sheet_is_chosen_by_name(ready: Cli, folder: Path, key_file: Path) -> None:
    sql = "SELECT SUM(stays) FROM year"
    first = ready.run("schema", "year.xlsx", "--yes", "-o", "first.toml")
    assert "it is of sheet 'Jan', the first of several: --sheet names another\n" in first.stderr
    named = ready.run("schema", "year.xlsx", "--sheet", "Feb", "--yes", "--accept")
    assert "the first of several" not in named.stderr
    assert 'sheet = "Feb"' in (folder / "year.schema.toml").read_text()
    assert rows(ready, "year.xlsx", sql) == total("Feb")
    assert rows(ready, "year.xlsx", sql, "--sheet", "jan") == total("Jan")
    assert rows(ready, "year.xlsx", sql, "--schema", "first.toml") == total("Jan")
    for month, stays in MONTHS.items():
        planned = done(ready, "plan", "year.xlsx", sql, "--sheet", month, "--json")
        assert json.loads(planned)["rows"] == len(stays)
        done(ready, "schema", "year.xlsx", "--check", "--sheet", month)
    place = ["--store", folder / "store", "--key", key_file]
    done(ready, "put", "year.xlsx", "--table", "stays", "--by", "", "--sheet", "Jan", *place)
    assert rows(ready, "stays", "SELECT SUM(stays) FROM stays", *place) == total("Jan")
    done(ready, "put", "year.xlsx", "--table", "stays", "--append", "--sheet", "Feb", *place)
    both = [[total("Jan")[0][0] + total("Feb")[0][0]]]
    assert rows(ready, "stays", "SELECT SUM(stays) FROM stays", *place) == both
    told = {"store": folder / "store", "key": key_file}
    assert cleave.query("year.xlsx", sql, sheet="Jan").rows == [tuple(*total("Jan"))]
    assert cleave.schema("year.xlsx", sheet="feb").dialect.sheet == "Feb"
    cleave.put("year.xlsx", "python", sheet="Jan", by=[], **told)
    cleave.append("year.xlsx", "python", sheet="Feb", **told)
    assert cleave.query("python", "SELECT SUM(stays) FROM python", **told).rows == [tuple(*both)]


def test_nested_objects_are_flattened(ready: Cli, folder: Path, key_file: Path) -> None:
    told = ready.fails(3, "schema", "log.ndjson", "--yes")
    assert "hint: --flatten (flatten=True in Python) reads objects as columns a.b, and lists as text\n" in told
    done(ready, "schema", "log.ndjson", "--flatten", "--yes", "--accept")
    assert "flatten = true" in (folder / "log.schema.toml").read_text()
    expected = [["DE", 12.5], [None, 7.5]]
    assert rows(ready, "log.ndjson", BY_LAND) == rows(ready, "log.ndjson", BY_LAND, "--flatten") == expected
    schema = folder / "bare.toml"
    schema.write_text((folder / "log.schema.toml").read_text().replace("flatten = true\n", ""))
    assert "holds a list or an object" in ready.fails(3, "query", "log.ndjson", BY_LAND, "--schema", schema)
    bare = ["--schema", schema, "--flatten"]
    assert rows(ready, "log.ndjson", BY_LAND, *bare) == expected
    assert json.loads(done(ready, "plan", "log.ndjson", BY_LAND, *bare, "--json"))["rows"] == 2
    done(ready, "schema", "log.ndjson", "--check")
    place = ["--store", folder / "store", "--key", key_file]
    done(ready, "put", "log.ndjson", "--table", "log", "--by", "user.geo.land", *bare, *place)
    done(ready, "put", "log.ndjson", "--table", "log", "--append", "--again", *place)
    assert rows(ready, "log", BY_LAND, *place) == [["DE", 25.0], [None, 15.0]]
    told_python = {"store": folder / "store", "key": key_file}
    frame = [("DE", 12.5), (None, 7.5)]
    assert [tuple(map(plain, row)) for row in cleave.query("log.ndjson", BY_LAND, schema=schema, flatten=True)] == frame
    assert cleave.schema("log.ndjson", flatten=True).dialect.flatten
    cleave.put("log.ndjson", "python", schema=schema, flatten=True, by=[], **told_python)
    cleave.append("log.ndjson", "python", again=True, flatten=True, **told_python)
    assert cleave.query("python", "SELECT COUNT(*) FROM python", **told_python).rows == [(4,)]


def plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else float(value)


@pytest.mark.parametrize("command", ["schema", "query", "plan", "put"])
@pytest.mark.parametrize(
    ("option", "told"), [(["--sheet", "Jan"], "is no Excel file"), (["--flatten"], "is no JSON file")]
)
def test_a_file_that_has_none(
    ready: Cli, folder: Path, key_file: Path, command: str, option: list[str], told: str
) -> None:
    (folder / "t.csv").write_text("a\n1\n")
    done(ready, "schema", "t.csv", "--yes", "-o", "t.schema.toml")
    more = {"query": ["SELECT SUM(a) FROM t"], "plan": ["SELECT SUM(a) FROM t"], "schema": ["-o", "u.toml", "--yes"]}
    more["put"] = ["--table", "t", "--store", str(folder / "store"), "--key", str(key_file)]
    assert f"t.csv: {told}" in ready.fails(3, command, "t.csv", *more[command], *option)


def test_a_frame_and_a_stored_table_have_none(folder: Path) -> None:
    frame = pd.DataFrame({"a": [1]})
    for option in ({"sheet": "Jan"}, {"flatten": True}):
        for call in (
            lambda option=option: cleave.query(frame, "SELECT SUM(a) FROM frame", schema={"a": "plain"}, **option),
            lambda option=option: cleave.schema(frame, **option),
        ):
            with pytest.raises(cleave.InputError, match="a frame has neither sheets nor nested objects"):
                call()
        with pytest.raises(cleave.InputError, match="a stored table is named alone"):
            cleave.query("t", "SELECT SUM(a) FROM t", store="store", **option)


def test_a_sheet_of_a_damaged_workbook_is_not_a_sheet_of_no_workbook(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"not a workbook")
    for options in ((), ("--sheet", "A")):
        assert "cannot be read as an Excel file" in cli.fails(3, "schema", path, *options)
