"""Rows that are fetched: only those that are needed, whatever the objects hold, and nothing is left at work."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.session import Silent
from cleave.store import decryptors, put
from cleave.store.chunks import directory, split
from cleave.store.folder import Folder
from cleave.store.index import Index, parts_of
from cleave.store.locate import Stores
from cleave.store.manifest import Object, Segment
from cleave.store.memory import Memory
from cleave.store.rows import Rows
from cleave.store.stored import Stored
from cleave.store.tables import Opened, Tables
from cleave.table.schema import load_schema
from cleave.table.table import Table, open_table
from cleave.transport.deadline import Deadline, OutOfTime
from cleave_shared.errors import CheckFailed, ProcessDied

ROWS = 24_000
NAMES = ["ward", "day", "bill", "x", "big", "flag", "note"]
SCHEMA = """[csv]
delimiter = ","
quote = '"'
encoding = "utf-8"
header = true
decimal = "."
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.day]
kind = "sealed"
type = "DATE"
nullable = false
[columns.bill]
kind = "encrypted"
type = "DECIMAL(12,2)"
decimals = 2
[columns.x]
kind = "encrypted"
type = "DOUBLE"
[columns.big]
kind = "encrypted"
type = "BIGINT"
[columns.flag]
kind = "encrypted"
type = "BOOLEAN"
nullable = false
[columns.note]
kind = "sealed"
type = "VARCHAR"
"""


class World:
    """A table of two segments, stored by ward and day, and the same in DuckDB."""

    def __init__(self, key: OwnerKey, folder: Path) -> None:
        self.key = key
        self.truth = duckdb.connect()
        self.truth.execute(
            f"""CREATE TABLE t AS SELECT
            CASE WHEN i % 7 < 6 THEN 'w' || i % 7 END AS ward, DATE '2024-02-27' + (hash(i) % 40)::INT AS day,
            CASE WHEN i % 11 THEN ((hash(i + 1) % 2000000) / 100 - 5000)::DECIMAL(12,2) END AS bill,
            CASE WHEN i % 13 THEN sqrt(i) * (i % 3 - 1) END AS x,
            CASE i % 5 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN i END AS big,
            i % 2 = 0 AS flag, CASE WHEN i % 3 THEN 'note ' || i END AS note FROM range({ROWS}) r(i)"""
        )
        self.storage = Folder(folder / "store")
        self.stores = Stores(self.storage, self.storage)
        self.tables = Tables(self.stores, key, Memory(folder / "tables.json"))
        (folder / "t.schema.toml").write_text(SCHEMA)
        self.truth.execute(f"COPY t TO '{folder / 't.parquet'}'")
        schema = load_schema(folder / "t.schema.toml")
        for append in (False, True):
            with open_table([folder / "t.parquet"], schema) as table:
                if append:
                    put.append(self.tables, self.stores, key, table, "t", Silent())
                else:
                    put.put(self.tables, self.stores, key, table, "t", ("ward", "day"), Silent())
        self.opened: Opened = self.tables.open("t")
        self.truth.execute("CREATE TABLE twice AS FROM t; INSERT INTO twice FROM t")

    def rows(self, *, directories: bool = True) -> Rows:
        """`directories`: the indexes say what each ciphertext is."""
        opened = self.opened
        if directories:
            segments = tuple(map(self._with_directory, opened.manifest.segments))
            opened = Opened(opened.manifest.model_copy(update={"segments": segments}), opened.vault, opened.head)
        return Stored(self.tables, opened, self.key).rows

    def _with_directory(self, segment: Segment) -> Segment:
        index = json.loads(self.tables.unseal(self.opened.vault, segment.index))
        index["chunks"] = [
            [entry for each in lane for entry in directory(split(self.storage.read(each.name)))]
            for lane in segment.lanes
        ]
        folder = self.tables.folder("t")
        return segment.model_copy(
            update={"index": self.tables.seal(folder, self.opened.vault, json.dumps(index).encode())}
        )

    def select(self, where: str) -> np.ndarray:
        """The cells whose keys `where` holds for."""
        cells = Stored(self.tables, self.opened, self.key).cells
        keys = [(number, *key) for number, key in enumerate(cells.keys)]
        self.truth.execute("CREATE OR REPLACE TABLE cells(c BIGINT, ward VARCHAR, day DATE)")
        self.truth.executemany("INSERT INTO cells VALUES (?, ?, ?)", keys)
        found = np.zeros(len(cells), np.bool_)
        found[[c for (c,) in self.truth.execute(f"SELECT c FROM cells WHERE {where}").fetchall()]] = True
        return found


@pytest.fixture(scope="module")
def world(key: OwnerKey, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(key, tmp_path_factory.mktemp("rows"))


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the ciphertexts of these small tables, but of one or two."""
    monkeypatch.setattr(decryptors, "MIN_CHUNKS_TO_FORK", 12)


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = children()  # a fork server of other tests may be there
    yield
    until = time.monotonic() + 60
    while (left := children() - before) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left


def children() -> set[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()}


SELECTIONS = ["day = DATE '2024-03-01'", "ward IS NULL", "ward = 'w3' AND day < DATE '2024-03-01'", "false", "true"]
COLUMNS = [NAMES, ["bill"], ["x", "big"], ["ward", "bill"], ["day", "note"], ["flag"], ["note"], ["ward"], []]


@pytest.mark.parametrize("columns", COLUMNS, ids=" ".join)
@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_all_rows(world: World, columns: list[str], ordered: bool) -> None:
    with world.rows().table(columns, ordered=ordered) as table:
        assert table.rows == 2 * ROWS
        if columns:
            compare(world, table, columns, "true", ordered=ordered)


@pytest.mark.parametrize("where", SELECTIONS)
@pytest.mark.parametrize(
    ("columns", "ordered", "directories"),
    [
        (NAMES, True, True),
        pytest.param(NAMES, False, False, marks=pytest.mark.slow),
        (["bill", "x"], False, True),
        pytest.param(["ward", "day"], True, True, marks=pytest.mark.slow),
        pytest.param(["flag", "note"], False, True, marks=pytest.mark.slow),
    ],
)
def test_rows_of_selected_cells(world: World, where: str, columns: list[str], ordered: bool, directories: bool) -> None:
    rows = world.rows(directories=directories)
    with rows.table(columns, ordered=ordered, cells=world.select(where)) as table:
        compare(world, table, columns, where, ordered=ordered)
        assert table.rows == len(table.connection.execute(f"SELECT 1 FROM {table.relation}").fetchall())


def compare(world: World, table: Table, columns: list[str], where: str, *, ordered: bool) -> None:
    same(world, table.connection.execute(f"SELECT * FROM {table.relation}").fetchall(), columns, where, ordered=ordered)


def same(world: World, found: list[tuple[object, ...]], columns: list[str], where: str, *, ordered: bool) -> None:
    wanted = world.truth.execute(f"SELECT {', '.join(columns)} FROM twice WHERE {where}").fetchall()
    if not ordered:
        assert Counter(found) == Counter(wanted)
    else:
        assert found == wanted


def test_a_piece_for_each_segment(world: World) -> None:
    pieces = [
        piece.connection.execute(f"SELECT * FROM {piece.relation}").fetchall()
        for piece in world.rows().tables(NAMES, ordered=True)
    ]
    assert [len(piece) for piece in pieces] == [ROWS, ROWS]
    same(world, [row for piece in pieces for row in piece], NAMES, "true", ordered=True)


def test_what_is_read_is_what_was_said(world: World) -> None:
    rows = world.rows()
    needed = rows.needed(["bill", "ward"])
    for cells in (None, world.select("ward = 'w3' AND day = DATE '2024-03-01'")):
        tables = rows._tables
        before = tables.objects_read, tables.bytes_read
        rows._indexes.clear()
        with rows.table(["bill", "ward"], cells=cells):
            pass
        wanted = rows.reads(needed, cells)
        assert (tables.objects_read - before[0], tables.bytes_read - before[1]) == (
            len(wanted),
            sum(each.bytes for each in wanted),
        )
    assert sum(each.bytes for each in wanted) < 0.5 * sum(each.bytes for each in rows.reads(needed))


def test_progress_comes_to_its_end(world: World) -> None:
    class Counting(Silent):
        total = done = 0

        def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - counts amounts alone
            assert name == "fetch and decrypt"
            self.total += total

            def advance(amount: int) -> None:
                self.done += amount

            return advance

    progress = Counting()
    with world.rows().table(NAMES, progress=progress):
        assert progress.done == progress.total > 0


# Faults


@pytest.mark.parametrize("damage", ["flipped", "exchanged", "short"])
def test_a_part_of_an_object_that_is_not_what_was_written(
    world: World, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = world.storage.read

    def damaged(name: str, start: int = 0, stop: int | None = None, *most: int) -> bytes:
        content = read(name, start, stop, *most)
        if not start:
            return content
        ranged.append(name)
        if damage == "flipped":
            middle = len(content) // 2
            return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        return read(name, start - 1, None if stop is None else stop - 1) if damage == "exchanged" else content[:-1]

    ranged: list[str] = []
    monkeypatch.setattr(world.storage, "read", damaged)
    with pytest.raises(CheckFailed, match="does not hold what the table's manifest says"):
        world.rows().table(["bill"], cells=world.select("ward = 'w3' AND day = DATE '2024-03-01'"))
    assert ranged


def test_a_child_that_dies(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = decryptors.Opener.open

    def dies(self: decryptors.Opener, *arguments: object) -> object:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return opened(self, *arguments)  # type: ignore[arg-type]

    parent = os.getpid()
    monkeypatch.setattr(decryptors.Opener, "open", dies)
    with pytest.raises(ProcessDied, match="SIGKILL"):
        world.rows().table(["bill", "x"])


def test_an_error_of_a_child_is_told_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: decryptors.Opener, *_: object) -> object:
        assert os.getpid() != parent
        raise CheckFailed("sentinel", "another's")

    parent = os.getpid()
    monkeypatch.setattr(decryptors.Opener, "open", fails)
    with pytest.raises(CheckFailed, match="another's") as caught:
        world.rows().table(["bill", "x"])
    assert caught.value.check == "sentinel"


def test_a_child_that_hangs_is_ended_at_the_deadline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decryptors.Opener, "open", lambda *_: time.sleep(600))
    with pytest.raises(OutOfTime):  # and `no_child_is_left`, which sleeps for 600 s
        world.rows().table(["bill", "x"], deadline=Deadline(1.0))


def test_a_store_that_hangs_does_not_hold_up_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    release, late = threading.Event(), threading.Event()
    read = world.storage.read

    def hangs(name: str, start: int = 0, stop: int | None = None, *most: int) -> bytes:
        if threading.current_thread() is not threading.main_thread() and not release.wait(300):
            late.set()
        return read(name, start, stop, *most)

    rows = world.rows()
    monkeypatch.setattr(world.storage, "read", hangs)
    try:
        with pytest.raises(OutOfTime):
            rows.table(["bill", "x"], deadline=Deadline(0.5))
        assert not late.is_set(), "it waited until the store answered"
    finally:
        release.set()


def test_pieces_that_nobody_takes_any_more(world: World) -> None:
    before = children()
    pieces = world.rows().tables(["bill", "x"])
    next(pieces)
    assert children() - before
    pieces.close()


# What is read of an object


def entries(count: int) -> tuple[tuple[int, str], ...]:
    return tuple((100 + number, "d") for number in range(count))


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        ([3], [(3, 3)]),
        ([3, 4, 9], [(3, 9)]),  # what lies between is read along
        ([3, 20, 63], [(3, 3), (20, 20), (63, 63)]),
        ([0, 63, 64, 65], [(0, 0), (63, 63), (64, 65)]),  # of two objects
        ([*range(60)], [None]),  # nearly all of it: all of it
    ],
)
def test_ranges(numbers: list[int], runs: list[tuple[int, int] | None]) -> None:
    objects = tuple(Object(name=f"tables/{i:032}/{i:032}", bytes=10_000, sha256=f"{i:064}") for i in range(2))
    segment = Segment.model_construct(lanes=(objects,))
    index = Index(np.zeros(1, np.int64), np.zeros(1, np.int64), (entries(128),))
    parts = parts_of(segment, [0], np.asarray(numbers), index)
    assert [number for part in parts for number in part.numbers] == numbers
    for part, run in zip(parts, runs, strict=True):
        if run is None:
            assert (part.start, part.stop) == (0, None)
            continue
        low, high = run
        base = low // 64 * 64
        head = 8 + 4 * 64
        assert part.start == head + sum(100 + number for number in range(base, low))
        assert part.stop == head + sum(100 + number for number in range(base, high + 1))
        assert part.object == objects[low // 64]
