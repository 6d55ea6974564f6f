"""Rows that are read in batches are those of the table that is read whole, and so are the errors."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleave.table import stream as stream_module
from cleave.table.batches import batches
from cleave.table.duck import connect_reading, identifier, private
from cleave.table.faults import TooLargeError
from cleave.table.inputs import Frame
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import Extent, Stream, open_stream, open_table, stream_of
from cleave_shared.errors import InputError

TYPES = {
    "small": ("TINYINT", "plain"),
    "whole": ("BIGINT", "encrypted"),
    "wide": ("DECIMAL(38,10)", "sealed"),
    "real": ("DOUBLE", "encrypted"),
    "flag": ("BOOLEAN", "plain"),
    "text": ("VARCHAR", "plain"),
    "day": ("DATE", "plain"),
    "time": ("TIME", "plain"),
    "moment": ("TIMESTAMP", "plain"),
    "span": ("INTERVAL", "sealed"),
}
ROWS = [
    "-128,-9223372036854775808,9999999999999999999999999999.9999999999,-0.0,true,,0001-01-01,00:00,1677-01-01,-5 years",
    "127,9223372036854775807,-9999999999999999999999999999.9999999999,1e308,false,é☃,9999-12-31,23:59:59.999999,"
    "9999-12-31 23:59:59.999999,300000000:00:00.000001",
    ',,,,,"a ""b"", c",,,,',
    "1,2,3,5e-324,true,'x,2024-02-29,12:00,2024-02-29 12:00,1 month 2 days 03:04:05.000001",
]


def schema_of(folder: Path, types: dict[str, tuple[str, str]] = TYPES, more: str = "") -> Schema:
    path = folder / "t.schema.toml"
    columns = "".join(f'[columns.{n}]\nkind = "{k}"\ntype = "{t}"\n' for n, (t, k) in types.items())
    path.write_text(columns + more)
    return load_schema(path)


def collected(stream: Stream) -> list[tuple[object, ...]]:
    """Every row's text, as another DuckDB has it that was given the batches."""
    with private() as into:
        names = ", ".join(f"{identifier(each.name)} {each.type}" for each in stream.schema.columns)
        into.execute(f"CREATE TABLE found ({names})")
        for batch in stream.batches(stream.schema.columns):
            into.register("batch", batch)
            into.execute("INSERT INTO found SELECT * FROM batch")
            into.unregister("batch")
        return into.execute(f"SELECT {texts(stream.schema)} FROM found").fetchall()


def texts(schema: Schema) -> str:
    return ", ".join(f"CAST({identifier(each.name)} AS VARCHAR)" for each in schema.columns)


def write(path: Path, rows: list[str], names: str = ",".join(TYPES)) -> Path:
    content = "\n".join([names, *rows]) + "\n"
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def test_every_type_arrives_as_it_is_in_a_table(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    files = [write(tmp_path / "a.csv", ROWS), write(tmp_path / "b.csv.gz", ROWS[::-1])]
    with open_table(files, schema) as table:
        wanted = table.connection.execute(f"SELECT {texts(schema)} FROM {table.relation}").fetchall()
        with stream_of(table) as stream:
            assert collected(stream) == wanted
    with open_stream(files, schema) as stream:
        found = stream.survey()
        assert found.rows == 8
        assert found.floats == {"real": Extent(-0.0, pytest.approx(0, abs=1e308), 1e308)}
        assert collected(stream) == wanted


@pytest.mark.parametrize("encoding", ["utf-8", pytest.param("utf-16", marks=pytest.mark.slow)])
def test_rows_keep_their_order(tmp_path: Path, encoding: str) -> None:
    """Over many of DuckDB's buffers, which several threads read."""
    schema = schema_of(
        tmp_path, {"i": ("BIGINT", "plain"), "t": ("VARCHAR", "plain")}, f'[csv]\nencoding="{encoding}"\n'
    )
    path = tmp_path / "a.csv"
    path.write_text("i,t\n" + "".join(f"{i},{'x' * (1 + i % 300)}\n" for i in range(300_000)), encoding=encoding)
    with open_stream([path], schema) as stream, private() as into:
        into.execute("CREATE TABLE found (i BIGINT, t VARCHAR)")
        rows = []
        for batch in stream.batches(schema.columns):
            rows.append(batch.rows)
            into.register("batch", batch)
            into.execute("INSERT INTO found SELECT * FROM batch")
            into.unregister("batch")
        (sound,) = into.execute(
            "SELECT count(*) FROM (SELECT i, t, row_number() OVER () - 1 AS n FROM found) WHERE i = n "
            "AND length(t) = 1 + n % 300"
        ).fetchall()[0]
    assert sound == sum(rows) == 300_000


def test_batches_of_long_texts_are_small() -> None:
    """131,072 rows of them would take a gigabyte: what `batches` relies on in DuckDB."""
    with connect_reading() as connection:
        sizes = [each.bytes for each in batches(connection, "SELECT repeat('x', 8192) FROM range(20000)")]
    assert sum(sizes) > 160_000_000
    assert max(sizes) < 40_000_000


def test_parquet_and_frames(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, {"i": ("BIGINT", "encrypted"), "r": ("DOUBLE", "encrypted")})
    duckdb.sql("SELECT i, i * 0.5 AS r FROM range(5000) AS t(i)").write_parquet(str(tmp_path / "a.parquet"))
    frame = Frame(pa.table({"i": [1, None], "r": [0.5, 2.5]}), "the frame")
    with open_stream([tmp_path / "a.parquet"], schema) as stream:
        found = stream.survey()
        assert (found.rows, found.floats["r"]) == (5000, Extent(0.0, pytest.approx(1250, rel=0.01), 2499.5))
        assert len(collected(stream)) == 5000
    with open_stream(frame, schema, "t") as stream:
        assert stream.survey().rows == 2
        assert collected(stream) == [("1", "0.5"), (None, "2.5")]


def test_a_file_with_other_columns_than_at_the_first_look_has_changed(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, BOUNDED)
    path = write(tmp_path / "a.csv", ["1,2"], "a,b")
    with open_stream([path], schema) as stream:
        assert stream.survey().rows == 1
        write(path, ["1,2,3"], "c,a,b")
        for _ in range(2):
            with pytest.raises(InputError, match=r"a\.csv: changed while it was read"):
                stream.survey()


def test_a_mistake_is_named_at_every_look(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["1,2", "3"], "a,b")
    with open_stream([path], schema_of(tmp_path, BOUNDED)) as stream:
        for _ in range(2):
            with pytest.raises(InputError, match="line 3: has 1 field"):
                stream.survey()


BOUNDED = {"a": ("BIGINT", "plain"), "b": ("BIGINT", "plain")}
BROKEN = [
    (["1,1", "x,2", "3,y"], ""),
    (["1,1", "2,99999999999999999999"], ""),
    (["1,1", "2,3,4"], ""),
    (["1,1", '2,"3', "4,5"], ""),
    (["1,1", "2,", "3,4"], "nullable = false\n"),
    (["1,1", "2,-7", "3,-8"], "lower = 0\n"),
    (["1,50", "2,7", "3,51"], "upper = 10\n"),
]


@pytest.mark.parametrize(("rows", "stated"), BROKEN)
def test_errors_are_those_of_a_table(tmp_path: Path, rows: list[str], stated: str) -> None:
    schema = schema_of(tmp_path, BOUNDED, stated)
    files = [write(tmp_path / "a.csv", ["5,5"], "a,b"), write(tmp_path / "b.csv", rows, "a,b")]
    told = []
    for read in (lambda: open_table(files, schema), lambda: open_stream(files, schema).survey()):
        with pytest.raises(InputError) as caught:
            read()
        told.append((caught.value.message, caught.value.hint))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None  # DuckDB's quotes the line
    assert told[0] == told[1]
    assert "b.csv" in told[0][0]
    if "upper" in stated:  # as `cleave put` says it
        assert told[0][0].endswith("b.csv, line 4, column 'b': the value is above upper = 10")
        assert "with `cleave alter NAME --widen` for a table that is stored" in told[0][1]


def test_a_value_of_a_parquet_file_that_does_not_fit_is_told_at_the_first_look(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, {"i": ("INTEGER", "plain"), "r": ("DOUBLE", "encrypted")})
    for number, (i, r) in enumerate((("7000000000 + i", "0.5::DOUBLE"), ("i", "'inf'::DOUBLE"))):
        path = tmp_path / f"{number}.parquet"
        duckdb.sql(f"SELECT {i} AS i, {r} AS r FROM range(5000) AS t(i)").write_parquet(str(path))
        with open_stream([path], schema) as stream, pytest.raises(InputError, match="row 1, column"):
            stream.survey()


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, {"a": ("BIGINT", "plain")})
    path = write(tmp_path / "a.csv", ["1", "2"], "a")
    with open_stream([path], schema) as stream:
        stream.survey()
        path.write_text("a\n1\n2\nx\n")
        with pytest.raises(InputError, match="changed while it was read") as caught:
            list(stream.batches(schema.columns))
        assert caught.value.__context__ is None
        os.unlink(path)
        with pytest.raises(InputError):
            list(stream.batches(schema.columns))


def test_groups_that_do_not_fit_are_told(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, {"a": ("BIGINT", "plain")})
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "\n".join(map(str, range(500_000))) + "\n")
    with open_stream([path], schema) as stream:
        stream.query("SET memory_limit = '20MB'")
        with pytest.raises(TooLargeError):
            stream.gather(["a"], "SELECT a, count(*) AS n FROM rows GROUP BY ALL", "groups")


def test_standard_input_is_taken_up_to_what_memory_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_of(tmp_path, {"a": ("BIGINT", "plain")})
    monkeypatch.setattr(stream_module, "_STDIN_BYTES", 100)
    for rows, taken in ((40, True), (60, False)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + b"1\n" * rows)))
        if taken:
            with open_stream("-", schema) as stream:
                assert stream.survey().rows == rows
        else:
            with pytest.raises(InputError, match="standard input: is longer than"):
                open_stream("-", schema)


def test_what_a_file_says_of_its_values_is_not_believed(tmp_path: Path) -> None:
    """Parquet's own statistics say that there is no NULL: DuckDB would answer from them."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"whole": pa.array([1] * 23 + [None] * 77, pa.int64())}), path)
    content = path.read_bytes()
    nulls = b"\x16\x9a\x01"  # in Thrift: the next field, of 64 bits, is 77
    assert nulls in content
    path.write_bytes(content.replace(nulls, b"\x16\x80\x00"))
    assert duckdb.sql(f"SELECT count(whole) FROM '{path}'").fetchall() == [(100,)]
    schema = schema_of(tmp_path, {"whole": ("BIGINT", "sealed")}, "nullable = false\n")
    with open_stream([path], schema) as stream, pytest.raises(InputError, match=r"row 24, column 'whole': is NULL"):
        stream.survey()
