"""Readers from the command line and Python; docs/readers.md is run as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest

import cleave
from cleave.ckks.key_file import open_key
from cleave.maintain.readers import Resealed
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import StoreError
from cleave.store import attempts, making
from cleave.store.manifest import Manifest
from cleave.store.seen_versions import SeenVersions
from cleave.store.sweeping import delete_doomed
from cleave.store.tables import Tables
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.cli.test_contributors import Parties, blocks_of
from tests.comparing import compared, fingerprint_of

PAGE = (Path(__file__).parents[2] / "docs" / "readers.md").read_text()
STORE = ("--store", "../store")
OWNER = (*STORE, "--key", "key.json")
READER = (*STORE, "--reader", "carol.json")
SQL = "SELECT ward, SUM(bill) AS bill FROM stays GROUP BY ward ORDER BY ward"


@pytest.fixture
def parties(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    with prepared.used():
        found = Parties(cli, prepared, monkeypatch, PAGE)
        found.play()
        yield found
        monkeypatch.undo()  # out of the folder


def test_every_command_of_the_page_runs(parties: Parties) -> None:
    assert len(blocks_of(PAGE)) == 5
    assert parties.fingerprint.startswith("SHA256:")


def test_a_reader_asks_by_shell_plan_and_python(parties: Parties) -> None:
    carol = parties.at("carol")
    assert carol.run("shell", "stays", *READER).exit_code == 0
    plan = carol.run("plan", SQL, *READER).stdout
    assert "which of the stored columns are fetched" in plan
    assert "local: a reader has rows and no totals" in plan
    assert (
        "a reader has rows and no totals" in carol.run("query", "stays", "SELECT COUNT(*) FROM stays", *READER).stderr
    )
    assert json.loads(carol.run("query", SQL, *READER, "--json").stdout)["rows"] == [["A", 111.5], ["B", 10.35]]
    answer = cleave.query("stays", "SELECT COUNT(*) FROM stays WHERE sex = 'f'", store="../store", reader="carol.json")
    assert answer.rows == [(2,)]
    with cleave.connect(store="../store", reader="carol.json") as connection:
        assert connection.execute("SELECT MAX(bill) FROM stays").fetchone() is not None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["query", "stays", "SELECT COUNT(*) FROM stays WHERE name = 'Ann'"], 4, "there is no column 'name'"),
        (["query", "stays", SQL, "--cloud-only"], 4, "a reader has rows and no totals"),
        (["query", "stays", SQL, "--key", "key.json"], 2, "--key cannot be combined with --reader"),
        (["query", "stays", SQL, "--analyst", "a.pem"], 2, "--analyst cannot be combined with --reader"),
        (
            ["query", "stays", SQL, "--endpoint", "https://example.org"],
            2,
            "--endpoint cannot be combined with --reader",
        ),
        (["query", "wards", "SELECT COUNT(*) FROM wards"], 3, "there is no table 'wards' for this reader"),
        (["query", "stays", SQL, "--fingerprint", "SHA256:x"], 5, "SHA256:x was expected"),
        (["query", "stays", SQL, "--fingerprint", "SHA256:x@y"], 3, "'y' after @ is not a number"),
    ],
)
def test_what_a_reader_is_refused(parties: Parties, words: list[str], code: int, message: str) -> None:
    assert message in parties.at("carol").fails(code, *words, *READER)


def test_a_reader_of_rows_gets_no_hint_of_totals(parties: Parties) -> None:
    said = parties.at("carol").fails(4, "query", "stays", SQL, "--cloud-only", *READER)
    assert "hint: leave --cloud-only out" in said
    assert "kept by" not in said


def test_another_file_is_no_readers_key(parties: Parties) -> None:
    carol = parties.at("carol")
    Path("other.json").write_text("{}")
    said = carol.fails(5, "query", "stays", SQL, "--store", "../store", "--reader", "other.json")
    assert "`cleave reader new`" in said


def test_a_readers_key_owns_nothing(parties: Parties) -> None:
    """Commands of an owner, with the reader's file in the place of the key."""
    carol = parties.at("carol")
    before = {path: path.read_bytes() for path in (parties.root / "store").rglob("*") if path.is_file()}
    for words in (
        ["query", "stays", SQL],
        ["pull", "stays", "-o", "rows.csv"],
        ["show", "stays"],
        ["verify", "stays"],
        ["drop", "stays", "--yes"],
        ["reader", "ls", "stays"],
        ["reader", "revoke", "stays", "carol"],
        ["reader", "add", "stays", "--to", compared(Path("carol.json.pub")), "--columns", "name"],
    ):
        assert "there is no table 'stays'" in carol.fails(3, *words, *STORE, "--key", "carol.json"), words
    assert before == {path: path.read_bytes() for path in (parties.root / "store").rglob("*") if path.is_file()}


def test_the_owner_lists_readers_and_revokes_them(parties: Parties) -> None:
    west = parties.at("west")
    (facts,) = json.loads(west.run("reader", "ls", "stays", *OWNER, "--json").stdout)
    assert (facts["name"], facts["columns"], facts["schema"]) == ("carol", ["ward", "sex", "bill"], False)
    assert facts["fingerprint"] == fingerprint_of(parties.root / "carol" / "carol.json.pub")
    assert "ward, sex, bill" in west.run("reader", "ls", "stays", *OWNER).stdout
    done = west.run("reader", "revoke", "stays", "carol", *OWNER)
    assert "carol reads nothing of stays from version 4 on" in done.stderr
    assert "it may have copied ward, sex, bill of all rows up to version 3" in done.stderr
    assert "plain columns stay open to all who read the plain place: ward" in done.stderr
    assert west.run("reader", "ls", "stays", *OWNER).stdout.strip() == "no readers"
    assert "there is no reader 'carol'" in west.fails(3, "reader", "revoke", "stays", "carol", *OWNER)
    assert "no longer open to this reader" in parties.at("carol").fails(7, "query", "stays", SQL, *READER)


@pytest.mark.slow  # quick: the test below
def test_a_stopped_revoke_deletes_what_the_readers_keys_open(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    west = parties.at("west")
    folder = Folder(Path("../store"))
    tables = Tables(Stores(folder, folder), open_key(Path("key.json"), None), SeenVersions())
    (segment,) = tables.open("stays").manifest.segments
    names = [each.object.name for each in segment.columns]
    revoke = ("reader", "revoke", "stays", "carol", *OWNER)

    def stops(stores: Stores, manifest: Manifest, *, strict: bool = False) -> bool:
        if not {*names}.isdisjoint(manifest.doomed):
            raise StoreError("the process was killed after its commit")
        return delete_doomed(stores, manifest, strict=strict)

    with monkeypatch.context() as patch:
        patch.setattr(making, "delete_doomed", stops)
        assert west.run(*revoke).exit_code == 6
    assert west.run("reader", "ls", "stays", *OWNER).stdout.strip() == "no readers"
    assert all((Path("../store") / each).is_file() for each in names)
    assert "it may have copied ward, sex, bill" in west.run(*revoke).stderr
    assert [(Path("../store") / each).is_file() for each in names].count(True) == 1, "carol had no key of `name`"
    assert west.run("verify", "stays", *OWNER).exit_code == 0


def test_ls_and_show_tell_of_a_revocation_that_was_stopped(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    west, revoke = parties.at("west"), ("reader", "revoke", "stays", "carol", *OWNER)
    assert "unfinished" not in west.run("ls", *OWNER).stdout

    def stopped(*_: object) -> Never:
        raise StoreError("the process was killed before it sealed anything")

    with monkeypatch.context() as patch:
        patch.setattr(Resealed, "write", stopped)
        assert west.run(*revoke).exit_code == 6
    assert west.run("reader", "ls", "stays", *OWNER).stdout.strip() == "no readers"
    heading, _, line = west.run("ls", *OWNER).stdout.splitlines()
    assert heading.endswith("  unfinished")
    assert line.endswith("  cleave reader revoke stays carol")
    assert json.loads(west.run("ls", *OWNER, "--json").stdout)[0]["unfinished"] == "cleave reader revoke stays carol"
    assert "unfinished: cleave reader revoke stays carol\n" in west.run("show", "stays", *OWNER).stdout
    monkeypatch.setattr(attempts, "HELD_SECONDS", 0.0)
    refusal = west.fails(6, "compact", "stays", *OWNER)
    assert (
        "a revocation of carol of table 'stays' is not finished\nhint: run: cleave reader revoke stays carol" in refusal
    )
    assert "carol reads nothing" in west.run(*revoke).stderr
    assert "unfinished" not in west.run("ls", *OWNER).stdout
    shown = west.run("show", "stays", *OWNER, "--json").stdout
    assert json.loads(shown)["doomed"] > 0
    assert (
        f"{json.loads(shown)['doomed']} replaced objects: deleted, or will be"
        in west.run("show", "stays", *OWNER).stdout
    )


def test_a_reader_joins_a_file(parties: Parties) -> None:
    carol = parties.at("carol")
    Path("wards.csv").write_text("ward,floor\nA,one\nB,two\n")
    Path("wards.schema.toml").write_text(
        "".join(f'[columns.{each}]\nkind = "plain"\ntype = "VARCHAR"\n' for each in ("ward", "floor"))
    )
    sql = "SELECT floor, SUM(bill) FROM stays JOIN wards USING (ward) GROUP BY floor ORDER BY floor"
    for words in ([sql], ["stays", sql]):
        answer = carol.run("query", *words, "--with", "wards.csv", *READER, "--json")
        assert json.loads(answer.stdout)["rows"] == [["one", 111.5], ["two", 10.35]]
    west = parties.at("west")
    Path("towns.csv").write_text("ward,name\nA,York\n")
    Path("towns.schema.toml").write_text(
        "".join(f'[columns.{each}]\nkind = "sealed"\ntype = "VARCHAR"\n' for each in ("ward", "name"))
    )
    assert west.run("put", "towns.csv", "--table", "towns", *OWNER).exit_code == 0
    to = ("--to", "../carol/carol.json.pub", "--columns", "ward", "--schema", *OWNER)
    assert west.run("reader", "add", "towns", *to).exit_code == 0
    carol = parties.at("carol")
    assert carol.run("query", "SELECT COUNT(*) FROM towns", *READER).exit_code == 0  # shows the fingerprint
    message = carol.fails(4, "query", "SELECT bill, towns.name FROM stays JOIN towns USING (ward)", *READER)
    assert "no key of column 'name' of table 'towns'\nhint: it has the columns ward;" in message
    Path("wards.csv").write_text("ward,name\nA,one\n")
    Path("wards.schema.toml").write_text(Path("wards.schema.toml").read_text().replace("floor", "name"))
    message = carol.fails(
        4, "query", "SELECT wards.name, nosuch FROM towns JOIN wards USING (ward)", "--with", "wards.csv", *READER
    )
    assert "nosuch" in message, "`name` is the file's"
    message = carol.fails(3, "query", sql.replace("wards", "beds"), "--with", "wards.csv", *READER)
    assert "there is no table 'beds' for this reader" in message


@pytest.mark.slow  # quick: tests/store/test_readers.py, of a table stored again
def test_a_reader_accepts_what_its_owner_stored_again(parties: Parties) -> None:
    west = parties.at("west")
    assert west.run("drop", "stays", "--yes", *OWNER).exit_code == 0
    assert west.run("put", "stays.csv", "--table", "stays", "--by", "ward", *OWNER).exit_code == 0
    add = ("reader", "add", "stays", "--columns", "ward,bill", "--to", "../carol/carol.json.pub", *OWNER)
    assert west.run(*add).exit_code == 0
    carol = parties.at("carol")
    message = carol.fails(7, "query", "stays", SQL, *READER)
    assert "`cleave reader accept stays --version 2 --reader FILE`" in message
    accept = ("reader", "accept", "stays", "--version")
    assert "has version 2, not 3" in carol.fails(3, *accept, "3", *READER)
    assert "--key cannot be combined with --reader" in carol.fails(2, *accept, "2", *READER, "--key", "key.json")
    parties.ends_in_time("carol", *accept, "2", *READER)
    assert "version 2 is accepted" in carol.run(*accept, "2", *READER).stderr
    assert carol.run("query", "stays", SQL, *READER).exit_code == 0


def test_a_first_use_names_the_fingerprint(parties: Parties) -> None:
    west = parties.at("west")
    assert west.run("reader", "new", "eve.json", "--no-passphrase").exit_code == 0
    add = ("reader", "add", "stays", "--columns", "ward", *OWNER)
    assert "not compared" in west.fails(5, *add, "--to", "eve.json.pub")
    other = fingerprint_of(parties.root / "carol" / "carol.json.pub")
    assert "is another key" in west.fails(5, *add, "--to", f"eve.json.pub={other}")
    assert west.run(*add, "--to", compared(Path("eve.json.pub"))).exit_code == 0
    again = west.run("reader", "add", "stays", "--columns", "sex,ward,bill", *OWNER, "--to", "../carol/carol.json.pub")
    assert again.exit_code == 0, "the table has this reader"
    assert "no reader is named" in west.fails(3, *add)
    assert "a reader needs a column" in west.fails(3, "reader", "add", "stays", "--to", "eve.json.pub", *OWNER)
    assert "already exists" in west.fails(5, "reader", "new", "eve.json", "--no-passphrase")


def test_a_passphrase_of_the_owners_key_opens_a_readers_file_without_one(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEAVE_PASSPHRASE", "correct horse battery staple")
    carol = parties.at("carol")
    assert carol.run("query", SQL, *READER).exit_code == 0
    assert cleave.query("stays", SQL, store="../store", reader="carol.json").rows


def test_a_readers_key_has_a_passphrase(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_PASSPHRASE", "a long passphrase of a reader")
    result = cli.run("reader", "new", tmp_path / "r.json")
    assert result.stdout.strip() == f"fingerprint {fingerprint_of(tmp_path / 'r.json.pub')}"
    assert json.loads(cli.run("key", "show", "--key", tmp_path / "r.json", "--json").stdout)["wrapped"] is True
    assert (tmp_path / "r.json").stat().st_mode & 0o077 == 0
