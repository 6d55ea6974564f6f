"""Batches: rows that were named are added once, whatever came in between; a folder of files in one command."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import cleave
from cleave_shared.errors import CleaveWarning, InputError
from tests.cli.runner import Cli
from tests.store.contributing import HEADER, SCHEMA
from tests.store.made import filled

FIRST = "A,f,61,12.50,60,Ada\nB,m,34,250.00,81.5,Bob\n"
SUNDAY = "A,m,20,1.25,70,Cyd\n"


class Loads:
    def __init__(self, root: Path, key: Path) -> None:
        self.root, self.key, self.cli = root, key, Cli(environment={"XDG_STATE_HOME": str(root / "state")})

    def begin(self) -> None:
        (self.root / "first.schema.toml").write_text(SCHEMA)
        (self.root / "daily").mkdir()
        self.put(self.file("first.csv", FIRST), "--by", "ward")

    def file(self, name: str, rows: str) -> Path:
        (self.root / name).write_text(HEADER + rows)
        return self.root / name

    def place(self) -> list[object]:
        return ["--store", self.root / "s", "--key", self.key]

    def put(self, *words: object, code: int = 0) -> str:
        result = self.cli.run("put", *words, "--table", "t", *self.place())
        assert result.exit_code == code, result.output
        return result.stderr

    def rows(self) -> list[tuple[object, ...]]:
        sql = "SELECT name, bill FROM t ORDER BY ALL"
        return cleave.query("t", sql, store=self.root / "s", key=self.key).rows


@pytest.fixture
def loads(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(filled(("loads", key_file), lambda it: Loads(it, key_file).begin()), tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)  # of the store that it is a copy of
    return Loads(tmp_path, key_file)


@pytest.mark.slow  # quick: the next test
def test_an_append_needs_no_schema_file(loads: Loads) -> None:
    loads.put(loads.file("daily/sunday.csv", SUNDAY), "--append")
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd"]
    frame = pa.table(cleave.pull("t", store=loads.root / "s", key=loads.key).arrow())
    assert cleave.append(frame, "t", store=loads.root / "s", key=loads.key).rows == 6


def test_columns_that_are_not_stored_need_no_schema_file_either(tmp_path: Path, key_file: Path) -> None:
    schema = {"ward": "plain", "bill": "encrypted", "note": "local"}
    rows = pa.table({"ward": ["A", "B"], "bill": [1, 2], "note": ["x", "y"]})
    place = {"store": tmp_path / "s", "key": key_file}
    cleave.put(rows, "t", schema=schema, by=["ward"], **place)
    assert cleave.append(rows, "t", **place).rows == 4
    assert cleave.query("t", "SELECT * FROM t ORDER BY ALL LIMIT 1", **place).columns == ("ward", "bill")
    with pytest.raises(InputError, match="more"):
        cleave.append(rows.append_column("more", [["z", "z"]]), "t", **place)


def test_the_recipes_of_cron_and_airflow(loads: Loads) -> None:
    """Their commands, each twice, as a shell runs them."""
    told = (Path(__file__).parents[2] / "docs/stored.md").read_text()
    (cron,) = re.findall(r"^0 2 \* \* \* (.*)$", told, re.MULTILINE)
    (airflow,) = re.findall(r'bash_command="(.*)"', told)
    loads.file("daily/2026-11-22.csv", SUNDAY)
    bare = cron.replace(" --passphrase-fd 3 3</etc/cleave/passphrase", "")
    assert bare != cron
    for command in (bare, bare, airflow.replace("{{ ds }}", "2026-11-22")):
        named = command.replace("/srv/feed", f"{loads.root}/daily").replace("s3://bucket/prefix", f"{loads.root}/s")
        words = shlex.split(named.replace("--table trial", "--table t"))
        assert words[0] == "cleave"
        assert loads.cli.run(*words[1:], "--key", loads.key).exit_code == 0
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd", "Cyd"]  # of two names: two batches


def test_a_batch_is_added_once_whatever_came_in_between(loads: Loads) -> None:
    sunday = loads.file("daily/sunday.csv", SUNDAY)
    loads.put(sunday, "--append", "--batch", "2026-11-22")
    loads.put(loads.file("daily/monday.csv", SUNDAY), "--append", "--batch", "2026-11-23")  # of the same rows
    before = loads.rows()
    assert len(before) == 4
    assert "batch '2026-11-22' already exists: nothing is added" in loads.put(
        sunday, "--append", "--batch", "2026-11-22"
    )
    assert loads.rows() == before
    with pytest.warns(CleaveWarning, match="already exists"):
        cleave.append(sunday, "t", batch="2026-11-23", store=loads.root / "s", key=loads.key)
    found = json.loads(loads.cli.run("log", "t", "--json", *loads.place()).stdout)
    assert [each["details"].get("batch") for each in found] == [None, "2026-11-22", "2026-11-23"]
    (row,) = {repr(each) for each in loads.root.joinpath("s").rglob("*") if b"2026-11-22" in _content(each)} or {""}
    assert not row, "the names of batches are sealed"


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.slow  # quick: `test_keys.py` appends rows twice
def test_rows_without_a_batch_are_known_among_the_newest_changes(loads: Loads) -> None:
    first, second = loads.file("a.csv", SUNDAY), loads.file("b.csv", SUNDAY.replace("Cyd", "Dee"))
    assert "added the same rows" not in loads.put(first, "--append")
    assert "added the same rows: nothing is added" in loads.put(first, "--append")
    loads.put(second, "--append")
    assert "added the same rows: nothing is added" in loads.put(first, "--append")
    loads.put(first, "--append", "--again")
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd", "Cyd", "Dee"]


def test_a_folder_is_a_batch_for_each_file(loads: Loads) -> None:
    folder = loads.root / "daily"
    loads.file("daily/2026-11-22.csv", SUNDAY)
    loads.file("daily/2026-11-21.csv", "B,f,5,2.00,20,Dee\n")
    loads.put(folder, "--append")
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd", "Dee"]
    loads.file("daily/2026-11-23.csv", "B,f,6,3.00,21,Eve\n")
    said = loads.put(folder, "--append")
    assert said.count("already exists") == 2
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd", "Dee", "Eve"]


def test_a_file_that_changed_is_an_error_and_adds_nothing(loads: Loads) -> None:
    loads.file("daily/2026-11-22.csv", SUNDAY)
    loads.put(loads.root / "daily", "--append")
    loads.file("daily/2026-11-22.csv", SUNDAY.replace("Cyd", "Joe"))
    said = loads.put(loads.root / "daily", "--append", code=3)
    assert "batch '2026-11-22.csv' of table 't' was added from a file with other bytes" in said
    assert "hint: " in said
    assert "Joe" not in said
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd"]


@pytest.mark.slow  # quick: a batch is added once
def test_deleted_rows_do_not_come_back_with_the_next_load_but_replaced_tables_begin_again(loads: Loads) -> None:
    loads.file("daily/2026-11-22.csv", SUNDAY)
    loads.put(loads.root / "daily", "--append")
    assert loads.cli.run("delete", "t", "--where", "name = 'Cyd'", "--yes", *loads.place()).exit_code == 0
    assert "already exists" in loads.put(loads.root / "daily", "--append")
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob"]
    loads.put(loads.root / "first.csv", "--replace")
    loads.put(loads.root / "daily", "--append")
    assert [name for name, _ in loads.rows()] == ["Ada", "Bob", "Cyd"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("daily", "--append", "--batch", "x"), "every file of a folder is a batch"),
        (("daily", "--append"), "has no file of rows"),
        (("first.csv", "--append", "--batch", ""), "1 to 200 characters"),
        (("first.csv", "--append", "--batch", "x", "--again"), "again cannot be combined with batches"),
    ],
)
def test_what_is_no_batch_is_refused(loads: Loads, words: tuple[str, ...], match: str) -> None:
    assert match in loads.put(loads.root / words[0], *words[1:], code=3)


def test_a_batch_is_not_of_a_contributor(loads: Loads) -> None:
    with pytest.raises(InputError, match="of your own tables"):
        cleave.contribute(loads.root / "first.csv", "t", batch="x", store=loads.root / "s")
