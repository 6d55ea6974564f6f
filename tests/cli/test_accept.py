"""`cleave accept`: a restored copy, a dropped table that is back, or another one is used after its owner says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cleave
from cleave.ckks import key_file
from cleave_shared.errors import CheckFailed, CleaveError
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.cli.test_key_copy import PASSPHRASE, SQL, Machines


class Restoring(Machines):
    def make(self) -> None:
        """Versions 1 and 2, and copies of the store from both nights."""
        super().make()
        shutil.copytree(self.root / "store", self.root / "new")

    def heads(self) -> list[Path]:
        return [*(self.root / "store").rglob("head")]

    def refused(self, machine: str, *words: object, key: str = "key.json") -> str:
        return self.at(machine).fails(7, *self.words(*words, key=key))

    def state(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (self.root / "store").rglob("*") if path.is_file()}

    def log(self, machine: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.run(machine, "log", "t", "--json"))
        return found


@pytest.fixture
def machines(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Restoring]:
    monkeypatch.setattr(key_file, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    with prepared.used() as root:
        found = Restoring(cli, root)
        prepared.bring("two nights", found.make)
        yield found


def hinted(told: str) -> list[str]:
    """The command that a hint names, without the table."""
    (command,) = [part for part in told.split("`") if part.startswith("cleave accept t ")]
    return command.split()[3:]


def test_last_nights_copy_is_used_after_accept(machines: Restoring) -> None:
    machines.put_back("old")
    told = machines.refused("first", "query", "t", SQL)
    assert hinted(told) == ["--version", "1"]
    assert hinted(machines.refused("first", "ls")) == ["--version", "1"]
    done = machines.at("first").run(*machines.words("accept", "t", *hinted(told)))
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert lines[0].startswith("t: version 1, last changed 20")
    assert lines[0].endswith("is accepted on this machine; lost with the changes: 1 record of its log, seen here")
    assert "a machine that saw a longer log refuses the table" in lines[1]
    assert "3" in machines.run("first", "query", "t", SQL)
    assert [each["what"] for each in machines.log("first")] == ["put", "accept"]
    assert machines.log("first")[-1]["details"] == {"reason": "older", "lost_records": 1}
    machines.run("first", "put", machines.rows, "--table", "t", "--append", "--again")
    assert "6" in machines.run("first", "query", "t", SQL)
    assert machines.run("first", "verify", "t")


def test_an_older_table_without_its_objects_is_still_refused_as_older(machines: Restoring) -> None:
    machines.put_back("old")
    for path in (machines.root / "store").rglob("*"):
        if path.is_file() and path.name != "head":
            path.unlink()
    told = machines.refused("first", "ls")
    assert "shows an older state of a table" in told
    assert "`cleave accept NAME --version 1`" in told


def test_each_machine_accepts_for_itself(machines: Restoring) -> None:
    machines.run("second", "query", "t", SQL)
    machines.run("second", "put", machines.rows, "--table", "t", "--append", "--again")
    machines.put_back("old")
    told = machines.refused("first", "show", "t")
    machines.run("first", "accept", "t", *hinted(told))
    told = machines.refused("second", "show", "t")
    assert "its log has 2 records, and 3 were here before" in told
    machines.run("second", "accept", "t", *hinted(told))
    machines.run("second", "show", "t")
    machines.run("first", "show", "t")


def test_a_key_files_floor_is_accepted_too(machines: Restoring) -> None:
    machines.run("first", "pull", "t", "-o", machines.root / "rows.csv")  # a record more
    machines.run("first", "key", "copy", "-o", machines.root / "next.json")
    machines.put_back("old")
    told = machines.refused("third", "show", "t", key="next.json")
    machines.run("third", "accept", "t", *hinted(told), key="next.json")
    machines.run("third", "show", "t", key="next.json")
    machines.refused("fourth", "show", "t", key="next.json")
    machines.put_back("old")
    machines.refused("third", "show", "t", key="next.json")  # it does not have the record of `accept`


def test_only_the_version_that_is_there_is_accepted(machines: Restoring) -> None:
    machines.put_back("old")
    before = machines.state()
    for version in (2, 3, 0):
        told = machines.at("first").fails(3, *machines.words("accept", "t", "--version", version))
        assert (
            f"table 't' has version 1, not {version}\nhint: `cleave accept` accepts the version that is there" in told
        )
    assert "there is no table 'other'" in machines.at("first").fails(
        3, *machines.words("accept", "other", "--version", 1)
    )
    assert machines.at("first").run(*machines.words("accept", "t")).exit_code == 2
    assert machines.state() == before
    machines.refused("first", "show", "t")


def test_nothing_is_written_where_nothing_was_refused(machines: Restoring) -> None:
    before = machines.state()
    for machine in ("first", "never before"):
        done = machines.at(machine).run(*machines.words("accept", "t", "--version", 2))
        assert (done.exit_code, "there is nothing to accept" in done.stderr) == (0, True)
    assert machines.state() == before


def test_a_dropped_table_stays_refused_until_it_is_accepted(machines: Restoring) -> None:
    machines.run("first", "drop", "t", "--yes")
    machines.put_back("old")
    told = machines.refused("first", "query", "t", SQL)
    assert "table 't' was dropped, and is back" in told
    assert (
        "is accepted on this machine" in machines.at("first").run(*machines.words("accept", "t", *hinted(told))).stderr
    )
    assert "3" in machines.run("first", "query", "t", SQL)
    assert machines.log("first")[-1]["details"] == {"reason": "dropped", "lost_records": 0}


@pytest.mark.slow  # quick: the test above
def test_another_table_under_the_name_is_accepted(machines: Restoring) -> None:
    machines.run("second", "show", "t")
    machines.run("first", "drop", "t", "--yes")
    machines.run("first", "put", machines.rows, "--table", "t", "--by", "ward")
    told = machines.refused("second", "query", "t", SQL)
    assert "is not the one seen here before" in told
    machines.run("second", "accept", "t", *hinted(told))
    assert "3" in machines.run("second", "query", "t", SQL)
    assert machines.log("second")[-1]["details"] == {"reason": "another table", "lost_records": 0}


def test_a_table_that_is_gone_cannot_be_accepted(machines: Restoring) -> None:
    shutil.rmtree(machines.root / "store" / "tables")
    assert "there is no table 't'" in machines.at("first").fails(3, *machines.words("accept", "t", "--version", 1))
    assert "was there and is gone" in machines.refused("first", "show", "t")


def test_a_forged_head_is_not_accepted(machines: Restoring) -> None:
    machines.put_back("old")
    (head,) = machines.heads()
    head.write_text(json.dumps(json.loads(head.read_text()) | {"version": 2}))
    machines.refused("first", "accept", "t", "--version", 2)
    machines.refused("first", "show", "t")


def test_an_incomplete_copy_is_not_accepted(machines: Restoring) -> None:
    """Of every object alone: its loss is found, and nothing is written."""
    machines.put_back("old")
    whole = machines.state()
    for path, content in whole.items():
        if path.name in ("head", ".lock"):
            continue
        path.unlink()
        before = machines.state()
        told = machines.refused("first", "accept", "t", "--version", 1)
        assert "missing" in told
        assert "copy all objects of both places first, and heads last" in told
        assert machines.state() == before
        path.write_bytes(content)
    machines.run("first", "accept", "t", "--version", 1)


def copied(source: Path, target: Path, *, heads: bool) -> None:
    """Copy as docs/operate.md has it: objects first, heads then."""
    for path in source.rglob("*"):
        if path.is_file() and (path.name == "head") == heads:
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.relative_to(source))


def test_a_copy_with_heads_last_is_a_table_although_rows_are_appended_meanwhile(machines: Restoring) -> None:
    """Its head may name objects that the first pass missed: the second pass brings them."""
    store, copy = machines.root / "store", machines.root / "copy"
    copied(store, copy, heads=False)
    machines.run("first", "put", machines.rows, "--table", "t", "--append", "--again")
    copied(store, copy, heads=True)
    machines.cli.environment["XDG_STATE_HOME"] = str(machines.root / "backup")
    words = ["verify", "t", "--store", copy, "--key", machines.root / "key.json"]
    assert machines.cli.run(*words).exit_code == 7
    copied(store, copy, heads=False)
    assert machines.cli.run(*words).exit_code == 0
    shutil.rmtree(store)
    shutil.copytree(copy, store)
    assert "9" in machines.run("first", "query", "t", SQL)


def test_a_replica_whose_heads_arrive_first_says_what_is_missing(machines: Restoring) -> None:
    store, replica = machines.root / "new", machines.root / "replica"
    shutil.copytree(machines.root / "old", replica)
    copied(store, replica, heads=True)
    machines.cli.environment["XDG_STATE_HOME"] = str(machines.root / "reader")
    words = ["query", "t", SQL, "--store", replica, "--key", machines.root / "key.json"]
    told = machines.cli.fails(7, *words)
    assert "an object of the table is lost" in told
    assert "a copy or a replica whose objects are still to come" in told
    copied(store, replica, heads=False)
    assert "6" in machines.cli.run(*words).stdout


@pytest.mark.slow  # quick: the first test
def test_two_places_are_restored_together(cli: Cli, machines: Restoring, tmp_path: Path) -> None:
    """A plain place of another night lacks objects that the head names."""
    places = [machines.root / name for name in ("sensitive", "plain")]
    given = ("--store", ",".join(map(str, places)), "--key", machines.root / "key.json")

    def ok(*words: object) -> str:
        done = machines.at("first").run(*words, *given)
        assert done.exit_code == 0, done.output
        return done.stdout

    ok("put", machines.rows, "--table", "t", "--by", "ward")
    ok("put", machines.rows, "--table", "t", "--append", "--again")
    for place in places:
        shutil.copytree(place, place.with_name(f"{place.name} 1"))
    ok("put", machines.rows, "--table", "t", "--replace", "--by", "ward")
    shutil.rmtree(places[0])
    shutil.copytree(f"{places[0]} 1", places[0])
    told = machines.at("first").fails(7, "accept", "t", "--version", 2, *given)
    assert "of table 't' are missing" in told
    shutil.rmtree(places[1])
    shutil.copytree(f"{places[1]} 1", places[1])
    ok("accept", "t", "--version", 2)
    assert "6" in ok("query", "t", SQL)


def test_python_accepts_too(machines: Restoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(machines.root / "first"))
    place = {"store": machines.root / "store", "key": machines.root / "key.json", "passphrase": PASSPHRASE}
    machines.put_back("old")
    with pytest.raises(CheckFailed, match="older state"):
        cleave.show("t", **place)
    with pytest.raises(CleaveError, match="has version 1, not 2"):
        cleave.accept("t", 2, **place)
    done = cleave.accept("t", 1, **place)
    assert (done.table, done.version, done.lost, done.was) == ("t", 1, 1, "older")
    assert cleave.query("t", SQL, **place).rows == [(3,)]
