"""Analysts from the command line and Python; docs/analysts.md is run as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.public_key import public_side
from cleave.store.identity import create_identity
from cleave_shared.errors import CleaveWarning
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


def test_every_command_of_the_page_runs(parties: Parties) -> None:
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
    assert "incomplete" not in result.stderr
    assert "fewer than 5 rows per cell may be missing" in json.loads(result.stdout)["trust"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["query", "stays", "SELECT * FROM stays"], 4, "selects single rows"),
        (["query", "stays", "SELECT VAR_POP(bill) FROM stays", "--strict"], 8, "are withheld in 2 parts"),
        (["query", "stays", SQL, "--key", "key.json"], 3, "key cannot be combined with an analyst's identity"),
        (["query", "wards", "SELECT COUNT(*) FROM wards"], 3, "no release of table 'wards' for this analyst"),
    ],
)
def test_what_an_analyst_is_refused(parties: Parties, words: list[str], code: int, message: str) -> None:
    assert message in parties.at("carol").fails(code, *words, *STORE, "--analyst", "carol.pem")


def test_an_analyst_accepts_what_its_owner_stored_again(parties: Parties) -> None:
    west, key = parties.at("west"), (*STORE, "--key", "key.json")
    assert west.run("drop", "stays", "--yes", *key).exit_code == 0
    assert west.run("put", "stays.csv", "--table", "stays", "--by", "ward,sex", *key).exit_code == 0
    again = west.run("release", "new", "stays", "--to", "../carol/carol.pem.pub", "--min-cell", "5", *key)
    assert again.exit_code == 0
    carol, mine = parties.at("carol"), (*STORE, "--analyst", "carol.pem")
    message = carol.fails(7, "query", "stays", SQL, *mine)
    assert "`cleave analyst accept stays --release 1 --analyst FILE`" in message
    accept = ("analyst", "accept", "stays", "--release")
    assert "has release 1, not 2" in carol.fails(3, *accept, "2", *mine)
    assert "--key cannot be combined with --analyst" in carol.fails(2, *accept, "1", *mine, "--key", "key.json")
    assert "no release of table 'wards'" in carol.fails(3, "analyst", "accept", "wards", "--release", "1", *mine)
    parties.ends_in_time("carol", *accept, "1", *mine)
    carol.fails(7, "query", "stays", SQL, *mine)
    assert "release 1 is accepted on this machine" in carol.run(*accept, "1", *mine).stderr
    assert carol.run("query", "stays", SQL, *mine).exit_code == 0


@pytest.mark.slow  # quick: tests/store/test_published.py, of what ends them
@pytest.mark.filterwarnings("ignore:.*for the first time")
def test_an_owner_is_told_what_ends_the_releases(tmp_path: Path, key_file: Path) -> None:
    store = {"store": tmp_path / "s", "key": key_file}
    identity, public = create_identity(tmp_path / "carol.pem", analyst=True)
    frame, kinds = pd.DataFrame({"ward": ["A"] * 9, "bill": range(9)}), {"ward": "plain", "bill": "encrypted"}
    stored: dict[str, Any] = {"schema": kinds, "by": ["ward"], **store}
    cleave.put(frame, "stays", **stored)
    cleave.release("stays", to=f"{public}={public_side(identity).fingerprint}", **store)
    with pytest.warns(CleaveWarning, match="unless the table is by ward again"):
        cleave.alter("stays", by=[], **store)
    cleave.alter("stays", by=["ward"], **store)
    ends = "this ends the releases of the table"
    for dry_run in (True, False):
        with pytest.warns(CleaveWarning, match=ends):
            cleave.put(frame, "stays", replace=True, dry_run=dry_run, **stored)
    cleave.release("stays", new_lineage=True, yes=True, **store)
    for dry_run in (True, False):
        with pytest.warns(CleaveWarning, match=ends):
            cleave.delete("stays", "bill > 7", yes=True, dry_run=dry_run, **store)
    create_key(tmp_path / "new.json", None)
    said: list[str] = []
    cleave.rotate("stays", tmp_path / "new.json", say=said.append, **store)
    new = public_side(open_key(tmp_path / "new.json", None)).fingerprint
    assert said[-2] == f"the fingerprint of the new key is {new}"
    assert said[-1].startswith("send analysts (carol) the new fingerprint over another channel")


def test_an_analysts_identity_is_refused_as_a_key(parties: Parties) -> None:
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


def test_a_file_that_is_no_analysts_is_refused(parties: Parties) -> None:
    """The hint names what an analyst writes, not a contributor's public key."""
    for name in ("nobody.pub", "stays.csv", "key.json"):
        words = ["release", "new", "stays", "--to", name, *STORE, "--key", "key.json"]
        said = parties.at("west").fails(5, *words)
        assert ("must not leave its owner" if name == "key.json" else "`cleave analyst new`") in said


def test_an_owner_lists_and_revokes(parties: Parties) -> None:
    west, key = parties.at("west"), ("--key", "key.json")
    assert "carol" in west.run("release", "ls", "stays", *STORE, *key).stdout
    assert json.loads(west.run("release", "ls", "stays", *STORE, *key, "--json").stdout)["further_parts"]
    assert "sealed marks of the rows that were released" in west.run("show", "stays", *STORE, *key).stdout
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
    assert (made.made, made.number, made.cells, made.parts, made.waiting) == (False, 1, 2, 0, 1)
    for name in ("XDG_STATE_HOME", "HOME"):
        parties._monkeypatch.setenv(name, str(parties.root / "python"))
    parties.at("carol")
    where = {"store": "../store", "analyst": "carol.pem", "fingerprint": parties.fingerprint}
    answer = cleave.query("stays", SQL, **where)
    assert [row[:2] for row in answer.rows] == [("A", 5), ("B", 6)]
    with cleave.connect(None, **where) as connection:
        assert len(connection.execute(SQL).fetchall()) == 2
    parties.at("west")
    revoked = cleave.revoke("stays", "carol", store="../store", key="key.json")
    assert revoked is not None
    assert revoked.analysts == ()


def test_only_a_second_lineage_is_warned_of(parties: Parties) -> None:
    west, words = parties.at("west"), (*STORE, "--key", "key.json")
    west.run("put", "stays.csv", "--table", "again", "--by", "ward", *words)
    first = west.run("release", "new", "again", "--to", "../carol/carol.pem.pub", *words)
    assert "published: 2 parts" in first.stderr
    assert "lineage" not in first.stderr
    second = west.run("release", "new", "again", "--new-lineage", "--yes", *words)
    assert "a new lineage: differences of releases" in second.stderr


def test_a_page_is_approved_before_anything_is_released(parties: Parties) -> None:
    """Rule R7."""
    west, key = parties.at("west"), ("--key", "key.json")
    Path("more.csv").write_text(Path("stays.csv").read_text().splitlines()[0] + "\n" + "C,f,4.00\n" * 4)
    schema = ("--schema", "stays.schema.toml")
    assert west.run("put", "more.csv", "--table", "stays", "--append", *schema, *STORE, *key).exit_code == 0
    printed = west.run("release", "new", "stays", "--dry-run", *STORE, *key).stdout
    assert "ward = C, sex = f: 5 rows\n" in printed
    assert west.run("release", "new", "stays", "--dry-run", "--page", "page.md", *STORE, *key).exit_code == 0
    assert Path("page.md").read_text() == printed
    assert "already exists" in west.fails(3, "release", "new", "stays", "--dry-run", "--page", "page.md", *STORE, *key)
    assert "release 1 of" in west.run("release", "ls", "stays", *STORE, *key).stdout
    forged = printed.replace("at least 5 rows", "at least 50 rows")
    Path("forged.md").write_text(forged)
    assert "changed since" in west.fails(3, "release", "new", "stays", "--page", "forged.md", *STORE, *key)
    Path("page.md").write_text(printed.rstrip() + " J. Doe\n")
    result = west.run("release", "new", "stays", "--page", "page.md", *STORE, *key)
    assert result.exit_code == 0
    assert "published: 1 part of at least 5 rows" in result.stderr
    again = west.run("release", "new", "stays", "--page", "page.md", *STORE, *key)  # as after a lost answer
    assert (again.exit_code, "published: 1 part" in again.stderr) == (0, False)
    Path("more.csv").write_text(Path("stays.csv").read_text().splitlines()[0] + "\n" + "D,f,4.00\n" * 5)
    assert west.run("put", "more.csv", "--table", "stays", "--append", *schema, *STORE, *key).exit_code == 0
    assert "changed since" in west.fails(3, "release", "new", "stays", "--page", "page.md", *STORE, *key)
    carol = parties.at("carol").run("query", "stays", SQL, *STORE, "--analyst", "carol.pem", "--json")
    assert [row[:2] for row in json.loads(carol.stdout)["rows"]] == [["A", 5], ["B", 6], ["C", 5]]
