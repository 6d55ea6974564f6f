"""A proposal is tried: what it proposes reads the whole file, and gives the same text back or is unsure."""

from __future__ import annotations

import csv
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cleave
from cleave.propose.propose import propose, propose_frame
from cleave.table.schema import Column, Kind
from cleave.table.stream import open_stream, open_table
from tests.campaign import FACTOR


def proposed(folder: Path, name: str, fields: list[str]) -> Column:
    path = folder / "t.csv"
    path.write_text("\n".join([name, *fields]) + "\n")
    schema = propose(path)
    with open_stream([path], schema) as stream:
        assert stream.survey().rows == len(fields)
    return schema.columns[0]


@pytest.mark.parametrize(
    ("fields", "type_", "unsure", "says"),
    [
        (["12E03", "45E10"], "VARCHAR", True, "numbers with exponents, or codes like them, kept as text"),
        (["12345", "45e10"], "VARCHAR", True, "numbers with exponents, or codes like them, kept as text"),
        (["1.2E-5", "3e-10", "0.50", "-7", "+2"], "DOUBLE", False, ""),
        (["1E+05", "1"], "DOUBLE", False, ""),
        (["0.1234567", "(2.50)", "1.5000000-"], "DOUBLE", False, ""),
        (["0.12345678901234567890", "0.5"], "DOUBLE", True, "a number comes back with other digits"),
        (["1e400", "1.5"], "DOUBLE", True, "5 values are NaN or infinite, which cannot be encrypted: sealed"),
        (["2026-02-01 10:00:00+00", "2026-02-01T11:00:00Z"], "TIMESTAMP WITH TIME ZONE", True, ""),
        (["2026-02-01 10:00:00+00", "2026-02-01 11:00:00+02:00"], "TIMESTAMP WITH TIME ZONE", True, "in UTC, so zones"),
    ],
)
def test_a_column_that_comes_back_otherwise_is_unsure(
    tmp_path: Path, fields: list[str], type_: str, unsure: bool, says: str
) -> None:
    column = proposed(tmp_path, "x", fields * 5)
    assert (column.type, column.unsure) == (type_, unsure)
    assert says in column.reason
    assert not any(field in column.reason for field in fields if len(field) > 3)


@pytest.mark.parametrize(
    ("fields", "unsure"), [(["true", "False", "TRUE "], False), (["yes", "no"], True), (["Y"], True)]
)
def test_yes_and_no_come_back_as_true_and_false(tmp_path: Path, fields: list[str], unsure: bool) -> None:
    column = proposed(tmp_path, "x", [*fields, "N" if fields == ["Y"] else fields[0]] * 5)
    assert (column.type, column.unsure) == ("BOOLEAN", unsure)
    assert ("yes and no come back as true and false" in column.reason) is unsure


@pytest.mark.parametrize("strange", ["\u00a05", "5\u2009", "1e9e9"])
def test_a_number_that_cannot_be_read_makes_its_column_text(tmp_path: Path, strange: str) -> None:
    """A blank that Python takes for one and DuckDB does not: the proposal refused its own file."""
    column = proposed(tmp_path, "x", ["4.131e-10", "2.5", strange] * 5)
    assert (column.type, column.unsure) == ("VARCHAR", True)


MESSY = (
    *(
        "5",
        "0.25",
        "1.5e-7",
        "12E03",
        "1e400",
        "nan",
        "-inf",
        "<5",
        "+3",
        "(4)",
        "007",
        "5 %",
        "\u20ac 5",
        "1,250.5",
        "1.250,5",
    ),
    *("yes", "no", "Y", "true", "2024-01-31", "31.01.2024", "1/2/24", "2024-01-31T10:00Z", "2024-01-31 10:00:00+02"),
    *("", "NA", "-", " ", "n.d.", "x", "0x10", "\u0661", "\u00a05", "9" * 25, "0." + "3" * 25),
)


@pytest.mark.parametrize("start", range(0, 400 * FACTOR, 20))
@pytest.mark.sampled(20, 4)
def test_a_proposal_reads_its_own_file(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + 20):
        chance = random.Random(seed)
        usual = [chance.choice(MESSY) for _ in range(3)]
        rows = [
            [each if chance.random() < 0.8 else chance.choice(MESSY) for each in usual]
            for _ in range(chance.choice((1, 3, 40)))
        ]
        with (path := tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";").writerows([["a", "b", "c"], *rows])
        schema = propose(path)
        with open_stream([path], schema) as stream:
            assert stream.survey().rows == len(rows), seed
        with open_table([path], schema) as table:  # text comes back as it is
            for place, column in enumerate(schema.columns):
                if column.type == "VARCHAR":
                    fields = table.connection.execute(f'SELECT "{column.name}" FROM {table.relation}').fetchall()
                    assert [field or "" for (field,) in fields] == [row[place] for row in rows], seed


def test_the_last_of_many_rows_is_tried(tmp_path: Path) -> None:
    column = proposed(tmp_path, "x", [f"0.{number:07d}" for number in range(30_000)] + ["0.12345678901234567890"])
    assert column.unsure
    assert not proposed(tmp_path, "x", [f"0.{number:07d}" for number in range(30_000)]).unsure


def test_moments_with_a_zone_are_no_identifier(tmp_path: Path) -> None:
    column = proposed(tmp_path, "t", [f"2026-02-01 10:00:{second:02d}+02" for second in range(60)])
    assert column.type == "TIMESTAMP WITH TIME ZONE"
    assert "identifier" not in column.reason


TYPED: dict[str, Any] = {
    "x": [1.5, float("nan"), 2.5],
    "f": pa.array([1.5, float("inf"), 2.5] * 10, pa.float32()),
    "answer": ["yes", "no", "yes"],
    "day": ["2024-01-01", "2024-02-01", None],
    "written": ["01.02.2024", "02.02.2024", "31.12.2024"],
    "price": ["1.50", "2.50", "3.5"],
    "number": ["7", "8", "9"],
    "ns": pa.array([1, 2, 3] * 10, pa.timestamp("ns")),
    "us": [datetime(2024, 1, day) for day in (1, 2, 3)],  # noqa: DTZ001 - a frame's may have no zone
}
TABLE = pa.table({name: values if isinstance(values, pa.Array) else values * 10 for name, values in TYPED.items()})


def test_what_is_proposed_for_typed_columns_can_be_read(tmp_path: Path) -> None:
    """A file with NaN was refused by `query`, and a text of yes and no became BOOLEAN."""
    pq.write_table(TABLE, path := tmp_path / "t.parquet")
    schema = propose([path, path])
    types = {column.name: column.type for column in schema.columns}
    assert types == {
        "x": "DOUBLE",
        "f": "FLOAT",
        "answer": "VARCHAR",
        "day": "DATE",
        "written": "VARCHAR",
        "price": "VARCHAR",
        "number": "BIGINT",
        "ns": "VARCHAR",
        "us": "TIMESTAMP",
    }
    assert [(column.kind, column.unsure) for column in schema.columns[:2]] == [(Kind.SEALED, True)] * 2
    assert "20 values are NaN or infinite" in schema.column("x").reason
    with open_stream([path, path], schema) as stream:
        assert stream.survey().rows == 60
    assert cleave.query(path, "SELECT COUNT(*), MIN(us) FROM t", schema=schema).rows[0][0] == 30


def test_a_frame_is_tried_too() -> None:
    schema = propose_frame(TABLE)
    assert (schema.column("answer").type, schema.column("x").kind) == ("VARCHAR", Kind.SEALED)
