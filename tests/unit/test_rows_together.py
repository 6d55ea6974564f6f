"""How many rows make a segment follows from the bytes of a row in memory."""

from __future__ import annotations

import duckdb
import pytest

from cleave.store.filling import rows_together
from cleave.store.measures import SEGMENT_ROWS
from cleave.table.batches import batches
from cleave.table.stream import Survey
from cleave.table.types import bytes_of_value

TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP")
MORE = ("TIMESTAMP WITH TIME ZONE", "INTERVAL", "DECIMAL(4,2)", "DECIMAL(18,2)", "DECIMAL(38,2)", "VARCHAR")


@pytest.mark.parametrize("type_", [*TYPES, *MORE])
def test_no_value_takes_more_than_is_said(type_: str) -> None:
    rows = 100_000
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT CAST(NULL AS {type_}) AS x FROM range({rows})")
        size = sum(each.bytes for each in batches(connection, "SELECT x FROM t"))
    assert size / rows <= bytes_of_value(type_) + 1 / 4  # with the bits of NULLs


def test_a_million_sorted_rows_of_numbers_fit() -> None:
    """Of 12 columns of 4 bytes, and 2 by columns: it was a third of that when every value counted as 16 bytes."""
    rows = 6_000_000
    survey = Survey(rows, rows * (13 * bytes_of_value("INTEGER") + bytes_of_value("VARCHAR") + 3), {})
    assert rows_together(survey, 0, sorts=True) > 900_000
    assert rows_together(survey, 0) == SEGMENT_ROWS
