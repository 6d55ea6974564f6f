"""Figures of 39 digits and other types that formats lack: whatever is answered can be written, else it is refused."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from openpyxl import load_workbook

import cleave
from cleave.api.result import Result
from cleave.ask.question import Answer
from cleave.cli.answer import Format, answer_bytes
from cleave.finish import ResultTable
from cleave.sql.plan import Output
from cleave_shared.errors import QueryRefused
from tests.cli.test_report import USAGE

D = Decimal
LARGEST = 2**127 - 1
# type, value, what Parquet has of it, and what Arrow has
WIDE = [
    ("HUGEINT", 10**38 - 1, D(10**38 - 1)),
    ("HUGEINT", 10**38, str(10**38)),
    ("HUGEINT", LARGEST, str(LARGEST)),
    ("HUGEINT", -LARGEST - 1, str(-LARGEST - 1)),
    ("UHUGEINT", 2**128 - 1, str(2**128 - 1)),
    ("BIGNUM", str(10**50), str(10**50)),
    ("BIT", "0101", "0101"),
    ("TIME WITH TIME ZONE", "12:00:00+02", "12:00:00+02"),
    ("TIME_NS", "12:00:00.000000001", "12:00:00.000000001"),
    ("UNION(a INTEGER)", "1", "1"),
    ("HUGEINT[]", f"[{LARGEST}]", f"[{LARGEST}]"),
    ("HUGEINT[]", "[7]", [D(7)]),
    ("STRUCT(a HUGEINT)", "{'a': 7}", {"a": D(7)}),
    ("INTERVAL[]", "[-1 day]", "[-1 day]"),
]
INTERVALS = [  # text, whether Parquet holds it, and whether Arrow does
    ("1 month 2 days 100:00:00.5", True, True),
    ("00:00:00.000001", False, True),
    ("-1 day", False, True),
    ("-00:00:01", False, True),
    ("99999999:00:00", True, False),
]


def answer(type_: str, value: object) -> Answer:
    table = ResultTable([Output("x", "plain")], [type_], [[value], [None]], [[0.0], [None]], [[True], [None]])
    return Answer(table, {}, USAGE, {})


def parquet(given: Answer, path: Path) -> tuple[str, object]:
    """Type and text of the first value."""
    path.write_bytes(answer_bytes(given, Format.PARQUET))
    ((type_, text),) = duckdb.execute(
        "SELECT typeof(x), CAST(x AS VARCHAR) FROM read_parquet(?) LIMIT 1", [str(path)]
    ).fetchall()
    return type_, text


def arrow(given: Answer) -> pa.ChunkedArray:
    return Result(None, seconds=0.0, _answer=given).arrow()["x"]  # type: ignore[arg-type]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("type_", "value", "stored"), WIDE)
def test_every_format_holds_what_is_answered(type_: str, value: object, stored: object, tmp_path: Path) -> None:
    given = answer(type_, value)
    for chosen in Format:
        content = answer_bytes(given, chosen)
        if chosen is Format.PARQUET:
            path = tmp_path / "x.parquet"
            path.write_bytes(content)
            ((found,),) = duckdb.execute("SELECT x FROM read_parquet(?) LIMIT 1", [str(path)]).fetchall()
            assert found == stored
        elif chosen in (Format.JSON, Format.NDJSON):
            document = json.loads(content.splitlines()[0] if chosen is Format.NDJSON else content)
            assert (document["x"] if chosen is Format.NDJSON else document["rows"][0][0]) == value
        elif chosen is Format.XLSX:
            held = load_workbook(io.BytesIO(content)).active["A2"].value
            assert str(held) == str(value) or Decimal(str(held)) == Decimal(str(value))
        elif chosen is not Format.MARKDOWN:  # which escapes brackets
            assert str(value).encode() in content.replace(b'"', b"")
    assert arrow(given).to_pylist() == [stored, None]
    frame = Result(None, seconds=0.0, _answer=given).df()  # type: ignore[arg-type]
    assert len(frame) == 2
    assert str(frame["x"][0]) in (str(value), str(stored))


@pytest.mark.parametrize(("text", "in_parquet", "in_arrow"), INTERVALS)
def test_an_interval_is_text_where_a_format_would_change_it(
    text: str, in_parquet: bool, in_arrow: bool, tmp_path: Path
) -> None:
    given = answer("INTERVAL", text)
    type_, written = parquet(given, tmp_path / "x.parquet")
    assert type_ == ("INTERVAL" if in_parquet else "VARCHAR")
    # 24 hours may come back as a day, which DuckDB takes for equal
    assert written == text or duckdb.execute("SELECT ?::INTERVAL = ?::INTERVAL", [written, text]).fetchall() == [
        (True,)
    ]
    column = arrow(given)
    assert pa.types.is_interval(column.type) is in_arrow
    if not in_arrow:
        assert column.to_pylist() == [text, None]


def test_an_infinite_date_is_in_a_data_frame() -> None:
    given = Result(None, seconds=0.0, _answer=answer("DATE", "infinity"))  # type: ignore[arg-type]
    assert given.df()["x"].tolist() == ["infinity", None]


NINES = pa.table(
    {
        "g": ["a", "b", "b"],
        "x": pa.array([D(9 * 10**37)] * 3, pa.decimal128(38, 0)),
        "d": pa.array([D(f"{'4' * 35}.123")] * 3, pa.decimal128(38, 3)),
        "n": pa.array([2**62] * 3, pa.int64()),
    }
)
KINDS = {"g": "plain", "x": "encrypted", "d": "encrypted", "n": "encrypted"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x) FROM t",
        "SELECT g, SUM(x) FROM t GROUP BY g",
        "SELECT g FROM t GROUP BY g HAVING SUM(x) > 0",
        "SELECT g, SUM(x) FROM t GROUP BY g ORDER BY g LIMIT 1",  # the group that fits alone
        "SELECT SUM(x) / 2 FROM t",
        "SELECT SUM(CAST(x AS HUGEINT)) FROM t",
        "SELECT SUM(-CAST(x AS HUGEINT)) FROM t",
        "SELECT SUM(d) FROM t",
        "SELECT SUM(d) * 2 FROM t",
        "SELECT SUM(n) * SUM(n) FROM t",
    ],
)
def test_an_overflow_of_duckdb_is_a_refusal(sql: str, key_file: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("t", NINES)
        with pytest.raises(duckdb.OutOfRangeException):
            connection.execute(sql).fetchall()
    with pytest.raises(QueryRefused, match="overflow"):
        cleave.query(NINES, sql, table="t", schema=KINDS, key=key_file)


def test_what_fits_is_answered_to_its_last_digit(key_file: Path) -> None:
    sql = (
        "SELECT SUM(CAST(x AS HUGEINT)) AS s, -SUM(CAST(n AS HUGEINT)) * 10000000000000000000 AS p FROM t WHERE g = 'a'"
    )
    found = cleave.query(NINES, sql, table="t", schema=KINDS, key=key_file)
    assert found.rows == [(9 * 10**37, -(2**62) * 10**19)]
    assert found.df().values.tolist() == [[9 * 10**37, -(2**62) * 10**19]]
    assert isinstance(found.df(), pd.DataFrame)
