"""Contributors from the command line; docs/contributors.md is run as it stands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleave.ckks.public_key import read_public_key
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.store.conftest import BUCKET, aws_environment, s3_endpoint

__all__ = ["s3_endpoint"]

PAGE = (Path(__file__).parents[2] / "docs" / "contributors.md").read_text()


def blocks_of(page: str) -> list[tuple[str, str, str]]:
    """Files and commands of a page: kind, place and text of each block."""
    return re.findall(r"^```(text|console) (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


class Parties:
    """Folders of the parties of a page, each with what only that party has."""

    def __init__(self, cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch, page: str = PAGE) -> None:
        self.page = page
        self.cli = cli
        self.prepared = prepared
        self.root = prepared.root
        self.fingerprint = ""  # of the owner's key, once it is exported
        self.said: dict[str, str] = {}  # by others than the owner: the fingerprints of their keys
        self._monkeypatch = monkeypatch

    def at(self, party: str) -> Cli:
        folder = self.root / party
        folder.mkdir(exist_ok=True)
        self._monkeypatch.chdir(folder)
        self.cli.environment |= {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
        return self.cli

    def ends_in_time(self, party: str, *words: str) -> None:
        """Check that a command whose store hangs ends with its timeout."""
        over = threading.Event()
        with self._monkeypatch.context() as patch:
            for name in ("read", "read_versioned", "names"):
                patch.setattr(f"cleave.objects.locate.Folder.{name}", lambda *_, **__: over.wait(600))
            result = self.at(party).run(*words, "--timeout", "0.05")
            over.set()
        assert result.exit_code == 6, result.output
        assert "the command was not done within the 0.05 seconds it was given" in result.stderr

    def run(self, party: str, line: str) -> str:
        result = self.at(party).run(*self.words(line)[1:])
        assert result.exit_code == 0, f"{party}: {line}\n{result.output}"
        says = any(each in line for each in ("key export", "release new", "reader add"))
        if new := re.search(
            r"SHA256:[A-Za-z0-9+/]+", result.stdout if " new " in line or "key contributor" in line else ""
        ):
            self.said[party.upper()] = new[0]
        if exported := re.search(r"SHA256:[A-Za-z0-9+/]+(@\d+)?", result.stdout if says else ""):
            self.fingerprint = exported[0]
        return result.stdout

    def words(self, line: str) -> list[str]:
        """The words of a line, `$FINGERPRINT` being what the owner says over another channel."""
        words = shlex.split(line)
        if "$FINGERPRINT" in words:
            words[words.index("$FINGERPRINT")] = read_public_key(self.root / "west/west.pub.json").fingerprint
        return words

    def play(self, until: str | None = None) -> None:
        """The page's blocks in order, as far as the command that begins with `until`; once, and then copied."""
        self.fingerprint = self.prepared.bring(f"until {until}", lambda: self.follow(until))

    def follow(self, until: str | None = None, store: str = "../store") -> str:
        """The same at each call. Returns the fingerprint of the owner's key."""
        for kind, where, text in blocks_of(self.page):
            if kind == "text":
                (self.root / where).parent.mkdir(exist_ok=True)
                (self.root / where).write_text(text)
                continue
            for part in text.removeprefix("$ ").split("\n$ "):
                line, _, shown = part.partition("\n")
                if until is not None and line.startswith(until):
                    return self.fingerprint
                line = re.sub(r"\$([A-Z]+)", lambda name: self.said.get(name[1], name[0]), line)
                printed = self.run(where, line.replace("../store", store).replace("$FINGERPRINT", self.fingerprint))
                if shown:
                    assert printed.strip() == shown.strip(), line
        return self.fingerprint


@pytest.fixture
def parties(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    with prepared.used():
        yield Parties(cli, prepared, monkeypatch)
        monkeypatch.undo()  # out of the folder


WEST = "--store ../store --key key.json"
PUT = "put rows.csv --public-key ../west/west.pub.json --identity contributor.pem --table stays --store ../store"


def test_three_hospitals_put_rows_in_one_table(parties: Parties) -> None:
    assert len(blocks_of(PAGE)) == 12
    parties.play()
    shown = parties.run("west", f"cleave show stays {WEST}")
    assert re.search(r"north +[0-9a-f]{16}\.\.\. +\S+ +4", shown)
    assert "contributors' public keys, and the sizes of what each put" in shown
    facts = json.loads(parties.run("west", f"cleave contributor ls stays --json {WEST}"))
    assert [(each["name"], each["rows"], each["waiting"]) for each in facts] == [("north", 4, 0), ("south", 3, 0)]
    assert "as it was written" in parties.run("west", f"cleave verify stays {WEST}")
    parties.run("west", f"cleave pull stays --contributor south -o south.csv {WEST}")
    assert (parties.root / "west/south.csv").read_text() == (parties.root / "south/rows.csv").read_text()
    asked = parties.at("west").run(*_query("SELECT ward, COUNT(*) FROM stays GROUP BY ward"))
    assert "3 groups of fewer than 5 rows not shown" in asked.stderr


def _query(sql: str, *words: str) -> list[str]:
    return ["query", "stays", sql, *words, *WEST.split()]


def test_a_contributor_waits_no_longer_than_the_timeout(parties: Parties) -> None:
    parties.play("cleave put rows.csv --public-key")
    parties.ends_in_time("north", *parties.words(f"{PUT} --fingerprint $FINGERPRINT"))


def test_what_a_contributor_is_told(parties: Parties) -> None:
    parties.play("cleave contributor collect")
    told = parties.at("north").run(*PUT.split(), "--again").stderr
    assert "plain: ward; sealed: sex; encrypted: age, bill" in told
    assert "version 2 of contributor" in told
    fingerprint = re.search(r"SHA256:\S+", told.replace(",", " "))
    assert fingerprint is not None
    exported = parties.at("west").run("key", "export", *["--key", "key.json", "-o", "bare.json"]).stdout
    assert f"fingerprint {fingerprint[0]}" in exported
    right = parties.at("north").run(*PUT.split(), "--fingerprint", fingerprint[0])
    assert right.exit_code == 0
    assert "put as version" not in right.stderr
    assert re.search(r"nothing put: version 2 of contributor \S+ has the \d+ rows;", right.stderr)
    wrong = parties.at("north").fails(5, *PUT.split(), "--fingerprint", fingerprint[0][:-1] + "x")
    assert "another owner's key" in wrong
    assert "exported for no table" in parties.at("north").fails(5, *PUT.replace("west.pub.json", "bare.json").split())
    assert "exported for table 'stays'" in parties.at("north").fails(3, *PUT.replace("stays", "other").split())
    assert "others on this machine" in _with_mode(parties, 0o644)


def _with_mode(parties: Parties, mode: int) -> str:
    (parties.root / "north/contributor.pem").chmod(mode)
    try:
        return parties.at("north").fails(5, *PUT.split())
    finally:
        (parties.root / "north/contributor.pem").chmod(0o600)


@pytest.mark.parametrize("words", ["--append", "--by ward", "--scan"])
@pytest.mark.sampled(4)
def test_what_the_owner_settled_is_no_contributors_choice(parties: Parties, words: str) -> None:
    parties.play("cleave contributor collect")
    assert parties.at("north").run(*PUT.split(), *words.split()).exit_code == 2


def test_wrong_uses_of_contributors_are_refused(parties: Parties) -> None:
    parties.play("cleave contributor collect")
    west = parties.at("west")
    assert west.run("put", "rows.csv", "--table", "t", "--fingerprint", "x", *WEST.split()).exit_code == 2
    assert west.run("key", "export", "--table", "stays", "--key", "key.json", "-o", "x").exit_code == 2
    assert "no contributor 'east'" in parties.at("west").fails(
        3, *f"pull stays -o east.csv --contributor east {WEST}".split()
    )
    shown = parties.at("west").run("shell", *WEST.split(), typed="DESCRIBE stays;\n").stdout
    assert "contributor" in shown
    assert "contributor" in parties.at("west").run("show", "stays", *WEST.split()).stdout.split("version")[1]
    assert "not a contributor's public key" in parties.at("west").fails(
        5, *f"contributor add stays x --contributor-key ../north/contributor.pem {WEST}".split()
    )
    assert "already exists" in parties.at("north").fails(5, "key", "contributor", "-o", "contributor.pem")


def test_another_ones_signature_is_an_error(parties: Parties) -> None:
    """North puts south's head in the place of its own, and the other way round."""
    parties.play("cleave contributor collect")
    heads = sorted((parties.root / "store").rglob("head"), key=lambda path: path.stat().st_mtime)
    assert len(heads) == 3
    shutil.copy(heads[1], heads[2])
    told = parties.at("west").fails(7, *f"contributor collect stays {WEST}".split())
    assert re.match(r"error: contributor '(north|south)': .*not signed", told)
    assert "0 parts" not in told
    rows = {"north": 7 + 3, "south": 7 + 4}[told.split("'")[1]]  # the other one's are taken in
    assert f" {rows} rows" in parties.run("west", f"cleave show stays {WEST}")
    verified = parties.at("west").run(*f"verify stays {WEST}".split())
    assert verified.exit_code == 7
    assert re.search(r"the head of a contribution: contributor '(north|south)': .*not signed", verified.stdout)


def test_rows_go_with_their_contributor(parties: Parties) -> None:
    parties.play()
    parties.run("west", f"cleave contributor remove stays north {WEST}")
    assert "10 rows" in parties.run("west", f"cleave show stays {WEST}")
    parties.run("west", f"cleave contributor remove stays south {WEST}")
    assert "7 rows" in parties.run("west", f"cleave show stays {WEST}")
    assert "no contributors" in parties.run("west", f"cleave contributor ls stays {WEST}")
    parties.run("west", f"cleave drop stays --yes {WEST}")


@pytest.mark.slow  # quick: tests/store/test_rotate.py
def test_a_rotation_keeps_contributors(parties: Parties) -> None:
    parties.play()
    parties.run("west", "cleave key new --key new.json --no-passphrase")
    rotate = f"key rotate stays --new-key new.json {WEST}".split()
    said = parties.at("west").run(*rotate).stderr
    assert "already exists" not in said
    new = "--store ../store --key new.json"
    shown = parties.run("west", f"cleave show stays {new}")
    assert "14 rows" in shown
    assert "rotate" in parties.run("west", f"cleave log stays {new}")
    assert "as it was written" in parties.run("west", f"cleave verify stays {new}")
    assert "under another key now" in parties.at("west").fails(3, *f"show stays {WEST}".split())
    assert parties.at("west").run(*rotate).exit_code == 0, "said twice it is done"
    assert "no such key file" in parties.at("west").fails(5, *f"key rotate stays --new-key none.json {WEST}".split())
    # contributors go on with the new public key; the old one leads nowhere
    parties.run("west", f"cleave key export --table stays {new} -o new.pub.json")
    again = PUT.replace("west.pub.json", "new.pub.json").split()
    assert "used here for the first time" in parties.at("north").fails(5, *again)
    fingerprint = read_public_key(parties.root / "west/new.pub.json").fingerprint
    assert f"the fingerprint of the new key is {fingerprint}" in said
    assert "send contributors (north, south) a new public file" in said
    assert parties.at("north").run(*again, "--fingerprint", fingerprint).exit_code == 0
    parties.run("west", f"cleave contributor collect stays {new}")
    assert "18 rows" in parties.run("west", f"cleave show stays {new}")
    parties.run("west", f"cleave drop stays --yes {WEST}")
    assert "18 rows" in parties.run("west", f"cleave show stays {new}")


@pytest.mark.slow
def test_contributions_go_through_a_bucket(parties: Parties, s3_endpoint: str) -> None:
    parties.cli.environment |= aws_environment(s3_endpoint)
    store = f"s3://{BUCKET}/shared/sensitive,s3://{BUCKET}/shared/plain"
    parties.follow(store=store)
    parties.run("west", "cleave key new --key new.json --no-passphrase")
    parties.run("west", f"cleave key rotate stays --new-key new.json --key key.json --store {store}")
    assert "14 rows" in parties.run("west", f"cleave show stays --key new.json --store {store}")
    assert "as it was written" in parties.run("west", f"cleave verify stays --key new.json --store {store}")
