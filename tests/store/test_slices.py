"""A stream cut into segments: no row is lost, doubled or moved, whatever its types and the sizes."""

from __future__ import annotations

import random
from functools import cache

import pyarrow as pa
import pytest

from cleave.store.manifest import ROW
from cleave.store.slices import Slices, digest_of, sort
from cleave.table.duck import identifier
from cleave.table.inputs import Frame
from cleave.table.schema import Schema, read_schema
from cleave.table.stream import open_stream
from cleave.table.table import Table

ROWS = 9_000  # four vectors of DuckDB's, and a part of one
TYPES = {
    "key": ("BIGINT", "plain"),
    "ward": ("VARCHAR", "plain"),
    "cents": ("DECIMAL(7,2)", "encrypted"),
    "wide": ("DECIMAL(38,10)", "sealed"),
    "flag": ("BOOLEAN", "sealed"),
    "stay": ("INTERVAL", "sealed"),
}
SCHEMA = read_schema({"columns": {name: {"type": type_, "kind": kind} for name, (type_, kind) in TYPES.items()}}, "t")


@cache
def frame() -> Frame:
    rng = random.Random(5)
    drawn = [None if rng.random() < 0.1 else rng.randrange(90) for _ in range(ROWS)]
    columns = {
        "key": pa.array(range(ROWS)),
        "ward": pa.array([None if each is None else "abc"[each % 3] * (each % 40) for each in drawn]),
        "cents": pa.array([None if each is None else f"{each}.25" for each in drawn]),
        "wide": pa.array([None if each is None else f"-{each}.0000000001" for each in drawn]),
        "flag": pa.array([None if each is None else each % 2 == 0 for each in drawn]),
        "stay": pa.array([None if each is None else f"{each} days -00:00:01" for each in drawn]),
    }
    return Frame(pa.table(columns), "the frame")


def texts(table: Table, order: str = "") -> list[tuple[str | None, ...]]:
    selected = ", ".join(f"CAST({name} AS VARCHAR)" for name in TYPES)
    types = {
        each[0] for each in table.connection.execute(f"SELECT typeof(COLUMNS(*)) FROM {table.relation}").fetchall()
    }
    assert types
    return table.connection.execute(f"SELECT {selected} FROM {table.relation}{order}").fetchall()


def sliced(schema: Schema, *sizes: int) -> list[list[tuple[str | None, ...]]]:
    """The rows of slices of these sizes, and of the rest."""
    found = []
    with open_stream(frame(), schema, "t") as stream, Slices(stream, schema) as slices:
        for size in sizes:
            piece = slices.next(size)
            assert piece is not None
            assert piece.rows == size
            found.append(texts(slices.table(piece)))
        while (piece := slices.next()) is not None:
            found.append(texts(slices.table(piece)))
    return found


@cache
def whole() -> list[tuple[str | None, ...]]:
    return sliced(SCHEMA)[0]


@pytest.mark.parametrize("sizes", [(), (1,), (2048, 2048), (2047, 2, 1, 3000), (ROWS,), (ROWS - 1, 1)])
def test_slices_are_the_rows_in_their_order(sizes: tuple[int, ...]) -> None:
    found = sliced(SCHEMA, *sizes)
    assert [len(each) for each in found] == [*sizes, *([ROWS - sum(sizes)] if sum(sizes) < ROWS else [])]
    rows = [row for each in found for row in each]
    assert [row[0] for row in rows] == [str(number) for number in range(ROWS)]
    assert rows == whole()
    assert {row[2] for row in rows} == {None, *(f"{each}.25" for each in range(90))}


def test_rows_are_sorted_by_plain_columns_and_then_as_they_were() -> None:
    with open_stream(frame(), SCHEMA, "t") as stream, Slices(stream, SCHEMA) as slices:
        slices.next(3000)
        piece = slices.next(4000)
        assert piece is not None
        table = slices.table(piece)
        wanted = texts(table, f" ORDER BY ward NULLS LAST, {identifier('key')}")
        sort(table, [SCHEMA.column("ward")])
        assert texts(table) == wanted
        numbers = table.connection.execute(f"SELECT {identifier(ROW)} + 3000 FROM {table.relation}").fetchall()
        assert [str(each) for (each,) in numbers] == [row[0] for row in wanted]
        types = table.connection.execute(f"DESCRIBE SELECT * FROM {table.relation}").fetchall()
        assert [each[1] for each in types[:-1]] == [each.type for each in SCHEMA.columns]


def test_a_digest_is_of_all_values_and_of_their_order() -> None:
    def digest(change: str, order: str = "") -> str:
        with open_stream(frame(), SCHEMA, "t") as stream, Slices(stream, SCHEMA) as slices:
            piece = slices.next()
            assert piece is not None
            table = slices.table(piece)
            table.connection.execute(f"CREATE TABLE other AS SELECT * REPLACE ({change}) FROM {table.relation}{order}")
            table.relation = "other"
            return digest_of(table)

    same = digest("ward AS ward")
    assert digest("ward AS ward") == same
    for name, (type_, _) in TYPES.items():
        one = (
            "NOT flag"
            if name == "flag"
            else f"CAST('{'x' if name == 'ward' else '1 day' if name == 'stay' else 7}' AS {type_})"
        )
        assert digest(f"CASE WHEN {identifier('key')} = 4321 THEN {one} ELSE {name} END AS {name}") != same
    assert (
        digest("ward AS ward", f" ORDER BY CASE {identifier('key')} WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE key END") != same
    )
