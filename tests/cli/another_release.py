"""Parties of one table, whose heads and files are rewritten as another release would have them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.key_file import open_key
from cleave.formats import FORMAT
from cleave.store.heads import Heads
from cleave_shared.version import VERSION as RELEASE
from tests.cli.runner import Cli
from tests.comparing import compared, fingerprint_of

SQL = "SELECT ward, SUM(bill) AS bill FROM t GROUP BY ward ORDER BY ward"
SCHEMA = """
[columns]
ward = { kind = "plain", type = "VARCHAR" }
age = { kind = "encrypted", type = "INTEGER", lower = 0, upper = 127 }
bill = { kind = "encrypted", type = "INTEGER", lower = 0, upper = 4000 }
died = { kind = "encrypted", type = "BOOLEAN" }
name = { kind = "sealed", type = "VARCHAR" }
"""
ROWS = "ward,age,bill,died,name\n" + "".join(
    f"{'AB'[n % 2]},{20 + n % 50},{n * 37 % 1000},{n % 3 == 0},p{n}\n".replace("True", "true").replace("False", "false")
    for n in range(24)
)
UNREADABLE = f"was written by release 4.1.0, and release {RELEASE} cannot read it"
UNWRITABLE = f"was written by release 3.9.0, and release {RELEASE} can read it but not change it"
HIGHER = {"written_by": "4.1.0", "lowest_reader": "4.0.0", "lowest_writer": "4.0.0"}
LATER = {"written_by": "3.9.0", "lowest_reader": "3.0.0", "lowest_writer": "3.8.0"}

# Commands over a table by what they do with it; those in NEITHER read no table.
READS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", SQL),
    "query": ("query", "t", SQL),
    "shell": ("shell", "t"),
    "fit": ("fit", "t", "bill ~ age"),
    "pca": ("pca", "t", "age,bill"),
    "survival": ("survival", "t", "--time", "age", "--event", "died"),
    "ls": ("ls",),
    "show": ("show", "t"),
    "log": ("log", "t"),
    "pull": ("pull", "t", "--force", "-o", "pulled.csv"),
    "verify": ("verify", "t"),
    "accept": ("accept", "t", "--version", "VERSION"),
    "key copy": ("key", "copy", "-o", "copy.json"),
    "release ls": ("release", "ls", "t"),
    "reader ls": ("reader", "ls", "t"),
    "contributor ls": ("contributor", "ls", "t"),
}
WRITES: dict[str, tuple[str, ...]] = {
    "put": ("put", "rows.csv", "--table", "t", "--replace"),
    "put --append": ("put", "rows.csv", "--table", "t", "--append"),
    "derive": ("derive", "t", "bill * 2", "--as", "twice"),
    "delete": ("delete", "t", "--where", "age > 60", "--yes"),
    "update": ("update", "t", "--set", "bill=1", "--where", "age > 60", "--yes"),
    "alter": ("alter", "t", "--widen", "age=0..500"),
    "compact": ("compact", "t"),
    "drop": ("drop", "t", "--yes"),
    "key export": ("key", "export", "--table", "t", "-o", "again.pub.json"),
    "key rotate": ("key", "rotate", "t", "--new-key", "new.json"),
    "scan add": ("scan", "add", "t"),
    "scan drop": ("scan", "drop", "t"),
    "release new": ("release", "new", "t"),
    "release revoke": ("release", "revoke", "t", "carol"),
    "reader add": ("reader", "add", "t", "--to", "dan.json.pub", "--columns", "ward", "--yes"),
    "reader revoke": ("reader", "revoke", "t", "dan"),
    "contributor add": ("contributor", "add", "t", "south", "--contributor-key", "north.pem.pub"),
    "contributor collect": ("contributor", "collect", "t"),
    "contributor clear": ("contributor", "clear", "t"),
    "contributor remove": ("contributor", "remove", "t", "north"),
}
DAN = ("--to", "dan.json.pub")
PARTIES: dict[str, tuple[str, ...]] = {
    "analyst accept": ("analyst", "accept", "t", "--release", "1", "--analyst", "carol.pem"),
    "reader accept": ("reader", "accept", "t", "--version", "VERSION", "--reader", "dan.json"),
}
KEYS: dict[str, tuple[str, ...]] = {  # they write the key file
    "key passphrase": ("key", "passphrase"),
    "key wrap": ("key", "wrap", "--passphrase"),
    "key unwrap": ("key", "unwrap", "passphrase"),
}
NEITHER = {
    *("schema", "config", "serve", "gateway", "key new", "key show", "key split", "key join", "key contributor"),
    *("analyst new", "reader new", "user add", "user ls", "user remove"),
}
UPGRADE = "upgrade Cleave to release 4.0.0 or later"


class World:
    """An owner, an analyst, a reader and a contributor in one folder, whose machine remembers what it saw."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cli = Cli(environment={"HOME": str(root), "XDG_STATE_HOME": str(root / "state")})
        self.cli.environment |= {"CLEAVE_STORE": str(root / "store"), "CLEAVE_KEY": str(root / "key.json")}

    def ok(self, *words: str) -> str:
        result = self.cli.run(*words)
        assert result.exit_code == 0, f"{words}\n{result.output}"
        return result.stdout

    def make(self) -> None:
        (self.root / "rows.csv").write_text(ROWS)
        (self.root / "rows.schema.toml").write_text(SCHEMA)
        for name in ("key.json", "new.json"):
            self.ok("key", "new", "--no-passphrase", "--key", name)
        self.ok("analyst", "new", "-o", "carol.pem")
        self.ok("reader", "new", "dan.json", "--no-passphrase")
        self.ok("key", "contributor", "-o", "north.pem")
        self.ok("put", "rows.csv", "--table", "t", "--by", "ward")
        self.ok("release", "new", "t", "--to", compared(self.root / "carol.pem.pub"))
        self.ok("contributor", "add", "t", "north", "--contributor-key", compared(self.root / "north.pem.pub"))
        self.ok("reader", "add", "t", "--to", compared(self.root / "dan.json.pub"), "--columns", "ward,bill", "--yes")
        self.ok("key", "export", "--table", "t", "-o", "owner.pub.json")
        self.contribute("--fingerprint", self.owner)
        self.query("--analyst", "carol.pem", "--fingerprint", self.owner)
        self.query("--reader", "dan.json", "--fingerprint", self.owner)

    @property
    def owner(self) -> str:
        return fingerprint_of(self.root / "owner.pub.json")

    def contribute(self, *more: str) -> None:
        self.ok(*self.contributing, "--again", *more)

    @property
    def contributing(self) -> tuple[str, ...]:
        return (
            "--quiet",
            "put",
            "rows.csv",
            "--table",
            "t",
            "--public-key",
            "owner.pub.json",
            "--identity",
            "north.pem",
        )

    def query(self, *who: str) -> str:
        """As somebody who has no key of the owner."""
        self.cli.environment["CLEAVE_KEY"] = None
        try:
            return self.ok("query", "t", SQL, *who)
        finally:
            self.cli.environment["CLEAVE_KEY"] = str(self.root / "key.json")

    def head(self, kind: str) -> Path:
        (path,) = (each for each in (self.root / "store").rglob("head") if kind in json.loads(each.read_text()))
        return path

    def words(self, *words: str) -> list[str]:
        return [self.version if each == "VERSION" else each for each in words]

    @property
    def version(self) -> str:
        return str(json.loads(self.head("cleave_table").read_text())["version"])

    def refused(self, sentence: str, hint: str, *words: str) -> None:
        """Check that a command ends with 3 and `sentence`, and reads no object but heads."""
        with opened_objects() as names:
            told = self.cli.fails(3, *self.words(*words))
        assert sentence in told, told
        assert "damaged" not in told
        assert told.splitlines()[-1] == f"hint: {hint}"
        assert names == []

    def state(self) -> dict[Path, bytes]:
        files = {path: path.read_bytes() for path in (self.root / "store").rglob("*") if path.is_file()}
        return {path: content for path, content in files.items() if path.name != ".lock"}


NAMES: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and NAMES and isinstance(arguments[0], str | bytes):
        name = os.fsdecode(arguments[0]).rpartition("/")[2]
        if re.fullmatch("[0-9a-f]{32}", name) and not arguments[2] & os.O_DIRECTORY:
            NAMES[-1].append(name)


@contextmanager
def opened_objects() -> Iterator[list[str]]:
    """Names of the objects that this process opens meanwhile: all objects but heads and drafts are named by ids."""
    if not hasattr(sys, "_notes_of_another_release"):
        sys.addaudithook(_note)
        sys._notes_of_another_release = True  # type: ignore[attr-defined]
    NAMES.append([])
    try:
        yield NAMES[-1]
    finally:
        NAMES.pop()


def higher(path: Path) -> None:
    """Give a file the format number after this release's."""
    content = json.loads(path.read_text())
    (kind,) = (name for name in content if name.startswith("cleave_"))
    path.write_text(json.dumps(content | {kind: FORMAT + 1, **HIGHER}))


def sign_table(world: World, **members: object) -> None:
    """Sign the table's head again, with other members."""
    path = world.head("cleave_table")
    head = json.loads(path.read_text())
    del head["signature"]
    heads = Heads.of_owner(open_key(world.root / "key.json", None), "here")
    path.write_bytes(heads.dump(path.parent.name, head | members))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Tests with this fixture change nothing that others read."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(tmp_path_factory.mktemp("world"))
        patch.chdir(world.root)
        world.make()
        yield world


@pytest.fixture
def world(made: World) -> Iterator[World]:
    """`made`, whose files are restored afterwards."""
    files = {path: path.read_bytes() for path in made.root.rglob("*") if path.is_file()}
    yield made
    for path in made.root.rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
