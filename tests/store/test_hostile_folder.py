"""A folder store whose other writers are hostile: every command that reads or deletes refuses links, pipes and sizes.

One table is put once and copied for each attack. Outside the store lies the owner's key file, the canary: no command
changes it, nor is its content ever in the store.
"""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key
from cleave.objects.storage import ForeignError
from cleave.store.contribution import folder_of, names_of
from cleave.store.manifest import Object
from cleave_shared.errors import CheckFailed
from tests.cli.runner import Cli, cli
from tests.store.contributing import HEADER, World
from tests.store.test_contributors import NORTH, OWN

__all__ = ["cli"]
SQL = "SELECT ward, SUM(age) FROM trial GROUP BY ward"
COMMANDS = {
    "ls": ["ls"],
    "show": ["show", "trial"],
    "query": ["query", "trial", SQL],
    "plan": ["plan", "trial", SQL],
    "pull": ["pull", "trial", "-o", "{root}/pulled.csv"],
    "verify": ["verify", "trial"],
    "derive": ["derive", "trial", "age * 2", "--as", "twice"],
    "collect": ["contributor", "collect", "trial"],
    "rotate": ["key", "rotate", "trial", "--new-key", "{new}"],
    "append": ["put", "{root}/rows.csv", "--schema", "{root}/schema.toml", "--table", "trial", "--append"],
    "put": ["put", "{root}/rows.csv", "--schema", "{root}/schema.toml", "--table", "trial", "--by", "", "--replace"],
    "drop": ["drop", "trial", "--yes"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> World:
    """A table, and a part that waits to be collected."""
    world = World(tmp_path_factory.mktemp("hostile folder") / "world", key_file)
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    (world.root / "rows.csv").write_text(HEADER + OWN)
    create_key(world.root.parent / "new.json", None)
    return world


class Attacked:
    """A copy of the store, with the canary beside it."""

    def __init__(self, world: World, root: Path) -> None:
        self.world = world.copy(root / "copy")
        self.new = world.root.parent / "new.json"
        self.canary = root / "owners" / "key.json"
        self.canary.parent.mkdir()
        shutil.copy(world.key_file, self.canary)
        self.secret = self.canary.read_bytes()

    @property
    def head(self) -> Path:
        return self.world.root / "s" / self.world.tables()[0].folder("trial") / "head"

    def run(self, cli: Cli, command: str) -> tuple[int, str]:
        root = self.world.root
        words = [word.format(root=root, new=self.new) for word in COMMANDS[command]]
        options = ["--store", f"{root / 's'},{root / 'p'}", "--key", str(self.world.key_file)]
        result = cli.run(*words, *options)
        assert self.canary.read_bytes() == self.secret, command
        for path in (each for half in "sp" for each in (root / half).rglob("*")):
            if path.is_file() and not path.samefile(self.canary) and path.stat().st_size < 1 << 20:
                assert path.read_bytes() != self.secret, f"{command}: the key is in the store"
        return result.exit_code, result.stderr


@pytest.fixture
def attacked(made: World, tmp_path: Path) -> Attacked:
    return Attacked(made, tmp_path)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _linked_folder(attacked: Attacked, path: Path) -> None:
    """As it was, but for being outside: a command that follows the link finds nothing amiss."""
    outside = attacked.canary.parent / "folder"
    path.rename(outside)
    path.symlink_to(outside)


def _device(_: Attacked, path: Path) -> None:
    path.unlink()
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero has no end
    except PermissionError:
        path.symlink_to("/dev/zero")


def _replaced(by: Callable[[Attacked, Path], object]) -> Callable[[Attacked, Path], object]:
    def replace(attacked: Attacked, path: Path) -> None:
        path.unlink()
        by(attacked, path)

    return replace


ATTACKS: dict[str, tuple[str, Callable[[Attacked, Path], object]]] = {
    "a link": ("/head is a symbolic link", _replaced(lambda attacked, path: path.symlink_to(attacked.canary))),
    "a pipe": ("/head is a pipe", _replaced(lambda _, path: os.mkfifo(path))),
    "a device": ("/head is a ", _device),
    "sparse": ("/head has more than the 1,048,576 bytes", lambda _, path: os.truncate(path, 6 << 30)),
    "a linked folder": (" is a symbolic link", lambda attacked, path: _linked_folder(attacked, path.parent)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_command_refuses_a_store_that_holds(cli: Cli, attacked: Attacked, attack: str) -> None:
    match, harm = ATTACKS[attack]
    harm(attacked, attacked.head)
    before = sorted(each for each in attacked.canary.parent.rglob("*"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for command in COMMANDS:
        code, told = attacked.run(cli, command)
        if attack == "sparse" and command == "drop":  # which reads no head: it deletes this one
            continue
        assert code == 7, (command, told)
        assert match in told, command
        assert told.splitlines()[-1].startswith("hint: "), command
    assert sorted(each for each in attacked.canary.parent.rglob("*")) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 2 << 20, "KiB: the 6 GB were read"


def test_folders_of_contributors_are_not_followed_by_drop(cli: Cli, attacked: Attacked) -> None:
    """Nor is a folder of the other half."""
    table = attacked.world.tables()[0].folder("trial")
    manifest = attacked.world.open().manifest
    theirs = folder_of(manifest.table_id, attacked.world.identity("north").public)
    for place in (f"s/{theirs}", f"p/{theirs}", f"p/{table}"):
        link = attacked.world.root / place
        link.parent.mkdir(exist_ok=True)
        aside = link.rename(link.with_name("aside")) if link.exists() else None
        link.symlink_to(attacked.canary.parent)
        code, told = attacked.run(cli, "drop")
        assert code == 7, told
        assert f"{place[2:]} is a symbolic link" in told
        assert attacked.head.exists(), "nothing is dropped by halves"
        link.unlink()
        if aside:
            aside.rename(link)


def _hard_link(attacked: Attacked, path: Path) -> None:
    os.link(attacked.canary, path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("of", ["manifest", "column"])
@pytest.mark.parametrize("by", [lambda a, path: path.symlink_to(a.canary), lambda _, path: os.mkfifo(path), _hard_link])
def test_collect_takes_nothing_of_an_object_that_is_not_the_contributors(
    cli: Cli, attacked: Attacked, by: Callable[[Attacked, Path], object], of: str
) -> None:
    world = attacked.world
    head, _ = world.contributions("north").head()
    assert head is not None
    (entry,) = head.parts
    named = names_of(entry, world.sensitive().read(entry.names.name))
    path = world.root / "s" / (entry.manifest.name if of == "manifest" else named[0])
    own = world.root / "p" / world.tables()[0].folder("trial")
    before = set(own.iterdir())
    _replaced(by)(attacked, path)
    code, told = attacked.run(cli, "collect")
    assert (code, "contributor 'north'" in told) == (7, True), told
    assert set(own.iterdir()) == before
    assert world.open().manifest.rows == OWN.count("\n")


def test_a_bit_that_flips_on_the_way_is_read_once_more(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every kind of object, and refused where it stays flipped."""
    tables, stores = attacked.world.tables()
    opened = tables.open("trial")
    real = type(stores.sensitive).read
    flips: Iterator[bool] = iter(())

    def flipped(self: object, *given: object, **named: object) -> bytes:
        content = bytearray(real(self, *given, **named))  # type: ignore[arg-type]
        if next(flips, False):
            content[len(content) // 2] ^= 1
        return bytes(content)

    monkeypatch.setattr(type(stores.sensitive), "read", flipped)
    objects = [*opened.manifest.cells, opened.manifest.segments[0].columns[0].object]
    assert all(isinstance(each, Object) for each in objects)
    for read in (lambda: tables.open("trial"), *(lambda each=each: tables.read(each) for each in objects)):
        flips = iter([True])
        read()
        flips = iter([True, True])
        with pytest.raises(CheckFailed, match="damaged"):
            read()


def test_no_more_of_an_object_is_read_than_its_manifest_states(attacked: Attacked) -> None:
    tables, _ = attacked.world.tables()
    (cells,) = tables.open("trial").manifest.cells
    os.truncate(attacked.world.root / "s" / cells.name, 6 << 30)
    with pytest.raises(ForeignError, match=f"{cells.name} has more than the {cells.bytes} bytes"):
        tables.read(cells)


def test_a_store_that_hangs_ends_with_the_timeout(
    cli: Cli, attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One option for ls, show, collect, verify and drop, as for query."""
    over = threading.Event()
    for name in ("read", "read_versioned", "names"):
        monkeypatch.setattr(f"cleave.objects.locate.Folder.{name}", lambda *_, **__: over.wait(600))
    for command in ("ls", "show", "collect", "verify", "drop"):
        monkeypatch.setitem(COMMANDS, command, [*COMMANDS[command], "--timeout", "0.05"])
        code, told = attacked.run(cli, command)
        assert code == 6, told
        assert "the command was not done within the 0.05 seconds it was given" in told
    over.set()
