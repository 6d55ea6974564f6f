"""Rows that are fetched: only those that are needed, whatever the objects hold, and nothing is left at work."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.deadline import Deadline, OutOfTime
from cleave.objects.locate import Folder
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.split import Halves
from cleave.store import cells as of_cells
from cleave.store import reading, rows, sealed
from cleave.store.cells import Index
from cleave.store.rows import ResidentTables, Rows, SelectedCells
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.running import run_select
from cleave.table.table import LEAST_MEMORY, Table
from cleave_shared.errors import CheckFailed, InputError, QueryRefused
from tests.functional.processes import HANGS
from tests.store.trial import World

ROWS, BLOCK = 2_400, 64
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


class TwoSegments(World):
    """A table of two segments, stored by ward and day; `twice`: its rows in DuckDB."""

    def __init__(self, key: OwnerKey, folder: Path) -> None:
        self.storage = Folder(folder / "store")
        super().__init__(self.storage, key, folder, name="t")
        made = self.make(
            f"""SELECT
            CASE WHEN i % 7 < 6 THEN 'w' || i % 7 END AS ward, DATE '2024-02-27' + (hash(i) % 40)::INT AS day,
            CASE WHEN i % 11 THEN ((hash(i + 1) % 2000000) / 100 - 5000)::DECIMAL(12,2) END AS bill,
            CASE WHEN i % 13 THEN sqrt(i) * (i % 3 - 1) END AS x,
            CASE i % 5 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN i END AS big,
            i % 2 = 0 AS flag, CASE WHEN i % 3 THEN 'note ' || i END AS note FROM range({ROWS}) r(i)""",
            SCHEMA,
        )
        self.write(made, "ward", "day")
        self.opened = self.write(made, append=True)
        self.oracle.execute("CREATE TABLE twice AS FROM t; INSERT INTO twice FROM t")
        keys = self.stored().cells.keys
        self.cells = len(keys)
        self.oracle.execute(
            "CREATE TABLE cells AS SELECT unnest(?::BIGINT[]) c, unnest(?::VARCHAR[]) ward, unnest(?::DATE[]) AS day",
            [list(range(self.cells)), *map(list, zip(*keys, strict=True))],
        )

    def rows(self) -> Rows:
        return Stored(self.tables, self.opened).rows

    def select(self, where: str) -> SelectedCells:
        """The cells whose keys `where` holds for."""
        found = np.zeros(self.cells, np.bool_)
        found[[c for (c,) in self.oracle.execute(f"SELECT c FROM cells WHERE {where}").fetchall()]] = True
        return SelectedCells(found)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (of_cells, reading, rows, sealed):
            patch.setattr(module, "BLOCK_ROWS", BLOCK)
        yield


@pytest.fixture(scope="module")
def world(small_blocks: None, key: OwnerKey, tmp_path_factory: pytest.TempPathFactory) -> TwoSegments:
    return TwoSegments(key, tmp_path_factory.mktemp("rows"))


SELECTIONS = ["ward = 'w5'", "ward IS NULL", "ward IN ('w0', 'w3')", "false", "true"]
COLUMNS = [NAMES, ["bill"], ["x", "big"], ["ward", "bill"], ["day", "note"], ["flag"], ["note"], ["ward"], []]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", COLUMNS, ids=" ".join)
@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_all_rows_come_back(world: TwoSegments, columns: list[str], ordered: bool) -> None:
    with world.rows().table(columns, ordered=ordered) as table:
        assert table.rows == 2 * ROWS
        if columns:
            compare(world, table, columns, "true", ordered=ordered)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("where", SELECTIONS)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("columns", [NAMES, ["bill", "x"], ["ward"]], ids=" ".join)
def test_rows_of_selected_cells(world: TwoSegments, where: str, columns: list[str], ordered: bool) -> None:
    """At least these, and of others only what is in their blocks."""
    rows = world.rows()
    with rows.open(rows.reading(columns, ordered=ordered, cells=world.select(where))) as table:
        found = table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()
        assert table.rows == len(found)
        if "ward" in columns:
            found = table.connection.execute(f"SELECT * FROM {table.relation} WHERE {where}").fetchall()
            same(world, found, columns, where, ordered=ordered)
        else:
            ((wanted,),) = world.oracle.execute(f"SELECT count(*) FROM twice WHERE {where}").fetchall()
            assert wanted <= table.rows <= wanted + 8 * BLOCK  # two ends of two runs in two segments


def read_all(table: Table) -> None:
    with table:
        table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()


def compare(world: TwoSegments, table: Table, columns: list[str], where: str, *, ordered: bool) -> None:
    same(world, table.connection.execute(f"SELECT * FROM {table.relation}").fetchall(), columns, where, ordered=ordered)


def same(world: TwoSegments, found: list[tuple[object, ...]], columns: list[str], where: str, *, ordered: bool) -> None:
    wanted = world.oracle.execute(f"SELECT {', '.join(columns)} FROM twice WHERE {where}").fetchall()
    if not ordered:
        assert Counter(found) == Counter(wanted)
    else:
        assert found == wanted


def test_a_piece_for_each_segment(world: TwoSegments) -> None:
    rows, pieces = world.rows(), list[list[tuple[object, ...]]]()
    for each in rows._manifest.segments:
        with rows.table(NAMES, ordered=True, segments=[each]) as piece:
            pieces.append(piece.connection.execute(f"SELECT * FROM {piece.relation}").fetchall())
    assert [len(piece) for piece in pieces] == [ROWS, ROWS]
    same(world, [row for piece in pieces for row in piece], NAMES, "true", ordered=True)


def test_what_is_read_is_what_was_said(world: TwoSegments) -> None:
    rows = world.rows()
    needed = rows.needed(["bill", "ward"])
    for cells in (None, world.select("ward = 'w3'")):
        tables = rows._tables
        before = tables.objects_read, tables.bytes_read
        rows._indexes.clear()
        with rows.open(rows.reading(["bill", "ward"], cells=cells)) as table:
            table.connection.execute(f"SELECT count(bill), count(ward) FROM {table.relation}")
        wanted = rows.reads(needed, cells)
        assert (tables.objects_read - before[0], tables.bytes_read - before[1]) == (
            len(wanted),
            sum(each.bytes for each in wanted),
        )
    assert sum(each.bytes for each in wanted) < 0.5 * sum(each.bytes for each in rows.reads(needed))


def test_progress_comes_to_its_end(world: TwoSegments) -> None:
    class Counting(Silent):
        total = done = 0

        def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - counts amounts alone
            assert name == "fetch and open"
            self.total += total

            def advance(amount: int) -> None:
                self.done += amount

            return advance

    progress = Counting()
    with world.rows().table(NAMES, progress=progress) as table:
        table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()
        assert progress.done == progress.total > 0


# Memory


def stored(world: TwoSegments, memory: int | None = None) -> Stored:
    return Stored(world.tables, world.opened, None, ResidentTables(memory, 0) if memory else None)


def select(table: Table, sql: str, columns: int) -> list[list[object]]:
    return run_select(table, "t", sql, ["BIGINT"] * columns, lambda: 60.0, ordered=False)


def read_for(world: TwoSegments, work: Callable[[], object]) -> tuple[int, int]:
    before = world.tables.objects_read, world.tables.bytes_read
    work()
    return world.tables.objects_read - before[0], world.tables.bytes_read - before[1]


def test_rows_are_read_while_they_are_asked_for(world: TwoSegments) -> None:
    """What a question does not come to is not read, and nothing is before it asks."""
    rows = world.rows()
    wanted = rows.reads(rows.needed(["big"]))
    with rows.table(["big"]) as table:
        assert read_for(world, lambda: select(table, "SELECT big FROM t WHERE false", 1)) == (0, 0)
        assert read_for(world, lambda: select(table, "SELECT big FROM t LIMIT 1", 1)) == (1, wanted[0].bytes)
        assert read_for(world, lambda: select(table, "SELECT count(big) FROM t", 1))[0] == len(wanted) == 2


@pytest.mark.parametrize("memory", [None, LEAST_MEMORY])
def test_rows_that_are_read_twice_are_opened_once(world: TwoSegments, memory: int | None) -> None:
    rows = stored(world, memory).rows
    sql = "SELECT (SELECT count(big) FROM t), (SELECT count(DISTINCT big) FROM t WHERE big > 7)"
    with rows.table(["big"]) as table:
        assert read_for(world, lambda: select(table, sql, 2))[0] == len(rows.reads(rows.needed(["big"])))
        wanted = world.oracle.execute(sql.replace("FROM t", "FROM twice")).fetchall()
        assert select(table, sql, 2) == [list(row) for row in wanted]
        halved = table.connection.execute("SELECT current_setting('memory_limit')").fetchall()
    with rows.table(["big"]) as table:
        whole = table.connection.execute("SELECT current_setting('memory_limit')").fetchall()
        assert (whole != halved) == (memory is not None)


def refused(work: Callable[[], object]) -> None:
    with pytest.raises(QueryRefused, match=r"more memory than the \S+ GB") as found:
        work()
    assert "--memory" in str(found.value.hint)


def test_rows_that_would_be_held_and_do_not_fit_are_refused(world: TwoSegments) -> None:
    with stored(world, LEAST_MEMORY).rows.table(["note", "big"]) as table:
        table.engine.memory = 30_000
        refused(lambda: select(table, "SELECT count(a.note) FROM t AS a, t AS b WHERE a.big = b.big", 1))
        assert select(table, "SELECT count(*) FROM t", 1) == [[2 * ROWS]]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_question_that_needs_more_memory_is_refused(world: TwoSegments, ordered: bool) -> None:
    """Nothing is put on a disk."""
    with stored(world, LEAST_MEMORY).rows.table(["big", "x"], ordered=ordered) as table:
        refused(lambda: select(table, "SELECT list(a.x + b.x) FROM t AS a, t AS b", 1))
        assert select(table, "SELECT count(*) FROM t", 1) == [[2 * ROWS]]


def test_groups_that_need_more_memory_are_refused(world: TwoSegments) -> None:
    session = stored(world, LEAST_MEMORY)
    with session.rows.table(["x"]) as table:
        plan = plan_query("SELECT list(repeat('x', 100000) || x) AS l FROM t", session.schema, "t", cloud_only=False)
        if isinstance(plan, QueryPlan):
            refused(lambda: Halves(table, plan))
        else:
            refused(lambda: run_select(table, "t", plan.runs, plan.types, lambda: 60.0, ordered=False))


def test_too_little_memory_is_told(world: TwoSegments) -> None:
    with pytest.raises(InputError, match="less than 32 MB"):
        stored(world, LEAST_MEMORY - 1).rows.table(["x"])


# Faults


@pytest.mark.parametrize("damage", ["flipped", "exchanged", "short"])
def test_a_part_of_an_object_that_is_not_what_was_written(
    world: TwoSegments, damage: str, monkeypatch: pytest.MonkeyPatch
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
    rows = world.rows()
    with pytest.raises(CheckFailed, match="a sealed column of the table is damaged"):
        read_all(rows.open(rows.reading(["bill"], cells=world.select("ward = 'w3'"))))
    assert ranged


def test_a_store_that_hangs_does_not_hold_up_the_end(world: TwoSegments, monkeypatch: pytest.MonkeyPatch) -> None:
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
            read_all(rows.open(rows.reading(["bill", "x"], deadline=Deadline(0.5))))
        assert not late.is_set(), "it waited until the store answered"
    finally:
        release.set()


def test_rows_that_are_not_taken_any_more(world: TwoSegments) -> None:
    before = set(threading.enumerate())
    with world.rows().table(["bill", "x"]) as table:
        table.connection.execute(f"SELECT bill FROM {table.relation} LIMIT 1").fetchall()
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("rows"):  # DuckDB's own
            continue
        thread.join(HANGS)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("selected", "blocks"),
    [
        ([0], [(0, 2)]),
        ([1], [(1, 2)]),
        ([0, 1], [(0, 2)]),
        ([2], [(1, 4)]),
        ([1, 3], [(1, 2), (3, 5)]),  # of the block between them nothing is read
        ([], []),
        ([0, 1, 2, 3], [(0, 5)]),
    ],
)
def test_blocks_of_runs(selected: list[int], blocks: list[tuple[int, int]]) -> None:
    """Runs of 70, 10, 130 and 90 rows; blocks have 64."""
    runs = np.array([[0, 70], [1, 10], [2, 130], [3, 90]])
    found = Index(np.arange(4), runs[:, 1], runs)
    assert found.blocks_of(np.isin(np.arange(4), selected)) == blocks
