"""A pulled file has the types of the table, and reads back as the values that were put."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.pull import pull_into
from cleave.objects.locate import Folder, Stores
from cleave.store.put import put
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import Schema
from cleave.table.stream import open_stream, open_table
from tests.unit.simulate import schema

TABLE = schema(text="plain VARCHAR", whole="sealed INTERVAL", fine="encrypted INTERVAL", hidden="sealed VARCHAR")
ROWS = (
    'text,whole,fine,hidden\n"",99:00:00,00:00:00.000001,\n,1 year 2 days 00:00:00.25,-1 day,""\n'
    'x,,1 month,"a,""b"""\n" ",00:00:00,00:00:00,NULL\n'
)


def pulled(root: Path, key: OwnerKey, table: Schema, rows: str, ending: str) -> Path:
    file = root / "t.csv"
    file.write_text(rows)
    stores = Stores(Folder(root / "s"), Folder(root / "p"))
    tables = Tables(stores, key, SeenVersions(root / "tables.json"))
    with open_stream([file], table, "t") as stream:
        put(tables, stream, "t", [], Silent(), segment_rows=2)
    output = root / f"back.{ending}"
    pull_into(Stored(tables, tables.open("t")), output, Silent())
    return output


def rows_of(file: Path, table: Schema) -> list[tuple[object, ...]]:
    with open_table([file], table) as opened:
        return opened.connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {opened.relation}").fetchall()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_empty_texts_and_null_survive_a_round_trip(tmp_path: Path, key: OwnerKey, ending: str) -> None:
    output = pulled(tmp_path, key, TABLE, ROWS, ending)
    found = rows_of(output, TABLE)
    if ending == "csv":  # Parquet's readers make days of hours: equal to DuckDB, another text
        assert found == rows_of(tmp_path / "t.csv", TABLE)
    assert [(row[0], row[3]) for row in found] == [("", None), (None, ""), ("x", 'a,"b"'), (" ", "NULL")]


def test_a_column_of_one_keeps_its_nulls(tmp_path: Path, key: OwnerKey) -> None:
    table = schema(text="plain VARCHAR")
    output = pulled(tmp_path, key, table, 'text\na\n""\n\n', "csv")
    assert rows_of(output, table) == [("a",), ("",), (None,)]


def test_intervals_are_intervals_in_parquet_where_it_holds_them(tmp_path: Path, key: OwnerKey) -> None:
    """Parquet has no negative intervals and no microseconds: such a column stays text rather than lose them."""
    output = pulled(tmp_path, key, TABLE, ROWS, "parquet")
    described = {name: type_ for name, type_, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{output}'").fetchall()}
    assert (described["whole"], described["fine"]) == ("INTERVAL", "VARCHAR")
    found = duckdb.sql(f"SELECT max(whole)::VARCHAR, min(fine::INTERVAL)::VARCHAR FROM '{output}'").fetchall()
    assert found == [("1 year 2 days 00:00:00.25", "-1 day")]
    ((equal,),) = duckdb.sql(f"SELECT count(*) FROM '{output}' WHERE whole = INTERVAL '99:00:00'").fetchall()
    assert equal == 1
