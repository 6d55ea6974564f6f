"""Sizes of sealed objects follow from the schema and counts: values that are alike take as many bytes as others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cleave.maintain.derive import derive_expression as derive
from cleave.store.manifest import Object
from cleave.store.padding import padded, room
from cleave.table.progress import Silent
from tests.store.contributing import World
from tests.store.releasing import Releases

PER_CELL = 600  # rows of a cell: above and below 1,000 in a table
Values = list[tuple[str, str, int, float, float, str]]


def alike(cells: int) -> Values:
    """Rows of the same values, but for the columns of the cells."""
    return [(f"w{cell}", "f", 50, 7.5, 80.0, "a" * 12) for cell in range(cells) for _ in range(PER_CELL)]


def mixed(cells: int) -> Values:
    """As many rows of as many cells, and texts of the same lengths, with all other values."""
    return [
        (
            f"w{cell}",
            "x",
            row % 90 + row % 7,
            (row * 7_919 % 99_999) / 100,
            row / 3,
            f"{row * row * 7_919 % 10**12:012d}",
        )
        for cell in range(cells)
        for row in range(PER_CELL)
    ]


def csv(values: Values) -> str:
    return "".join(f"{','.join(map(str, row))}\n" for row in values)


def sizes(world: World) -> Counter[int]:
    """Sizes of all objects in the sensitive place, but for heads, which are in the clear, and totals."""
    manifest = world.open().manifest
    totals = {each.name for segment in manifest.segments for of in segment.totals for each in of.lanes}
    objects = [path for path in (world.root / "s").rglob("*") if path.is_file() and path.name != "head"]
    return Counter(path.stat().st_size for path in objects if str(path.relative_to(world.root / "s")) not in totals)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cells", [1, 2], ids=["600 rows", "1200 rows"])
def test_no_object_shows_whether_values_are_alike(tmp_path: Path, key_file: Path, cells: int) -> None:
    every = []
    for name, values in (("alike", alike(cells)), ("mixed", mixed(cells))):
        world = Releases(tmp_path / name, key_file)
        world.put(csv(values))
        world.release("carol")
        tables, _ = world.tables()
        derive(tables, world.name, "age * 2", "twice", Silent())
        world.release("carol")
        every.append(sizes(world))
    assert every[0] == every[1]


@pytest.mark.slow  # quick: the test above, of all objects
def test_the_ledger_has_one_size(tmp_path: Path, key_file: Path) -> None:
    """It had 544 bytes if a column did not vary, and 640 if it did."""
    ledgers: list[Object] = []
    for name, bills in (
        ("alike", ["5.00"] * 12),
        ("mixed", [f"{n * 83.25:.2f}" for n in range(12)]),
        ("none", [""] * 12),
    ):
        world = Releases(tmp_path / name, key_file)
        world.put("".join(f"A,f,{30 + n % 2},{bill},1.0,p{n:02d}\n" for n, bill in enumerate(bills)))
        world.release("carol")
        release = world.open().manifest.release
        assert release is not None
        ledgers.append(release.ledger)
    assert len({each.bytes for each in ledgers}) == 1


def test_a_record_has_room_for_any_numbers_and_keys() -> None:
    def record(key: str | None, *numbers: float) -> bytes:
        return json.dumps(
            {"keys": [[key, "B"], [None, "C"]], "rows": numbers, "note": "text"}, ensure_ascii=False
        ).encode()

    one = room(record("A", 1, 2), 8)
    assert one == room(record('"ä"\n', 12_345_678, -3), 8) == room(record(None, 0.5, 1e-3), 8)
    assert one < room(record("A" * 20, 1, 2), 8) == room(record("A", 1, 2), 8) + 4 * 16
    assert room(record("A", 1, 123_456_789), 8) == one + 2 * 8
    assert room(record("A", 1, 2, 3), 8) > one
    for size in (1, 511, 512, 4_000, 1 << 20):
        assert padded(size) >= size
