"""Every Arrow type as a column of a frame: it becomes what a Parquet file of it becomes, or is refused clearly."""

from __future__ import annotations

import datetime
import uuid
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cleave
from cleave.propose.propose import propose
from cleave.table.duck import connect_reading, private
from cleave.table.lazy import of_frame
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from cleave.table.types import ZONED
from cleave_shared.errors import InputError

HOUR = datetime.timedelta(hours=1)
WHEN = datetime.datetime(2025, 1, 2, 3, 4, 5)  # noqa: DTZ001 - a TIMESTAMP has no zone
D = Decimal

# fmt: off
ALIKE: list[tuple[pa.DataType, Any, str]] = [  # in a frame and in a Parquet file
    (pa.null(), None, "VARCHAR"),
    (pa.bool_(), True, "BOOLEAN"),
    (pa.int8(), -1, "TINYINT"),
    (pa.int16(), -1, "SMALLINT"),
    (pa.int32(), -1, "INTEGER"),
    (pa.int64(), -1, "BIGINT"),
    (pa.uint8(), 255, "SMALLINT"),
    (pa.uint16(), 65535, "INTEGER"),
    (pa.uint32(), 2**32 - 1, "BIGINT"),
    (pa.uint64(), 2**64 - 1, "DECIMAL(20,0)"),
    (pa.float16(), 0.5, "FLOAT"),
    (pa.float32(), 0.5, "FLOAT"),
    (pa.float64(), 0.1, "DOUBLE"),
    (pa.decimal32(5, 2), D("1.25"), "DECIMAL(5,2)"),
    (pa.decimal64(12, 2), D("1.25"), "DECIMAL(12,2)"),
    (pa.decimal128(38, 3), D("1.250"), "DECIMAL(38,3)"),
    (pa.string(), "ä", "VARCHAR"),
    (pa.large_string(), "ä", "VARCHAR"),
    (pa.string_view(), "ä", "VARCHAR"),
    (pa.binary(), b"\xff", "VARCHAR"),
    (pa.binary(2), b"\xffa", "VARCHAR"),
    (pa.large_binary(), b"\xff", "VARCHAR"),
    (pa.binary_view(), b"\xff", "VARCHAR"),
    (pa.date32(), WHEN.date(), "DATE"),
    (pa.date64(), WHEN.date(), "DATE"),
    (pa.time32("s"), WHEN.time(), "TIME"),
    (pa.time32("ms"), WHEN.time(), "TIME"),
    (pa.time64("us"), WHEN.time(), "TIME"),
    (pa.time64("ns"), WHEN.time(), "TIME"),
    (pa.timestamp("s"), WHEN, "TIMESTAMP"),
    (pa.timestamp("ms"), WHEN, "TIMESTAMP"),
    (pa.timestamp("us"), WHEN, "TIMESTAMP"),
    (pa.timestamp("ns"), WHEN, "TIMESTAMP"),
    (pa.timestamp("s", "Asia/Tokyo"), WHEN, ZONED),
    (pa.timestamp("ms", "UTC"), WHEN, ZONED),
    (pa.timestamp("us", "+02:00"), WHEN, ZONED),
    (pa.timestamp("ns", "Europe/Berlin"), WHEN, ZONED),
    (pa.list_(pa.int8()), [1, 2], "VARCHAR"),
    (pa.list_(pa.int8(), 2), [1, 2], "VARCHAR"),
    (pa.large_list(pa.int8()), [1, 2], "VARCHAR"),
    (pa.list_view(pa.int8()), [1, 2], "VARCHAR"),
    (pa.large_list_view(pa.int8()), [1, 2], "VARCHAR"),
    (pa.struct([("a", pa.int8())]), {"a": 1}, "VARCHAR"),
    (pa.map_(pa.string(), pa.int8()), [("a", 1)], "VARCHAR"),
    (pa.dictionary(pa.int8(), pa.string()), "ä", "VARCHAR"),
    (pa.uuid(), uuid.UUID(int=7).bytes, "VARCHAR"),
    (pa.json_(), '{"a": 1}', "VARCHAR"),
]
FRAMES_ONLY: list[tuple[pa.Array, str, str]] = [  # of which Parquet has none, or numbers only
    (pa.array([100 * HOUR, None], pa.duration("s")), "INTERVAL", "100:00:00"),
    (pa.array([100 * HOUR, None], pa.duration("ms")), "INTERVAL", "100:00:00"),
    (pa.array([100 * HOUR, None], pa.duration("us")), "INTERVAL", "100:00:00"),
    (pa.array([-100 * HOUR, None], pa.duration("ns")), "INTERVAL", "-100:00:00"),
    (pa.array([100 * HOUR, None], pa.duration("us")).dictionary_encode(), "INTERVAL", "100:00:00"),
    (pa.array([pa.MonthDayNano([1, -2, 3000]), None]), "INTERVAL", "1 month -2 days 00:00:00.000003"),
    (pa.array([WHEN], pa.timestamp("us", "UTC")).dictionary_encode(), ZONED, "2025-01-02 03:04:05+00"),
    (pc.run_end_encode(pa.array([7, 7, None])), "BIGINT", "7"),
    (pc.run_end_encode(pa.array([100 * HOUR])), "INTERVAL", "100:00:00"),
    (pa.array([D(100)], pa.decimal128(5, -2)), "DECIMAL(38,0)", "100"),
    (pa.array([D("1.5")], pa.decimal256(40, 2)), "DECIMAL(38,2)", "1.50"),
    (pa.array([D("0.5")], pa.decimal256(60, 50)), "DECIMAL(38,38)", "." + "5".ljust(38, "0")),
    (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([7])]), "VARCHAR", "7"),
    (pa.array([1], pa.bool8()), "TINYINT", "1"),
]
UNREADABLE: list[tuple[pa.Array, str]] = [
    (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([7])]),
     "column 'x': dense_union<0: int64=0> cannot be read"),
    (pa.array([0, 1001], pa.duration("ns")), "column 'x', row 2: duration[ns] cannot be read as duration[us]"),
    (pa.array([0, None, 2**62], pa.duration("s")), "column 'x', row 3: duration[s] cannot be read as duration[us]"),
    (pa.array([None, pa.MonthDayNano([0, 0, 1])]), "column 'x', row 2: is finer than a microsecond"),
    (pa.array([1001], pa.timestamp("ns", "UTC")), "row 1, column 'x': is no TIMESTAMP WITH TIME ZONE without a change"),
    (pa.array([0, 1001], pa.time64("ns")), "row 2, column 'x': is no TIME without a change"),
    (pa.array([D(1), D(10) ** 50], pa.decimal256(60, 0)), "column 'x', row 2: decimal256(60, 0) cannot be read"),
    (pa.array([D("1.5")], pa.decimal256(60, 50)), "column 'x', row 1: decimal256(60, 50) cannot be read"),
]
# fmt: on
STREAMED_ONLY = {pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME}  # pyarrow can make no array of these


def test_every_type_of_arrow_is_here() -> None:
    arrays = [array.type.id for array, *_ in [*FRAMES_ONLY, *UNREADABLE]]
    known = {getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    assert known - {type_.id for type_, *_ in ALIKE} - set(arrays) == STREAMED_ONLY


def of_table(data: Any, kind: str = "local") -> tuple[str, list[Any]]:
    """Type and values, as text, of the only column."""
    unread = of_frame(data, {"x": kind})
    with unread.read(None) as table:
        return unread.schema.columns[0].type, texts(table)


def texts(table: Any, name: str = "x") -> list[Any]:
    rows = table.connection.execute(f"SELECT CAST({name} AS VARCHAR) FROM {table.relation}").fetchall()
    return [value for (value,) in rows]


@pytest.mark.slow  # quick: test_inputs.py reads Parquet, the tests below frames
def test_a_frame_and_a_parquet_file_are_alike(tmp_path: Path) -> None:
    arrays: dict[str, pa.Array] = {}
    for number, (type_, value, _) in enumerate(ALIKE):
        storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
        plain = pa.array([value, None], storage)
        arrays[f"x{number}"] = pa.ExtensionArray.from_storage(type_, plain) if storage is not type_ else plain
    frame, path = pa.table(arrays), tmp_path / "t.parquet"
    pq.write_table(frame, path)
    unread = of_frame(frame, dict.fromkeys(arrays, "local"))
    proposed = propose(path, dict.fromkeys(arrays, Kind.LOCAL)).columns
    columns = [Column(name, Kind.LOCAL, of) for name, (*_, of) in zip(arrays, ALIKE, strict=True)]
    with unread.read(None) as of_it, open_table(path, Schema(tuple(columns), CsvDialect())) as of_file:
        for number, (type_, _, expected) in enumerate(ALIKE):
            found = (unread.schema.columns[number].type, proposed[number].type)
            assert found == (expected, expected), type_
            assert texts(of_it, f"x{number}") == texts(of_file, f"x{number}"), type_


def test_what_only_frames_have_keeps_its_type_and_value() -> None:
    for array, type_, first in FRAMES_ONLY:
        found, values = of_table(pa.table({"x": array}))
        assert (found, values[0]) == (type_, first), array.type


def test_what_cannot_be_read_is_refused_by_column() -> None:
    for array, message in UNREADABLE:
        with pytest.raises(InputError) as caught:
            of_table(pa.table({"y": [1] * len(array), "x": array}).select(["x"]))
        assert message in caught.value.message, array.type


def test_a_chunk_that_begins_within_its_buffer_is_checked_where_it_begins() -> None:
    spans = pa.array([pa.MonthDayNano([0, 0, nanoseconds]) for nanoseconds in (1, 1000, 2000, 1)])
    assert of_table(pa.table({"x": pa.chunked_array([spans[1:2], spans[2:3]])}))[1] == [
        "00:00:00.000001",
        "00:00:00.000002",
    ]
    with pytest.raises(InputError, match="row 3: is finer"):
        of_table(pa.table({"x": pa.chunked_array([spans[1:2], spans[2:]])}))


def test_types_of_duckdb_alone() -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        for sql, expected in [
            ("12::HUGEINT", ("DECIMAL(38,0)", ["12"])),
            ("12::UHUGEINT", ("DECIMAL(38,0)", ["12"])),
            ("'0101'::BIT", ("VARCHAR", ["0101"])),
            ("'00000000-0000-0000-0000-000000000007'::UUID", ("VARCHAR", ["00000000-0000-0000-0000-000000000007"])),
            ("INTERVAL '1 month 100 hours'", ("INTERVAL", ["1 month 100:00:00"])),
        ]:
            assert of_table(connection.sql(f"SELECT {sql} AS x")) == expected
        for sql in ("'12'::BIGNUM", "'12:00:00+02'::TIMETZ"):
            with pytest.raises(InputError, match=r"column 'x': .* is not supported"):
                of_table(connection.sql(f"SELECT {sql} AS x").to_arrow_table())
        with pytest.raises(InputError, match="cannot be read as an Arrow table"):
            of_table(connection.sql("SELECT CAST(y AS INTEGER) AS x FROM (VALUES ('zz')) t(y)"))


def test_objects_of_pandas_finer_than_a_microsecond_are_refused() -> None:
    for value in (pd.Timedelta(1501, "ns"), pd.Timestamp(1501, unit="ns")):
        frame = pd.DataFrame({"x": pd.Series([None, value], dtype=object)})
        with pytest.raises(InputError, match="row 2: is finer than a microsecond"):
            of_table(frame)


class Streamed:
    """As polars hands over a frame: nothing but the interface, several batches."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        batches = [batch for place in range(len(self._table)) for batch in self._table.slice(place, 1).to_batches()]
        return pa.RecordBatchReader.from_batches(self._table.schema, batches).__arrow_c_stream__(requested_schema)


SPANS = [99 * HOUR, 100 * HOUR, None, 2 * HOUR]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["encrypted", "sealed", "local"])
def test_the_longest_span_is_no_text(kind: str, key_file: Path, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(SPANS, pa.duration("us")), "w": ["a", "a", "a", "b"]})
    schema = {"x": kind, "w": "plain"}
    sql = "SELECT w, MAX(x) AS m, MIN(x) AS s, AVG(x) AS a FROM t GROUP BY w ORDER BY w"
    expected = [("a", "100:00:00", "99:00:00", "99:30:00"), ("b", "02:00:00", "02:00:00", "02:00:00")]
    for data in (
        table,
        Streamed(table),
        table.to_pandas(),
        pd.DataFrame({"x": pd.to_timedelta(SPANS), "w": table["w"]}),
    ):
        answer = cleave.query(data, sql, table="t", schema=schema, key=key_file)
        assert (answer.rows, answer.types[1:]) == (expected, ("INTERVAL",) * 3)
    if kind != "local":
        store = str(tmp_path / "store")
        cleave.put(table, "t", store=store, by=["w"], schema=schema, key=key_file)
        assert cleave.query("t", sql, store=store, key=key_file).rows == expected


def test_a_plain_span_is_refused_as_in_a_file() -> None:
    frame = pd.DataFrame({"x": pd.to_timedelta(SPANS)})
    with pytest.raises(InputError, match="INTERVAL cannot be plain"):
        of_table(frame, "plain")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["encrypted", "sealed", "local", "plain"])
def test_timestamps_with_a_zone_sort_by_time(
    kind: str, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    east = datetime.timezone(9 * HOUR)
    times = [datetime.datetime(year, 1, 1, tzinfo=east) for year in (9999, 10000 - 8000, 2024)]
    table = pa.table({"x": pa.array(times, pa.timestamp("us", "Asia/Tokyo")), "w": ["a", "b", "b"]})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    (tmp_path / "t.schema.toml").write_text(
        f'[columns.x]\nkind = "{kind}"\ntype = "TIMESTAMPTZ"\nnullable = false\n'
        '[columns.w]\nkind = "plain"\ntype = "VARCHAR"\n'
    )
    monkeypatch.chdir(tmp_path)
    sql = "SELECT w, MAX(x) AS m, AVG(x) AS a FROM t GROUP BY w ORDER BY w"
    utc = [time.astimezone(datetime.UTC) for time in times]
    expected = [("a", utc[0], utc[0]), ("b", utc[2], utc[1] + (utc[2] - utc[1]) / 2)]
    answers = [
        cleave.query(path, sql, key=key_file),
        cleave.query(table, sql, table="t", schema={"x": kind, "w": "plain"}, key=key_file),
    ]
    if kind != "local":
        cleave.put(path, "t", store=str(tmp_path / "store"), by=["w"], key=key_file)
        answers.append(cleave.query("t", sql, store=str(tmp_path / "store"), key=key_file))
    for answer in answers:
        assert answer.rows == expected
        assert answer.types[1:] == (ZONED, ZONED)
        assert answer.df()["m"].tolist() == answer.arrow()["m"].to_pylist() == [row[1] for row in expected]


def test_no_zone_of_the_machine_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(connect_reading()) as reading, private() as closed:
        for connection in (reading, closed, reading.cursor()):
            assert connection.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_a_zone_must_be_written_in_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    schema = Schema((Column("x", Kind.LOCAL, ZONED),), CsvDialect())
    path.write_text("x\n2025-01-01 10:00:00+02\n2025-01-01T10:00Z\n2025-01-01 10:00:00.5-03:30\n")
    with open_table(path, schema) as table:
        assert texts(table) == ["2025-01-01 08:00:00+00", "2025-01-01 10:00:00+00", "2025-01-01 13:30:00.5+00"]
    path.write_text("x\n2025-01-01 10:00:00\n")
    with pytest.raises(InputError, match="line 2, column 'x'"):
        open_table(path, schema)


def test_spans_of_a_further_table_keep_their_microseconds_and_signs() -> None:
    spans = pa.table({"x": pa.array([-HOUR, datetime.timedelta(microseconds=1)], pa.duration("us"))})
    answer = cleave.query(
        pa.table({"n": [1]}),
        "SELECT MIN(x), MAX(x) FROM t JOIN o ON n = 1",
        table="t",
        schema={"n": "local"},
        others={"o": spans},
    )
    assert answer.rows == [("-01:00:00", "00:00:00.000001")]
