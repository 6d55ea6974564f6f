"""What release 1.0.0 stored is read, changed and moved: tests/vectors/release-1.0.0, beside DuckDB over its rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import cleave
from cleave.ask.config import settings
from cleave.ckks.key_file import create_key
from cleave.share.users import read_users

FOLDER = Path(__file__).parents[1] / "vectors" / "release-1.0.0"
MADE = (FOLDER / "make_vectors.txt").read_text()
TOKEN = "USs6Xz8gXKxIVhXj6a_iQSdz_MkC5MDh4tJks-gQTJc"
OWNER = "SHA256:jQouSyWi7q2XdcxMWMttg2XqnSFMGcYbnAkUoD2Xq1E"
ROWS = "SELECT id, ward, sex, age, bill, name FROM {} ORDER BY id"
SUMS = "SELECT ward, count(*) AS n, sum(bill) AS bill FROM {} GROUP BY ward ORDER BY ward"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, as a machine of 1.0.0 leaves it."""
    shutil.copytree(FOLDER, tmp_path / "old")
    for name in ("owner.json", "carol.pem", "north.pem", "users.toml"):
        (tmp_path / "old" / name).chmod(0o600)
    for name in ("CLEAVE_STORE", "CLEAVE_KEY"):
        monkeypatch.setenv(name, {"CLEAVE_STORE": "store", "CLEAVE_KEY": "owner.json"}[name])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
def truth(folder: Path) -> duckdb.DuckDBPyConnection:
    """The tables after the commands of make_vectors.txt: `west` has the rows that are not collected yet."""
    connection = duckdb.connect()
    for sql, name in re.findall(r"COPY \((.*?)\) TO '(\w+)\.csv'", MADE, re.DOTALL):
        connection.execute(f"CREATE TABLE {name} AS {sql}")
    connection.execute("CREATE TABLE visits AS FROM rows WHERE id NOT IN (SELECT id FROM more)")
    connection.execute("INSERT INTO visits FROM more; DELETE FROM visits WHERE age > 80")
    connection.execute("CREATE TABLE shared AS FROM rows; INSERT INTO shared FROM north")
    return connection


def answers(truth: duckdb.DuckDBPyConnection, sql: str, table: str) -> list[Any]:
    return truth.execute(sql.format(table)).fetchall()


def pulled(name: str) -> list[Any]:
    rows = cleave.pull(name).arrow()  # noqa: F841 - in the SQL
    return duckdb.sql(ROWS.format("rows")).fetchall()


@pytest.mark.parametrize("name", ["visits", "shared"])
def test_rows_and_totals(truth: duckdb.DuckDBPyConnection, name: str) -> None:
    assert pulled(name) == answers(truth, ROWS, name)
    totals = cleave.query(name, SUMS.format(name), cloud_only=True)
    assert totals.sources == ("key", "encrypted", "encrypted")
    assert totals.rows == answers(truth, SUMS, name)
    assert cleave.verify(name) == []


def test_derived_totals_and_scans(truth: duckdb.DuckDBPyConnection) -> None:
    twice = cleave.query("visits", "SELECT sum(twice) FROM visits", cloud_only=True)
    assert twice.rows == answers(truth, "SELECT sum(bill * 2) FROM {}", "visits")
    sql = "SELECT sum(bill) FROM {} WHERE sex = 'f'"
    scanned = cleave.query("visits", sql.format("visits"), cloud_only=True)
    assert scanned.scanned == (True,)
    assert scanned.rows == answers(truth, sql, "visits")


def test_the_log_goes_on() -> None:
    assert [each["what"] for each in cleave.log("visits")] == ["put", "derive", "append", "delete"]
    whole = ["put", "release", "contributor add", "key export", "collect"]
    assert [each["what"] for each in cleave.log("shared")] == whole
    cleave.pull("shared", "back.csv")
    assert [each["what"] for each in cleave.log("shared")] == [*whole, "pull"]


def test_a_release_is_read_by_its_analyst(truth: duckdb.DuckDBPyConnection) -> None:
    answer = cleave.query("shared", SUMS.format("shared"), analyst="carol.pem", fingerprint=OWNER)
    assert answer.rows == answers(truth, SUMS, "rows")


def test_contributions_are_collected(truth: duckdb.DuckDBPyConnection) -> None:
    assert cleave.collect("shared").rows == 45
    truth.execute("INSERT INTO shared FROM west")
    assert pulled("shared") == answers(truth, ROWS, "shared")


def test_a_contributor_goes_on_with_its_files(truth: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT 1000 + id AS id, ward, sex, age, bill::DECIMAL(9, 2) AS bill, name FROM west"
    about = {"public_key": "owner.pub.json", "fingerprint": OWNER, "identity": "north.pem"}
    cleave.contribute(truth.sql(sql).to_arrow_table(), "shared", **about)
    assert cleave.collect("shared").rows == 48
    truth.execute(f"INSERT INTO shared {sql}; INSERT INTO shared FROM west")
    assert pulled("shared") == answers(truth, ROWS, "shared")


def test_a_table_is_changed_and_moved_to_another_key(truth: duckdb.DuckDBPyConnection) -> None:
    rows = truth.sql("SELECT * REPLACE (bill::DECIMAL(9, 2) AS bill) FROM more").to_arrow_table()
    with pytest.warns(cleave.CleaveWarning, match="batch 'more' already exists"):
        cleave.append(rows, "visits", batch="more")
    cleave.delete("visits", "ward = 'C'", yes=True)
    truth.execute("DELETE FROM visits WHERE ward = 'C'")
    assert pulled("visits") == answers(truth, ROWS, "visits")
    create_key(Path("new.json"), None)
    cleave.rotate("visits", "new.json")
    totals = cleave.query("visits", SUMS.format("visits"), key="new.json", cloud_only=True)
    assert totals.rows == answers(truth, SUMS, "visits")


def test_a_release_goes_on(truth: duckdb.DuckDBPyConnection) -> None:
    facts = cleave.release("shared")
    assert (facts.analysts, facts.min_cell, facts.begins, facts.ends) == (("carol",), 5, True, True)
    answer = cleave.query("shared", SUMS.format("shared"), analyst="carol.pem", fingerprint=OWNER)
    assert answer.rows == answers(truth, SUMS, "shared")


def test_users_keep_rights_and_tokens() -> None:
    users = read_users(Path("users.toml"))
    assert users.with_token(TOKEN)[0] == "notebook"
    assert (users.users["alice"].tables, users.users["alice"].min_group) == (("visits",), 5)
    assert users.users["alice"].is_old
    assert "exclude each other" in users.users["bob"].fault


def test_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cleave").mkdir()
    shutil.copy("config.toml", folder / "cleave")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("CLEAVE_STORE")
    assert settings()["store"] == "s3://bucket/prefix"
