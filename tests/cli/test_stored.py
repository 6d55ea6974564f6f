"""Tables in a store, from the command line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import cleave
from cleave.ask.opening import opened
from cleave.ask.options import Place as PlaceOptions
from cleave.ask.options import complete
from cleave.ckks.key_file import create_key
from cleave.maintain.task import CONTINUES, Task
from cleave.store import put as store_put
from cleave.store.by import estimated_bytes
from cleave.table.csv_reading import CsvReading
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from cleave_shared.params import DEFAULT_PROFILE
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.samples import copy_patients
from tests.store.conftest import BUCKET, aws_environment, s3_endpoint
from tests.unit.test_line_ends import nothing_read, one_row_less

__all__ = ["s3_endpoint"]
SAMPLES = Path(__file__).parents[1] / "samples"
SQL = "SELECT ward, COUNT(*), SUM(bill) FROM trial GROUP BY ward ORDER BY ward LIMIT 1"


class Place:
    def __init__(self, cli: Cli, prepared: Prepared, key: Path) -> None:
        self.cli = cli
        self.prepared = prepared
        self.root = root = prepared.root
        self.key = key
        self.store = f"{root / 's'},{root / 'p'}"
        copy_patients(root)

    def words(self, *words: object) -> list[object]:
        return [*words, "--store", self.store, "--key", self.key]

    def run(self, *words: object) -> str:
        result = self.cli.run(*self.words(*words))
        assert result.exit_code == 0, result.output
        return result.stdout

    def put(self, *words: object) -> str:
        return self.run("put", self.root / "patients.csv", "--table", "trial", *words)

    def stored(self) -> None:
        """The table by ward, put once for all tests."""
        self.prepared.bring("by ward", lambda: self.put("--by", "ward"))


@pytest.fixture
def place(cli: Cli, prepared: Prepared, key_file: Path) -> Iterator[Place]:
    with prepared.used() as root:
        cli.environment["XDG_STATE_HOME"] = str(root / "state")
        yield Place(cli, prepared, key_file)


def test_put_ask_pull_and_drop(place: Place) -> None:
    place.stored()
    assert "trial" in place.run("ls")
    shown = place.run("show", "trial")
    assert "600 rows" in shown
    assert "6 cells by ward" in shown
    assert "row by row, sorted by ward, then in the order they were put" in shown
    assert "encrypted" in place.run("query", "trial", SQL, "--cloud-only")
    assert "265000.66" in place.run("query", "trial", SQL)
    assert "local" in place.run("query", "trial", "SELECT MEDIAN(age) FROM trial")
    place.run("pull", "trial", "-o", place.root / "back.csv")
    back = (place.root / "back.csv").read_text().splitlines()
    assert back[0] == "patient_name,email,ward,admitted,age,bill,weight,insured"
    assert len(back) == 601
    assert (place.root / "back.csv").stat().st_mode & 0o077 == 0
    place.run("drop", "trial", "--yes")
    assert "no tables" in place.run("ls")


def test_a_dry_run_says_what_a_put_stores_and_stores_nothing(place: Place) -> None:
    put = ["put", place.root / "patients.csv", "--table", "planned", "--by", "ward,insured"]
    shown = place.cli.run(*place.words(*put, "--dry-run"))
    assert (shown.exit_code, shown.stderr) == (0, "nothing was stored\n")
    lines = {line[:12].strip(): line[12:] for line in shown.stdout.splitlines()}
    assert lines["rows"] == "600 in 1 segment"
    assert lines["groups"] == "12 by ward, insured"
    assert lines["bounds"] == "age 0 to 128, bill -16777216 to 16777216, weight 0 to 1024"
    assert lines["not stored"] == "notes (kind local)"
    assert not any(Path(folder).exists() for folder in place.store.split(","))
    python = cleave.put(
        place.root / "patients.csv", "planned", by=["ward", "insured"], dry_run=True, store=place.store, key=place.key
    )
    assert (python.version, python.rows, python.segments) == (0, 600, 1)
    place.run(*put)
    stored = json.loads(place.run("show", "planned", "--json"))
    assert {name: python.facts[name] for name in ("rows", "segments", "cells", "by", "key_columns")} == {
        name: stored[name] for name in ("rows", "segments", "cells", "by", "key_columns")
    }
    assert 0.7 < python.bytes / stored["bytes"] < 1.3
    before = sorted(each for folder in place.store.split(",") for each in Path(folder).rglob("*"))
    assert "already exists" in place.cli.fails(3, *place.words(*put, "--dry-run"))
    again = cleave.put(
        place.root / "patients.csv", "planned", by=[], dry_run=True, replace=True, store=place.store, key=place.key
    )
    assert (again.version, again.facts["cells"]) == (1, 1)
    assert sorted(each for folder in place.store.split(",") for each in Path(folder).rglob("*")) == before
    assert "--dry-run cannot be combined with --append" in place.cli.fails(
        2, *place.words(*put[:4], "--append", "--dry-run")
    )


def test_a_dry_run_reads_every_row(place: Place, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text((place.root / "patients.csv").read_text().rstrip("\n").rpartition("\n")[0] + "\n" + "x,x,x\n")
    words = ["put", rows, "--table", "planned", "--schema", place.root / "patients.schema.toml", "--dry-run"]
    assert "has 3 fields, the first record has 9" in place.cli.fails(3, *place.words(*words))


def test_each_place_has_a_heading_of_its_own_where_both_are_one_folder(place: Place) -> None:
    place.stored()
    folder = place.root / "one"
    one = ["--store", folder, "--key", place.key]
    place.cli.run("put", place.root / "patients.csv", "--table", "trial", "--by", "ward", *one)
    headings = [line for line in place.cli.run("show", "trial", *one).stdout.splitlines() if line.startswith("What ")]
    assert headings == [f"What the sensitive place, {folder}, holds", f"What the plain place, {folder}, holds"]


def test_pull_replaces_a_file_only_by_force(place: Place) -> None:
    place.stored()
    back = place.root / "back.csv"
    back.write_text("mine")
    refused = place.cli.fails(3, *place.words("pull", "trial", "-o", back))
    assert refused.endswith("hint: name another file, or replace this one with --force\n")
    assert back.read_text() == "mine"
    place.run("pull", "trial", "-o", back, "--force")
    assert len(back.read_text().splitlines()) == 601


def test_a_column_that_was_probably_meant_is_named(place: Place) -> None:
    place.stored()
    for words in (
        ("derive", "trial", "bil*2", "--as", "double"),
        ("derive", "trial", "bil*age", "--as", "weighted"),
        ("delete", "trial", "--where", "bil > 2", "--dry-run"),
    ):
        assert place.cli.fails(3, *place.words(*words)).endswith("hint: did you mean 'bill'?\n"), words
    listed = place.cli.fails(3, *place.words("derive", "trial", "2*3", "--as", "six"))
    assert listed.endswith("hint: `cleave show trial` lists its columns\n")


def test_hints_over_a_stored_table_name_what_changes_it_and_no_schema_file(place: Place, tmp_path: Path) -> None:
    place.stored()
    header, first = (place.root / "patients.csv").read_text().splitlines()[:2]
    rows = tmp_path / "more.csv"

    def refused(*lines: str) -> str:
        rows.write_text("\n".join([*lines, ""]))
        return place.cli.fails(3, *place.words("put", rows, "--table", "trial", "--append"))

    names = header.split(",")
    values = first.split(",")
    assert "hint: `cleave alter trial --add` adds it" in refused(f"{header},floor", f"{first},3")
    without = [",".join(each[:3] + each[4:]) for each in (names, values)]
    assert "`cleave alter trial --drop` deletes it from the table" in refused(*without)
    values[names.index("age")] = "999"
    assert "widen the bound with `cleave alter trial --widen`\n" in refused(header, ",".join(values))


def test_put_says_what_it_costs_before_it_starts(place: Place) -> None:
    result = place.cli.run(*place.words("put", place.root / "patients.csv", "--table", "trial"))
    assert "6 groups" in result.stderr
    assert "bytes for each of" in result.stderr
    about, unit = re.search(r"about ([\d.]+) ([kM])B", result.stderr).groups()
    stored = json.loads(place.run("show", "trial", "--json"))["bytes"]
    assert 0.7 < float(about) * {"k": 1e3, "M": 1e6}[unit] / stored < 1.3


def test_what_a_put_costs_counts_texts_and_the_ciphertexts_of_each_segment(place: Place, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("k,v,t\n" + "".join(f"{row % 3},{row % 7},{'x' * 200}\n" for row in range(9_000)))
    (tmp_path / "rows.schema.toml").write_text(
        '[columns.k]\nkind = "plain"\ntype = "BIGINT"\n'
        '[columns.v]\nkind = "encrypted"\ntype = "BIGINT"\n'
        '[columns.t]\nkind = "sealed"\ntype = "VARCHAR"\n'
    )
    options = complete(PlaceOptions, {"store": place.store, "key": place.key})
    with opened(options) as tables, of_files([rows]).stream() as stream:
        done = store_put.put(tables, stream, "three", ["k"], Silent(), segment_rows=3_000)
        assert len(done.manifest.segments) == 3
        planned = store_put.plan_put(stream, "three", ["k"], Silent())
        about = estimated_bytes(planned.manifest, planned.survey, planned.cells, 3, DEFAULT_PROFILE)
    assert 0.7 < about / done.manifest.bytes < 1.3


def test_put_says_what_is_not_stored_and_which_columns_have_few_values(place: Place) -> None:
    said = place.cli.run(*place.words("put", place.root / "patients.csv", "--table", "trial")).stderr
    assert "not stored: notes (kind local)" in said
    assert "these bounds now hold for all rows, until `cleave alter`: age 0 to 128, " in said
    assert "insured have few values too" in said
    assert "--by ward,insured" in said
    assert "about " in said
    chosen = place.cli.run(*place.words("put", place.root / "patients.csv", "--table", "other", "--by", "ward")).stderr
    assert "few values" not in chosen


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("error", "is_said"), [(KeyboardInterrupt(), True), (InputError("x"), False)])
def test_what_is_stopped_says_where_and_how_to_go_on(error: BaseException, is_said: bool) -> None:
    said: list[str] = []

    def stopped() -> None:
        with Task(complete(PlaceOptions, {"say": said.append}), after=CONTINUES) as task:
            task.progress.stage("read", 10, "rows")(10)
            task.progress.stage("encrypt and store", 6_000_000, "rows")(3_000_000)
            raise error

    with pytest.raises(type(error)):
        stopped()
    line = "stopped at encrypt and store: 3,000,000 of 6,000,000 rows; run it again to continue from there"
    assert said == ([line] if is_said else [])


def test_plan_tells_the_way(place: Place) -> None:
    place.stored()
    cells = json.loads(place.run("plan", "trial", SQL, "--cloud-only", "--json"))
    rows = json.loads(place.run("plan", "trial", "SELECT MEDIAN(age) FROM trial", "--json"))
    assert cells["local"] == []
    assert "MEDIAN" in rows["local"][0]["reason"]
    assert rows["requests"]["sensitive"]["bytes_down"] > 0


def test_products_are_kept_once_their_cost_is_said(place: Place) -> None:
    place.stored()
    products = ("derive", "trial", "--products", "weight,age,bill")
    dry = place.cli.run(*place.words(*products, "--dry-run"))
    assert dry.exit_code == 0
    said = dry.stderr.splitlines()
    names = "age*bill, age*weight, age if weight, bill*weight, bill if weight, age*bill if weight"
    assert said[0].startswith("totals of 6 expressions for 6 cells, about ")
    assert said[0].endswith(f" will be stored: {names}")
    assert said[1:] == ["nothing was stored"]
    sql = "SELECT ward, CORR(age, weight), SUM(age * age) FROM trial GROUP BY ward ORDER BY ward"
    (before,) = json.loads(place.run("ls", "--json"))
    given = {"store": place.store, "key": place.key, "dry_run": True}
    planned = cleave.derive("trial", products=["age", "bill", "weight"], **given).facts
    assert planned["adds"] == names.split(", ")
    assert "rows" in place.run("plan", "trial", sql)
    done = place.cli.run(*place.words(*products))
    assert done.stderr.splitlines()[0] == said[0]
    assert "version 2, with totals of the products of weight,age,bill" in done.stderr
    (after,) = json.loads(place.run("ls", "--json"))
    assert after["bytes"] - before["bytes"] == pytest.approx(planned["adds_bytes"], rel=0.05)
    assert "encrypted" in place.run("query", "trial", sql, "--cloud-only")
    assert "age*bill if weight" in place.run("show", "trial")
    assert "stored already" in place.cli.fails(3, *place.words(*products))
    place.cli.fails(2, *place.words("derive", "trial", "age * 2"))
    place.cli.fails(2, *place.words("derive", "trial", "age * 2", "--as", "x", "--products", "age,bill"))
    place.cli.fails(2, *place.words("derive", "trial"))


@pytest.mark.slow  # quick: tests/store/test_derived.py
def test_a_derived_column_is_used(place: Place) -> None:
    place.stored()
    question = "SELECT SUM(bill * age) FROM trial"
    before = place.run("query", "trial", question)
    assert "local" in before
    refused = place.words("query", "trial", question, "--cloud-only")
    assert "stored totals do not answer" in place.cli.fails(4, *refused)
    place.run("derive", "trial", "bill * age", "--as", "weighted")
    after = place.run("query", "trial", question, "--cloud-only")
    assert "encrypted" in after
    assert before.splitlines()[-1].strip() in after


@pytest.mark.slow  # quick: tests/functional/test_python_stored.py
def test_rows_are_appended_and_replaced(place: Place) -> None:
    place.stored()
    place.put("--append")
    assert "1,200 rows" in place.run("show", "trial")
    assert "already exists" in place.cli.fails(
        3, *place.words("put", place.root / "patients.csv", "--table", "trial", "--by", "ward")
    )
    place.put("--replace", "--by", "")
    assert "600 rows, 1 cell by nothing" in place.run("show", "trial")


def test_verify_names_what_is_damaged(place: Place) -> None:
    place.stored()
    assert "as it was written" in place.run("verify", "trial")
    largest = max((place.root / "s").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    content = bytearray(largest.read_bytes())
    content[1000] ^= 1
    largest.write_bytes(bytes(content))
    result = place.cli.run(*place.words("verify", "trial"))
    assert result.exit_code == 7
    assert "damaged" in result.stdout
    assert "Traceback" not in result.output
    largest.unlink()
    result = place.cli.run(*place.words("verify", "trial"))
    assert (result.exit_code, "lost" in result.stdout) == (7, True)
    assert result.stderr.splitlines()[-1] == "hint: restore the store from a backup or an older version"


def test_what_cannot_be_asked(place: Place, tmp_path: Path) -> None:
    place.stored()
    assert "no table 'other'" in place.cli.fails(3, *place.words("query", "other", "SELECT 1 FROM other"))
    refused = place.cli.fails(
        4, *place.words("query", "trial", "SELECT SUM(age) FROM trial WHERE admitted > '2024'", "--cloud-only")
    )
    assert "stored totals do not answer" in refused
    create_key(tmp_path / "other.json", None)
    words = ["query", "trial", SQL, "--store", place.store, "--key", tmp_path / "other.json"]
    assert "under this key" in place.cli.fails(3, *words)
    nowhere = ("--store", tmp_path / "nowhere", "--key", place.key)
    assert f"{tmp_path / 'nowhere'}: there is no such folder" in place.cli.fails(3, "ls", *nowhere)
    for words in (["query", "trial", SQL], ["query", "SELECT COUNT(*) FROM trial"], ["show", "trial"]):
        assert f"{tmp_path / 'nowhere'}: there is no such folder" in place.cli.fails(3, *words, *nowhere)
    assert not (tmp_path / "nowhere").exists()
    assert "not a store" in place.cli.fails(2, "ls", "--store", "gs://x", "--key", place.key)
    assert "expire" in place.cli.fails(2, "ls", "--store", "s3://bucket/results/x", "--key", place.key)
    assert "no column" in place.cli.fails(
        3, *place.words("put", place.root / "patients.csv", "--table", "t", "--by", "wart")
    )
    assert "use --yes" in place.cli.fails(2, *place.words("drop", "trial"))
    assert "there is no table 'nosuch'" in place.cli.fails(3, *place.words("drop", "nosuch")), "looked before it asks"
    assert "already exists" in place.cli.fails(3, *place.words("pull", "trial", "-o", place.root / "patients.csv"))


def test_a_list_says_that_a_head_is_gone(place: Place) -> None:
    place.run("put", place.root / "patients.csv", "--table", "headless", "--by", "ward")
    head = max(Path(place.store.split(",")[0]).glob("tables/*/head"), key=lambda each: each.stat().st_mtime_ns)
    content = head.read_bytes()
    place.run("ls")
    head.unlink()
    assert "1 table of this key lost its head" in " ".join(place.cli.fails(7, *place.words("ls")).split())
    head.write_bytes(content)
    assert "headless" in place.run("ls")


def test_a_key_that_lost_its_passphrase_is_not_used(place: Place) -> None:
    """Exchanged for a bare one by whoever can write the file."""
    place.cli.environment["CLEAVE_PASSPHRASE"] = "correct horse battery staple"
    told = place.cli.fails(5, *place.words("query", "trial", SQL))
    assert "has no passphrase, and one was given" in told
    assert "CLEAVE_PASSPHRASE" in told


def test_names_with_commas_are_in_double_quotes(place: Place) -> None:
    file = place.root / "stays.csv"
    file.write_text('"Age, years","a,b",ward,"Pat, ID"\n' + "".join(f"{i},{i % 2},A,p{i}\n" for i in range(20)))
    settled = ("--plain", '"Age, years", "a,b",ward', "--sealed", '"Pat, ID"')
    assert place.cli.run("schema", file, *settled, "--entity", '"Pat, ID"', "--yes").exit_code == 0
    place.run("put", file, "--table", "odd", "--by", 'ward, "a,b"', "--key-columns", '"Pat, ID",ward')
    shown = place.run("show", "odd")
    assert "2 cells by ward, a,b" in shown
    assert "thresholds count people (Pat, ID)" in shown
    assert "there is no column 'Age'" in place.cli.fails(3, *place.words("alter", "odd", "--by", "Age, years"))
    assert "in double quotes" in place.cli.fails(2, *place.words("alter", "odd", "--by", "a\nb"))
    place.run("alter", "odd", "--by", '"Age, years"')
    assert "20 cells by Age, years" in place.run("show", "odd")


def test_a_key_that_is_missing_is_told_with_the_command_that_makes_it(place: Place) -> None:
    place.key = place.root / "none.json"
    for words in (("query", "trial", SQL), ("plan", "trial", SQL), ("ls",)):
        told = place.cli.fails(5, *place.words(*words))
        assert "no such key file" in told
        assert f"cleave key new --key {place.key}" in told


def test_no_new_key_is_advised_where_tables_are_stored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.stored()
    place.key = place.root / "none.json"
    for words in (
        ("query", "trial", SQL),
        ("plan", "trial", SQL),
        ("ls",),
        ("gateway",),
        ("key", "copy", "-o", "copy.json"),
    ):
        told = place.cli.fails(5, *place.words(*words))
        assert "none.json: no such key file" in told
        assert (
            "hint: name the key file that stored the tables: --key FILE, CLEAVE_KEY, or `cleave config key`\n" in told
        )
        assert "key new" not in told
    told = place.cli.fails(5, "ls", "--store", "s3://bucket/tables", "--key", place.key)
    assert "--key FILE" in told
    assert "if nothing is stored yet, make one with `cleave key new`" in told, "a bucket is not asked"
    (place.root / "empty").mkdir()
    assert "key new" in place.cli.fails(5, "ls", "--store", place.root / "empty", "--key", place.key)
    with pytest.raises(cleave.KeyFileError) as refused:
        cleave.query("trial", SQL, store=place.root / "s", key=place.key)
    assert "--key FILE" in str(refused.value.hint)
    with pytest.raises(cleave.KeyFileError):
        cleave.query("trial", SQL, store=cast("str", 5), key=place.key)
    monkeypatch.setenv("CLEAVE_STORE", str(place.root / "s"))
    words = ("query", "trial", SQL, "--reader", place.key)
    assert "`cleave reader new`, whose public half the owner has added" in place.cli.fails(5, *words)


@pytest.mark.slow  # quick: test_accept.py
def test_an_older_store_is_not_believed(place: Place) -> None:
    place.stored()
    shutil.copytree(place.root / "s", place.root / "old")
    place.put("--append")
    shutil.rmtree(place.root / "s")
    shutil.copytree(place.root / "old", place.root / "s")
    assert "an older state" in place.cli.fails(7, *place.words("query", "trial", SQL))


@pytest.mark.slow
def test_a_table_in_a_bucket_is_put_asked_and_dropped(place: Place, s3_endpoint: str) -> None:
    place.cli.environment |= aws_environment(s3_endpoint)
    place.store = f"s3://{BUCKET}/sensitive,s3://{BUCKET}/plain"
    place.put("--by", "ward")
    assert "265000.66" in place.run("query", "trial", SQL)
    assert "as it was written" in place.run("verify", "trial")
    place.run("drop", "trial", "--yes")
    assert "no tables" in place.run("ls")


@pytest.mark.slow  # quick: tests/functional/test_python_stored.py
def test_python_asks_a_stored_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.stored()
    monkeypatch.setenv("XDG_STATE_HOME", str(place.cli.environment["XDG_STATE_HOME"]))
    answer = cleave.query("trial", SQL, store=place.store, key=place.key, cloud_only=True)
    assert str(answer.rows[0][2]) == "265000.66"
    assert answer.sources[0] == "key"
    assert answer.sources[2] == "encrypted"
    with cleave.connect("trial", store=place.store, key=place.key) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT MEDIAN(age) FROM trial WHERE ward = ?", ["Surgery"])
        assert cursor.fetchone() is not None
    with pytest.raises(cleave.InputError):
        cleave.query(place.root / "patients.csv", SQL, store=place.store, key=place.key)


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        (nothing_read, ", line 2: this line and all later ones are read as no row"),
        (one_row_less, ": is read as 599 rows, but a second count finds 600"),
    ],
)
def test_a_file_of_which_a_row_is_not_read_is_refused_and_replaces_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, reader: object, problem: str
) -> None:
    place.stored()
    file, said = place.root / "patients.csv", f"patients.csv{problem}"
    sql = "SELECT COUNT(*) FROM patients"
    monkeypatch.setattr(CsvReading, "rows", reader)
    for words in (
        ("query", file, sql),
        ("query", "trial", "SELECT COUNT(*) FROM trial, patients", "--with", file, "--store", place.store),
        ("schema", file, "-o", place.root / "other.toml"),
        ("schema", file, "--check"),
        *(("put", file, "--store", place.store, "--table", *more) for more in (["new"], ["trial", "--replace"])),
        ("put", file, "--store", place.store, "--table", "trial", "--append"),
    ):
        assert said in place.cli.fails(3, *words, *([] if words[0] == "schema" else ["--key", place.key]))
    with pytest.raises(cleave.InputError, match=problem):
        cleave.query(file, sql)
    with pytest.raises(cleave.InputError, match=problem):
        cleave.put(file, "trial", store=place.store, key=place.key, replace=True)
    assert "600 rows" in place.run("show", "trial")
    assert "trial" in place.run("ls")
    assert "new" not in place.run("ls")


def test_delete_update_and_compact_say_what_they_do(place: Place) -> None:
    place.stored()

    def said(*words: object, code: int = 0) -> str:
        result = place.cli.run(*place.words(*words))
        assert result.exit_code == code, result.output
        return result.stderr

    where, record = ("trial", "--where", "age > 60"), place.root / "erased.json"
    assert "confirm with --yes" in said("delete", *where, code=3)
    assert "would be deleted" in said("delete", *where, "--dry-run")
    assert "the plain place learns: which rows are deleted" in said("delete", *where, "--yes", "--record", record)
    assert json.loads(record.read_text())["rows_deleted"] > 0
    assert "already exists" in said("delete", *where, "--yes", "--record", record, code=3)
    assert "no row meets the condition; nothing is changed\n" in said("delete", *where, "--yes")
    assert "no row meets the condition; nothing is changed" in said("delete", "trial", "--where", "age > 61")
    corrected = ("update", "trial", "--set", "bill = 1", "--where", "age = 50")
    assert "the plain place learns: which segments have changed rows" in said(*corrected)
    assert "made this change; nothing is changed now" in said(*corrected)
    assert "COLUMN=SQL" in said("update", "trial", "--set", "bill", "--where", "age = 50", code=2)
    assert "1 segment" in said("compact", "trial")
