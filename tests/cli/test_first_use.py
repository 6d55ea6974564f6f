"""Public files are compared by a person before they receive anything: analysts' and contributors' alike."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave_shared.errors import KeyFileError
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.comparing import compared, fingerprint_of
from tests.samples import write_table


class Owner:
    def __init__(self, cli: Cli, root: Path) -> None:
        self.cli, self.root = cli, root
        self.place = ("--store", root / "store", "--key", root / "key.json")
        self.at("first")

    def at(self, machine: str) -> Cli:
        self.cli.environment["XDG_STATE_HOME"] = str(self.root / machine)
        return self.cli

    def make(self) -> None:
        write_table(self.root / "t.csv", "ward,age\n" + "a,1\n" * 6, ward="plain VARCHAR", age="encrypted BIGINT")
        create_key(self.root / "key.json", None)
        self.ok("put", self.root / "t.csv", "--table", "t", "--by", "ward", *self.place)
        for name in ("carol", "dave", "mallory"):
            self.ok("analyst", "new", "-o", self.root / f"{name}.pem")
            self.ok("key", "contributor", "-o", self.root / f"{name}.key")

    def ok(self, *words: object) -> str:
        done = self.cli.run(*words)
        assert done.exit_code == 0, done.output
        return done.stdout

    def release(self, to: object) -> list[object]:
        return ["release", "new", "t", "--to", to, *self.place]

    def add(self, name: str, file: object) -> list[object]:
        return ["contributor", "add", "t", name, "--contributor-key", file, *self.place]

    def state(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (self.root / "store").rglob("*") if path.is_file()}


@pytest.fixture
def owner(cli: Cli, prepared: Prepared) -> Iterator[Owner]:
    with prepared.used() as root:
        made = Owner(cli, root)
        prepared.bring("owner", made.make)
        yield made


def test_fingerprints_are_those_that_are_printed_and_that_openssl_finds(owner: Owner) -> None:
    said = owner.ok("analyst", "new", "-o", owner.root / "eve.pem")
    assert said == f"fingerprint {fingerprint_of(owner.root / 'eve.pem.pub')}\n"
    said = owner.ok("key", "contributor", "-o", owner.root / "eve.key")
    assert said.splitlines()[1] == f"fingerprint {fingerprint_of(owner.root / 'eve.key.pub')}"
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", owner.root / "eve.key.pub", "-outform", "DER"],
        capture_output=True,
        check=True,
    ).stdout
    digest = subprocess.run(
        ["openssl", "dgst", "-sha256", "-binary"], input=der, capture_output=True, check=True
    ).stdout
    assert said.splitlines()[1] == f"fingerprint SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


@pytest.mark.parametrize("role", ["analyst", "contributor"])
def test_the_first_use_of_a_key_names_its_fingerprint(role: str, owner: Owner) -> None:
    file = owner.root / ("carol.pem.pub" if role == "analyst" else "carol.key.pub")
    option = "--to" if role == "analyst" else "--contributor-key"

    def words(given: object) -> list[object]:
        return owner.release(given) if role == "analyst" else owner.add("carol", given)

    before = owner.state()
    told = owner.cli.fails(5, *words(file))
    assert told == (
        f"error: used here for the first time, and not compared: {file}: {fingerprint_of(file)}\n"
        "hint: compare the fingerprint with what its holder says over another channel, then repeat the command with "
        f"{option} {compared(file)}\n"
    )
    told = owner.cli.fails(5, *words(f"{file}={fingerprint_of(owner.root / 'mallory.pem.pub')}"))
    assert f"{file}: is another key: its fingerprint is {fingerprint_of(file)}" in told
    assert f"{file}: is another key" in owner.cli.fails(5, *words(f"{file}=SHA256:abc"))
    owner.cli.fails(5, *words(file))  # neither refusal made it known
    assert owner.state() == before
    owner.ok(*words(compared(file)))


def test_a_compared_key_is_known_on_that_machine(owner: Owner) -> None:
    carol, north = owner.root / "carol.pem.pub", owner.root / "dave.key.pub"
    owner.ok(*owner.release(compared(carol)))
    owner.ok("release", "revoke", "t", "carol", *owner.place)
    owner.ok(*owner.release(carol))
    owner.ok(*owner.add("north", compared(north)))
    owner.ok("contributor", "remove", "t", "north", *owner.place)
    owner.ok(*owner.add("again", north))
    # who may add rows was not compared as somebody who reads totals, and another machine compared nothing
    owner.ok("release", "revoke", "t", "carol", *owner.place)
    owner.at("second").fails(5, *owner.release(carol))


def test_an_exchanged_file_receives_nothing(owner: Owner) -> None:
    carol, mallory = owner.root / "carol.pem.pub", owner.root / "mallory.pem.pub"
    said = fingerprint_of(carol)
    owner.ok(*owner.release(f"{carol}={said}"))
    shutil.copyfile(mallory, carol)
    before = owner.state()
    assert fingerprint_of(mallory) in owner.cli.fails(5, *owner.release(carol))
    assert "is another key" in owner.cli.fails(5, *owner.release(f"{carol}={said}"))
    assert owner.state() == before


def test_an_analyst_of_the_table_needs_no_fingerprint(owner: Owner) -> None:
    """Scripts may name the analysts each time."""
    carol, dave = owner.root / "carol.pem.pub", owner.root / "dave.pem.pub"
    owner.ok(*owner.release(compared(carol)))
    owner.at("second")
    owner.ok(*owner.release(carol))
    told = owner.cli.fails(5, *owner.release(f"{carol},{dave}"))
    assert f"not compared: {dave}: {fingerprint_of(dave)}\n" in told
    assert told.endswith(f"--to {compared(carol)},{compared(dave)}\n")
    owner.ok(*owner.release(f"{carol},{compared(dave)}"))
    facts = json.loads(owner.ok("release", "ls", "t", "--json", *owner.place))
    assert [each["fingerprint"] for each in facts["analysts"]] == [fingerprint_of(carol), fingerprint_of(dave)]


def test_a_key_that_was_taken_as_the_tables_own_is_not_remembered(owner: Owner) -> None:
    carol = owner.root / "carol.pem.pub"
    owner.ok(*owner.release(compared(carol)))
    owner.at("second")
    owner.ok(*owner.release(carol))
    owner.ok("release", "revoke", "t", "carol", *owner.place)
    assert "not compared" in owner.cli.fails(5, *owner.release(carol))


def test_python_takes_the_same(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(owner.root / "python"))
    place = {"store": owner.root / "store", "key": owner.root / "key.json"}
    carol, dave = owner.root / "carol.pem.pub", owner.root / "dave.pem.pub"
    with pytest.raises(KeyFileError, match="used here for the first time"):
        cleave.release("t", to=carol, **place)
    assert cleave.release("t", to=[compared(carol), compared(dave)], **place).analysts == ("carol", "dave")
    assert cleave.release("t", to=[carol], **place).analysts == ("carol", "dave")


@pytest.mark.parametrize("name", ["a=b.pub", "two words.pub", "ünï.pub", "x=SHA512:y.pub"])
def test_files_of_any_name_are_compared(name: str, owner: Owner) -> None:
    shutil.copyfile(owner.root / "carol.pem.pub", file := owner.root / name)
    hint = owner.cli.fails(5, *owner.release(file)).splitlines()[1]
    repeated = subprocess.run(["sh", "-c", f"printf %s {hint.partition(' --to ')[2]}"], capture_output=True, check=True)
    owner.ok(*owner.release(repeated.stdout.decode()))
