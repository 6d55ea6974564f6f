"""A contributor's wide rows take no memory of the owner: they are refused before they are opened."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cleave.contributions import contributed as contributed_rows
from cleave.contributions.contributed import ContributedRows
from cleave.table.table import LEAST_MEMORY
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError
from tests.store.contributing import Forger, World, copied_for_each
from tests.store.test_contributors import OWN, SUMS, expected

ROWS = 1200
LINES = "".join(f"A,f,{20 + n % 60},{n % 900}.25,60,n{n}\n" for n in range(ROWS))


def contributed(world: World) -> None:
    world.put(OWN)
    world.register("north")
    world.contribute("north", LINES)


world = copied_for_each(contributed)


def wide(length: int, *, stated: int | None = None) -> bytes:
    """A block with a text of `length` bytes in each row."""
    content = np.packbits(np.ones(ROWS, np.bool_)).tobytes() + np.full(ROWS, length, np.uint32).tobytes()
    content += b"a" * (length * ROWS)
    return struct.pack("<Q", len(content) if stated is None else stated) + content


def forged(world: World, **blocks: bytes) -> None:
    forger = Forger(world, "north")
    part = forger.part()
    for column, content in blocks.items():
        forger.block(part, column, content)
    forger.show(part)


def test_sizes_of_all_blocks_are_added_up_before_any_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column would fit by itself."""
    monkeypatch.setattr(limits, "MAX_SEGMENT_BYTES", 700_000)
    monkeypatch.setattr(contributed_rows, "open_blocks", None)  # which nothing uses
    forged(world, name=wide(400), sex=wide(400))
    with pytest.raises(CheckFailed, match=r"contributor 'north'.* take more than 700,000 bytes"):
        world.collect()


def test_what_is_sealed_of_a_segment_is_added_up_before_it_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column would fit by itself; the blocks state few bytes, and are long."""
    content = wide(1)
    forged(world, name=content + bytes(60_000), sex=content + bytes(60_000))
    monkeypatch.setattr(limits, "MAX_OBJECT_BYTES", 110_000)
    monkeypatch.setattr(ContributedRows, "_opening", None)  # which nothing uses
    with pytest.raises(CheckFailed, match=r"contributor 'north'.* take more than 110,000 bytes"):
        world.collect()


def test_a_block_has_no_less_than_it_states(world: World) -> None:
    forged(world, name=wide(40, stated=500_000))
    with pytest.raises(CheckFailed, match=r"contributor 'north': a sealed column of the table is damaged"):
        world.collect()


def test_duckdb_has_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEGMENT_MEMORY", LEAST_MEMORY)
    forged(world, name=wide(60_000))
    with pytest.raises(CheckFailed, match=r"contributor 'north': a part .*(memory|OutOfMemory)"):
        world.collect()
    assert world.ask(SUMS).result.rows == expected(world, OWN, SUMS)


def test_parts_are_no_larger_together_than_one_may_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        world.contribute("north", f"B,m,{30 + number},1.00,60,x{number}\n")
    monkeypatch.setattr(limits, "MAX_FACTS_BYTES", 8_000)
    with pytest.raises(CheckFailed, match=r"contributor 'north'.*holds more than"):
        world.collect()


@pytest.mark.parametrize("limit", ["MAX_SEGMENT_BYTES", "MAX_OBJECT_BYTES"])
def test_rows_that_would_be_refused_are_not_put(world: World, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(limits, limit, 10_000)
    with pytest.raises(InputError, match=r"400 rows take more than 10,000 bytes"):
        world.contribute("north", "".join(f"B,m,30,1.00,60,{'x' * 20}{number}\n" for number in range(400)))
    world.contribute("north", "B,m,30,1.00,60,x\n")
