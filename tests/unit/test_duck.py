"""A DuckDB that is opened before it is needed is like any other: taken once, with no way out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from cleave.table import duck


@pytest.mark.parametrize("ahead", [False, True])
def test_nothing_outside_is_reached(ahead: bool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    if ahead:
        duck.connect_ahead()
    with closing(duck.connect()) as connection:
        for refused in (f"FROM '{tmp_path / 't.csv'}'", "SET enable_external_access = true", "SET threads = 2"):
            with pytest.raises(duckdb.Error):
                connection.execute(refused)


def test_one_is_opened_ahead_and_taken_once() -> None:
    duck.connect_ahead()
    duck.connect_ahead()
    first, second = duck.connect(), duck.connect()
    with closing(first), closing(second):
        first.execute("CREATE TABLE t AS SELECT 1")
        with pytest.raises(duckdb.CatalogException):
            second.execute("FROM t")
    assert not duck._ahead
