"""Analysts from the command line and Python; docs/analysts.md is run as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import cleave
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.cli.test_contributors import Parties, blocks_of

PAGE = (Path(__file__).parents[2] / "docs" / "analysts.md").read_text()
STORE = ("--store", "../store")
SQL = "SELECT ward, COUNT(*) AS n, SUM(bill) AS bill FROM stays GROUP BY ward ORDER BY ward"


@pytest.fixture
def parties(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    with prepared.used():
        found = Parties(cli, prepared, monkeypatch, PAGE)
        found.play()
        yield found


def test_the_page_runs(parties: Parties) -> None:
    assert len(blocks_of(PAGE)) == 5
    assert parties.fingerprint.startswith("SHA256:")


def test_an_analyst_asks_by_shell_plan_and_environment(parties: Parties) -> None:
    carol = parties.at("carol")
    result = carol.run("shell", "stays", *STORE, "--analyst", "carol.pem")
    assert result.exit_code == 0
    result = carol.run("plan", SQL, *STORE, "--analyst", "carol.pem")
    assert "release: the owner has released totals of cells" in result.stdout
    assert carol.run("config", "analyst", Path("carol.pem").resolve()).exit_code == 0
    result = carol.run("query", SQL, *STORE, "--json")
    assert json.loads(result.stdout)["rows"] == [["A", 5, 182.75], ["B", 6, 36.75]]
    assert "incomplete" in result.stderr
    assert "as of" in json.loads(result.stdout)["trust"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["query", "stays", "SELECT * FROM stays"], 4, "selects single rows"),
        (["query", "stays", SQL, "--strict"], 8, "incomplete"),
        (["query", "stays", SQL, "--key", "key.json"], 3, "key cannot be combined with an analyst's identity"),
        (["query", "wards", "SELECT COUNT(*) FROM wards"], 3, "no release of table 'wards' for this analyst"),
    ],
)
def test_what_an_analyst_is_refused(parties: Parties, words: list[str], code: int, message: str) -> None:
    assert message in parties.at("carol").fails(code, *words, *STORE, "--analyst", "carol.pem")


def test_an_identity_is_no_key(parties: Parties) -> None:
    """Every command of an owner, with the analyst's file in the place of the key."""
    carol = parties.at("carol")
    before = {path: path.read_bytes() for path in (parties.root / "store").rglob("*") if path.is_file()}
    for words in (
        ["query", "stays", SQL],
        ["plan", "stays", SQL],
        ["shell", "stays"],
        ["pull", "stays", "-o", "rows.csv"],
        ["show", "stays"],
        ["ls"],
        ["verify", "stays"],
        ["derive", "stays", "bill * 2", "--as", "twice"],
        ["drop", "stays", "--yes"],
        ["put", "../west/stays.csv", "--table", "stays", "--append"],
        ["scan", "add", "stays"],
        ["contributor", "ls", "stays"],
        ["contributor", "collect", "stays"],
        ["release", "new", "stays"],
        ["release", "ls", "stays"],
        ["release", "revoke", "stays", "carol"],
        ["key", "rotate", "stays", "--new-key", "carol.pem"],
        ["key", "export", "--table", "stays", "-o", "out.json"],
        ["key", "copy", "-o", "out.json"],
    ):
        result = carol.run(*words, *STORE, "--key", "carol.pem")
        assert result.exit_code in (3, 5), (words, result.output)
        assert "182.75" not in result.output
    assert before == {path: path.read_bytes() for path in (parties.root / "store").rglob("*") if path.is_file()}


def test_a_file_that_is_no_analysts(parties: Parties) -> None:
    """The hint names what an analyst writes, not a contributor's public key."""
    for name in ("nobody.pub", "stays.csv", "key.json"):
        words = ["release", "new", "stays", "--to", name, *STORE, "--key", "key.json"]
        said = parties.at("west").fails(5, *words)
        assert ("must not leave its owner" if name == "key.json" else "`cleave analyst new`") in said


def test_an_owner_lists_and_revokes(parties: Parties) -> None:
    west, key = parties.at("west"), ("--key", "key.json")
    assert "carol" in west.run("release", "ls", "stays", *STORE, *key).stdout
    assert "a head for each of 1 analyst: your public keys" in west.run("show", "stays", *STORE, *key).stdout
    result = west.run("release", "revoke", "stays", "carol", *STORE, *key)
    assert "stay readable to them" in result.stderr
    assert west.run("release", "revoke", "stays", "carol", *STORE, *key).exit_code == 0, "again, should it be stopped"
    assert west.run("release", "ls", "stays", *STORE, *key).stdout == "no analysts\n"
    assert "there is no analyst 'dave'" in west.fails(3, "release", "revoke", "stays", "dave", *STORE, *key)
    message = parties.at("carol").fails(7, "query", "stays", SQL, *STORE, "--analyst", "carol.pem")
    assert "was here and is gone" in message


def test_python_has_the_same(parties: Parties) -> None:
    parties.at("west")
    made = cleave.release("stays", store="../store", key="key.json")
    assert (made.number, made.cells, made.hidden, made.older) == (3, 2, 1, 2)
    for name in ("XDG_STATE_HOME", "HOME"):
        parties._monkeypatch.setenv(name, str(parties.root / "python"))
    parties.at("carol")
    where = {"store": "../store", "analyst": "carol.pem", "fingerprint": parties.fingerprint}
    with pytest.warns(cleave.UndecidedWarning, match="incomplete"):
        answer = cleave.query("stays", SQL, **where)
    assert [row[:2] for row in answer.rows] == [("A", 5), ("B", 6)]
    with cleave.connect(None, **where) as connection, pytest.warns(cleave.UndecidedWarning):
        assert len(connection.execute(SQL).fetchall()) == 2
    parties.at("west")
    revoked = cleave.revoke("stays", "carol", store="../store", key="key.json")
    assert revoked is not None
    assert revoked.analysts == ()
