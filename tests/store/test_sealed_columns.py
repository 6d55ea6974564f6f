"""Every type's width and canonical form; what is sealed of it comes back bit for bit."""

from __future__ import annotations

import ctypes
import struct
from decimal import Decimal

import duckdb
import nanoarrow
import numpy as np
import pyarrow as pa
import pytest

from cleave.store.columns import RecordBatches, read_columns, sealed_column, value_of
from cleave.store.manifest import new_id
from cleave.store.sealed import BLOCK_ROWS, ColumnBlock, ColumnPlace, ColumnValues, open_blocks, seal_column
from cleave.table.batches import _pointer_of, _Stream
from cleave.table.schema import Column, Kind
from cleave.table.types import canonical

KEY = bytes(32)

# By type: bytes of a value, a value as SQL, and its canonical form. All other types are refused.
FORMS: dict[str, tuple[int, str, bytes]] = {
    "BOOLEAN": (1, "true", b"\1"),
    "TINYINT": (1, "-2", b"\xfe"),
    "SMALLINT": (2, "-2", b"\xfe\xff"),
    "INTEGER": (4, "-2", struct.pack("<i", -2)),
    "BIGINT": (8, "-2", struct.pack("<q", -2)),
    "FLOAT": (4, "-1.5", struct.pack("<f", -1.5)),
    "DOUBLE": (8, "-1.5", struct.pack("<d", -1.5)),
    "DECIMAL": (8, "-1.5", struct.pack("<q", -1500)),  # DECIMAL(18,3)
    "DATE": (4, "DATE '1969-12-30'", struct.pack("<i", -2)),
    "TIME": (8, "TIME '00:00:01.5'", struct.pack("<q", 1_500_000)),
    "TIMESTAMP": (8, "TIMESTAMP '1969-12-31 23:59:59'", struct.pack("<q", -1_000_000)),
    "TIMESTAMP WITH TIME ZONE": (8, "TIMESTAMPTZ '1970-01-01 01:00:00+01'", struct.pack("<q", 0)),
    "INTERVAL": (0, "INTERVAL '1 year 2 days'", b"1 year 2 days"),
    "VARCHAR": (0, "'é☃'", "é☃".encode()),
}


def column(type_: str, lower: int | None = None, upper: int | None = None, *, nullable: bool = True) -> Column:
    decimals = duckdb.sqltype(type_).children[1][1] if type_.startswith("DECIMAL") else 0
    bounds = [None if each is None else Decimal(each).scaleb(-decimals) for each in (lower, upper)]
    return Column("x", Kind.SEALED, type_, *bounds, nullable=nullable)


def there_and_back(
    declared: Column, connection: duckdb.DuckDBPyConnection
) -> tuple[ColumnValues, list[ColumnBlock], RecordBatches]:
    """The column x of the table t, sealed and opened."""
    sealed = sealed_column(declared)
    (values,) = read_columns(connection, [sealed], "t")
    place = ColumnPlace(new_id(), new_id(), new_id(), sealed, values.rows)
    blocks = open_blocks(KEY, place, 0, map(memoryview, seal_column(KEY, place, values)))
    opened = RecordBatches([sealed], connection, lambda made: (made.make([block]) for block in blocks))
    return values, blocks, opened


def table(declared: Column, *values: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = 'UTC'; CREATE TABLE t (x {declared.type})")
    connection.execute("INSERT INTO t VALUES " + ", ".join(f"({each})" for each in values))
    return connection


def check_same(declared: Column, connection: duckdb.DuckDBPyConnection, opened: RecordBatches) -> None:
    connection.register("opened", opened)
    value = value_of(opened.columns[0], "x")
    found = connection.execute(f"SELECT typeof({value}), CAST({value} AS VARCHAR) FROM opened").fetchall()
    assert found == connection.execute("SELECT typeof(x), CAST(x AS VARCHAR) FROM t").fetchall()
    assert {type_ for type_, _ in found} == {declared.type}


def duckdb_types() -> list[str]:
    return sorted(name for (name,) in duckdb.sql("SELECT DISTINCT logical_type FROM duckdb_types()").fetchall())


@pytest.mark.parametrize("name", duckdb_types())
def test_every_type_of_duckdb_has_a_form_or_is_refused(name: str) -> None:
    type_ = "DECIMAL(18,3)" if name == "DECIMAL" else name
    if name not in FORMS:
        with pytest.raises(ValueError, match="must be one of"):
            canonical(type_)
        return
    width, value, form = FORMS[name]
    declared = column(canonical(type_))
    sealed = sealed_column(declared)
    assert (sealed.type, sealed.width, sealed.nullable) == (type_, width, True)
    with table(declared, value, "NULL") as connection:
        values, (block,), opened = there_and_back(declared, connection)
        assert bytes(block.data) == form + bytes(width)  # zero under NULL
        assert block.bitmap is not None
        assert bytes(block.bitmap) == b"\1"
        assert values.valid is not None
        assert block.lengths is None or block.lengths.tolist() == [len(form), 0]
        check_same(declared, connection, opened)


def test_no_type_is_left_out() -> None:
    assert set(FORMS) <= set(duckdb_types())


EDGES = [1 << bits for bits in (7, 15, 31, 63)]


def around(type_: str, bits: int) -> list[tuple[int, int, int]]:
    """Bounds about the edge of every width that `type_`, of `bits` bits, reaches beyond, and the width they need."""
    return [
        (lower, upper, wanted)
        for width, edge in zip((1, 2, 4, 8), EDGES, strict=True)
        for lower, upper, wanted in (
            (-edge, edge - 1, width),
            (0, edge - 1, width),
            (-edge, 0, width),
            (0, edge, 2 * width),
            (-edge - 1, 0, 2 * width),
        )
        if max(upper, -lower - 1).bit_length() < bits
    ]


INTEGRAL = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "DECIMAL(9,2)": 30, "DECIMAL(18,4)": 60, "DECIMAL(38,0)": 127}


@pytest.mark.parametrize("type_", INTEGRAL)
def test_bounds_at_the_edge_of_a_width(type_: str) -> None:
    found = [
        (sealed_column(column(type_, *bounds)).width, wanted) for *bounds, wanted in around(type_, INTEGRAL[type_])
    ]
    assert found
    assert all(width == wanted for width, wanted in found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", INTEGRAL)
@pytest.mark.parametrize("nullable", [False, True])
def test_values_at_the_edge_of_a_width(type_: str, nullable: bool) -> None:
    lower, upper, _ = around(type_, INTEGRAL[type_])[-3]
    for least, most in ((lower, 0), (0, upper), (-128, 127)):
        declared = column(type_, least, most, nullable=nullable)
        unit = Decimal(1).scaleb(-(declared.decimals or 0))
        some = [f"{each * unit:f}" for each in (least, most, least + 1, most - 1, 0)]
        with table(declared, *some, *(["NULL"] if nullable else [])) as connection:
            _, _, opened = there_and_back(declared, connection)
            check_same(declared, connection, opened)


def test_decimals_of_38_digits() -> None:
    declared = column("DECIMAL(38,10)")
    assert sealed_column(declared).width == 16
    most = "9" * 28 + "." + "9" * 10
    with table(declared, f"'{most}'", f"'-{most}'", "0", "NULL", "'-0.0000000001'", f"{1 << 64}") as connection:
        _, _, opened = there_and_back(declared, connection)
        check_same(declared, connection, opened)


@pytest.mark.parametrize(
    ("type_", "bits", "special"),
    [
        ("DOUBLE", np.uint64, [0, 1 << 63, 0x7FF8000000000001, 0xFFF8DEADBEEF0001, 0x7FF0000000000000, 0xFFF << 52, 1]),
        ("FLOAT", np.uint32, [0, 1 << 31, 0x7FC00001, 0xFFC0BEEF, 0x7F800000, 0xFF800000, 1]),
    ],
)
def test_floats_are_bit_exact(type_: str, bits: type[np.unsignedinteger], special: list[int]) -> None:
    """NaN payloads, -0.0 and subnormals included."""
    values = np.array(special, bits)
    floats = values.view(np.float64 if type_ == "DOUBLE" else np.float32)
    with duckdb.connect() as connection:
        connection.register("t", pa.table({"x": pa.array(floats)}))
        _, (block,), opened = there_and_back(column(type_), connection)
        assert bytes(block.data) == values.tobytes()
        connection.register("opened", opened)
        found = connection.sql("SELECT x FROM opened").to_arrow_table()["x"].to_numpy()
        assert (found.view(bits) == values).all()


def test_nulls_over_blocks() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT CASE WHEN hash(i) % 3 > 0 THEN i END AS x FROM range({BLOCK_ROWS + 777}) r(i)"
        )
        declared = column("BIGINT", 0, 1 << 20)
        _, blocks, opened = there_and_back(declared, connection)
        assert [block.rows for block in blocks] == [BLOCK_ROWS, 777]
        check_same(declared, connection, opened)


def test_a_stream_that_is_closed_while_duckdb_takes_it_is_an_error_and_keeps_its_memory() -> None:
    """A question that is out of time is closed beside the thread that still answers it."""
    declared = column("INTEGER")
    with table(declared, "1") as connection:
        *_, opened = there_and_back(declared, connection)
        stream = opened.__arrow_c_stream__()
        size, place = ctypes.sizeof(_Stream), _pointer_of(stream, b"arrow_array_stream")
        before = ctypes.string_at(place, size)
        opened.close()
        others = [ctypes.create_string_buffer(size) for _ in range(100)]  # in what is free of that size
        assert ctypes.string_at(place, size) == before, len(others)
        with pytest.raises(RuntimeError, match="the rows could not be read"):
            nanoarrow.c_array_stream(stream).get_schema()
