"""Blocks of sealed columns open as they were sealed, in their own place, and nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.store.manifest import SealedColumn, new_id
from cleave.store.padding import padded
from cleave.store.sealed import (
    BLOCK_ROWS,
    ColumnPlace,
    ColumnValues,
    cut,
    open_blocks,
    seal_column,
)
from cleave.store.vault import key_of_object
from cleave_shared.errors import CheckFailed
from tests.store.trial import World

KEY = bytes(range(32))
ROWS = 2 * BLOCK_ROWS + 5
COLUMN = SealedColumn(name="a", id=new_id(), type="TINYINT", width=1, nullable=True)
PLACE = ColumnPlace(new_id(), new_id(), new_id(), COLUMN, ROWS)
RANDOM = np.random.default_rng(20)
NUMBERS = ColumnValues(RANDOM.integers(0, 256, (ROWS, 1), np.uint8), RANDOM.random(ROWS) < 0.5)


def texts(*values: str) -> ColumnValues:
    encoded = [each.encode() for each in values]
    lengths = np.array([len(each) for each in encoded], np.uint32)
    return ColumnValues(np.frombuffer(b"".join(encoded), np.uint8), np.ones(len(values), np.bool_), lengths)


def text_place(rows: int) -> ColumnPlace:
    column = SealedColumn(name="a", id=COLUMN.id, type="VARCHAR", width=0, nullable=True)
    return replace(PLACE, column=column, rows=rows)


@pytest.fixture(scope="module")
def blocks() -> list[bytes]:
    return seal_column(KEY, PLACE, NUMBERS)


def opened(blocks: list[bytes], place: ColumnPlace = PLACE, first: int = 0, key: bytes = KEY) -> None:
    open_blocks(key, place, first, map(memoryview, blocks))


def test_what_was_sealed_is_opened(blocks: list[bytes]) -> None:
    found = open_blocks(KEY, PLACE, 0, map(memoryview, blocks))
    assert [each.rows for each in found] == [BLOCK_ROWS, BLOCK_ROWS, 5]
    assert b"".join(each.data for each in found) == NUMBERS.data.tobytes()
    assert [len(each) for each in blocks] == PLACE.sizes(())
    (last,) = open_blocks(KEY, PLACE, 2, [memoryview(blocks[2])])
    assert last.data == NUMBERS.data[-5:].tobytes()


@pytest.mark.parametrize(
    "order", [order for order in itertools.product(range(3), repeat=3) if order != (0, 1, 2)], ids=str
)
def test_blocks_in_another_order(blocks: list[bytes], order: tuple[int, ...]) -> None:
    with pytest.raises(CheckFailed):
        opened([blocks[number] for number in order])


def test_the_last_block_dropped(blocks: list[bytes]) -> None:
    with pytest.raises(CheckFailed):
        cut(b"".join(blocks[:-1]), PLACE.sizes(()))
    shorter = replace(PLACE, rows=2 * BLOCK_ROWS)
    assert sum(shorter.sizes(())) == len(b"".join(blocks[:-1]))
    with pytest.raises(CheckFailed):
        opened(blocks[:-1], shorter)


ELSEWHERE: dict[str, ColumnPlace] = {
    "another column": replace(PLACE, column=COLUMN.model_copy(update={"id": new_id()})),
    "an older object": replace(PLACE, object_id=new_id()),
    "another table": replace(PLACE, table_id=new_id()),
    "another segment": replace(PLACE, segment=new_id()),
    "another type": replace(PLACE, column=COLUMN.model_copy(update={"type": "BOOLEAN"})),
    "another width": replace(PLACE, column=COLUMN.model_copy(update={"width": 2})),
    "no bitmap": replace(PLACE, column=COLUMN.model_copy(update={"nullable": False})),
    "more rows": replace(PLACE, rows=ROWS + 1),
    "more blocks": replace(PLACE, rows=ROWS + BLOCK_ROWS),
}


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_block_opens_nowhere_else(blocks: list[bytes], elsewhere: str) -> None:
    """Under the same key even, which no two objects have."""
    with pytest.raises(CheckFailed):
        opened(blocks[:1], ELSEWHERE[elsewhere])


def test_every_object_has_a_key_of_its_own(blocks: list[bytes]) -> None:
    one, other = (key_of_object(KEY, name) for name in ("tables/a/b", "tables/a/c"))
    assert len({one, other, KEY}) == 3
    with pytest.raises(CheckFailed):
        opened(blocks, key=one)


@pytest.mark.parametrize("part", [slice(1, None), slice(None, -1), slice(0, 12), slice(0, 0)])
def test_a_range_that_is_cut(blocks: list[bytes], part: slice) -> None:
    sizes = PLACE.sizes(())[1:2]
    assert cut(blocks[1], sizes) == [blocks[1]]
    with pytest.raises(CheckFailed):
        cut(blocks[1][part], sizes)
    with pytest.raises(CheckFailed):
        opened([blocks[1][part].ljust(len(blocks[1]), b"\0")], first=1)


def test_every_byte_counts() -> None:
    place = replace(PLACE, rows=9)
    (block,) = seal_column(KEY, place, ColumnValues(NUMBERS.data[:9], None))
    for at in range(len(block)):
        with pytest.raises(CheckFailed):
            opened([block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]], place)


# Texts


@pytest.mark.parametrize("rows", [1, 3, 999, 1000, BLOCK_ROWS + 1])
def test_texts_come_back(rows: int) -> None:
    values = [("", "é☃", "x" * 70, str(number))[number % 4] for number in range(rows)]
    place = text_place(rows)
    sealed = seal_column(KEY, place, texts(*values))
    found = open_blocks(KEY, place, 0, map(memoryview, sealed))
    assert b"".join(each.data for each in found).decode() == "".join(values)
    assert [int(length) for each in found for length in each.lengths] == [len(each.encode()) for each in values]  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [1, 10, 999])
def test_texts_of_a_small_segment_show_no_length(rows: int) -> None:
    """Up to 64 bytes: not whether they are alike, nor that one equals another."""
    place = text_place(rows)
    made = [
        [""] * rows,
        ["x" * 64] * rows,
        [RANDOM.bytes(32).hex() for _ in range(rows)],
        [str(number) for number in range(rows)],
    ]
    assert len({len(b"".join(seal_column(KEY, place, texts(*each)))) for each in made}) == 1
    longer = len(b"".join(seal_column(KEY, place, texts(*["x" * 65] * rows))))
    assert longer == len(b"".join(seal_column(KEY, place, texts(*["x" * 256, *[""] * (rows - 1)]))))
    assert longer < len(b"".join(seal_column(KEY, place, texts(*["x" * 257] * rows))))


def test_texts_of_a_large_segment_are_padded() -> None:
    sizes = set()
    for length in range(0, 400, 3):
        values = texts(RANDOM.bytes(length).hex(), *[""] * 1000)
        (block,) = seal_column(KEY, text_place(1001), values)
        assert padded(len(block) - 28) == len(block) - 28
        sizes.add(len(block))
    assert len(sizes) < 12


def test_a_block_says_how_large_it_is_before_memory_is_taken() -> None:
    place = text_place(2000)
    sealed = seal_column(KEY, place, texts(*["x" * 1000] * 2000))
    with pytest.raises(CheckFailed):
        open_blocks(KEY, place, 0, map(memoryview, sealed), most=2_000_000)
    assert len(open_blocks(KEY, place, 0, map(memoryview, sealed), most=3_000_000)) == 1


# In a store


def object_of(world: World, name: str, segment: int = 0) -> Path:
    manifest = world.tables.open("trial").manifest
    place = [each.name for each in manifest.sealed].index(name)
    store = world.stores.sensitive
    assert isinstance(store, Folder)
    return Path(store.location) / manifest.segments[segment].columns[place].object.name


def exchange(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    assert len(first) == len(second)
    one.write_bytes(second)
    other.write_bytes(first)


def older(world: World) -> None:
    content = object_of(world, "weight").read_bytes()
    world.put("ward", replace=True)
    object_of(world, "weight").write_bytes(content)


HARMS: dict[str, Callable[[World], object]] = {
    "segments swapped": lambda world: exchange(object_of(world, "weight"), object_of(world, "weight", 1)),
    "an older version": older,
    "cut": lambda world: object_of(world, "weight").write_bytes(object_of(world, "weight").read_bytes()[:-1]),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_that_shows_other_objects(key: OwnerKey, tmp_path: Path, harm: str) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", appended=1)
    with world.stored().rows.table(["weight"]) as table:
        assert table.rows == 1200
    HARMS[harm](world)
    with pytest.raises(CheckFailed), world.stored().rows.table(["weight"]) as table:
        table.connection.execute(f"SELECT max(weight) FROM {table.relation}").fetchall()
