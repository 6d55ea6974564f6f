"""Values that compare as equal and are stored differently: a change from one to the other is a change."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import update_rows as update
from cleave.maintain.pull import pull_arrow
from cleave.objects.locate import Folder
from cleave.store import put as putting
from cleave.table.inputs import Frame
from cleave.table.progress import Silent
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from tests.store.trial import World

NAN, OTHER_NAN = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8BADC0FFEE123))
COLUMNS = ("p", "s")
SCHEMA = Schema(
    (
        Column("k", Kind.PLAIN, "BIGINT", nullable=False),
        Column("p", Kind.PLAIN, "DOUBLE"),
        Column("s", Kind.SEALED, "DOUBLE"),
        Column("i", Kind.SEALED, "INTERVAL"),
    ),
    CsvDialect(),
)


def frame(*values: float, month: str = "1 month") -> Frame:
    doubles = pa.array(np.array(values))
    keys = pa.array(range(len(values)), pa.int64())
    return Frame(pa.table({"k": keys, "p": doubles, "s": doubles, "i": [month] * len(values)}), "t")


def bits(world: World, column: str) -> list[int]:
    with closing(world.stored()) as stored:
        return pull_arrow(stored, Silent())[column].to_numpy().view(np.uint64).tolist()


def bits_of(*values: float) -> list[int]:
    return np.array(values).view(np.uint64).tolist()


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey) -> World:
    return World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))


def put(world: World, rows: Frame, **options: bool) -> None:
    putting.put(world.tables, open_table(rows, SCHEMA), "trial", [], Silent(), **options)


def append(world: World, rows: Frame, **options: bool) -> int:
    return putting.append(world.tables, open_table(rows, SCHEMA), "trial", Silent(), **options).manifest.rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_number_is_read_as_the_column_s_type(world: World, column: str) -> None:
    put(world, frame(0.0, 2.5))
    for sql, value in (("-0.0", -0.0), ("0", 0.0), (" -0 ", -0.0), ("'-0.0'", -0.0), ("-.5e-3", -0.5e-3)):
        update(world.tables, "trial", {column: sql}, "k = 0", Silent(), yes=True)
        assert bits(world, column) == bits_of(value, 2.5)


def test_rows_that_stay_keep_their_bits(world: World) -> None:
    values = (0.0, -0.0, NAN, OTHER_NAN, 1.5)
    put(world, frame(*values))
    update(world.tables, "trial", {"p": "p + 1", "s": "s + 1"}, "k = 4", Silent(), yes=True)
    alter(world.tables, "trial", Alteration(add=["y DECIMAL(9,2) plain"]), Silent())
    for column in COLUMNS:
        assert bits(world, column) == bits_of(*values[:4], 2.5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (frame(0.0, 1), frame(-0.0, 1)),
        (frame(0.0, -0.0), frame(-0.0, 0.0)),
        (frame(NAN, 1), frame(OTHER_NAN, 1)),
        (frame(1, 1), frame(1, 1, month="30 days")),
    ],
)
def test_rows_of_other_bits_are_other_rows(world: World, first: Frame, second: Frame) -> None:
    put(world, first)
    assert append(world, first) == 4
    assert append(world, first) == 4
    assert append(world, second) == 6


@pytest.mark.slow  # quick: the test above
def test_an_upsert_takes_the_sign_of_zero(world: World) -> None:
    put(world, frame(1.5, 2.5), key=["k"])
    for values in ((0.0, 2.5), (-0.0, 2.5), (0.0, 2.5)):
        assert append(world, frame(*values), upsert=True, yes=True) == 2
        assert [bits(world, each) for each in COLUMNS] == [bits_of(*values)] * 2


def test_a_replaced_table_has_the_new_bits(world: World) -> None:
    put(world, frame(0.0, NAN))
    put(world, frame(-0.0, OTHER_NAN), replace=True)
    assert [bits(world, each) for each in COLUMNS] == [bits_of(-0.0, OTHER_NAN)] * 2


def test_duckdb_calls_them_equal() -> None:
    ((equal,),) = duckdb.execute("SELECT hash(0.0::DOUBLE) = hash('-0.0'::DOUBLE)").fetchall()
    assert equal
