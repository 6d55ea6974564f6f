"""Frames in place of files: what each column becomes, and what is refused, by column and row and never by value."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cleave.propose.propose import propose_frame
from cleave.table.lazy import is_frame, of_frame
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.types import ZONED
from cleave_shared.errors import InputError

UTC = datetime.UTC
SECRET = "zz-canary"


def read(data: Any, schema: Any) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    lazy = of_frame(data, schema)
    with lazy.read(None) as table:
        shown = ", ".join(  # DuckDB gives Python a timestamp with a zone only where pytz is installed
            f'CAST("{each.name}" AS TIMESTAMP)' if each.type == ZONED else f'"{each.name}"'
            for each in lazy.schema.columns
        )
        rows = table.connection.execute(f"SELECT {shown} FROM {table.relation}").fetchall()
    return {column.name: column.type for column in lazy.schema.columns}, rows


def column(values: Any, kind: str = "plain", **more: Any) -> tuple[str, list[Any]]:
    """Type and values of one column as the table has it."""
    types, rows = read(pd.DataFrame({"x": values}), {"x": {"kind": kind, **more}})
    return types["x"], [value for (value,) in rows]


def refusal(data: Any, schema: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(data, schema)
    told = f"{caught.value.message} {caught.value.hint} {caught.value.__cause__} {caught.value.__context__}"
    assert SECRET not in told
    return caught.value.message


WHEN = datetime.datetime(2025, 1, 2, 3, 4, 5)  # noqa: DTZ001 - a TIMESTAMP has no zone
EAST = datetime.timezone(datetime.timedelta(hours=2))
# fmt: off
COLUMNS: list[tuple[Any, str, list[Any]]] = [
    (pd.Series([1, 2], dtype="int64"), "BIGINT", [1, 2]),
    (pd.Series([1, 2], dtype="int8"), "TINYINT", [1, 2]),
    (pd.Series([1, 2**64 - 1], dtype="uint64"), "DECIMAL(20,0)", [1, 2**64 - 1]),
    (pd.array([1, None, 2**63 - 1], dtype="Int64"), "BIGINT", [1, None, 2**63 - 1]),
    (pd.Series([1.5, np.nan, -0.0]), "DOUBLE", [1.5, None, -0.0]),
    (pd.Series([1.5, np.inf]), "DOUBLE", [1.5, np.inf]),
    (pd.array([1.5, None], dtype="Float64"), "DOUBLE", [1.5, None]),
    (pd.Series([1.5, 2.5], dtype="float32"), "FLOAT", [1.5, 2.5]),
    (pd.Series([0.5, np.nan], dtype="float16"), "FLOAT", [0.5, None]),
    (pd.Series([True, False]), "BOOLEAN", [True, False]),
    (pd.array([True, None], dtype="boolean"), "BOOLEAN", [True, None]),
    (pd.Series(["a", None, "", "NULL"], dtype=object), "VARCHAR", ["a", None, "", "NULL"]),
    (pd.Series(["a", np.nan, "ä\U0001f600"], dtype=object), "VARCHAR", ["a", None, "ä\U0001f600"]),
    (pd.Series(["a", pd.NA], dtype="string"), "VARCHAR", ["a", None]),
    (pd.Series(["a", None], dtype=pd.ArrowDtype(pa.large_string())), "VARCHAR", ["a", None]),
    (pd.Categorical(["b", "a", None, "b"]), "VARCHAR", ["b", "a", None, "b"]),
    (pd.Categorical([3, 1, None]), "BIGINT", [3, 1, None]),
    (pd.Series([WHEN, pd.NaT]), "TIMESTAMP", [WHEN, None]),
    (pd.Series([WHEN.replace(tzinfo=EAST), None]), ZONED, [WHEN - datetime.timedelta(hours=2), None]),
    (pd.Series([WHEN.replace(tzinfo=UTC), None], dtype=object), ZONED, [WHEN, None]),
    (pd.Series([WHEN], dtype="datetime64[s]"), "TIMESTAMP", [WHEN]),
    (pd.Series([datetime.date(2025, 1, 2), None], dtype=object), "DATE", [datetime.date(2025, 1, 2), None]),
    (pd.Series([datetime.time(1, 2), None], dtype=object), "TIME", [datetime.time(1, 2), None]),
    (pd.Series([Decimal("1.25"), Decimal(3), None], dtype=object), "DECIMAL(18,2)",
     [Decimal("1.25"), Decimal("3.00"), None]),
    (pd.Series([Decimal("1E+20"), Decimal("0.1")], dtype=object), "DECIMAL(38,1)",
     [Decimal("100000000000000000000.0"), Decimal("0.1")]),
    (pd.Series([1, 2, None], dtype=object), "BIGINT", [1, 2, None]),
    (pd.Series([1, 2**63], dtype=object), "DECIMAL(38,0)", [1, 2**63]),
    (pd.Series([1.5, 2.5], dtype=object), "DOUBLE", [1.5, 2.5]),
    (pd.Series([True, None], dtype=object), "BOOLEAN", [True, None]),
    (pd.Series([None, None], dtype=object), "VARCHAR", [None, None]),
    (pd.Series([], dtype="int64"), "BIGINT", []),
]
# fmt: on


@pytest.mark.parametrize("rows", sorted({len(expected) for *_, expected in COLUMNS}))
def test_columns_keep_their_values(rows: int) -> None:
    """Columns of as many rows are in one frame."""
    columns = {f"c{at}": each for at, each in enumerate(COLUMNS) if len(each[2]) == rows}
    frame = pd.DataFrame({name: values for name, (values, _, _) in columns.items()})
    types, found = read(frame, dict.fromkeys(columns, "plain"))
    for at, (name, (_, type_, expected)) in enumerate(columns.items()):
        values = [row[at] for row in found]
        assert (types[name], values) == (type_, expected), name
        assert [math.copysign(1, each) for each in values if each == 0] == [
            math.copysign(1, each) for each in expected if each == 0
        ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2, SECRET], "row 3: is text, the rows before it are a whole number"),
        ([None, SECRET, 5], "row 3: is a whole number, the rows before it are text"),
        ([1, 2.5], "row 2: is a float"),
        ([True, 1], "row 2: is a whole number, the rows before it are true or false"),
        ([Decimal(1), 2.5], "row 2: is a float, the rows before it are a Decimal"),
        ([datetime.date(2025, 1, 1), WHEN], "row 2: is a moment, the rows before it are a date"),
        ([WHEN, WHEN.replace(tzinfo=UTC)], "row 2: is a moment with a time zone"),
        ([f"{SECRET}\ud800"], "row 1: is text with an unpaired surrogate"),
        ([{SECRET: 1}], "row 1: a dict cannot be read"),
        ([[SECRET]], "row 1: a list cannot be read"),
        ([1j], "row 1: a complex cannot be read"),
        ([Decimal("Infinity")], "row 1: is infinite"),
        ([Decimal(1), Decimal("1e40")], "row 2: needs more than the 38 digits"),
        ([1, 10**40], "row 2: needs more than the 38 digits"),
        ([datetime.time(1, tzinfo=UTC)], "row 1: a time cannot be read"),
    ],
)
def test_objects_must_be_of_one_kind(values: list[Any], message: str) -> None:
    told = refusal(pd.DataFrame({"x": pd.Series(values, dtype=object)}), {"x": "plain"})
    assert told.startswith("the DataFrame, column 'x'")
    assert message in told


def test_categories_are_of_one_kind_too() -> None:
    mixed = pd.DataFrame({"x": pd.Categorical([1, SECRET], categories=[1, SECRET])})
    assert "among its categories, row 2: is text" in refusal(mixed, {"x": "plain"})


def test_values_must_fit_the_schema() -> None:
    nanoseconds = pd.DataFrame({"x": pd.Series([0, 1], dtype="datetime64[ns]")})
    assert "row 2, column 'x': is no TIMESTAMP without a change" in refusal(nanoseconds, {"x": "plain"})
    infinite = pd.DataFrame({"x": [1.0, math.inf]})
    assert "row 2, column 'x': is no DOUBLE" in refusal(infinite, {"x": "encrypted"})
    not_a_number = pa.table({"x": pa.array([1.0, math.nan])})
    assert "row 2, column 'x': is no DOUBLE" in refusal(not_a_number, {"x": "encrypted"})
    assert math.isnan(read(not_a_number, {"x": "plain"})[1][1][0])
    bounded = {"x": {"kind": "encrypted", "lower": 0, "upper": 2}}
    assert "row 3, column 'x': the value is above upper" in refusal(pd.DataFrame({"x": [1, 2, 3]}), bounded)
    filled = {"x": {"kind": "encrypted", "nullable": False}}
    assert "row 2, column 'x': is NULL" in refusal(pd.DataFrame({"x": [1.0, None]}), filled)


def test_a_column_that_the_schema_does_not_name_is_refused() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]})
    assert "column 'b': is not named in the schema (nor are 1 others)" in refusal(frame, {"a": "plain"})
    assert "has no column 'z'" in refusal(frame, {"a": "plain", "b": "plain", "c": "plain", "z": "plain"})
    assert "column 'B'" in refusal(pd.DataFrame({"b": [1], "B": [2]}), {"b": "plain", "B": "plain"})
    assert "name of column 1 is int" in refusal(pd.DataFrame({0: [1]}), {})
    assert "has no columns" in refusal(pd.DataFrame(), {})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("public", "kind: must be one of"),
        ({"kind": "plain", "typ": "BIGINT"}, "does not know the key 'typ'"),
        ({"upper": 3}, "kind: is missing"),
        (None, "kind"),
    ],
)
def test_kinds_are_checked_as_in_a_schema_file(kind: Any, message: str) -> None:
    assert message in refusal(pd.DataFrame({"x": [1]}), {"x": kind})


def test_only_numbers_are_encrypted() -> None:
    assert "VARCHAR cannot be encrypted" in refusal(pd.DataFrame({"x": ["a"]}), {"x": "encrypted"})
    assert "VARCHAR cannot be encrypted" in refusal(pa.table({"x": pa.array([[1]])}), {"x": "encrypted"})


class Stream:
    """Nothing but the PyCapsule interface, as polars and others have it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


# fmt: off
ARROW: Mapping[str, tuple[pa.Array, str, Any]] = {
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), "VARCHAR", "a"),
    "large": (pa.array(["a"], pa.large_string()), "VARCHAR", "a"),
    "view": (pa.array(["a"], pa.string_view()), "VARCHAR", "a"),
    "half": (pa.array(np.array([0.5], "float16")), "FLOAT", 0.5),
    "zone": (pa.array([WHEN], pa.timestamp("ms", "America/New_York")), ZONED, WHEN),
    "decimal": (pa.array([Decimal("1.5")], pa.decimal128(9, 2)), "DECIMAL(9,2)", Decimal("1.50")),
    "wide": (pa.array([Decimal("1.5")], pa.decimal256(60, 2)), "DECIMAL(38,2)", Decimal("1.50")),
    "null": (pa.nulls(1), "VARCHAR", None),
    "nested": (pa.array([[1, 2]]), "VARCHAR", "[1, 2]"),
    "uint32": (pa.array([7], pa.uint32()), "BIGINT", 7),
    "date": (pa.array([datetime.date(2025, 1, 2)], pa.date64()), "DATE", datetime.date(2025, 1, 2)),
}
# fmt: on


def test_arrow_columns() -> None:
    whole = pa.table({name: values[:1] for name, (values, _, _) in ARROW.items()})
    for data in (whole, Stream(whole), whole.to_reader()):
        assert is_frame(data)
        types, rows = read(data, dict.fromkeys(ARROW, "plain"))
        assert types == {name: type_ for name, (_, type_, _) in ARROW.items()}
        assert rows == [tuple(first for _, _, first in ARROW.values())]


def test_a_number_too_wide_is_refused_without_its_value() -> None:
    wide = pa.table({"x": pa.array([Decimal(10) ** 50], pa.decimal256(60, 0))})
    assert "column 'x', row 1: decimal256(60, 0) cannot be read" in refusal(wide, {"x": "plain"})


def test_a_schema_object_serves_too_and_names_the_table() -> None:
    schema = Schema((Column("x", Kind.PLAIN, "DOUBLE"),), CsvDialect(), "stays")
    lazy = of_frame(pd.DataFrame({"x": [1, 2]}), schema)
    assert lazy.name == "stays"
    with lazy.read(None) as table:
        assert table.connection.execute(f"SELECT x FROM {table.relation}").fetchall() == [(1.0,), (2.0,)]
    assert of_frame(pd.DataFrame({"x": [1]}), schema, "other").name == "other"
    assert "column 'y'" in refusal(pd.DataFrame({"x": [1], "y": [2]}), schema)


def test_what_becomes_of_the_frame_once_it_is_read_does_not_matter() -> None:
    frame = pd.DataFrame({"x": [1, 2]})
    with of_frame(frame, {"x": "plain"}).read(None) as table:
        frame.loc[0, "x"] = 99
        assert table.connection.execute(f"SELECT x FROM {table.relation}").fetchall() == [(1,), (2,)]


def test_a_text_column_that_is_declared_a_number_is_read_as_a_csv_is() -> None:
    schema = Schema((Column("x", Kind.ENCRYPTED, "DECIMAL(18,2)"),), CsvDialect())
    _, rows = read(pd.DataFrame({"x": ["1.50", "2"]}), schema)
    assert rows == [(Decimal("1.50"),), (Decimal("2.00"),)]
    assert "row 2, column 'x'" in refusal(pd.DataFrame({"x": ["1.50", SECRET]}), schema)


def test_a_schema_is_proposed_for_a_frame() -> None:
    table = pa.table(
        {
            "ward": ["North", "South"] * 50,
            "age": list(range(100)),
            "email": [f"someone{number}@example.org" for number in range(100)],
            "gene_a": [1.5, None] * 50,
            "gene_b": [2.5, 3.5] * 50,
        }
    )
    schema = propose_frame(table, {"gene_*": Kind.LOCAL, "gene_b": Kind.ENCRYPTED}, table="visits")
    assert schema.table == "visits"
    found = {column.name: (str(column.kind), column.type, column.nullable) for column in schema.columns}
    assert found == {
        "ward": ("plain", "VARCHAR", False),
        "age": ("encrypted", "BIGINT", False),
        "email": ("sealed", "VARCHAR", True),
        "gene_a": ("local", "DOUBLE", True),
        "gene_b": ("encrypted", "DOUBLE", False),
    }
    assert schema.column("age").upper == 128
    with pytest.raises(InputError, match="has no rows"):
        propose_frame(table.slice(0, 0))
