"""Plain columns beside sealed ones: row meets row, and DuckDB reads no byte that was not checked."""

from __future__ import annotations

import gc
import hashlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import delete_rows as delete
from cleave.objects.locate import Folder
from cleave.store import cells as of_cells
from cleave.store import columns, reading, rows, sealed
from cleave.store.manifest import Object
from cleave.store.rows import Rows, SelectedCells
from cleave.store.tables import Tables
from cleave.table import table as of_table
from cleave.table.batches import batches
from cleave.table.progress import Silent
from cleave.table.running import run_select
from cleave.table.table import HeldFile, Table
from cleave_shared.errors import CheckFailed
from tests.store.trial import World

BLOCK = 96  # rows of a block: no divisor of DuckDB's 2,048
SEGMENTS = (1, 95, 96, 97, 1_999, 2_048, 5_000, 2_300)
# p and s hold the same number, so do text and t; `ward` orders what the plain place sees
SQL = f"""SELECT i % 4 AS ward, i AS p, 'text ' || i % 50 AS text, CASE WHEN i % 5 THEN i END AS gaps,
    i AS s, 'text ' || i % 50 AS t, CASE WHEN i % 5 THEN i END AS holes FROM range({sum(SEGMENTS)}) r(i)"""
KINDS = {
    "ward": "plain",
    "p": "plain",
    "text": "plain",
    "gaps": "plain",
    "s": "sealed",
    "t": "sealed",
    "holes": "sealed",
}
SCHEMA = "".join(
    f'[columns.{name}]\nkind = "{kind}"\ntype = "{"VARCHAR" if name in ("text", "t") else "BIGINT"}"\n'
    for name, kind in KINDS.items()
)
OUT_OF_STEP = "SELECT count(*) FROM t WHERE p <> s OR text <> t OR gaps IS DISTINCT FROM holes OR p IS NULL"


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (of_cells, reading, rows, sealed):
            patch.setattr(module, "BLOCK_ROWS", BLOCK)
        # DuckDB's arrays have 2,048 rows, of larger segments 122,880 or fewer: they end within blocks
        patch.setattr(columns, "batches", lambda connection, sql, _=0: batches(connection, sql))
        yield


class Segments(World):
    """Segments of odd sizes, the rows of some of which are deleted."""

    def __init__(self, key: OwnerKey, folder: Path, *by: str) -> None:
        self.storage = Folder(folder / "store")
        super().__init__(self.storage, key, folder, name="t")
        start = 0
        for number, size in enumerate(SEGMENTS):
            made = self.make(f"FROM ({SQL}) WHERE p >= {start} AND p < {start + size}", SCHEMA)
            self.write(made, *by, append=bool(number))
            start += size
        delete(self.tables, "t", "p % 7 = 3", Silent())
        self.left = {i for i in range(start) if i % 7 != 3}

    def rows(self) -> Rows:
        return Rows(self.tables, self.tables.open("t"))


@pytest.fixture(
    scope="module", params=[("ward",), pytest.param((), marks=pytest.mark.slow)], ids=["by ward", "by none"]
)
def world(
    request: pytest.FixtureRequest, small_blocks: None, key: OwnerKey, tmp_path_factory: pytest.TempPathFactory
) -> Segments:
    return Segments(key, tmp_path_factory.mktemp("plain"), *request.param)


def select(table: Table, sql: str, types: str = "BIGINT", *, ordered: bool = False) -> list[list[object]]:
    return run_select(table, "t", sql, types.split(), lambda: 60.0, ordered=ordered)


@pytest.mark.parametrize("threads", [7, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))])
def test_rows_never_stand_out_of_step(world: Segments, threads: int) -> None:
    """Repeated: which thread reads what differs from one time to the next."""
    with world.rows().table(list(KINDS)) as table:
        table.connection.execute(f"SET threads = {threads}")
        for _ in range(5):
            assert select(table, OUT_OF_STEP) == [[0]]
            assert select(table, "SELECT count(*), sum(p), sum(s) FROM t", "BIGINT HUGEINT HUGEINT") == [
                [len(world.left), sum(world.left), sum(world.left)]
            ]
        table.connection.execute("RESET threads")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", [["p"], ["p", "s"], ["p", "gaps", "holes"]], ids=" ".join)
def test_rows_come_in_the_order_they_were_put(world: Segments, names: list[str]) -> None:
    in_order = sorted(world.left)
    with world.rows().table(names, ordered=True) as table:
        assert select(table, "SELECT md5(string_agg(p, ' ')) FROM t", "VARCHAR", ordered=True) == [
            [hashlib.md5(" ".join(map(str, in_order)).encode(), usedforsecurity=False).hexdigest()]
        ]
        assert [p for (p,) in table.connection.execute(f"SELECT p FROM {table.relation}").fetchall()] == in_order


@pytest.mark.sampled(2)
@pytest.mark.parametrize("names", [("p", "ward"), list(KINDS)], ids=["plain", "all"])
def test_blocks_that_are_left_out_shift_no_row(names: list[str], world: Segments) -> None:
    rows = world.rows()
    if not rows._manifest.by:
        pytest.skip("without by columns all blocks are read")
    keys = [key for (key,) in rows._tables.cells(rows._version).keys]
    flags = np.array([key == "2" for key in keys])
    with rows.open(rows.reading(names, cells=SelectedCells(flags))) as table:
        assert select(table, "SELECT count(*) FROM t")[0][0] == table.rows < len(world.left)
        found = select(table, "SELECT p FROM t WHERE ward = 2 ORDER BY p")
        assert [p for (p,) in found] == sorted(i for i in world.left if i % 4 == 2)
        if "s" in names:
            assert select(table, OUT_OF_STEP) == [[0]]
        read = [p for (p,) in table.connection.execute(f"SELECT p FROM {table.relation}").fetchall()]
        ends = select(table, "SELECT first(p), last(p), count(*) FROM t", "BIGINT BIGINT BIGINT", ordered=True)
    assert ends == [[read[0], read[-1], len(read)]]
    with rows.table(names) as whole:
        every = [p for (p,) in whole.connection.execute(f"SELECT p FROM {whole.relation}").fetchall()]
    assert [p for p in every if p in {*read}] == read


@pytest.mark.sampled(4)
@pytest.mark.parametrize("names", [("p",), ("p", "s")], ids=" ".join)
def test_a_plain_object_that_is_swapped_after_its_check_is_not_read(
    world: Segments, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another goes into its place, and other bytes into itself, as soon as it was read."""
    read, swapped = Tables.read, list[tuple[Path, bytes]]()

    def then_swap(tables: Tables, which: Object, *, plain: bool = False, cached: bool = True) -> bytes:
        content = read(tables, which, plain=plain, cached=cached)
        if plain:
            path = Path(world.storage.location) / which.name
            swapped.append((path, content))
            with path.open("r+b") as file:
                file.write(os.urandom(len(content)))
            path.with_suffix(".new").write_bytes(b"no Parquet file")
            path.with_suffix(".new").rename(path)
        return content

    monkeypatch.setattr(Tables, "read", then_swap)
    try:
        with world.rows().table(names) as table:
            assert select(table, "SELECT sum(p) FROM t", "HUGEINT") == [[sum(world.left)]]
    finally:
        monkeypatch.undo()
        for path, content in swapped:
            path.write_bytes(content)
    assert swapped


@pytest.mark.sampled(4)
@pytest.mark.parametrize("names", [("p",), ("p", "s")], ids=" ".join)
def test_a_plain_object_that_is_not_the_one_that_was_written_is_not_parsed(
    world: Segments, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = world.rows()._manifest.segments[-1]
    assert segment.plain is not None
    path, parsed = Path(world.storage.location) / segment.plain.name, list[bytes]()
    content = path.read_bytes()
    write, source_of = HeldFile.write, Table.source_of

    def noted(file: HeldFile, given: bytes) -> None:
        parsed.append(given)
        write(file, given)

    def taken(table: Table, given: bytes) -> str:
        parsed.append(given)
        return source_of(table, given)

    monkeypatch.setattr(HeldFile, "write", noted)
    monkeypatch.setattr(Table, "source_of", taken)
    damaged = content[:100] + bytes([content[100] ^ 1]) + content[101:]
    path.write_bytes(damaged)
    try:
        with pytest.raises(CheckFailed, match="damaged"), world.rows().table(names) as table:
            table.connection.execute(f"SELECT sum(p) FROM {table.relation}").fetchall()
    finally:
        path.write_bytes(content)
    assert parsed
    assert damaged not in parsed


@pytest.mark.sampled(4)
@pytest.mark.parametrize("most", ["files", "bytes", "numbers", "none"])
def test_files_that_are_too_many_or_too_large_are_not_held_at_once(
    world: Segments, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = world.rows()._manifest.segments
    if most == "files":
        monkeypatch.setattr(reading, "_MOST_FILES", len(segments) - 1)
    elif most == "bytes":
        monkeypatch.setattr(reading, "_FETCHED_BYTES", sum(each.plain.bytes for each in segments if each.plain) - 1)
    elif most == "numbers":  # as where other sessions hold files, or the process may open few
        monkeypatch.setattr(of_table, "_MOST_HELD", len(segments) - 1)
    gc.collect()  # tables of tests before, whose errors hold them
    before = held_files()
    with world.rows().table(["p", "text"]) as table:
        assert len(held_files() - before) == (len(segments) if most == "none" else 0)
        assert select(table, "SELECT sum(p) FROM t", "HUGEINT") == [[sum(world.left)]]
    assert held_files() == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("names", [["p"], ["p", "s"]], ids=" ".join)
def test_rows_are_read_where_a_process_may_open_few_files(world: Segments, names: list[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (of_table._FIRST_HELD, hard))
    try:
        with world.rows().table(names) as table:
            assert select(table, "SELECT sum(p) FROM t", "HUGEINT") == [[sum(world.left)]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_rows_that_stay_hold_no_file(world: Segments) -> None:
    rows, before = world.rows(), held_files()
    reading = rows.reading(["p"])
    with rows.new_table(reading.schema) as table:
        file = reading.write(table, 1 << 20)
        assert held_files() == before
        table.select(file)
        assert len(held_files() - before) == 1, "for DuckDB, while the table is open"
        assert select(table, "SELECT sum(p) FROM t", "HUGEINT") == [[sum(world.left)]]
    file.close()
    assert held_files() == before


def held_files() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir() if int(each.name) >= of_table._FIRST_HELD}
