"""`cleave key copy`: a machine that has the copy accepts no older version of a table, though it never saw one."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleave.ckks import key_file
from cleave.ckks import key_file as files
from cleave.ckks.key_file import create_key, describe_key, open_key
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.samples import write_table

PASSPHRASE = "canary passphrase"
SQL = "SELECT SUM(age) FROM t"


class Machines:
    """One store, and machines that remember each for itself what they saw of it."""

    def __init__(self, cli: Cli, root: Path) -> None:
        self.cli = cli
        self.root = root
        self.rows = root / "t.csv"

    def make(self) -> None:
        """A table of two versions, the first of them in another folder too, and a key with its copy."""
        write_table(self.rows, "ward,age\na,1\nb,2\n", ward="plain VARCHAR", age="encrypted BIGINT")
        create_key(self.root / "key.json", PASSPHRASE.encode())
        self.run("first", "put", self.rows, "--table", "t", "--by", "ward")
        shutil.copytree(self.root / "store", self.root / "old")
        self.run("first", "put", self.rows, "--table", "t", "--append", "--again")
        self.run("first", "key", "copy", "-o", self.root / "copy.json")

    def at(self, machine: str) -> Cli:
        self.cli.environment["XDG_STATE_HOME"] = str(self.root / machine)
        return self.cli

    def words(self, *words: object, key: str = "key.json") -> list[object]:
        return [*words, "--store", self.root / "store", "--key", self.root / key]

    def run(self, machine: str, *words: object, key: str = "key.json") -> str:
        result = self.at(machine).run(*self.words(*words, key=key))
        assert result.exit_code == 0, result.output
        return result.stdout

    def put_back(self, kept: str) -> None:
        shutil.rmtree(self.root / "store")
        shutil.copytree(self.root / kept, self.root / "store")


@pytest.fixture
def machines(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    for module in (files, key_file):
        monkeypatch.setattr(module, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    with prepared.used() as root:
        found = Machines(cli, root)
        prepared.bring("a copy", found.make)
        yield found


def test_an_older_store_is_refused_where_it_was_never_seen(machines: Machines) -> None:
    assert "6" in machines.run("second", "query", "t", SQL, key="copy.json")
    machines.put_back("old")
    assert "3" in machines.run("third", "query", "t", SQL)  # under the key as it was made: nothing is known there
    for words in (("query", "t", SQL), ("show", "t"), ("put", machines.rows, "--table", "t", "--append")):
        told = machines.at("fourth").fails(7, *machines.words(*words, key="copy.json"))
        assert "shows an older state of a table: its log has 1 record, and 2 were here before" in told
    shutil.rmtree(machines.root / "store" / "tables")
    assert "was there and is gone" in machines.at("fifth").fails(7, *machines.words("show", "t", key="copy.json"))


def test_a_dropped_table_stays_dropped_on_every_machine(machines: Machines) -> None:
    """Whoever runs the store puts it, or an older version, back."""
    shutil.copytree(machines.root / "store", machines.root / "newest")
    machines.run("first", "drop", "t", "--yes")
    machines.run("first", "key", "copy", "-o", machines.root / "later.json")
    for machine, key, kept in (
        ("first", "key.json", "newest"),
        ("first", "key.json", "old"),
        ("sixth", "later.json", "old"),
    ):
        machines.put_back(kept)
        told = machines.at(machine).fails(7, *machines.words("query", "t", SQL, key=key))
        assert "table 't' was dropped, and is back" in told
        assert "--forget" in told
    machines.run("first", "drop", "t", "--forget")
    assert "3" in machines.run("first", "query", "t", SQL)


def test_a_copy_is_the_same_key_under_the_same_passphrase(machines: Machines) -> None:
    path, copy = machines.root / "key.json", machines.root / "copy.json"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert describe_key(copy).wrapped
    assert describe_key(copy).key_id == describe_key(path).key_id
    first, second = (open_key(each, PASSPHRASE.encode()) for each in (path, copy))
    assert first.derive("sign") == second.derive("sign")
    assert first.floors == {}
    ((_, version),) = second.floors.values()
    assert version == 2
    one, other = (json.loads(each.read_text()) for each in (path, copy))
    assert one["wrappings"] == other["wrappings"]
    again = machines.words("key", "copy", "-o", copy)
    assert "already exists" in machines.at("first").fails(5, *again)


def test_floors_of_a_wrapped_file_cannot_be_changed(machines: Machines) -> None:
    copy = machines.root / "copy.json"
    content = json.loads(copy.read_text())
    ((tag, (table_id, _)),) = content["floors"].items()
    for floors in ({}, {tag: [table_id, 1]}, {tag: ["0" * 32, 2]}, {"0" * 32: [table_id, 2]}):
        copy.write_text(json.dumps(content | {"floors": floors}))
        told = machines.at("second").fails(5, *machines.words("query", "t", SQL, key="copy.json"))
        assert "the key file is damaged or was changed" in told


def test_a_copy_of_a_copy_has_what_is_known_now(machines: Machines) -> None:
    machines.run("second", "put", machines.rows, "--table", "t", "--append", "--again", key="copy.json")
    machines.run("second", "key", "copy", "-o", machines.root / "next.json", key="copy.json")
    ((_, version),) = open_key(machines.root / "next.json", PASSPHRASE.encode()).floors.values()
    assert version == 3
    machines.put_back("old")
    refused = machines.words("key", "copy", "-o", machines.root / "more.json", key="copy.json")
    assert "shows an older state" in machines.at("third").fails(7, *refused)
    assert not (machines.root / "more.json").exists()


def test_a_table_that_is_dropped_and_put_anew_is_taken_once_its_user_says_so(machines: Machines) -> None:
    machines.run("first", "drop", "t", "--yes")
    machines.run("first", "put", machines.rows, "--table", "t", "--by", "ward")
    told = machines.at("second").fails(7, *machines.words("query", "t", SQL, key="copy.json"))
    assert "not the one seen here before" in told
    machines.run("second", "drop", "t", "--forget", key="copy.json")
    assert "3" in machines.run("second", "query", "t", SQL, key="copy.json")
    machines.at("third").fails(7, *machines.words("query", "t", SQL, key="copy.json"))


def test_a_table_can_be_dropped_and_put_anew_under_a_copy(machines: Machines) -> None:
    machines.run("second", "drop", "t", "--yes", key="copy.json")
    machines.run("second", "put", machines.rows, "--table", "t", "--by", "ward", key="copy.json")
    assert "3" in machines.run("second", "query", "t", SQL, key="copy.json")


def test_a_key_without_a_passphrase_can_be_copied(cli: Cli, tmp_path: Path) -> None:
    key, copy = tmp_path / "key.json", tmp_path / "copy.json"
    create_key(key, None)
    (tmp_path / "store").mkdir()
    done = cli.run("key", "copy", "-o", copy, "--store", tmp_path / "store", "--key", key)
    assert done.exit_code == 0, done.stderr
    assert describe_key(copy).key_id == describe_key(key).key_id
    assert not describe_key(copy).wrapped
