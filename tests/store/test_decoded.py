"""Decoded plain columns that are kept: the same rows at every read, of every type, side by side and after eviction."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store import put, reader, sealed
from cleave.store import reading as of_reading
from cleave.store import rows as of_rows
from cleave.store.columns import read_columns
from cleave.store.memory import Memory
from cleave.store.reader import Decoded
from cleave.store.rows import Rows
from cleave.store.sealed import Block
from cleave.store.tables import Tables
from cleave.table.lazy import of_files
from cleave.table.progress import Silent

ROWS, BLOCK, SEGMENTS = 1_500, 128, 2
WHOLE = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
VALUES = {
    "BOOLEAN": "i % 2 = 0",
    **dict.fromkeys(WHOLE, "i % 100"),
    **{f"DECIMAL({digits},2)": "(i * 7 % 99) / 4" for digits in (4, 9, 18, 38)},
    "FLOAT": "i / 7",
    "DOUBLE": "sqrt(i)",
    "DATE": "DATE '2024-02-27' + i::INT",
    "TIME": "TIME '00:00:01' + to_seconds(i)",
    "TIMESTAMP": "TIMESTAMP '2024-02-27 01:02:03.000004' + to_minutes(i)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE '2024-02-27 01:02:03+01' + to_hours(i)",
    "VARCHAR": "'text ' || repeat('é', i % 9)",
}
NAMES = [f"c{place}" for place in range(len(VALUES))]
SQL = "SELECT count(*), " + ", ".join(f"sum(hash(CAST({each} AS VARCHAR)))" for each in [*NAMES, "s"]) + " FROM "


class World:
    def __init__(self, key: OwnerKey, folder: Path) -> None:
        store = Folder(folder / "store")
        self.tables = Tables(Stores(store, store), key, Memory(folder / "tables.json"))
        truth = duckdb.connect()
        columns = [
            f"CASE WHEN i % {place + 3} THEN ({value})::{type_} END AS c{place}"
            for place, (type_, value) in enumerate(VALUES.items())
        ]
        truth.execute(f"CREATE TABLE t AS SELECT {', '.join(columns)}, i AS s FROM range({ROWS}) r(i)")
        truth.execute(f"COPY t TO '{folder / 't.parquet'}'")
        kinds = [
            *((name, "plain", type_) for name, type_ in zip(NAMES, VALUES, strict=True)),
            ("s", "sealed", "BIGINT"),
        ]
        text = "".join(f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\n' for name, kind, type_ in kinds)
        (folder / "t.schema.toml").write_text(text)
        for number in range(SEGMENTS):
            with of_files([folder / "t.parquet"], name="t").read(None) as table:
                if number:
                    put.append(self.tables, table, "t", Silent(), again=True)
                else:
                    put.put(self.tables, table, "t", (), Silent())
        self.opened = self.tables.open("t")
        self.wanted = truth.execute(f"{SQL} (FROM t UNION ALL FROM t)").fetchall()

    def read(self, names: list[str] | None = None) -> None:
        rows = Rows(self.tables, self.opened)
        with rows.table(names or [*NAMES, "s"]) as table:
            if names is None:
                assert table.connection.execute(f"{SQL} {table.relation}").fetchall() == self.wanted
            else:
                table.connection.execute(f"SELECT count(COLUMNS(*)) FROM {table.relation}").fetchall()
        rows.close()


@pytest.fixture(scope="module")
def world(key: OwnerKey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (of_reading, of_rows, sealed):
            patch.setattr(module, "BLOCK_ROWS", BLOCK)
        yield World(key, tmp_path_factory.mktemp("decoded"))


@pytest.mark.parametrize("limit", [20_000, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 1 << 30))])
def test_every_read_has_the_same_rows(world: World, limit: int) -> None:
    world.tables.decoded = Decoded(limit)
    for names in (["c0", NAMES[-1]], None, ["s", "c4"], None, None):
        world.read(names)
        gc.collect()
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(world.read) for _ in range(5)]:
            each.result()


def test_what_is_kept_is_not_decoded_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its requests are made all the same: how much was decoded may depend on values."""
    world.tables.decoded = Decoded(1 << 30)
    world.read()
    decoded_now: list[int] = []
    monkeypatch.setattr(
        of_reading, "read_columns", lambda *given: decoded_now.append(len(given[1])) or read_columns(*given)
    )
    counts = []
    for _ in range(2):
        before = world.tables.objects_read, world.tables.bytes_read
        world.read()
        counts.append((world.tables.objects_read - before[0], world.tables.bytes_read - before[1]))
    assert not decoded_now
    world.tables.decoded = Decoded(0)
    before = world.tables.objects_read, world.tables.bytes_read
    world.read()
    counts.append((world.tables.objects_read - before[0], world.tables.bytes_read - before[1]))
    assert len(set(counts)) == 1
    assert decoded_now == [len(NAMES)] * SEGMENTS


def test_least_recently_used_columns_go_first() -> None:
    column = [Block(10, None, memoryview(bytes(40)), None), Block(5, memoryview(bytes(2)), memoryview(bytes(18)), None)]
    kept = Decoded(130)
    for name in ("a", "b"):
        kept.keep(("o", name), column)
    assert kept.get(("o", "a"))
    kept.keep(("o", "c"), column)
    assert [bool(kept.get(("o", name))) for name in "abc"] == [True, False, True]
    kept.keep(("o", "d"), column * 3)
    assert kept.get(("o", "d")) is None
    assert reader._bytes_of(column) == 60
