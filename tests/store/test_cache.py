"""The local cache: what was read of a store elsewhere is not fetched again, and nothing in it is believed unchecked."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.local.embedded import embedded_services
from cleave.maintain.changes import delete_rows as delete
from cleave.objects.cache import Cache, open_cache
from cleave.objects.locate import Bounded, Folder, Stores
from cleave.store import cells as of_cells
from cleave.store import reading, rows, sealed
from cleave.store.dropping import drop
from cleave.store.pages import pages_of
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.conftest import no_passphrase
from tests.store.made import filled
from tests.store.trial import World

BLOCK = 64
QUESTION = "SELECT p, median(n) AS n FROM t GROUP BY p ORDER BY p"
SCHEMA = """[csv]
delimiter = ","
quote = '"'
encoding = "utf-8"
header = true
decimal = "."
[columns.p]
kind = "plain"
type = "VARCHAR"
[columns.n]
kind = "encrypted"
type = "INTEGER"
nullable = false
"""


class Elsewhere(Folder):
    """A folder that says it is a bucket."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.location = f"s3://made{root}"


class Cached(World):
    """A table of plain and sealed columns in a store elsewhere; by p, so that conditions on p choose blocks."""

    def __init__(self, root: Path, key: OwnerKey, key_file: Path, made: Path | None = None) -> None:
        """`made`: folder of another whose store is copied."""
        super().__init__(Bounded(Elsewhere(root / "store")), key, root, name="t")
        self.tables = Tables(self.stores, key, self.memory, Cache(root / "cache", used=False))
        self.key_file, self.folder = key_file, root / "cache" / "cleave" / "objects"
        (root / "t.schema.toml").write_text(SCHEMA)
        if made is None:
            self.fill()
        else:
            shutil.copytree(made / "store", root / "store")
            self.tables.open("t")  # so that it is remembered

    def fill(self, last: int = 400, **options: bool) -> None:
        lines = [f"p{i % 3},{i}" for i in range(last)]
        (self.root / "t.csv").write_text("p,n\n" + "\n".join(lines) + "\n")
        self.write(of_files([self.root / "t.csv"], name="t"), "p", **options)

    def asked(self, sql: str = QUESTION, *, cache: bool = True) -> tuple[list[list[object]], int]:
        """The answer, and how many objects of the store were read for it."""
        with self.session(self.key_file, cache=cache) as session:
            answer = session.ask(session.plan(sql))
        read = answer.usage.objects_read
        assert read is not None
        return answer.result.rows, read

    def entries(self) -> list[Path]:
        return sorted(each for each in self.folder.rglob("*") if not each.is_dir())


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in (of_cells, reading, rows, sealed):
        monkeypatch.setattr(module, "BLOCK_ROWS", BLOCK)
    made = filled(("cache", key.key_id), lambda it: Cached(it, key, key_file))
    return Cached(tmp_path, key, key_file, made)


def test_what_was_read_is_not_read_again(world: Cached) -> None:
    first, read = world.asked()
    assert first == [["p0", 199.5], ["p1", 199.0], ["p2", 200.0]]
    assert read > 3
    assert world.asked() == (first, 0)  # the head alone, which is not counted and never cached
    assert world.asked(cache=False) == (first, read)


def test_blocks_of_another_question_are_taken_from_it(world: Cached) -> None:
    world.asked(QUESTION.replace("GROUP", "WHERE p = 'p1' GROUP"))
    rows, read = world.asked()
    assert len(rows) == 3
    assert 0 < read < world.asked(cache=False)[1]


def test_nothing_is_kept_where_it_is_not_wanted_or_no_gain(world: Cached, key_file: Path) -> None:
    world.asked(cache=False)
    assert not world.entries()
    folder = Stores(Folder(world.root / "store"), Folder(world.root / "store"))
    access = Access(key_file, no_passphrase)
    seen = SeenVersions(world.root / "other.json")
    with Session(StoredSource("t", folder, access, memory=seen, embedded=embedded_services)) as session:
        session.ask(session.plan(QUESTION))
    assert not world.entries()


def test_nothing_in_it_is_plain(world: Cached) -> None:
    world.asked()
    (plain,) = [each for each in (world.root / "store").rglob("*") if each.is_file() and b"PAR1" in each.read_bytes()]
    cached = [each for each in world.entries() if each.name.startswith(plain.name)]
    assert cached
    assert all(b"PAR1" not in each.read_bytes() for each in world.entries())
    names = [each.relative_to(world.folder).as_posix() for each in world.entries()]
    assert all(len(name.split("/")[0]) == 32 and "t.csv" not in name for name in names)


def test_only_the_owner_may_read_the_cache(world: Cached) -> None:
    world.asked()
    assert {stat.S_IMODE(each.stat().st_mode) for each in world.entries()} == {0o600}
    for folder in (world.folder, world.folder.parent, *(each for each in world.folder.iterdir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def flip(entry: Path) -> None:
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)


def cut(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:-1])


def grow(entry: Path) -> None:
    with entry.open("ab") as file:
        file.truncate(1 << 40)


def link(entry: Path) -> None:
    away = entry.with_name("away")
    entry.rename(away)
    entry.symlink_to(away)


def pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def exchange(entry: Path) -> None:
    """With another block of the same column, where there is one."""
    name, _, block = entry.name.partition("-")
    other = entry.with_name(f"{name}-{int(block) ^ 1}") if block.isdigit() else entry
    if other.exists():
        content, there = entry.read_bytes(), other.read_bytes()
        other.write_bytes(content)
        entry.write_bytes(there)


@pytest.mark.parametrize("harm", [flip, cut, grow, link, pipe, exchange], ids=lambda harm: harm.__name__)
@pytest.mark.sampled(3)
def test_an_entry_that_is_harmed_is_as_good_as_none(world: Cached, harm: Callable[[Path], None]) -> None:
    first, read = world.asked()
    for entry in world.entries():
        if not entry.name.endswith(("-1", "-3", "-5", "-version")):  # the other of two that are exchanged; empty
            harm(entry)
    again, reread = world.asked()
    assert again == first
    assert 0 < reread <= 2 * read  # a range whose blocks were exchanged is read in parts
    assert world.asked() == (first, 0)  # what was harmed was replaced


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["cleave", "cleave/objects"])
def test_no_link_is_followed_on_the_way(world: Cached, place: str) -> None:
    first, read = world.asked()
    elsewhere = world.root / "elsewhere"
    (world.root / "cache" / place).rename(elsewhere)
    (world.root / "cache" / place).symlink_to(elsewhere)
    assert world.asked() == (first, read)


def test_a_folder_that_others_may_read_is_not_used(world: Cached) -> None:
    first, read = world.asked()
    world.folder.chmod(0o750)
    assert world.asked() == (first, read)


def test_a_newer_version_evicts_what_it_does_not_name(world: Cached) -> None:
    world.asked()
    tables = world.tables
    before = {each.name.partition("-")[0] for each in world.entries()}
    world.fill(append=True)
    world.asked(cache=False)  # also where it is not used
    named = {each.rpartition("/")[2] for each in tables.open("t").manifest.objects()}
    left = {each.name.partition("-")[0] for each in world.entries()}
    assert left
    assert left < before
    assert left <= named


@pytest.mark.slow  # quick: the test above, and test_pages.py
def test_pages_that_stay_are_not_read_for_a_newer_version(world: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by who makes it nor by others; what it does not name is evicted. Of a deletion, one page is new."""
    monkeypatch.setattr("cleave.store.compacting.MOST_SMALL", 1000)
    cache = world.root / "cache"

    def fresh() -> Tables:
        return Tables(world.stores, world.key, world.memory, Cache(cache))

    def entries() -> set[str]:
        return {each.name.partition("-")[0] for each in world.entries()}

    for _ in range(5):
        world.fill(8, append=True)
    before = fresh().open("t")
    assert len(list(before.manifest.segments)) == 6
    pages = [name.rpartition("/")[2] for name in pages_of(before.manifest)]
    assert {*pages, before.head.manifest.name[-32:]} <= entries()
    for make in (lambda: world.fill(8, append=True), lambda: delete(world.tables, "t", "n > 100", Silent(), yes=True)):
        world.tables = fresh()
        make()
        opened, old = fresh().open("t"), pages
        opened.manifest.segments.read()
        pages = [name.rpartition("/")[2] for name in pages_of(opened.manifest)]
        assert {*pages} & {*old}
        left = entries()
        assert {*pages} <= left
        assert not {*old} - {*pages} & left
        assert left <= {each.rpartition("/")[2] for each in (*opened.manifest.objects(), opened.head.manifest.name)}
        tables = fresh()
        tables.open("t").manifest.segments.read()
        assert tables.objects_read == 0, "all is in the cache"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cache", [True, False])
def test_rows_of_a_version_that_is_gone(world: Cached, key_file: Path, cache: bool) -> None:
    """The table is replaced between a plan and its answer: it is answered over the newer version."""
    access = Access(key_file, no_passphrase)
    given = {"memory": world.memory, "embedded": embedded_services, "cache": cache}
    with Session(StoredSource("t", world.stores, access, **given)) as session:
        plan = session.plan(QUESTION)
        world.fill(40, replace=True)
        assert session.ask(plan).result.rows == [["p0", 19.5], ["p1", 19.0], ["p2", 20.0]]


def test_what_an_older_version_writes_late_is_deleted(world: Cached) -> None:
    """A process that still reads the version before writes an entry after another has opened the newer one."""
    old = Cache(world.root / "cache")
    table = "0" * 32
    old.put(table, "a-all", b"manifest")
    old.open_version(table, "a", names={"a", "b"})
    old.put(table, "b-0", b"kept")
    assert {each.name for each in world.entries()} == {"a-all", "a-version", "b-0"}
    new = Cache(world.root / "cache")
    new.open_version(table, "c", names={"c"})
    assert [each.name for each in world.entries()] == ["c-version"]
    old.put(table, "b-1", b"late")
    assert [each.name for each in world.entries()] == ["c-version"]


def test_a_dropped_table_is_evicted(world: Cached) -> None:
    world.asked()
    assert world.entries()
    drop(world.tables, "t")
    assert not world.entries()


def test_entries_used_least_recently_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1000)
    for number in range(10):
        cache.put("0" * 32, f"{number}-0", bytes(100))
        os.utime(tmp_path / "cleave/objects" / ("0" * 32) / f"{number}-0", ns=(number, number))
    assert cache.get("0" * 32, "0-0", 100) == bytes(100)
    cache.put("0" * 32, "10-0", bytes(250))
    cache.close()
    left = sorted(int(each.name.partition("-")[0]) for each in tmp_path.rglob("*-0"))
    assert left == [0, 4, 5, 6, 7, 8, 9, 10]
    assert sum(each.stat().st_size for each in tmp_path.rglob("*-0")) <= 1000


def test_the_limit_is_held_while_it_is_filled(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1000)
    for number in range(100):
        cache.put("0" * 32, f"{number}-0", bytes(100))
        assert sum(each.stat().st_size for each in tmp_path.rglob("*-0")) <= 1050
    cache.put("0" * 32, "large-0", bytes(1001))
    assert cache.get("0" * 32, "large-0", 2000) is None


def test_the_limit_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CLEAVE_CACHE_LIMIT", "0")
    cache = open_cache(used=True)
    cache.put("0" * 32, "a-0", b"content")
    assert cache.get("0" * 32, "a-0", 100) is None
    monkeypatch.setenv("CLEAVE_CACHE_LIMIT", "much")
    with pytest.raises(InputError, match="CLEAVE_CACHE_LIMIT"):
        open_cache(used=True)


WORK = """
import sys
from pathlib import Path
from cleave.objects.cache import Cache
cache = Cache(Path(sys.argv[1]), limit=20_000)
for number in range(150):
    entry = f"{number % 40}-0"
    cache.put("0" * 32, entry, bytes([number % 40]) * 1000)
    found = cache.get("0" * 32, entry, 1000)
    assert found is None or found == bytes([number % 40]) * 1000
    if number % 50 == 49:
        cache.evict("0" * 32)
cache.close()
"""


def test_processes_at_the_same_time(tmp_path: Path) -> None:
    """An entry is whole or not there, whoever writes, trims and evicts."""
    running = [subprocess.Popen([sys.executable, "-c", WORK, str(tmp_path)]) for _ in range(2)]
    assert [each.wait(100) for each in running] == [0, 0]
    assert not list(tmp_path.rglob("*-draft-*"))


def test_threads_at_the_same_time(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    faults: list[bool] = []

    def work() -> None:
        for number in range(50):
            cache.put("0" * 32, f"{number}-0", bytes([number]) * 1000)
            faults.append(cache.get("0" * 32, f"{number}-0", 1000) not in (None, bytes([number]) * 1000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(faults) == 200
    assert not any(faults)
